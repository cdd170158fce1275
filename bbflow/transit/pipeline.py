"""The pipeline: one loop that folds, publishes and drains a stream until it ends."""

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.configuring.settings import Config
from bbflow.errors import BbflowError, StreamError
from bbflow.events import EventLog
from bbflow.net.contact import read_contact
from bbflow.operators.own import isolation
from bbflow.store.pool import forget_pools
from bbflow.transit.chain.taking_over import begin, keep_state
from bbflow.transit.clusters.cluster import Cluster
from bbflow.transit.driver.calling_stage import CallStage
from bbflow.transit.driver.drain_stage import DrainStage
from bbflow.transit.driver.finishing import finish_results, forget_stream, outcome_of, write_others
from bbflow.transit.driver.fold_stage import FIELDS_DIRECTORY, FoldStage
from bbflow.transit.driver.inbox import Inbox
from bbflow.transit.driver.opened_stream import OpenedStream
from bbflow.transit.driver.opening import asks_for_extremes, read_as
from bbflow.transit.driver.policy import check_policy
from bbflow.transit.driver.run_context import Running
from bbflow.transit.driver.safe import read_safe_copy
from bbflow.transit.driver.stage import DriverStage, StageReport
from bbflow.transit.folding.checkpoints import Checkpoint
from bbflow.transit.folding.patterns import parts_of
from bbflow.transit.folding.states import forget_gone
from bbflow.transit.folding.written import pack
from bbflow.transit.outcome import Outcome as Outcome
from bbflow.transit.output.claiming import STATE_FILE
from bbflow.transit.output.copying import RESULTS, Copying
from bbflow.view.adapting import Adapting
from bbflow.view.blocks import BlockReader
from bbflow.view.consumers import FOLD, Consumers, consumers_of, owner_of
from bbflow.view.forsaken import LOST_PATIENCE_S, PATIENCE_S, Forsaken
from bbflow.view.stream import StreamView
from bbflow.view.watch import Watcher

if TYPE_CHECKING:  # xarray takes a third of a second, which a run has no time for before its first fold
    import xarray as xr

