"""The stage that folds and publishes."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from bbflow.errors import BbflowError, CapacityError, ConfigError
from bbflow.host.belongings import clear, is_ours
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Block, BlockForm
from bbflow.transit.chain.comparing import check_field
from bbflow.transit.chain.saved import SavedState
from bbflow.transit.chain.taking_over import carried_on
from bbflow.transit.clusters.cluster import SubmittedTask, TaskBatch, TaskLostError, Work, WorkerKilledError, let_go
from bbflow.transit.driver.finishing import StreamEnd, counted, end_of
from bbflow.transit.driver.holding import hold_fields
from bbflow.transit.driver.placing import place_diagnostics, write_field_coordinates, write_referenced
from bbflow.transit.driver.publishing import SETTLED_DIRECTORY, Publication, Publishing
from bbflow.transit.driver.rank_folding import RankFolding
from bbflow.transit.driver.safe import SafeCopies, read_safe_copy
from bbflow.transit.driver.stage import PacedStage, Running, Seen, StageReport, StreamStart
from bbflow.transit.driver.state_files import StateFiles
from bbflow.transit.driver.state_room import check_room
from bbflow.transit.driver.stream_fields import StreamFields
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.planning import FoldSite
from bbflow.transit.folding.plans import Directories, FoldPlan
from bbflow.transit.folding.task import fold_lane, get_ready, keep_plan
from bbflow.transit.folding.work import FoldReceipt
from bbflow.transit.outcome import Outcome
from bbflow.transit.output.claiming import KEPT_FILE, ROWS_DIRECTORY, SCRATCH
from bbflow.transit.output.copying import RESULTS
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.lost_files import LOST
from bbflow.transit.output.results import Published
from bbflow.transit.spans.timeline import Closing
from bbflow.transit.states.checkpoints import Checkpoint
from bbflow.transit.states.footprint import StateRoom
from bbflow.transit.states.kept import EndedSpans, Kept
from bbflow.transit.states.tables import RosterFiles
from bbflow.transit.states.written import pack
from bbflow.view.consumers import FOLD
from bbflow.view.times import told_by

if TYPE_CHECKING:  # xarray takes a third of a second, which a run has no time for before its first fold
    import xarray as xr

T = TypeVar("T")
NO_POINTS = "the first step, in which its points are found, hasn't all its variables"
"""Why a diagnostic with a `space` can't be had."""
AWAIT_S = 0.01
"""A batch that must be done first is looked at this often (seconds)."""
LOOK_S = 1.0
"""A node isn't asked for its room more often."""


