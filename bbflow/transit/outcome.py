"""How a stream ended, also for an analysis that finds that the one before had come to the end."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import msgpack


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

    @property
    def packed(self) -> bytes:
        """The last checkpoint of the fold, which says that nothing is left to do."""
        packed: bytes = msgpack.packb({"outcome": astuple(self)})
        return packed


def ended_before(checkpoints: Iterable[bytes]) -> Outcome | None:
    """Return how a stream ended whose analysis had told some node so; None if it had not."""
    told = (msgpack.unpackb(checkpoint) for checkpoint in checkpoints if checkpoint)
    found = next((item["outcome"] for item in told if "outcome" in item), None)
    if found is None:
        return None
    complete, steps, discarded, late, missing, errors = found
    return Outcome(complete, steps, discarded, late, missing, tuple(errors))
