"""How long a task waits for its block before it reads the source. No clock of its own."""

from dataclasses import dataclass

ROOM_S = 1.0
"""A task that runs gets no room by waiting longer: what holds the room are tasks that run too."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a waiting task sees of the stager."""

    now_s: float
    """On any clock."""
    has_room: bool
    """Whether its blocks have room on the BB, and are there or coming."""
    restricted: bool
    """Whether others' I/O phases hold or slow transfers."""
    passed_bytes: int
    """What all transfers have asked for so far."""


class Patience:
    """Judges whether waiting for a block is still better than reading the source.

    Parameters
    ----------
    patience_s
        Transfers that ask for nothing for this long, though no policy holds them, have got stuck.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._room_s: float | None = None
        self._progress_s: float | None = None
        self._passed_bytes = -1

    def waits(self, look: Look) -> bool:
        """Take the next look; return whether to continue waiting."""
        if self._room_s is None or look.has_room or look.restricted:
            self._room_s = look.now_s
        if self._progress_s is None or look.restricted or look.passed_bytes != self._passed_bytes:
            self._progress_s, self._passed_bytes = look.now_s, look.passed_bytes
        return look.now_s - self._room_s < ROOM_S and look.now_s - self._progress_s < self._patience_s
