"""The pipeline: one loop that folds, publishes and drains a stream until it ends."""

import math
import queue
import sys
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.configuring.settings import Config
from bbflow.drain.coordinates import write_coordinates
from bbflow.errors import BbflowError, StreamError
from bbflow.events import EventLog
from bbflow.host.atomic import write_whole
from bbflow.landing.absent import absent_ranks
from bbflow.net.contact import read_contact
from bbflow.operators.own import isolation
from bbflow.operators.statistics.weighting import TIME
from bbflow.operators.windows.calendars import Clock
from bbflow.store.pool import forget_pools
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.chain.comparing import check_clock, going_on
from bbflow.transit.chain.taking_over import keep_state, take_over
from bbflow.transit.clusters.cluster import Cluster
from bbflow.transit.driver.calling_stage import CallStage
from bbflow.transit.driver.drain_stage import DrainStage
from bbflow.transit.driver.fold_stage import FIELDS_DIRECTORY, FoldStage
from bbflow.transit.driver.opening import (
    FirstStep,
    check_chunks,
    check_result_chunks,
    check_variables,
    make_clock,
    own_names,
)
from bbflow.transit.driver.policy import check_policy
from bbflow.transit.driver.run_context import Running
from bbflow.transit.driver.safe import read_safe_copy
from bbflow.transit.folding.checkpoints import Checkpoint, ended_before, nodes_with_states, read_checkpoints
from bbflow.transit.folding.patterns import Parts, parts_of
from bbflow.transit.folding.states import forget_gone
from bbflow.transit.folding.written import Written, pack, unpack
from bbflow.transit.outcome import Outcome as Outcome
from bbflow.transit.output.claiming import STATE_FILE
from bbflow.transit.output.copying import Copying
from bbflow.view.adapting import Adapting, StreamConfig
from bbflow.view.blocks import BlockReader
from bbflow.view.consumers import FOLD, Consumers, consumers_of, owner_of
from bbflow.view.forsaken import Forsaken
from bbflow.view.stream import StreamView
from bbflow.view.times import StepTimes, told_by
from bbflow.view.watch import Watcher

if TYPE_CHECKING:  # xarray takes a third of a second, which a run has no time for before its first fold
    import xarray as xr

REST_S = 0.02
"""A node isn't asked for further steps sooner than this after it has told of some (seconds)."""
NOT_CLOSED = "the simulation ended without closing the stream"
CLOCK_FILE = "clock"
"""Beside the fields that were read: units and calendar, for an analysis that sees no step any more."""
LiveAnswer = queue.SimpleQueue["xr.Dataset | None"]


class ClockRecord(Written, frozen=True, kw_only=True):
    """What `CLOCK_FILE` holds."""

    clock: Clock
    """The stream's calendar."""


