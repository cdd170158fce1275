"""The end of a run in words: what there is, what is missing, and how to get it."""

from dataclasses import dataclass
from pathlib import Path

from bbflow.cf import STEP
from bbflow.course import Course, KeepsRun
from bbflow.errors import NodeError
from bbflow.growing import set_attributes, shown_attributes, shown_shapes
from bbflow.landing.client import NodeClient
from bbflow.landing.contact import NodeAddress, read_contact

RESULTS, RESCUED = "results.zarr", Path("rescued", "raw.zarr")


@dataclass(frozen=True, slots=True)
class Left:
    """What a run has left in its output."""

    spans: int
    """Spans of all windows in the results."""
    last_step: int
    """Last step that is in them; -1 if none is."""
    rescued: int
    """Steps that were rescued."""

    @classmethod
    def of(cls, output: Path) -> "Left":
        """Look into an output."""
        results, rescued = shown_shapes(output / RESULTS), shown_shapes(output / RESCUED)
        times = [shape[0] for name, shape in results.items() if name.startswith("time_") and len(shape) == 1]
        last = int(shown_attributes(output / RESULTS).get("bbflow_last_step", -1))
        return cls(sum(times), last, rescued.get(STEP, (0,))[0])


def is_complete(output: Path) -> bool:
    """Whether the results say that they are."""
    return shown_attributes(output / RESULTS).get("bbflow_status") == "complete"


def mark_incomplete(output: Path, course: Course) -> None:
    """Let the results of an analysis that was given up say so."""
    if course.failure and (output / RESULTS).exists():
        set_attributes(output / RESULTS, bbflow_status="incomplete", bbflow_failure=course.failure)


def describe_ending(config: Path, stream: str, output: Path, course: Course, left: Left) -> list[str]:
    """Say where the results are, what they lack, and where that is.

    Parameters
    ----------
    config, stream, output
        The run's.
    course
        As it ended.
    left
        What is there.
    """
    lines = [f"results in {output / RESULTS}"] if left.spans else []
    if not course.failure:
        return lines or ["nothing was folded: there are no results"]
    lines.append(f"THE STATISTICS ARE INCOMPLETE: {course.failure}; {_extent(left)}")
    if left.rescued:
        lines.append(f"{left.rescued} steps that were not folded are in {output / RESCUED}, with all variables")
        first = "mend the cause" if left.last_step >= 0 else "mend the cause, give another output"
        lines += [f"to have their statistics, {first} and run:", f"  {_again(config, output, stream, left)}"]
    if course.keeping is KeepsRun.RESCUED and not left.rescued:
        lines.append("no step was left to rescue")
    if course.keeping is KeepsRun.LEFT:
        lines.append("what had neither been folded nor rescued is lost, as you wished")
    return lines


def _extent(left: Left) -> str:
    """Say how far the results go."""
    if left.last_step >= 0:
        return f"they end with step {left.last_step}"
    return "windows that were open could not be published" if left.spans else "there are none"


def _again(config: Path, output: Path, stream: str, left: Left) -> str:
    """Give the command that folds what was rescued, after what was folded."""
    begins = f" --continue {output}" if left.last_step >= 0 else ""
    after = f" --after {left.last_step}" if left.last_step >= 0 else ""
    return f"bbflow run {config}{begins} -- bbflow replay {output / RESCUED} --stream {stream}{after}"


def describe_held(config: Path, stream: str, contact: Path, course: Course) -> list[str]:
    """Say how to get what was neither published nor rescued: it lies where the BB nodes keep it.

    Parameters
    ----------
    config, stream
        The run's.
    contact
        The nodes' contact file.
    course
        As it ended.
    """
    if course.keeping is not KeepsRun.HELD:
        return []
    again = [
        f"bbflow node --name {node.name} --directory {Path(node.directory).parent} --contact {contact} &"
        for node in read_contact(contact)
        if not is_running(node)
    ]
    publish = [] if course.published else [f"bbflow fold {config} --contact {contact} --finish"]
    rescue = f"bbflow rescue {stream} --contact {contact} --output rescued --take-over"
    return [
        "STEPS ARE STILL ON THE BB NODES: neither results nor rescue could be written. When the cause is mended:",
        *(f"  {line}" for line in [*again, *publish, rescue]),
    ]


def is_running(node: NodeAddress) -> bool:
    """Whether a node answers."""
    try:
        NodeClient(node).close()
    except NodeError:
        return False
    return True
