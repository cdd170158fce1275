"""How transfers that don't see each other give way together: each takes its share of what a policy allows."""

from dataclasses import dataclass, replace

from bbflow.staging.gate import Decision
from bbflow.staging.policies import Policy, Situation


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
    """Return one fetcher's share of a decision: a pace is parted, fetchers above a limit hold.

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
