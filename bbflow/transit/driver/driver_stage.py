"""What stages share that go through a stream side by side."""

import math
import time
from collections.abc import Callable

from bbflow.transit.clusters.cluster import SubmittedTask
from bbflow.transit.driver.pace import Pace, ReadySteps
from bbflow.transit.driver.run_context import Running
from bbflow.transit.folding.patterns import Parts


class DriverStage:
    """What stages share.

    Parameters
    ----------
    run
        What holds for all.
    """

    def __init__(self, run: Running) -> None:
        self.run = run
        """What holds for all."""
        self._pace = Pace(run.capacity, len(run.nodes))
        self.wait_s = math.inf
        """After this long it may be time to begin a batch, whatever else happens (seconds)."""

    def submit_ready(self, get_ready: Callable[[str], None]) -> list[SubmittedTask[None]]:
        """Let workers get ready for what comes; gives what must be kept until then."""
        return [
            self.run.cluster.submit(get_ready, node.pool, host=node.host, done=self.run.wake)
            for node in self.run.nodes.values()
            if self.run.cluster.has(node.host)
        ]

    def _is_time(self, cursor: int, most: float = math.inf) -> bool:
        """Whether what is ready after a step becomes a batch now, of this many steps at most."""
        view, now_s = self.run.view, time.monotonic()
        first, last = cursor + 1, view.frontier
        is_full = view.ended or last - cursor >= most
        size = 0 if is_full else sum(map(view.room_of, range(first, last + 1)))
        ready = ReadySteps(first, last, size, is_full)
        self.wait_s = self._pace.wait_s(ready, now_s) or math.inf
        if self.wait_s < math.inf:
            return False
        self._pace.begin(ready, now_s)
        return True

    def log_batch(
        self, event: str, steps: tuple[int, ...], started_s: float, ended_s: float, size: int, **more: int
    ) -> None:
        """Write the event of a batch that is done."""
        self.run.log.add(
            event,
            node=",".join(self.run.nodes),
            first_step=steps[0],
            last_step=steps[-1],
            started_s=started_s,
            ended_s=ended_s,
            bytes=size,
            **more,
        )


def no_time(number: int, parts: Parts) -> None:
    """Return the time of a step of a stream that has none."""
