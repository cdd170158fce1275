"""The end of a run in words: what it has made, what is missing, and how to get it."""

import shlex
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bbflow.drain.stores import left_out_of, rescued_stores
from bbflow.errors import BbflowError, NodeError
from bbflow.host.belongings import clear, is_ours
from bbflow.landing.client import NodeClient
from bbflow.net.contact import NodeAddress
from bbflow.run.course import Course, KeepsRun
from bbflow.store.node import check_held
from bbflow.stores.moved import place_of
from bbflow.stream.cf import STEP
from bbflow.transit.output.claiming import STOP_FILE, written
from bbflow.zarr_store.growing import GrowingZarr, set_attributes, shown_attributes, shown_shapes

RESULTS, RAW, RESCUED = "results.zarr", "raw.zarr", "rescued"


@dataclass(frozen=True, slots=True)
class Left:
    """What a run has left in its output."""

    spans: int
    """Spans of all windows in the results."""
    last_step: int
    """The run's last step that is in them; -1 if none is."""
    rescued: int = 0
    """Steps that were rescued."""
    store: Path | None = None
    """Where they are."""
    left_out: tuple[str, ...] = ()
    """Variables that aren't there, at least of some steps, each with the reason."""
    folded: int = 0
    """How many of them are in the results: functions, or ``raw.zarr``, had not got so far."""

    @classmethod
    def of(cls, output: Path, before: Collection[Path] = ()) -> "Left":
        """Look into an output; some stores of rescued steps may have been there before the run."""
        results = shown_shapes(output / RESULTS)
        times = [shape[0] for name, shape in results.items() if name.startswith("time_") and len(shape) == 1]
        last = int(shown_attributes(output / RESULTS).get("bbflow_last_step", -1))
        store = next((store for store in rescued_stores(output / RESCUED) if store not in before), None)
        if store is None:
            return cls(sum(times), last)
        numbers = GrowingZarr(store).read(STEP) if STEP in shown_shapes(store) else np.empty(0)
        return cls(sum(times), last, len(numbers), store, left_out_of(store), int((numbers <= last).sum()))


def is_complete(output: Path) -> bool:
    """Whether the results say that they are, and the raw steps, if there are some, have all that they were to have.

    What can't be read says nothing: why is told at the run's end.
    """
    try:
        is_whole = shown_attributes(output / RESULTS).get("bbflow_status") == "complete"
        return is_whole and not left_out_of(output / RAW)
    except (BbflowError, OSError):
        return False


def why_stop(output: Path) -> str:
    """Return why a user's function wants the simulation to end; empty if none does, or that can't be read now."""
    path = output / STOP_FILE
    with suppress(OSError):
        # By its mark: a user's own file of that name is no wish to stop.
        if is_ours(output, path) and path.exists():
            return path.read_text()
    return ""


def begin_in(output: Path) -> None:
    """Mark the results of an earlier run, which one continues, as having no step of its own yet."""
    set_attributes(output / RESULTS, bbflow_last_step=-1)
    clear(output, *written(STOP_FILE))


def describe_ending(
    config: Path, stream: str, output: Path, course: Course, left: Left, continued: Path | None = None
) -> list[str]:
    """Return where the results are, what they lack, and where that is.

    Parameters
    ----------
    config, stream, output
        The run's.
    course
        As it ended.
    left
        What is there.
    continued
        What it continued: the output of an earlier run, or the state in it.
    """
    lines = [f"results in {place_of(output / RESULTS) or output / RESULTS}"] if left.spans else []
    lines += [_told_stop(course, left)] if course.stopped else []
    if not course.failure:
        return [*lines, *_told_lacking(output, left)] if lines else ["nothing was folded: there are no results"]
    unfolded = left.rescued - left.folded
    if left.rescued and not unfolded:
        lines.append(f"THE ANALYSIS IS INCOMPLETE: {course.failure}; the results end with step {left.last_step}")
        lines += _told_rescued(left, f"{left.rescued} steps that are in the results, but that functions or raw lack,")
    else:
        lines.append(f"THE STATISTICS ARE INCOMPLETE: {course.failure}; {_extent(left, continued)}")
    if unfolded and left.store:
        lines += _told_rescued(left, f"{unfolded} steps that were not folded")
        before = output if left.last_step >= 0 else continued
        is_there = before is not None and output.resolve() in (before.resolve(), before.resolve().parent)
        first = "mend the cause" if is_there else "mend the cause, give another output"
        again = _again(config, before, left.store, stream, left.last_step)
        lines += [f"to have their statistics, {first} and run:", f"  {again}"]
    if course.keeping is KeepsRun.RESCUED and not left.rescued:
        lines.append("no step was left to rescue")
    if course.keeping is KeepsRun.LEFT:
        lines.append("what had neither been folded nor rescued is lost, as you wished")
    return lines


