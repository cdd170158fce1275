"""The stage that drains: batches of raw steps, the next one planned and submitted while one is written."""

import math
import time
from collections import deque
from functools import partial

from bbflow.drain.coordinates import write_coordinates
from bbflow.drain.drain_task import Drained, get_ready, together, write_next
from bbflow.drain.draining import DrainBatch, Draining, RawStep
from bbflow.drain.stores import check_there
from bbflow.errors import ConfigError
from bbflow.transit.clusters.cluster import SubmittedTask, TaskBatch, let_go
from bbflow.transit.driver.first_step import check_chunks
from bbflow.transit.driver.policy import gives_way, writing
from bbflow.transit.driver.stage import Asking, PacedStage, Running, Seen, StageReport, StreamStart
from bbflow.transit.folding.patterns import parts_of
from bbflow.view.consumers import DRAIN, no_checkpoint

MOST_BEGUN = 3
"""Batches that are begun at a time: one is written, others wait for it, also while the driver plans for the fold."""


class DrainStage(PacedStage):
    """Drains batch by batch.

    Parameters
    ----------
    run
        What holds for all stages.
    asking
        Which steps are kept besides the others; None if no function is asked.
    drains
        Whether further steps are drained; otherwise a store that can't be continued doesn't keep the rest from its end.
    """

    def __init__(self, run: Running, asking: Asking | None = None, *, drains: bool = True) -> None:
        super().__init__(run)
        self._asking, self._drains = asking, drains
        self._unusable: list[str] = []
        cursors = {node: step for node, (step, _) in run.consumers.of(DRAIN).items()}
        self.draining = Draining(run.config, run.contact, cursors)
        self._hosts = sorted({node.host for node in run.nodes.values()})
        self._write = writing(run.config.raw)
        self._task = partial(write_next, self._write)
        self._begun: deque[TaskBatch[DrainBatch]] = deque()
        self._looked_at = -1
        self.longest_chain = 32
        """How many batches follow each other, then all are waited for: Dask keeps a task while one follows."""
        self._chained = 0
        """How many batches follow each other without a break, those that are done included."""
        self._ready = self.submit_ready(partial(get_ready, self._write))

    @property
    def idle(self) -> bool:
        """Whether no task runs."""
        return not self._begun

    @property
    def cursor(self) -> int:
        """Every step up to this one is in the store, or wasn't wanted."""
        return self.draining.cursor

    def open(self, start: StreamStart) -> None:
        """Open the store of raw steps, with its coordinates."""
        arrays, attributes, clock = start.arrays, start.attributes, start.clock
        check_chunks(self.run.config.raw, arrays.shapes, attributes)
        time = None if clock.by_steps else clock.attributes
        path = self.run.config.output / "raw.zarr"
        try:
            if self.cursor >= 0:
                check_there(path)
            store = self.draining.open(path, attributes, time)
        except ConfigError as error:
            if self._drains:
                raise
            self._unusable.append(str(error))
            return
        write_coordinates(arrays.first, [store], attributes)

    def begin(self, seen: Seen) -> None:
        """Submit the next batches, if there are some, and not as many are begun as may be."""
        while self._may_begin and self._has_next():
            reached = self.draining.reached
            decided = self._decided
            ready = [number for number in self.run.view.steps_after(reached) if number <= decided]
            ready = self.draining.some(ready, self.run.view.bytes_of)
            through = ready[-1] if ready else decided
            steps = [self._raw_step(number, seen) for number in ready if self.draining.keeps(number)]
            self._submit(self.draining.next_batch(steps, through, len(self._hosts), self.run.view.changes))

    @property
    def _may_begin(self) -> bool:
        return self.idle or (len(self._begun) < MOST_BEGUN and self._chained < self.longest_chain)

    def _has_next(self) -> bool:
        reached = self.draining.reached
        return self._decided > reached and self._is_time(reached)

    @property
    def _decided(self) -> int:
        """The last step that is known to be kept or not: `before` steps hold back those that come before."""
        view, choosing = self.run.view, self.draining.choosing
        if choosing is None:
            return view.frontier
        last = int(min(view.frontier, math.inf if self._asking is None else self._asking.done))
        kept = () if self._asking is None else self._asking.kept
        for number in view.steps_after(max(self.draining.reached, self._looked_at)):
            if number > last:
                break
            choosing.look_at(number, parts_of(view, number), asked=number in kept)
            self._check_room(number)
            self._looked_at = number
        is_last = view.ended and last == view.frontier
        return last if is_last else last - self.run.config.raw.before

    def _check_room(self, number: int) -> None:
        """Check that the pools hold the steps that wait for later ones, and as many besides."""
        before, size = self.run.config.raw.before, self.run.view.room_of(number)
        if before and 2 * (before + 1) * size > self.run.capacity:
            raise ConfigError(
                f"raw: before: {before} steps of {size} bytes wait in each pool until later ones are there, which is "
                f"more than half of its {self.run.capacity} bytes: give the nodes more, or take fewer steps"
            )

    def _submit(self, batch: DrainBatch) -> None:
        """Submit a batch for writing; each share of the files waits until the batch before has written its part."""
        # Dask keeps what a task follows for as long as the task: an endless chain would keep every batch.
        self._chained = 1 if self.idle else self._chained + 1
        works = [((work,), self._hosts[work.share]) for work in batch.works]
        before = self._before()
        chained = [
            ((*arguments, *before.get(work.share, ())), host)
            for work, (arguments, host) in zip(batch.works, works, strict=True)
        ]
        # What is submitted again follows nothing: all before it is written then.
        beside = gives_way(self.run.config.raw)
        tasks = TaskBatch(self.run.cluster, batch, self._task, chained, self.run.wake, lambda: works, beside=beside)
        self._begun.append(tasks)

    def _before(self) -> dict[int, tuple[SubmittedTask[Drained]]]:
        """Return the last task of each share that is begun."""
        begun = ((tasks.batch.works, tasks.tasks) for tasks in self._begun)
        return {work.share: (task,) for some in begun for work, task in zip(*some, strict=True)}

    def _raw_step(self, number: int, seen: Seen) -> RawStep:
        parts = parts_of(self.run.view, number)
        at = seen.time_of(number, parts)
        return RawStep(number, math.nan if at is None else at, parts)

    def take(self, seen: Seen) -> None:
        """Commit the batches whose tasks are done, in their order."""
        while self._begun:
            done: list[Drained] | None = self._begun[0].results()
            if done is None:
                return
            let_go(self._begun[0].tasks)
            self._count(self._begun.popleft(), together(done))

    def finish(self, seen: Seen) -> StageReport:
        """Add attributes that came late, and say what the store lacks."""
        self.draining.commit_late(self.run.view.attributes)
        self.draining.look_for_lost()
        lacking = [f"raw.zarr hasn't all: {text}" for text in (*self._unusable, *self.draining.lacking)]
        return StageReport((*lacking, *self.draining.changes), not lacking)

    def _count(self, tasks: TaskBatch[DrainBatch], total: Drained) -> None:
        # The store shows the steps first: a node whose cursor is past them may free the only other copy.
        self.draining.take(tasks.batch)
        # To all nodes, also those that no rank lands on: an analysis that takes over starts from the lowest cursor.
        self.run.consumers.commit(DRAIN, self.draining.cursor, self.run.nodes, no_checkpoint)
        if tasks.batch.numbers:
            self.log_batch(
                "drain",
                tasks.batch.numbers,
                tasks.started_s,
                time.time(),
                total.bytes,
                every=self.run.config.raw.every,
                stored_bytes=total.stored_bytes,
                repeated_bytes=total.repeated_bytes,
            )
