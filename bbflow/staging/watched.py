"""A gate for transfers that know of no waves: it is watched only while they run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bbflow.phases import PhaseSource
from bbflow.staging.gate import Gate
from bbflow.staging.policies import Policy
from bbflow.staging.watching import POLL_S, Load, Watch


class WatchedGate:
    """A gate for one transfer at a time, and the watch that keeps it as a policy says.

    Parameters
    ----------
    policy
        What it may do.
    phases
        Where phases are seen; nowhere if None.
    poll_s
        How often it looks.
    """

    def __init__(self, policy: Policy, phases: PhaseSource | None, poll_s: float = POLL_S) -> None:
        self._gate = Gate(1)
        load = Load(remaining_bytes=1, deadline_s=None)
        self._watch = Watch(policy, self._gate, phases, lambda: load, time.time, _ignore, _ignore, poll_s)

    @contextmanager
    def watched(self) -> Iterator[Gate]:
        """Yield the gate, kept as the policy says for as long as a ``with`` lasts."""
        self._watch.start()
        try:
            yield self._gate
        finally:
            self._watch.close()


def _ignore(_: object) -> None:
    pass
