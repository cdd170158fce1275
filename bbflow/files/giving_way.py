"""When an IOnode's transfers to and from the shared storage may run: the delay policies of staging."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bbflow.phases import BoardSource
from bbflow.staging.gate import Decision, Gate
from bbflow.staging.policies import NoAction, Policy, Situation, checked_policy
from bbflow.staging.watching import Load, Watch

AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class Parted(Policy):
    """What a policy, whose pace is for all IOnodes together, leaves to one of them."""

    policy: Policy
    """For all."""
    nodes: Callable[[], int]
    """Returns how many there are."""

    def choose(self, situation: Situation) -> Decision:
        """Decide for all, and take one's part of the pace."""
        decision = self.policy.choose(situation)
        pace = decision.bytes_per_s
        return decision if pace is None else replace(decision, bytes_per_s=pace / max(self.nodes(), 1))


class GivingWay:
    """A gate, and the watch that keeps it as a policy says.

    Parameters
    ----------
    policy
        As for ``bbflow stage --policy``.
    phases
        Where I/O phases are announced; None for nowhere.

    Raises
    ------
    ConfigError
        If there is no such policy, or it could never see a phase.
    """

    def __init__(self, policy: str = "no-action", phases: Path | None = None) -> None:
        self._gate = Gate(AT_ONCE)
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._watch: Watch | None = None
        self.nodes = 1
        """IOnodes of the same master that are up; a policy's pace is for all of them."""
        whole = checked_policy(policy, phases)
        if not isinstance(whole, NoAction):
            source = None if phases is None else BoardSource(phases, None)
            chosen = Parted(max_delay_s=whole.max_delay_s, policy=whole, nodes=lambda: self.nodes)
            self._watch = Watch(chosen, self._gate, source, self._load, time.time, _ignore, _ignore)
            self._watch.start()

    @contextmanager
    def chunk(self, size: int) -> Iterator[None]:
        """Wait until this many bytes may be transferred; in the ``with`` they are."""
        self._wait_for(size)
        try:
            with self._gate.chunk(size):
                yield
        finally:
            self._wait_for(-size)

    def _wait_for(self, size: int) -> None:
        with self._lock:
            self._waiting_bytes += size

    def _load(self) -> Load:
        return Load(self._waiting_bytes, None)

    def close(self) -> None:
        """End the watch, and the transfers that wait: they are asked for again."""
        self._gate.close()
        if self._watch is not None:
            self._watch.close()


def _ignore(_: object) -> None:
    pass
