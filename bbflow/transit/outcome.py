"""How a stream ended."""

from dataclasses import dataclass


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
