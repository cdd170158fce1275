"""Stages: what goes through a stream side by side, and what they are told and tell."""

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.clusters.cluster import SubmittedTask
from bbflow.transit.driver.pace import Pace, ReadySteps
from bbflow.transit.driver.placing import StreamArrays
from bbflow.transit.driver.run_context import Running, Seen
from bbflow.transit.outcome import StageReport
from bbflow.transit.output.results import Results


@dataclass(frozen=True, slots=True)
class StreamStart:
    """What the first step has told, handed to each stage when the stream is opened."""

    arrays: StreamArrays
    """Its variables, and what is known of earlier ones."""
    attributes: StreamAttributes
    """As far as they are known."""
    clock: Clock
    """The stream's calendar."""
    results: Results
    """The store of the fold."""


class DriverStage(Protocol):
    """Goes through the steps of a stream in its own batches."""

    wait_s: float
    """After this long it may be time to begin a batch, whatever else happens (seconds)."""

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing is due."""

    @property
    def cursor(self) -> float:
        """Every step up to this one is done with for good; the nodes know it."""

    def open(self, start: StreamStart) -> None:
        """Begin, in the grid that the first step has shown."""

    def take(self, seen: Seen) -> None:
        """Commit what is done."""

    def begin(self, seen: Seen) -> None:
        """Begin what is to be done, if it is time for it."""

    def finish(self, seen: Seen) -> StageReport:
        """End, once the stream has and all is idle, and the results of the fold are complete."""


class Asking(Protocol):
    """A function of the user's that says which steps are kept."""

    @property
    def done(self) -> float:
        """The step up to which it is known for which steps it has asked."""

    @property
    def kept(self) -> Collection[int]:
        """Steps for which it has asked."""


class PacedStage:
    """What stages share whose batches wait for further steps.

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

    def submit_ready(self, get_ready: Callable[[str], None]) -> Sequence[SubmittedTask[None]]:
        """Prepare workers for what comes; return what must be kept until then."""
        nodes = [node for node in self.run.nodes.values() if self.run.cluster.has(node.host)]
        return self.run.cluster.submit_all(get_ready, [((node.pool,), node.host) for node in nodes], self.run.wake)

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