class Pipeline:
    """Folds and drains one stream.

    Parameters
    ----------
    contact
        The contact file.
    config
        The run's configuration.
    cluster
        Where tasks run.
    takes_over
        Whether the stream may be another analysis' until now.
    lost
        Names of nodes that are gone for good: it goes on without them.
    folds
        Whether further steps are folded; otherwise what is folded already is published, and the stream is left alone.

    Raises
    ------
    ConfigError
        If the drain's delay policy isn't known, or NetCDF is wanted without netCDF4.
    NodeError
        If there is no contact file, or a node doesn't answer.
    StreamError
        If the stream is another analysis'.
    """

    def __init__(
        self,
        contact: Path,
        config: Config,
        cluster: Cluster,
        *,
        takes_over: bool = False,
        folds: bool = True,
        lost: Collection[str] = (),
    ) -> None:
        config = config.anywhere()
        self._folds = folds
        check_policy(config.raw)
        if config.netcdf or config.publication is not None:
            from bbflow.transit.output.netcdf import check_netcdf

            check_netcdf()
        nodes = [node for node in read_contact(contact) if node.name not in lost]
        self._contact = contact.absolute()
        self._nodes = {node.name: node for node in nodes}
        self._config = config
        self._cluster = cluster
        self._news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._asked: list[LiveAnswer] = []
        self._stopped = False
        self._clock: Clock | None = None
        self._reserved: frozenset[str] = frozenset()
        self._sizes: Mapping[str, int] = {}
        self._variables: Collection[str] = ()
        owner = owner_of(config.output)
        self._consumers = Consumers(nodes, config.stream, consumers_of(config), owner, take_over=takes_over)
        done = self._consumers.done_before()
        self._view = StreamView(list(self._nodes), done, whole=not lost)
        if lost:
            self._view.attributes.update(read_safe_copy(config.output).attributes)
        reader = BlockReader(contact, config.stream)
        named = {name for item in config.diagnostics.values() for name in item.variables}
        condition = config.raw.when.variables if config.raw.when else ()
        called = {name for function in config.functions for name in function.variables}
        names = frozenset({*named, config.time.variable, *(config.raw.variables or ()), *condition, *called})
        read_as = StreamConfig(
            config.time,
            config.schema,
            is_dated=bool(config.dated_windows),
            names=names,
            needs_bounds=any(item.weights == TIME for item in config.diagnostics.values()),
        )
        landed = self._consumers.landed_before()
        self._adapting = Adapting(
            list(self._nodes),
            landed,
            read_as,
            reader.read,
            self._consumers.numbering,
            whole=not lost,
            folder=config.output / FIELDS_DIRECTORY,
        )
        self._forsaken = Forsaken(self._view, self._consumers)
        self._landed, self._forgotten = max(done.values()), -1
        self._log = EventLog(config.output)
        capacity = self._consumers.least_capacity()
        running = Running(
            config, self._contact, self._nodes, cluster, self._consumers, capacity, self._view, self._log, self._wake
        )
        try:
            checkpoints = read_checkpoints(self._consumers.of(FOLD))
            self._ended = ended_before(checkpoints)
            if self._ended is not None:
                self._consumers.forget_checkpoints()
            if folds and self._ended is None:
                self._check_nodes_are_whole(nodes_with_states(checkpoints))
            self._saved = take_over(config, self._consumers.of(FOLD))
        except BbflowError:
            self._log.close()
            self._consumers.close()
            raise
        self._fold = FoldStage(running, self._saved, lost)
        self._drain = DrainStage(running) if config.raw.wanted else None
        self._calls = CallStage(running)
        self._copying = None
        if config.copy_to is not None:
            self._copying = Copying(config.output, config.copy_to, moves=config.moves, settled=self._settled)
        self._fold.publishing.on_show = self._calls.note_shown
        if self._drain is not None and (asking := config.raw.asked_by) is not None:
            self._drain.asked_through = partial(self._calls.asked_through, asking)
            self._drain.has_asked = partial(self._calls.has_asked, asking)
            draining = self._drain.draining
            self._calls.drained = lambda: draining.cursor
        judges = any(function.when for function in config.functions)
        items = config.diagnostics.values()
        looks = any(item.filters or (item.space is not None and item.space.of_columns) for item in items)
        extremes = config.raw.wanted or judges or looks
        self._watchers = [
            Watcher(node, config.stream, landed[node.name], self._news, extremes=extremes, rest_s=REST_S)
            for node in nodes
        ]

    def _settled(self, axis: str) -> float:
        """Return how many spans, along a window's axis, neither pyramids nor functions need; called by any thread."""
        window = axis.removeprefix("time_")
        return min(self._fold.publishing.settled(window), self._calls.settled(window))

    def _check_nodes_are_whole(self, with_states: Collection[str]) -> None:
        if emptied := sorted({*with_states} & {*self._consumers.new}):
            raise StreamError(
                f"BB node {' and '.join(emptied)} came back without what it held of stream {self._config.stream!r}: "
                "its directory was removed, or its host was started again"
            )

    # What others may call while it runs

    def stop(self) -> None:
        """Make `run` end without publishing; another pipeline can carry on. Safe in any thread."""
        self._news.put(("stop", None))

    def live(self, timeout_s: float = 60.0) -> "xr.Dataset":
        """Return the statistics as they are now, open spans included. Safe in any thread.

        Raises
        ------
        StreamError
            If nothing was folded within `timeout_s`.
        """
        answer: LiveAnswer = queue.SimpleQueue()
        self._news.put(("live", answer))
        try:
            dataset = answer.get(timeout=timeout_s)
        except queue.Empty:
            dataset = None
        if dataset is None:
            raise StreamError(f"nothing of stream {self._config.stream!r} is being folded: try again later")
        return dataset

    def _wake(self) -> None:
        self._news.put(("task", None))

    # The loop

    def run(self) -> Outcome | None:
        """Fold, publish and drain until the stream ends.

        Returns
        -------
        Outcome or None
            None if it was stopped before the end.

        Raises
        ------
        StreamError
            If nobody opens the stream in time, or another analysis takes over.
        ConfigError
            If the stream lacks what the configuration names.
        NodeError
            If a node is gone.
        """
        deadline_s = time.monotonic() + self._config.open_timeout_s
        if self._ended is not None:
            return self._end(self._ended)
        for watcher in self._watchers:
            watcher.start()
        with isolation.in_use():
            try:
                return self._run(deadline_s)
            finally:
                self._close()

    def _run(self, deadline_s: float) -> Outcome | None:
        while not self._stopped:
            if self._is_open() and self._folds:
                self._advance()
            if self._is_finished():
                return self._finish()
            self._take_news()
            self._forsaken.look()
            if self._view.status == "expected" and time.monotonic() > deadline_s:
                raise StreamError(
                    f"nobody opened stream {self._config.stream!r} within {self._config.open_timeout_s:.0f} "
                    "s: check the engine's XML (Stream, else the IO's name) and BBFLOW_CONTACT"
                )
        return None

    def _advance(self) -> None:
        assert self._clock is not None
        self._fold.take(self._attributes)
        self._fold.begin(self._attributes, self._clock)
        if self._drain is not None:
            self._drain.take()
            if self._config.time.start is None or self._fold.folding.knows_its_place:
                self._drain.begin()
        self._calls.take()
        if self._config.time.start is None or self._fold.folding.knows_its_place:
            self._calls.begin(self._attributes)
        if self._cursor > self._forgotten:
            self._forgotten = self._cursor
            self._view.forget(self._forgotten)
            self._consumers.numbering.let_go(self._forgotten)
        if self._asked and self._fold.folding.timeline.begun:
            dataset = self._live_dataset(self._clock)
            for answer in self._asked:
                answer.put(dataset)
            self._asked = []

    @property
    def _cursor(self) -> int:
        """Every step up to this one is folded, in the stored checkpoints, and drained."""
        folded = int(min(self._fold.committed, self._calls.cursor))
        return folded if self._drain is None else min(folded, self._drain.draining.cursor)

    def _take_news(self) -> None:
        try:
            source, news = self._news.get(timeout=self._wait_s)
        except queue.Empty:
            return
        if source == "stop":
            self._stopped = True
        elif source == "live":
            self._asked.append(news)
        elif isinstance(news, BbflowError):
            raise news
        elif source != "task":
            for node, own in self._adapting.take(source, news):
                self._view.update(node, own)
            self._log_landed()

    @property
    def _wait_s(self) -> float:
        """How long to wait for news at most."""
        return min(1.0, self._fold.wait_s, math.inf if self._drain is None else self._drain.wait_s)

    def _log_landed(self) -> None:
        numbers = self._view.steps_after(self._landed)
        landed = ((number, parts_of(self._view, number).values()) for number in numbers)
        self._log.add_all(
            {
                "event": "landed",
                "step": number,
                "began_s": min(part.began_s for part in parts),
                "committed_s": max(part.committed_s for part in parts),
                "bytes": sum(part.bytes for part in parts),
            }
            for number, parts in landed
            if parts
        )
        self._landed = max(numbers, default=self._landed)

    @property
    def _attributes(self) -> StreamAttributes:
        return StreamAttributes(
            self._view.attributes, self._reserved, self._sizes, self._variables, self._adapting.maps
        )

    def _is_open(self) -> bool:
        """Open the stores when the first step is there; False before that."""
        if self._clock is not None:
            return True
        folding = self._fold.folding
        ready = self._view.steps_after(self._cursor)
        is_over = self._view.ended or (self._view.is_known and not self._folds)
        if not ready and not (is_over and folding.timeline.begun and folding.cursor >= 0):
            return False
        blocks = self._view.blocks(ready[0]) if ready else []
        if self._cursor < 0:
            for why in check_variables(self._config, (block.name for _, block in blocks)).values():
                print(f"bbflow: {why}: the others go on", file=sys.stderr, flush=True)
        self._clock = self._make_clock(parts_of(self._view, ready[0]) if ready else {})
        self._reserved = own_names(self._config, self._clock)
        number = next((part.landed_in for part in parts_of(self._view, ready[0]).values()), -1) if ready else -1
        first = FirstStep(number, blocks, self._contact, self._config.stream, self._nodes, self._cluster)
        arrays = self._fold.arrays(first)
        self._variables = frozenset(arrays.blocks)
        attributes = self._attributes.agreeing(arrays.shapes)
        self._sizes = attributes.sizes
        if self._drain is not None:
            check_chunks(self._config.raw, arrays.shapes, attributes)
        if self._saved is not None:
            check_clock(self._saved, self._clock, "this run")
        results = self._fold.publishing.open(self._config.output / "results.zarr", attributes, self._clock)
        stores: list[Any] = [results]
        if self._drain is not None:
            time = None if self._clock.by_steps else self._clock.attributes
            stores.append(self._drain.draining.open(self._config.output / "raw.zarr", attributes, time))
        write_coordinates(first, stores, attributes)
        self._fold.open(arrays, attributes, self._clock, results)
        fields = self._fold.publishing.fields.values()
        check_result_chunks(self._config.results, {field.name: field.dims for field in fields})
        self._calls.open(attributes, self._clock, results)
        # Coordinates are only in steps that may be done with before the first window ends.
        results.commit(**{} if self._saved is None else {"bbflow_status": "running", "bbflow_failure": ""})
        return True

    def _make_clock(self, parts: Parts) -> Clock:
        """Return the calendar as the first step tells it; without any step, as the first one has told it."""
        file = self._config.output / FIELDS_DIRECTORY / CLOCK_FILE
        is_restarted = self._fold.folding.cursor >= 0  # by now the units may be those of a further file
        if (is_restarted or not parts) and file.exists():
            clock = unpack(file.read_bytes(), ClockRecord, str(file)).clock
            if not parts:
                return clock
        else:
            clock = make_clock(self._config, self._attributes, told_by(parts, self._config.time.variable))
            if self._saved is not None and self._config.time.start is None and self._config.time.interval is None:
                clock = going_on(self._saved, clock)
        if parts:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, pack(ClockRecord(clock=clock)))
        times, in_chain = StepTimes(self._config.time, clock), self._fold.folding.in_chain
        self._calls.time_of = lambda number, parts: times.find(in_chain(number), parts)
        if self._drain is not None:
            self._drain.time_of = self._calls.time_of
        return clock

    def _live_dataset(self, clock: Clock) -> "xr.Dataset":
        from bbflow.transit.driver.live import live_dataset

        fields = [(closing, self._fold.reduced(closing)) for closing in self._fold.folding.timeline.open()]
        return live_dataset(self._config.output / "results.zarr", fields, clock)

    # The end

    def _is_finished(self) -> bool:
        if not self._folds:
            return self._view.is_known
        idle = self._fold.idle and self._calls.idle and (self._drain is None or self._drain.idle)
        return self._view.ended and idle and self._cursor >= self._view.frontier

    def _publish_rest(self) -> StreamAttributes:
        """Publish the windows that are open; return the stream's attributes as they are known by now."""
        attributes = self._attributes.with_late({}, self._fold.variables)
        if self._fold.publishing.results is not None:
            assert self._clock is not None
            self._fold.learn_late(attributes, self._clock)
            self._fold.publish(self._fold.folding.timeline.closing(None))
        return attributes

    def _finish(self) -> Outcome:
        if self._folds and (landed := self._adapting.without_frames):
            raise StreamError(
                f"none of the {landed} steps of stream {self._config.stream!r} that landed has a variable of its "
                "schema's, so there is nothing to fold: set schema: none to take the stream as it is"
            )
        folding, publishing = self._fold.folding, self._fold.publishing
        timeline, uncopied = folding.timeline, list[str]()
        # A simulation that was asked to end has no further steps, also if it didn't close its stream.
        ended = self._view.status == "closed" or (self._view.status == "aborted" and bool(self._calls.stopped))
        attributes = self._publish_rest()
        failures = [*self._view.refused, *([] if ended else [NOT_CLOSED]), *self._fold.misplaced]
        lacking = self._fold.lacking
        complete = self._folds and not (folding.losses or failures or lacking) and folding.has_all
        status = "complete" if complete else "incomplete"
        discarded = len(self._view.discarded)
        if publishing.results is not None:
            assert self._clock is not None
            if timeline.begun:
                self._fold.save(self._attributes, self._clock, complete=complete)
            counted: dict[str, Any] = {"bbflow_late_steps": timeline.late, "bbflow_missing_steps": timeline.missing}
            if folding.losses:
                counted["bbflow_lost"] = folding.losses.described
            if failures:
                counted["bbflow_failure"] = "; ".join(failures)
            if left_out := [*folding.left_out, *lacking]:
                counted["bbflow_left_out"] = left_out
            if self._calls.stopped:
                counted["bbflow_stopped"] = self._calls.stopped
            counted["bbflow_last_step"] = folding.cursor
            publishing.results.commit_late(attributes)
            publishing.results.commit(bbflow_status=status, **counted)
            if self._drain is not None:
                self._drain.draining.commit_late(self._view.attributes)
            publishing.complete_pyramids()
            self._calls.finish()
            uncopied = self._copying.finish() if self._copying is not None else []
            if self._config.netcdf:
                from bbflow.transit.output.netcdf import write_netcdf

                write_netcdf(publishing.results.path)
            if self._config.publication is not None:
                from bbflow.transit.output.published import write_published

                write_published(publishing.results.path, self._config.publication)
        elif self._saved is not None:
            keep_state(self._saved.path, self._config.output / STATE_FILE)
        steps = folding.cursor + 1 - discarded - folding.late
        stands = self._consumers.statuses()
        waited_s = max(part.waited_s for part in stands)
        self._log.add("end", status=status, waited_s=waited_s, discarded=discarded, steps=steps, ended_s=time.time())
        absent = absent_ranks(self._config.stream, stands) if self._view.status == "aborted" else None
        absence = [str(absent)] if absent and absent.is_over else []
        unkept = self._drain.draining.lacking if self._drain is not None else []
        of_raw = [f"raw.zarr hasn't all: {text}" for text in unkept] + (
            self._drain.draining.changes if self._drain else []
        )
        told = (
            folding.errors.values(),
            folding.losses.described,
            folding.left_out,
            folding.uneven,
            lacking,
            self._fold.changes,
            self._calls.errors,
            uncopied,
            self._view.refused,
            absence,
            of_raw,
        )
        errors = tuple(dict.fromkeys(line for lines in told for line in lines))
        complete = complete and not (unkept or self._calls.errors or uncopied)
        outcome = Outcome(complete, steps, discarded, folding.late, folding.missing, errors)
        if self._folds:
            # If it dies before all nodes have forgotten the stream, the next one sees that there is nothing left to do.
            self._consumers.commit(FOLD, folding.cursor, self._nodes, lambda _: pack(Checkpoint(outcome=outcome)))
            self._fold.remove_states()
            self._consumers.drop(self._view.unaware)
        return outcome

    def _end(self, outcome: Outcome) -> Outcome:
        """Let the nodes forget a stream whose analysis had come to its end, and then died."""
        self._consumers.drop(self._nodes)
        self._close()
        return outcome

    def _close(self) -> None:
        for watcher in self._watchers:
            watcher.stop()
        if self._copying is not None:
            self._copying.stop()
        self._consumers.close()
        self._log.close()
        forget_pools(node.pool for node in self._nodes.values())
        forget_gone()
        while not self._news.empty():
            source, news = self._news.get()
            if source == "live":
                self._asked.append(news)
        for answer in self._asked:
            answer.put(None)