def _told_lacking(output: Path, left: Left) -> list[str]:
    """Return why results of an analysis that came to its end are incomplete, if they are."""
    told = shown_attributes(output / RESULTS)
    if told.get("bbflow_status") != "incomplete":
        return []
    why = [told.get("bbflow_failure", ""), *told.get("bbflow_lost", ()), *told.get("bbflow_left_out", ())]
    return [f"THE STATISTICS ARE INCOMPLETE: {'; '.join(filter(None, why))}; {_extent(left, None)}"]


def _told_stop(course: Course, left: Left) -> str:
    if not course.ended_well:
        return f"the simulation was ended, since {course.stopped}"
    return f"the simulation came to its own end with step {left.last_step}; it was asked to end, since {course.stopped}"


def _told_rescued(left: Left, which: str) -> list[str]:
    but = " but these:" if left.left_out else ""
    return [f"{which} are in {left.store}, with all variables{but}", *(f"  {text}" for text in left.left_out)]


def _extent(left: Left, continued: Path | None) -> str:
    """Return how far the results go."""
    if left.last_step >= 0:
        return f"they end with step {left.last_step}"
    if not left.spans:
        return "there are none"
    return "windows that were open could not be published" if continued is None else "they have no step of this run"


def _again(config: Path, before: Path | None, store: Path, stream: str, last_step: int) -> str:
    """Return the command that folds what was rescued, after what was folded before."""
    begins = ["--continue", str(before)] if before is not None else []
    after = ["--after", str(last_step)] if last_step >= 0 else []
    replay = ["bbflow", "replay", str(store), "--stream", stream, *after]
    return shlex.join(["bbflow", "run", str(config), *begins, "--", *replay])


def describe_held(
    config: Path,
    stream: str,
    contact: Path,
    nodes: Sequence[NodeAddress],
    course: Course,
    others: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Return how to get what was neither published nor rescued: it lies where the BB nodes keep it.

    Parameters
    ----------
    config, stream
        The run's.
    contact
        The nodes' contact file; it may be gone by now.
    nodes
        Those that it named.
    course
        As it ended.
    others
        Further streams that could not be rescued.
    """
    is_held = course.keeping is KeepsRun.HELD
    if not is_held and not others:
        return []
    here = socket.gethostname()
    ended = {node.name: Path(node.directory) for node in nodes if node.host == here and not is_running(node)}
    lost = {name: why for name, directory in ended.items() if (why := _why_lost(directory))}
    left = [node for node in nodes if node.name not in lost]
    gone = [f"WHAT BB NODE {name} HELD, AND WASN'T PUBLISHED OR RESCUED, IS LOST: {why}" for name, why in lost.items()]
    if not left:
        return gone
    where = ["--contact", str(contact)]
    again = [
        shlex.join(["bbflow", "node", "--name", node.name, "--directory", str(Path(node.directory).parent), *where])
        for node in left
        if not is_running(node)
    ]
    publish = [] if course.published else [shlex.join(["bbflow", "fold", str(config), *where, "--finish"])]
    names = [*([stream] if is_held else []), *others]
    rescues = [["bbflow", "rescue", name, *where, "--output", "rescued", "--take-over"] for name in names]
    return [
        *gone,
        "STEPS ARE STILL ON THE BB NODES: neither results nor rescue could be written. When the cause is mended:",
        *(f"  {line}" for line in [*(f"{command} &" for command in again), *publish, *map(shlex.join, rescues)]),
    ]


def _why_lost(directory: Path) -> str:
    """Return why no one can have what a node of this host holds; empty if somebody can."""
    if not directory.exists():
        return f"{directory} is gone"
    try:
        with suppress(OSError):  # it may be had by who looks later
            check_held(directory)
    except BbflowError as error:
        return str(error)
    return ""


def is_running(node: NodeAddress) -> bool:
    """Whether a node answers."""
    try:
        NodeClient(node).close()
    except NodeError:
        return False
    return True