class FoldStage(PacedStage):
    """Folds batch by batch, and publishes windows when they close."""

    def __init__(self, run: Running, saved: SavedState | None, lost: Collection[str]) -> None:
        super().__init__(run)
        self._saved = saved
        self.folding = carried_on(run.config, run.consumers.of(FOLD), saved)
        """The run's state: what others find out comes to it as values."""
        if lost:
            self.folding.lose(lost, read_safe_copy(run.config.output).states, list(run.nodes))
        self._fields = StreamFields(run)
        self._files = StateFiles(run, self.folding)
        self._rosters = RosterFiles(run.config.output)
        self._ranks = None if run.config.fold.on == "node" else RankFolding(run)
        self._safe = SafeCopies(run.config.output, run.config.safe_every_s)
        self.publishing = Publishing(run)
        rows = self.run.config.output / ROWS_DIRECTORY
        rows.mkdir(parents=True, exist_ok=True)
        self._directories = {
            name: Directories(node.pool, node.state_directory, str(rows)) for name, node in run.nodes.items()
        }
        self._tasks: TaskBatch[Batch] | None = None
        self._taken: Sequence[SubmittedTask[FoldReceipt]] = ()
        """The last batch's tasks, until the next ones are submitted: Dask's client says at most one thing in 10 ms, and
        that a task must not run again is said behind what follows it, in one message."""
        self._publication: Publication | None = None
        self._ended: list[EndedSpans] = []
        """What is published meanwhile, or next; until it is shown, the checkpoint that has it stays."""
        self._ended_within = False
        """Whether some of it has ended within a batch."""
        self._next: Batch | None = None
        """A batch that must wait for that."""
        self._room = StateRoom({}, ahead=False, spans=1)
        """Whether there is room to fold more than one batch meanwhile, and for how many spans in one."""
        self.cursor = self.folding.cursor
        """Every step up to this one is in the stored checkpoints."""
        self._plans: WeakKeyDictionary[FoldPlan, SubmittedTask[FoldPlan]] = WeakKeyDictionary()
        self._receipts: list[FoldReceipt] = []
        self._ready = self.submit_ready(get_ready)
        self._looked_s = -LOOK_S

    def _lacking(self) -> list[str]:
        """Find what the store lacks of what was asked for, in words: nothing is left out silently."""
        given_up, seldom = self.folding.patterns.given_up, self.folding.seldom
        told = given_up.keys() | self.folding.common.attendance.never
        unstored = [name for key, name in self.publishing.unstored() if key not in told]
        removed = self.publishing.lost(self.folding.gappy)
        return [
            *(f"{key}: {why}" for key, why in given_up.items()),
            *seldom,
            *(f"the results lack {name}, which was asked for" for name in unstored),
            *(f"{name}: {LOST}" for name in removed),
        ]

    @property
    def idle(self) -> bool:
        """Whether no task runs."""
        return self._tasks is None and self._next is None and self._publication is None

    def open(self, start: StreamStart) -> None:
        """Find the fields in the grid of a step."""
        arrays, attributes, clock, results = start.arrays, start.attributes, start.clock, start.results
        write_referenced(arrays, attributes, results)
        placed, told = place_diagnostics(self.run.config.diagnostics, arrays, attributes)
        self.folding.place(placed, hold_fields(self.run.config.diagnostics, placed, arrays, attributes, clock))
        for name, diagnostic in self.run.config.diagnostics.items():
            if diagnostic.space is not None and name not in placed:
                self.folding.patterns.give_up(name, NO_POINTS)
        for name, placement in placed.items():
            write_field_coordinates(name, placement, attributes, results)
        self._learn(arrays.late | arrays.blocks, attributes, clock)
        self._fields.open(arrays, told, results, {} if self._saved is None else self._saved.places)
        self._files.remove_stale()
        if self._saved is not None:  # what no step has had so far may be published as well
            saved = {name: own.field for name, own in self._saved.fields.items()}
            self.publishing.know({name: field for name, field in saved.items() if name not in self.publishing.fields})

    def begin(self, seen: Seen) -> None:
        """Submit the next batch, if there is one and none runs.

        While what has ended is published, further batches are folded, but no checkpoint is stored: an analysis that
        takes over then publishes it again, from the states that the last one names, and folds the batches again. So
        what has ended is neither lost nor shown twice. A batch with which something ends waits for that. What ends
        within a batch is published after it, with what has ended before it.
        """
        if self._tasks is not None or not self._knows_fixed(seen.attributes):
            return
        attributes, clock = seen.attributes, seen.clock
        self._next = self._next or self._next_batch(clock)
        if self._next is None:
            return
        batch, is_pending = self._next, self._publication is not None
        ended = self.folding.closing(batch.spans[0].keys) if batch.spans else ()
        ended = [closing for closing in ended if not self.folding.was_published(closing)]
        moved = self.folding.moved(batch)
        behind = self.folding.behind(batch.spans[0].keys) if batch.spans else ()
        if is_pending and (ended or moved or behind or not self._room.ahead):
            return
        self._next = None
        if behind:
            self._settle(behind, attributes, clock)
        if moved:
            self.publish(ended)
            self._settle(moved, attributes, clock)
        elif ended:
            self._publish_rows()
            self._ended = [EndedSpans(ended, self.folding.kept)]
        for pattern in batch.patterns:
            self._know(self._fields.told_by(pattern.layouts, attributes, self.folding.patterns.placements, clock))
        if self._ranks is not None and batch.steps[-1:] == (batch.through,):
            # Only after a step that counts: times and steps to come are counted on from it.
            self._ranks.look(self.folding, batch, self._site(attributes), seen, self._fields.coordinates.arrays)
        self._begin_folding(batch, attributes)
        if self._ended and not is_pending and len(batch.spans) == 1:
            self._publication = self.publishing.begin(self._ended)

    def _knows_fixed(self, attributes: StreamAttributes) -> bool:
        """Whether it is known which fields are fixed; then what the states take is compared with the room."""
        first = self._fields.first
        if first is None:
            return True
        fixed = self._fields.find_fixed(self.folding.cursor)
        if fixed is None:
            return False
        self.folding.patterns.hold(fixed)
        # Where an analysis takes over, the states are there already, and what is free is what is left beside them.
        if first.placed and not len(self.folding.states):
            self._room = check_room(first, self.run.config, self.folding.patterns.placements, attributes, fixed)
            self.run.log.add("states", bytes=self._room.bytes)
        return True

    def _next_batch(self, clock: Clock) -> Batch | None:
        if not self._is_time(self.folding.cursor, self.run.config.workers.batch_steps):
            return None
        change = self._fields.change
        most_spans = self._room.spans if self._publication is None else 1
        before = math.inf if change is None else change.step
        batch = self.folding.next_batch(self.run.view, clock, before, most_spans)
        if batch is None and change is not None and self.run.view.frontier >= change.step:
            raise ConfigError(f"{change}: let the program define it before the first step that has the variable ends")
        if batch is None and self.folding.cutter.is_held_back:
            self._check_room_for_two()
        if batch is None and self._publication is None:
            self._pass_discarded()
        return batch

    def _check_room_for_two(self) -> None:
        """Refuse to wait for the step that tells another's length where none can land before that one goes.

        Raises
        ------
        CapacityError
            If its ranks wait for room, and no other step is held.
        """
        if time.monotonic() < self._looked_s + LOOK_S:
            return
        self._looked_s = time.monotonic()
        for name, status in zip(self.run.nodes, self.run.consumers.statuses(), strict=False):
            if status.waiting and status.held <= 1:
                raise CapacityError(
                    f"weights: time needs each step's next one, which tells its length, but BB node {name} has room "
                    "for one step only: give it more capacity, or let the program write the bounds of its time"
                )

    def _begin_folding(self, batch: Batch, attributes: StreamAttributes) -> None:
        site, holds = self._site(attributes), bool(self._ended) or len(batch.spans) > 1
        self._begin(batch, lambda: self._lane_works(batch, site, holds=holds))

    def _site(self, attributes: StreamAttributes) -> FoldSite:
        encodings = {name: attributes.encoding(name) for name in self._fields.folded}
        return FoldSite(self._directories, self.run.cluster.threads, encodings)

    def _begin(self, batch: Batch, works: Callable[[], Sequence[Work]]) -> None:
        """Submit tasks; again, with users' code kept away from the workers, if they have killed some."""

        def guarded() -> Sequence[Work]:
            self.folding.isolate()
            return works()

        self._tasks = TaskBatch(self.run.cluster, batch, fold_lane, works(), self.run.wake, guarded, again=self._again)
        let_go(self._taken)
        self._taken = ()

    def _again(self, work: Work) -> Work:
        (lane_work, *plans), host = work
        return (self.folding.again(lane_work), *plans), host

    def _lane_works(self, batch: Batch, site: FoldSite, *, holds: bool) -> list[Work]:
        works = self.folding.works(batch, site, holds=holds)
        hosted = [(work, plans, self.run.nodes[node].host) for (node, _), (work, plans) in works.items()]
        self._files.make(((work, plans[0], host) for work, plans, host in hosted), 1 if self._room.ahead else 0)
        self._keep_plans([plan for _, plans, _ in hosted for plan in plans])
        return [((work, *(self._plans[plan] for plan in plans)), host) for work, plans, host in hosted]

    def _series_works(self, batch: Batch, receipts: Sequence[FoldReceipt], site: FoldSite) -> list[Work]:
        work, plans = self.folding.series_work(batch, receipts, site, holds=self._publication is not None)
        return [((work, *plans), self.run.nodes[plans[0].node].host)]

    def _keep_plans(self, plans: Sequence[FoldPlan]) -> None:
        """Keep plans with the workers of their hosts, as long as anything may be folded by them."""
        new = [plan for plan in plans if plan not in self._plans]
        works = [((plan,), self.run.nodes[plan.node].host) for plan in new]
        self._plans.update(zip(new, self.run.cluster.submit_all(keep_plan, works, lambda: None), strict=True))

    def _guarded(self, act: Callable[[Kept], T]) -> T:
        """Do something with what is kept; again, with users' code kept away from the workers, if one is killed."""
        try:
            return act(self.folding.kept)
        except WorkerKilledError:  # perhaps by a user's code
            self.folding.isolate()
            return act(self.folding.kept)

    def _learn(self, blocks: Mapping[str, Block | BlockForm], attributes: StreamAttributes, clock: Clock) -> None:
        self._know(self._fields.described(blocks, attributes, self.folding.patterns.placements, clock))

    def _know(self, fields: Mapping[str, ResultField]) -> None:
        if self._saved is not None:
            for name, field in fields.items():
                check_field(self._saved, name, field, "this run")
        self.publishing.know(fields)

    def take(self, seen: Seen) -> None:
        """Commit the batch if its tasks are done."""
        if self._publication is not None and self._publication.is_done:
            self._show()
        receipts: list[FoldReceipt] | None = self._tasks.results() if self._tasks else None
        if self._tasks is None or receipts is None:
            return
        batch = self._tasks.batch
        is_joined = any(receipt.partials for receipt in receipts)
        if is_joined and self.folding.splits(receipts):
            self._begin_folding(batch, seen.attributes)
            return
        self._receipts += receipts
        if is_joined:
            site = self._site(seen.attributes)
            self._begin(batch, lambda: self._series_works(batch, receipts, site))
            return
        started_s = min((receipt.started_s for receipt in self._receipts), default=self._tasks.started_s)
        ended_s = max((receipt.ended_s for receipt in self._receipts), default=time.time())
        size = sum(receipt.bytes for receipt in self._receipts)
        landed = [number for number in self.run.view.steps_after(self.folding.cursor) if number <= batch.through]
        ended = self.folding.take(batch, self._receipts)
        # Those left out, too: a restart may write another mask.
        self._fields.coordinates.look(landed, each=self._ranks is not None and self._ranks.has_told)
        self._taken, self._tasks, self._receipts = self._tasks.tasks, None, []
        if self._ranks is not None:
            self._ranks.take(batch)
        if batch.steps:
            self.log_batch("fold", batch.steps, started_s, ended_s, size)
        if len(batch.spans) > 1 and (ended or self._ended):
            self._ended += ended
            self._ended_within = True
            self._publication = self.publishing.begin(self._ended)
        # A checkpoint past states that are still being published would let them go: `_show` commits then.
        if self._publication is None:
            self._commit_shown()

    def _keep_safe(self) -> None:
        if not self._safe.is_due:
            return
        started_s = time.time()
        count = self._safe.keep(self.folding.states, self.run.view.attributes, self.publishing.submit)
        self.run.log.add("safe", step=self.folding.cursor, files=count, started_s=started_s, ended_s=time.time())

    def publish(self, closings: Sequence[Closing]) -> None:
        """Write windows' spans, and the rows that passed filters."""
        if closings:
            self.folding.fail(self._guarded(lambda kept: self.publishing.publish([EndedSpans(closings, kept)])))
            self._publish_rows()

    def _show(self) -> None:
        """Show the spans that were published beside batches, while one may still be folded."""
        begun, ended = self._publication, self._ended
        assert begun is not None
        self._publication, self._ended = None, []
        self._next = None  # by now it may take more steps
        try:
            errors = self.publishing.finish(begun, self.folding.common.errors)
        except TaskLostError:  # perhaps by a user's code; what the worker had written is lost
            self.folding.isolate()
            ended = [own._replace(kept=replace(own.kept, config=self.folding.config)) for own in ended]
            self._await_batch()  # what is folded meanwhile may have killed it, and would kill it again
            errors = self.publishing.publish(ended)
        self.folding.fail(errors)
        self._commit_shown()

    def _commit_shown(self) -> None:
        """Store the checkpoint, once all that has ended is shown."""
        if self._ended_within and self._tasks is None:  # a task's states name the files of rows that were there
            self._publish_rows()
            self._ended_within = False
        if self.folding.cursor > self.cursor:
            self._commit()
        if self._tasks is None:
            self._keep_safe()

    def _await_batch(self) -> None:
        """Wait for the tasks of the batch that is folded, which are submitted again if they kill their workers."""
        while self._tasks is not None and self._tasks.results() is None:
            time.sleep(AWAIT_S)

    def reduced(self, closing: Closing) -> dict[str, Published]:
        """Return a window's span as it is now."""
        reduced, errors = self._guarded(lambda kept: self.publishing.reduce(closing, kept))
        self.folding.fail(errors)
        return reduced

    def save(self, attributes: StreamAttributes, clock: Clock, *, complete: bool) -> None:
        """Save the states for a run that continues this one; the results don't depend on it."""
        try:
            self.folding.fail(
                self._guarded(
                    lambda kept: self.publishing.save(
                        kept, attributes, clock, complete=complete, places=self._fields.coordinates.places
                    )
                )
            )
        except BbflowError as error:
            self.folding.fail({"state": str(error)})

    def _publish_rows(self) -> None:
        files = self.publishing.publish_rows(self.folding.states.take_rows(), self.folding.number)
        if files:
            # They go once no checkpoint names them any more: an analysis that takes over has its rows from there.
            self._commit()
            for file in files:
                file.unlink(missing_ok=True)

    def _settle_behind(self, seen: Seen) -> None:
        """Hand on what `each` of seldom fields has, as if the stream ended now."""
        if behind := self.folding.behind(None):
            self._settle(behind, seen.attributes, seen.clock)

    def _settle(self, keys: Sequence[str], attributes: StreamAttributes, clock: Clock) -> None:
        """Move diagnostics that need a point's steps in their order to where their blocks, and spans, are now."""
        self._publish_rows()
        saved, errors = self._guarded(lambda kept: self.publishing.settle(keys, kept, attributes, clock))
        self.folding.fail(errors)
        self.folding.settle({key: saved.inherited(key) for key in keys})
        self._commit()
        # Only now: until it was stored, the checkpoint before named the files that this one has replaced.
        needed = {Path(item.path) for item in self.folding.origins.settled.values()}
        for path in (self.run.config.output / SETTLED_DIRECTORY).iterdir():
            if path not in needed and is_ours(self.run.config.output, path):
                path.unlink()

    def live(self, seen: Seen) -> "xr.Dataset":
        """Return the statistics as they are now, in memory; nothing may be begun."""
        from bbflow.transit.driver.live import live_dataset

        self._settle_behind(seen)
        fields = [
            (closing, self.reduced(closing)) for closing in self.folding.common.timeline.open(self.folding.windows)
        ]
        return live_dataset(self.run.config.output / RESULTS, fields, seen.clock)

    def end(self, seen: Seen | None, stopped: str, *, folds: bool) -> StreamEnd:
        """Publish the windows that are open, keep the state, and let the results say how they have ended.

        Parameters
        ----------
        seen
            What is known of the stream; None if it had no step.
        stopped
            Why the simulation was asked to end; empty if it wasn't.
        folds
            Whether further steps would have been folded.
        """
        late = None if seen is None else seen.attributes.with_late({}, self._fields.forms.keys())
        if seen is not None and late is not None:
            self._learn(self._fields.forms, late, seen.clock)
            self.publishing.describe()
            self._settle_behind(seen)
            self.publish(self.folding.closing(None))
            self.publishing.complete_pyramids()
        results = self.publishing.results
        is_empty = folds and results is None and self._saved is None and bool(self.run.config.diagnostics)
        told = self._fields.coordinates.misplaced, self._lacking()
        ending = end_of(self.run, self.folding, stopped, *told, folds=folds, is_empty=is_empty)
        if results is None or seen is None or late is None:
            return ending
        if self.folding.common.timeline.current is not None:
            self.save(seen.attributes, seen.clock, complete=ending.complete)
        results.commit_late(late)
        results.commit(bbflow_status=ending.status, **counted(self.folding, ending, stopped))
        return ending

    def finish(self, seen: Seen) -> StageReport:
        """Report what ranks have folded, and which coordinates have changed."""
        if self._ranks is not None:
            self._ranks.conclude()
        return StageReport(self._fields.coordinates.changes)

    def leave(self, outcome: Outcome) -> None:
        """Store how the stream has ended, and remove partial states and rows: everything is published.

        If this analysis dies before all nodes have forgotten the stream, the next one sees that there is nothing to do.
        """
        # Before anything is removed: the checkpoint that stands until then names these files.
        packed = pack(Checkpoint(outcome=outcome))
        self.run.consumers.commit(FOLD, self.folding.cursor, self.run.nodes, lambda _: packed)
        self._files.remove()
        clear(self.run.config.output, *SCRATCH)
        (self.run.config.output / KEPT_FILE).unlink(missing_ok=True)

    def _pass_discarded(self) -> None:
        if self.run.view.frontier > self.folding.cursor and not self.run.view.steps_after(self.folding.cursor):
            self.folding.leave_out(self.run.view.frontier)
            self._commit()

    def _commit(self) -> None:
        # Nodes with the time values come last: their cursors are then never ahead of another's.
        last = {node for node in self.run.nodes if self._has_time(node)}
        # First: this checkpoint says what is held, and what the one before it names is needless once it is stored.
        self.folding.states.let_go()
        rosters = [states.roster for states in self.folding.states.tables]
        # Rosters are in the output before a checkpoint names them, and go when none does.
        self._rosters.keep(rosters)
        self.run.consumers.late = self.folding.late
        # What is joined of all nodes' blocks can't be made again once one of them has let go of its own.
        first = [node for node in [min(self.run.nodes)] if self.folding.joins_on(node)]
        cursor, checkpoints = self.folding.cursor, self.folding.checkpoints()
        self.run.consumers.commit(FOLD, cursor, self.run.nodes, checkpoints, last, first)
        self.cursor = self.folding.cursor
        self._rosters.drop(roster.digest for roster in rosters)
        self._files.remove_stale()

    def _has_time(self, node: str) -> bool:
        step = self.run.view.step(node, self.folding.cursor)
        return step is not None and told_by({node: step}, self.run.config.time.variable) is not None
