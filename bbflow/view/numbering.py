"""The numbers of a stream's own steps, where a step that has landed holds several frames, or none."""

from bisect import bisect_right

import msgspec

Landed = tuple[int, int]
"""A landed step, and the number of its last frame."""
NO_STEP: Landed = (-1, -1)
"""Before the first step."""
FRAMED = b"bbflow-frames:"
"""Begins the checkpoints of streams whose numbers aren't those of the steps that have landed."""
AHEAD = b"bbflow-ahead:"
"""Begins checkpoints of later steps than the node was told to let go of."""


class Numbering:
    """Knows up to which landed step a consumer is done, and keeps with its checkpoint where the numbers continue.

    A landed step is done with its last frame. A checkpoint may lie within one: then the agents are told the one before,
    and the next analysis gets all frames of it again; those up to the checkpoint's own step don't count again.
    """

    def __init__(self) -> None:
        self.is_framed = False
        """Whether the numbers differ from those of landed steps."""
        self._landed: list[int] = []
        self._last: list[int] = []

    def begin(self, landed: int, last: int) -> None:
        """Continue after a landed step, whose last frame has a number."""
        self.is_framed = True
        self._landed, self._last = [landed], [last]

    @property
    def last(self) -> int:
        """The last number."""
        return self._last[-1]

    def add(self, landed: int, last: int) -> None:
        """Learn the number of the last frame of the next landed step; it is that of the one before if it has none."""
        self._landed.append(landed)
        self._last.append(last)

    def done(self, step: int) -> Landed:
        """Return the last landed step whose frames all are up to a step, and the number of its last frame."""
        at = max(bisect_right(self._last, step) - 1, 0)
        return self._landed[at], self._last[at]

    def let_go(self, step: int) -> None:
        """Release landed steps that are done before one that is done."""
        at = max(bisect_right(self._last, step) - 1, 0)
        del self._landed[:at], self._last[:at]


def packed(step: int, last: int, checkpoint: bytes) -> bytes:
    """Return a checkpoint that says how far the frames are, and the number of the last one that is told as landed."""
    return FRAMED + msgspec.msgpack.encode((step, last, checkpoint))


def ahead(step: int, checkpoint: bytes) -> bytes:
    """Return a checkpoint that says which step it is of: the node that stores it is told an earlier one."""
    return AHEAD + msgspec.msgpack.encode((step, checkpoint))


def unpacked(landed: int, checkpoint: bytes) -> tuple[int, int | None, bytes]:
    """Take a checkpoint in.

    Returns
    -------
    tuple
        The step that the consumer has come to, the number of the last frame of the landed step (None if the numbers are
        those of landed steps), and the consumer's own checkpoint.
    """
    if checkpoint.startswith(AHEAD):
        step, own = msgspec.msgpack.decode(checkpoint.removeprefix(AHEAD), type=tuple[int, bytes])
        return step, None, own
    if not checkpoint.startswith(FRAMED):
        return landed, None, checkpoint
    step, last, own = msgspec.msgpack.decode(checkpoint.removeprefix(FRAMED), type=tuple[int, int, bytes])
    return step, last, own
