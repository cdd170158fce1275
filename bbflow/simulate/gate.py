"""The gate of simulated transfers: a decision becomes the most that each flow may take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bbflow.simulate.world import Flow, World
from bbflow.staging.gate import CHUNK_S, Decision


@dataclass(frozen=True, slots=True)
class _Passing:
    """A flow that the gate looks after."""

    flow: Flow
    size_bytes: float
    limit: float


class FluidGate:
    """Makes flows run as the newest decision says.

    Real transfers are chunks of `CHUNK_S`: one that is under way when a decision comes still ends. So a decision holds
    for flows that much later, and one that may only end in time stops that much earlier.

    Parameters
    ----------
    world
        Where the flows are.
    fetchers
        At most this many at once.
    """

    def __init__(self, world: World, fetchers: int) -> None:
        self.fetchers = fetchers
        self.decision = Decision()
        """What holds now."""
        self._world = world
        self._flows: dict[int, _Passing] = {}
        self._ended_bytes = 0.0

    @property
    def passed_bytes(self) -> int:
        """Of all flows, as far as they have come."""
        coming = sum(each.size_bytes - self._world.left_bytes(each.flow) for each in self._flows.values())
        return int(self._ended_bytes + coming)

    def apply(self, decision: Decision) -> None:
        """Apply a decision to every flow, from the end of the chunks that are under way."""
        self.decision = decision
        self._later(self._world.now_s + CHUNK_S)

    def begin(self, rank: int, size_bytes: float, *through: int, limit: float = math.inf, weight: float = 1.0) -> Flow:
        """Begin a flow; of all, those with the lowest ranks have the fetchers."""
        passing = _Passing(self._world.flow(size_bytes, *through, limit=0.0, weight=weight), size_bytes, limit)
        self._flows[rank] = passing
        passing.flow.when_come(lambda: self._end(rank))
        self._refresh()
        return passing.flow

    def _end(self, rank: int) -> None:
        self._ended_bytes += self._flows.pop(rank).size_bytes
        self._refresh()

    def _refresh(self) -> None:
        now_s = self._world.now_s
        stop_s = math.inf if self.decision.stop_s is None else self.decision.stop_s - CHUNK_S
        ranks = sorted(self._flows)
        for rank, most in zip(ranks, shares(self.decision, len(ranks), self.fetchers, now_s >= stop_s), strict=True):
            passing = self._flows[rank]
            self._world.set_limit(passing.flow, min(most, passing.limit))
        if now_s < stop_s < math.inf:
            self._later(stop_s)

    def _later(self, when_s: float) -> None:
        self._world.at(when_s, self._refresh)


def shares(decision: Decision, flows: int, fetchers: int, stopped: bool) -> Sequence[float]:
    """Return the most that each flow may take, those with the lowest ranks first; bytes a second.

    Parameters
    ----------
    decision
        What transfers may do.
    flows
        How many there are.
    fetchers
        How many may run at once if the decision says nothing else.
    stopped
        Whether nothing that begins now would end before the decision's `stop_s`.
    """
    most = min(fetchers if decision.fetchers is None else decision.fetchers, flows)
    if decision.hold or stopped or not most:
        return [0.0] * flows
    each = math.inf if decision.bytes_per_s is None else decision.bytes_per_s / most
    return [each] * most + [0.0] * (flows - most)
