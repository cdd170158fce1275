"""When a batch begins: what it costs by itself must be little beside its steps, and no room may be held up for that."""

from dataclasses import dataclass

LONGEST_S = 1.0
"""A step waits this long at most for others to come along, on up to a hundred nodes."""
NODE_S = 0.01
"""On more of them, it waits this long for each (seconds): a batch costs the driver about 0.7 ms for each node, so
batches take about a fourteenth of its time."""
REST_S = 0.02
"""A node that has told of steps isn't asked for further ones sooner than this (seconds)."""
MANY = 100
"""On more nodes than that it isn't for half of what a step may wait: news cost the driver as much as batches."""
SHARE = 8
"""None does while such a part of the smallest pool is ready."""


@dataclass(frozen=True, slots=True)
class ReadySteps:
    """Steps that could make a batch."""

    first: int
    """The oldest one's number."""
    last: int
    """The newest one's."""
    bytes: int
    """Room that they take in the pool where they take most; of no matter if they are all that can come."""
    full: bool
    """Whether no other can come along: the stream has ended, or a batch takes no more steps."""


def rest_s(nodes: int) -> float:
    """Return for how long each of some nodes isn't asked for further steps after it has told of some (seconds)."""
    return REST_S if nodes <= MANY else NODE_S * nodes / 2


class Pace:
    """The pace of one consumer's batches.

    Parameters
    ----------
    capacity_bytes
        Of the smallest pool.
    nodes
        How many there are.
    """

    def __init__(self, capacity_bytes: int, nodes: int) -> None:
        self._enough_bytes = capacity_bytes // SHARE
        self._longest_s = max(LONGEST_S, NODE_S * nodes)
        self._last, self._began_s = -1, -self._longest_s

    def wait_s(self, ready: ReadySteps, now_s: float) -> float:
        """Return how long to wait before these steps become a batch; 0 for not at all."""
        is_left_over = ready.first <= self._last
        if is_left_over or ready.full or ready.bytes >= self._enough_bytes:
            return 0.0
        return max(self._began_s + self._longest_s - now_s, 0.0)

    def begin(self, ready: ReadySteps, now_s: float) -> None:
        """Take note of a batch that begins with the first of these steps."""
        self._last, self._began_s = ready.last, now_s