REST_S = 0.02
"""A node isn't asked for further steps sooner than this after it has told of some (seconds)."""


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
        self._nodes = {node.name: node for node in nodes}
        self._config = config
        self._inbox = Inbox(config.stream)
        owner = owner_of(config.output)
        self._consumers = Consumers(nodes, config.stream, consumers_of(config), owner, take_over=takes_over)
        done = self._consumers.done_before()
        safe = read_safe_copy(config.output)
        before = safe.attributes if lost and safe.states else None
        self._view = StreamView(list(self._nodes), done, whole=not lost, before=before)
        landed = self._consumers.landed_before()
        self._adapting = Adapting(
            list(self._nodes),
            landed,
            read_as(config),
            BlockReader(contact, config.stream).read,
            self._consumers.numbering,
            whole=not lost,
            folder=config.output / FIELDS_DIRECTORY,
        )
        self._forsaken = Forsaken(self._view, self._consumers, LOST_PATIENCE_S if lost else PATIENCE_S)
        self._landed, self._forgotten = max(done.values()), -1
        self._log = EventLog(config.output)
        capacity = self._consumers.least_capacity()
        self._run_context = run = Running(
            config,
            contact.absolute(),
            self._nodes,
            cluster,
            self._consumers,
            capacity,
            self._view,
            self._log,
            self._inbox.wake,
        )
        try:
            self._ended, self._saved = begin(config, self._consumers, folds=folds)
        except BbflowError:
            self._log.close()
            self._consumers.close()
            raise
        self._fold, self._calls = FoldStage(run, self._saved, lost), CallStage(run)
        self._drain = DrainStage(run, self._calls.asking(config.raw.asked_by)) if config.raw.wanted else None
        self._opened = OpenedStream(run, self._adapting, self._saved, self._fold, self._drain, self._calls)
        self._beside: list[DriverStage] = [*([] if self._drain is None else [self._drain]), self._calls]
        self._copying = None
        if config.copy_to is not None:
            self._copying = Copying(config.output, config.copy_to, moves=config.moves, settled=self._settled)
        extremes = asks_for_extremes(config)
        self._watchers = [
            Watcher(node, config.stream, landed[node.name], self._inbox.queue, extremes=extremes, rest_s=REST_S)
            for node in nodes
        ]

    def _settled(self, axis: str) -> float:
        """Return how many spans, along a window's axis, neither pyramids nor functions need; called by any thread."""
        window = axis.removeprefix("time_")
        return min(self._fold.publishing.settled(window), self._calls.settled(window))

    # What others may call while it runs

    def stop(self) -> None:
        """Make `run` end without publishing; another pipeline can carry on. Safe in any thread."""
        self._inbox.stop()

    def live(self, timeout_s: float = 60.0) -> "xr.Dataset":
        """Return the statistics as they are now, open spans included. Safe in any thread.

        Raises
        ------
        StreamError
            If nothing was folded within `timeout_s`.
        """
        return self._inbox.live(timeout_s)

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
        while not self._inbox.stopped:
            if self._opened.open_after(self._cursor, folds=self._folds) and self._folds:
                self._advance()
            if self._is_finished():
                return self._finish()
            if told := self._inbox.take(min(1.0, *(stage.wait_s for stage in self._stages))):
                self._take(told)
            self._forsaken.look()
            if self._view.status == "expected" and time.monotonic() > deadline_s:
                raise StreamError(
                    f"nobody opened stream {self._config.stream!r} within {self._config.open_timeout_s:.0f} "
                    "s: check the engine's XML (Stream, else the IO's name) and BBFLOW_CONTACT"
                )
        return None

    def _advance(self) -> None:
        seen = self._opened.seen()
        self._fold.take(seen)
        self._fold.begin(seen)
        seen = self._opened.seen(self._fold.publishing.take_shown(), self._drained)
        knows_its_place = self._config.time.start is None or self._fold.folding.knows_its_place
        for stage in self._beside:
            stage.take(seen)
            if knows_its_place:
                stage.begin(seen)
        if self._cursor > self._forgotten:
            self._forgotten = self._cursor
            self._view.forget(self._forgotten)
            self._consumers.numbering.let_go(self._forgotten)
        if self._fold.folding.timeline.begun:
            self._inbox.answer(self._live_dataset)

    @property
    def _stages(self) -> list[DriverStage]:
        return [self._fold, *self._beside]

    @property
    def _cursor(self) -> int:
        """Every step up to this one is folded, in the stored checkpoints, and drained."""
        return int(min(stage.cursor for stage in self._stages))

    @property
    def _drained(self) -> float:
        return -1 if self._drain is None else self._drain.cursor

    def _take(self, told: Sequence[tuple[str, Any]]) -> None:
        """Take in what nodes have told."""
        for source, news in told:
            for node, own in self._adapting.take(source, news):
                self._view.update(node, own)
        self._log_landed()

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

    def _live_dataset(self) -> "xr.Dataset":
        from bbflow.transit.driver.live import live_dataset

        fields = [(closing, self._fold.reduced(closing)) for closing in self._fold.folding.timeline.open()]
        return live_dataset(self._config.output / RESULTS, fields, self._opened.clock)

    # The end

    def _is_finished(self) -> bool:
        if not self._folds:
            return self._view.is_known
        idle = all(stage.idle for stage in self._stages)
        return self._view.ended and idle and self._cursor >= self._view.frontier

    def _finish(self) -> Outcome:
        if self._folds and (landed := self._adapting.without_frames):
            raise StreamError(
                f"none of the {landed} steps of stream {self._config.stream!r} that landed has a variable of its "
                "schema's, so there is nothing to fold: set schema: none to take the stream as it is"
            )
        run, results = self._run_context, self._fold.publishing.results
        known = self._opened.seen() if self._opened.is_open else None
        goes_on, stopped = self._saved is not None, self._calls.stopped
        ending = finish_results(run, self._fold, known, stopped, folds=self._folds, goes_on=goes_on)
        told: list[StageReport] = []
        if results is not None:
            seen = self._opened.seen(self._fold.publishing.take_shown(), self._drained)
            told += [stage.finish(seen) for stage in self._stages]
            uncopied = [] if self._copying is None else self._copying.finish()
            told.append(StageReport(uncopied, not uncopied))
            write_others(results.path, self._config)
        elif self._saved is not None:
            keep_state(self._saved.path, self._config.output / STATE_FILE)
        outcome = outcome_of(run, self._fold, ending, told)
        if self._folds:
            # If it dies before all nodes have forgotten the stream, the next one sees that there is nothing left to do.
            cursor = self._fold.folding.cursor
            self._consumers.commit(FOLD, cursor, self._nodes, lambda _: pack(Checkpoint(outcome=outcome)))
            self._fold.remove_states()
            outcome = forget_stream(run, outcome, self._view.unaware, self._copying)
        return outcome

    def _end(self, outcome: Outcome) -> Outcome:
        """Tell the nodes to forget a stream whose analysis had come to its end, and then died."""
        outcome = forget_stream(self._run_context, outcome, self._nodes, self._copying)
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
        self._inbox.close()
