"""How the nodes' transfers give way together: each fetcher of each node takes its share of what a policy allows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bbflow.phases import PhaseSource
from bbflow.staging import Decision, Gate, Policy, Situation
from bbflow.staging.watching import POLL_S, Load, Watch

MOST_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Share(Policy):
    """What a policy leaves to one fetcher of one node."""

    policy: Policy
    """For all nodes together."""
    number: int
    """The fetcher's, among those of its node."""
    fetchers: int
    """How many a node has."""
    nodes: int
    """How many there are at most."""

    def choose(self, situation: Situation) -> Decision:
        """Decide for all, and take one's share."""
        return share_of(self.policy.choose(situation), self.number, self.fetchers, self.nodes)


def share_of(decision: Decision, number: int, fetchers: int, nodes: int) -> Decision:
    """Give one fetcher's share of a decision: a pace is parted, fetchers above a limit hold.

    Parameters
    ----------
    decision
        Its pace is for all nodes together, its number of fetchers for each node.
    number
        The fetcher's, among those of its node.
    fetchers, nodes
        How many there are.
    """
    at_once = min(fetchers if decision.fetchers is None else decision.fetchers, fetchers)
    pace = decision.bytes_per_s
    return replace(
        decision,
        hold=decision.hold or number >= at_once,
        bytes_per_s=None if pace is None else pace / (nodes * at_once),
        fetchers=None,
    )


class SharedGate:
    """The gate of one fetcher of a node; phases are looked at only while it transfers.

    Parameters
    ----------
    share
        What it may do.
    phases
        Where phases are seen; nowhere if None.
    """

    def __init__(self, share: Share, phases: PhaseSource | None) -> None:
        self._gate = Gate(1)
        load = Load(remaining_bytes=1, deadline_s=None)
        # All nodes look into one directory of the PFS: the more there are, the less often.
        poll_s = min(POLL_S * share.nodes * share.fetchers, MOST_POLL_S)
        self._watch = Watch(share, self._gate, phases, lambda: load, time.time, _ignore, _ignore, poll_s)

    @contextmanager
    def watched(self) -> Iterator[Gate]:
        """Give the gate, kept as the policy says for as long as a ``with`` lasts."""
        self._watch.start()
        try:
            yield self._gate
        finally:
            self._watch.close()


def _ignore(_: object) -> None:
    pass
