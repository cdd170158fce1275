"""Stages: what goes through a stream side by side, and what they are told and tell."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bbflow.configuring.settings import Config
from bbflow.events import EventLog
from bbflow.net.contact import NodeAddress
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Parts
from bbflow.transit.clusters.cluster import Cluster, SubmittedTask
from bbflow.transit.driver.first_step import StreamArrays
from bbflow.transit.output.results import Results
from bbflow.view.consumers import Consumers
from bbflow.view.stream import StreamView


@dataclass(frozen=True, slots=True)
class Running:
    """What a run is given, and where it tells what it does."""

    config: Config
    """The run's configuration, as it was given; `Folding.config` is what is computed now."""
    contact: Path
    """Where the nodes are."""
    nodes: Mapping[str, NodeAddress]
    """Addresses by name."""
    cluster: Cluster
    """Where tasks run."""
    consumers: Consumers
    """Where cursors are kept."""
    capacity: int
    """Bytes of the smallest pool."""
    view: StreamView
    """The stream over all nodes."""
    log: EventLog
    """Gets an event for each batch and each window."""
    wake: Callable[[], None]
    """Called, in another thread, when a task is done."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a stream by now besides its steps, handed to each stage."""

    attributes: StreamAttributes
    """As far as they are known."""
    clock: Clock
    """The stream's calendar."""
    time_of: Callable[[int, Parts], float | None]
    """Returns the time of a step, in the stream's units, from its number and its parts."""
    shown: Sequence[tuple[str, int]] = ()
    """Spans of results that were shown since the last look, perhaps again: window, and place on its axis."""
    drained: float = -1
    """All is drained up to this step."""
    is_plain: bool = True
    """Whether steps are taken as they land."""


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


@dataclass(frozen=True, slots=True)
class StageReport:
    """What a stage says at its end."""

    lines: Sequence[str] = ()
    """What the user should know."""
    is_whole: bool = True
    """Whether nothing that was asked of it is lacking."""


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


LONGEST_S = 1.0
"""A step waits this long at most for others to come along, on up to a hundred nodes."""
NODE_S = 0.01
"""On more of them, it waits this long for each (seconds): a batch costs the driver about 0.7 ms for each node, so
batches take about a fourteenth of its time."""
SHARE = 8
"""None does while such a part of the smallest pool is ready."""


class Pace:
    """When the batches of one consumer begin: what each costs by itself must be little beside its steps.

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

    def wait_s(self, first: int, last: int, ready_bytes: int, now_s: float, *, is_full: bool = False) -> float:
        """Return how long to wait before the steps that are ready become a batch; 0 if they do now.

        Parameters
        ----------
        first, last
            Their numbers.
        ready_bytes
            Room that they take in the pool where they take most; of no matter if they are all that can come.
        now_s
            The time; it never runs backwards.
        is_full
            Whether no other can come along: the stream has ended, or a batch takes no more steps.
        """
        is_left_over = first <= self._last
        if not (is_left_over or is_full or ready_bytes >= self._enough_bytes):
            wait_s = self._began_s + self._longest_s - now_s
            if wait_s > 0:
                return wait_s
        self._last, self._began_s = last, now_s
        return 0.0


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
        view, first, last = self.run.view, cursor + 1, self.run.view.frontier
        is_full = view.ended or last - cursor >= most
        size = 0 if is_full else sum(map(view.room_of, range(first, last + 1)))
        self.wait_s = self._pace.wait_s(first, last, size, time.monotonic(), is_full=is_full) or math.inf
        return self.wait_s == math.inf

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
