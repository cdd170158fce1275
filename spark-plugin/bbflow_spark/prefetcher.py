"""The prefetcher: hands Spark's partitions to a stager in their order, and tells tasks where to read."""

import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path

from bbflow.errors import BbflowError
from bbflow.events import EventLog
from bbflow.staging import Decision, Location, Locations, Stager
from bbflow_spark.patience import Look, Patience
from bbflow_spark.plans import PartitionKey, PlannedBlock, StageKey, StagePlan, StageQuestion, name_of
from bbflow_spark.program import SparkProgram

PLAN_S = 2.0
"""A task may ask before its stage's plan has come; after this time it reads by itself."""
LOOK_S = 0.5
"""How often a waiting task looks whether waiting still helps."""


@dataclass(frozen=True, slots=True)
class ReadPlace:
    """Where a task reads, from where it wants to."""

    end: int | None = None
    """Before which this holds; None for the rest of the file."""
    path: Path | None = None
    """On the BB; None for the source."""
    start: int = 0
    """What the path's first byte is in the file."""


Answering = Generator[None, None, ReadPlace]
"""Yields about twice a second while a task must wait; ends with the answer."""


class Prefetcher:
    """Stages what Spark is going to read.

    Parameters
    ----------
    open_stager
        Makes the stager for a number of slots, which the first plan tells.
    lookahead
        Waves ahead, as the stager has it.
    patience_s
        A task whose block makes no progress for this long, though no policy holds it, reads the source.
    events
        Where it is noted what was read where.
    """

    def __init__(
        self, open_stager: Callable[[int], Stager], lookahead: int, patience_s: float, events: EventLog
    ) -> None:
        self._open_stager = open_stager
        self._lookahead = lookahead
        self._patience_s = patience_s
        self._events = events
        self._changed = threading.Condition()
        self._program = SparkProgram()
        self._stager: Stager | None = None
        self._futures: dict[PartitionKey, Future[Locations]] = {}
        self._planned: set[StageKey] = set()
        self._room_bytes: int | None = None
        self._closed = False

    def close(self) -> None:
        """End all transfers; tasks that ask then read the source."""
        with self._changed:
            self._closed = True
            stager, self._stager = self._stager, None
            self._changed.notify_all()
        if stager is not None:
            stager.close()

    def resize(self, capacity_bytes: int) -> None:
        """Change the room for the inputs: shuffles share it."""
        with self._changed:
            self._room_bytes = capacity_bytes
            if self._stager is not None:
                self._stager.resize(capacity_bytes)

    # What the driver tells

    def plan(self, plan: StagePlan) -> None:
        """Take a stage that was submitted.

        Raises
        ------
        ConfigError
            If the directory on the BB can't be used.
        """
        with self._changed:
            self._planned.add(plan.key)
            self._changed.notify_all()
            if self._stager is None and plan.partitions and not self._closed:
                self._stager = self._open_stager(plan.slots)
                if self._room_bytes is not None:
                    self._stager.resize(self._room_bytes)
                self._program.window = plan.slots * (1 + self._lookahead)
            self._let_go(self._program.over(plan.key))
            self._program.plan(plan)
            if self._stager is not None:
                self._stager.expect(self._program.later())
            self._feed()

    def done(self, key: PartitionKey) -> None:
        """Note that a task has ended well, or reads its source."""
        with self._changed:
            if self._program.done(key):
                self._let_go([key])
                self._feed()

    def over(self, key: StageKey) -> None:
        """Note that a stage has ended, however."""
        with self._changed:
            self._let_go(self._program.over(key))
            self._feed()

    def end(self, application: str) -> None:
        """Note that an application has ended, or that its driver is gone."""
        with self._changed:
            self._let_go(self._program.end(application))
            self._planned = {key for key in self._planned if key[0] != application}
            self._feed()

    # What tasks ask

    def ask(self, question: StageQuestion) -> Answering:
        """Reply to a task where to read."""
        began_s = time.time()
        self._await_plan(question.key[:3])
        with self._changed:
            own = self._program.own(question)
        if own is None:
            with self._changed:
                return self._what_is_there(question)
        answer = yield from self._until_there(question.key, own)
        ended_s = time.time()
        self._events.add(
            "read",
            application=question.key[0],
            stage=question.key[1],
            partition=question.key[3],
            bytes=own.part.end - own.part.start,
            staged=answer.path is not None,
            started_s=began_s,
            ended_s=ended_s,
        )
        return answer

    def _await_plan(self, key: StageKey) -> None:
        """Wait for the plan of a stage; once, since a driver that tells nothing never will."""
        until_s = time.monotonic() + PLAN_S
        with self._changed:
            while not (key in self._planned or self._closed) and time.monotonic() < until_s:
                self._changed.wait(until_s - time.monotonic())
            self._planned.add(key)

    def _until_there(self, key: PartitionKey, block: PlannedBlock) -> Answering:
        """Wait for a task's own block as long as that helps."""
        patience = Patience(self._patience_s)
        while True:
            with self._changed:
                stager, future = self._stager, self._futures.get(key)
            if stager is None or not patience.waits(_look(stager, key)):
                self.done(key)
                return ReadPlace(block.part.end)
            try:
                place = _settled(future)
            except (BbflowError, CancelledError):
                return ReadPlace(block.part.end)
            if place is not None:
                return _answer(block, place[block.file.url])
            yield None

    def _what_is_there(self, question: StageQuestion) -> ReadPlace:
        """Return where to read what isn't the task's own: others' blocks that are there now, else the source."""
        ready = [future.result() for future in self._futures.values() if _is_ready(future)]
        for block in self._program.others(question):
            for places in ready:
                if isinstance(places.get(block.file.url), Path):
                    return _answer(block, places[block.file.url])
        return ReadPlace(self._program.next_start(question))

    def _feed(self) -> None:
        if self._stager is not None:
            for partition in self._program.feed():
                files = [block.file for block in dict.fromkeys(partition.blocks)]
                self._futures[partition.key] = self._stager.submit(name_of(partition.key), files)

    def _let_go(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            if self._futures.pop(key, None) is not None and self._stager is not None:
                self._stager.final(name_of(key))


def _look(stager: Stager, key: PartitionKey) -> Look:
    state = stager.state()
    return Look(time.monotonic(), stager.is_admitted(name_of(key)), _restricts(state.decision), state.passed_bytes)


def _restricts(decision: Decision) -> bool:
    """Whether transfers hardly move now for the sake of others; a phase predicted for later doesn't count."""
    # A phase that is predicted for later restricts nothing yet: a transfer that is stuck is found meanwhile.
    is_near = decision.stop_s is not None and time.time() > decision.stop_s - LOOK_S
    return decision.hold or is_near or decision.bytes_per_s is not None


def _settled(future: "Future[Locations] | None") -> Locations | None:
    if future is None:
        time.sleep(LOOK_S)
        return None
    try:
        return future.result(LOOK_S)
    except TimeoutError:
        return None


def _is_ready(future: "Future[Locations]") -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _answer(block: PlannedBlock, place: Location) -> ReadPlace:
    return ReadPlace(block.part.end, place, block.part.start) if isinstance(place, Path) else ReadPlace(block.part.end)
