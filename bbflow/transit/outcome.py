"""How a stream ended."""

from dataclasses import dataclass
from pathlib import Path

from bbflow.zarr_store.growing import set_attributes, shown_attributes


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a stream ended."""

    complete: bool
    """Whether every writer closed it in order."""
    steps: int
    """Steps that were folded."""
    discarded: int
    """Steps that the engine discarded for lack of room."""
    late: int = 0
    """Steps that weren't later than the one before, and were left out."""
    missing: int = 0
    """Steps that, by the interval between the others, are missing in gaps."""
    errors: tuple[str, ...] = ()
    """What failed in users' operators."""


def mark_incomplete(output: Path, *why: str) -> None:
    """Mark a run's results as incomplete, and why, beside what they say already."""
    results = output / "results.zarr"
    if any(why):
        said = shown_attributes(results).get("bbflow_failure", "")
        new = [text for text in dict.fromkeys(why) if text not in said]
        failure = "; ".join(filter(None, [said, *new]))
        set_attributes(results, bbflow_status="incomplete", bbflow_failure=failure)
