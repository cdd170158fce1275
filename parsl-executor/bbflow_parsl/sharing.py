"""The gates of a node's fetchers, which give way together with those of all nodes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bbflow.phases import PhaseSource
from bbflow.staging import Gate, Share
from bbflow.staging.watching import POLL_S, Load, Watch

MOST_POLL_S = 0.1


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
