"""The pipeline: one loop that folds, publishes and drains a stream until it ends."""

from collections.abc import Collection
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.configuring.settings import Config
from bbflow.events import EventLog
from bbflow.net.contact import read_contact
from bbflow.operators.own import isolation
from bbflow.store.pool import forget_pools
from bbflow.transit.chain.taking_over import begin, keep_state
from bbflow.transit.clusters.cluster import Cluster
from bbflow.transit.driver.calling_stage import CallStage
from bbflow.transit.driver.drain_stage import DrainStage
from bbflow.transit.driver.finishing import check_writers, forget_stream, outcome_of, write_others
from bbflow.transit.driver.fold_stage import FoldStage
from bbflow.transit.driver.intake import Inbox, Intake
from bbflow.transit.driver.opened_stream import OpenedStream
from bbflow.transit.driver.policy import check_policy
from bbflow.transit.driver.stage import DriverStage, Running, StageReport
from bbflow.transit.outcome import Outcome as Outcome
from bbflow.transit.output.claiming import STATE_FILE
from bbflow.transit.output.copying import Copying
from bbflow.transit.states.files import forget_gone
from bbflow.view.consumers import Consumers, consumers_of, owner_of
from bbflow.view.returning import Returning

if TYPE_CHECKING:  # xarray takes a third of a second, which a run has no time for before its first fold
    import xarray as xr


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
        Names of nodes that are gone for good: it continues without them.
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
        # Dask's workers may have been started in other directories.
        config = config.anywhere()
        self._config, self._folds = config, folds
        check_policy(config.raw)
        check_writers(config)
        nodes = [node for node in read_contact(contact) if node.name not in lost]
        self._inbox = Inbox(config.stream)
        names, owner, back = consumers_of(config), owner_of(config.output), Returning(contact, config.nodes.back_s)
        consumers = Consumers(nodes, config.stream, names, owner, take_over=takes_over, returning=back)
        with ExitStack() as opened:  # what is open stays so only if all of this succeeds
            opened.callback(consumers.close)
            log = opened.enter_context(closing(EventLog(config.output)))
            self._intake = Intake(contact, config, nodes, consumers, self._inbox, log, lost)
            self._run_context = run = Running(
                config, contact.absolute(), {node.name: node for node in nodes}, cluster, consumers,
                consumers.least_capacity(), self._intake.view, log, self._inbox.wake,
            )  # fmt: skip
            self._ended, self._saved = begin(config, consumers, folds=folds)
            self._fold, self._calls = FoldStage(run, self._saved, lost), CallStage(run)
            self._drain: DrainStage | None = None
            if config.raw.wanted:
                self._drain = DrainStage(run, self._calls.asking(config.raw.asked_by), drains=folds)
            self._beside: list[DriverStage] = [] if self._drain is None else [self._drain]
            if config.functions:
                self._beside.append(self._calls)
            self._stages: list[DriverStage] = [self._fold, *self._beside]
            told = self._fold.folding, self._fold.publishing, self._stages
            self._opened = OpenedStream(run, self._intake.adapting, self._saved, *told)
            self._copying = None
            if config.copy_to is not None:
                self._copying = Copying(config.output, config.copy_to, moves=config.moves, settled=self._settled)
            opened.pop_all()

    def _settled(self, axis: str) -> float:
        """Return how many spans, along a window's axis, neither pyramids nor functions need; called by any thread."""
        window = axis.removeprefix("time_")
        return min(self._fold.publishing.settled(window), self._calls.settled(window))

    # What others may call while it runs

    def stop(self) -> None:
        """Make `run` end without publishing; another pipeline can take over. Safe in any thread."""
        self._inbox.stop()
        self._run_context.consumers.wait_no_more()

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
            If the stream isn't opened in time, or another analysis takes over.
        ConfigError
            If the stream lacks what the configuration names.
        NodeError
            If a node is gone.
        """
        if self._ended is not None:
            return self._end(self._ended)
        try:
            self._intake.start()
            with isolation.in_use():
                return self._run()
        finally:
            self._close()

    def _run(self) -> Outcome | None:
        while not self._inbox.stopped:
            if self._opened.open_after(self._cursor, folds=self._folds) and self._folds:
                self._advance()
            if self._is_finished():
                return self._finish()
            self._intake.take(min(1.0, *(stage.wait_s for stage in self._stages)))
        return None

    def _advance(self) -> None:
        seen = self._opened.seen(self._drained)
        self._fold.take(seen)
        # Before anything is begun: what has ended is shown then, and what is open in the states that count.
        if self._fold.idle and self._fold.folding.common.timeline.current is not None:
            self._inbox.answer(lambda: self._fold.live(seen))
        self._fold.begin(seen)
        seen = replace(seen, shown=self._fold.publishing.take_shown())
        # With a start that is configured times follow from steps' numbers in the chain, which the first fold tells.
        knows_its_place = self._config.time.start is None or self._fold.folding.common.offset is not None
        for stage in self._beside:
            stage.take(seen)
            if knows_its_place:
                stage.begin(seen)
        self._intake.forget(self._cursor)

    @property
    def _cursor(self) -> int:
        """Every step up to this one is folded, in the stored checkpoints, and drained."""
        return int(min(stage.cursor for stage in self._stages))

    @property
    def _drained(self) -> float:
        return -1 if self._drain is None else self._drain.cursor

    # The end

    def _is_finished(self) -> bool:
        view = self._intake.view
        if not self._folds:
            return view.is_known
        if view.ended and not self._opened.is_open:  # else the first whole step would have opened it: there is none
            return True
        return view.ended and all(stage.idle for stage in self._stages) and self._cursor >= view.frontier

    def _finish(self) -> Outcome:
        if self._folds:
            self._intake.check_found()
        run, results = self._run_context, self._fold.publishing.results
        known = self._opened.seen(self._drained) if self._opened.is_open else None
        ending = self._fold.end(known, self._calls.stopped, folds=self._folds)
        told: list[StageReport] = []
        if results is not None:
            seen = replace(self._opened.seen(self._drained), shown=self._fold.publishing.take_shown())
            told += [stage.finish(seen) for stage in self._stages]
            uncopied = [] if self._copying is None else self._copying.finish()
            told.append(StageReport(uncopied, not uncopied))
            write_others(results.path, self._config)
        elif self._saved is not None:
            keep_state(self._saved.path, self._config.output / STATE_FILE)
        outcome = outcome_of(run, self._fold.folding, ending, told)
        if self._folds:
            self._fold.leave(outcome)
            # Last: until the nodes forget the stream, another analysis can take over, and finds how this one has ended.
            outcome = forget_stream(run, outcome, run.view.unaware, self._copying)
        return outcome

    def _end(self, outcome: Outcome) -> Outcome:
        """Make the nodes forget a stream whose analysis had come to its end, and then died."""
        outcome = forget_stream(self._run_context, outcome, self._run_context.nodes, self._copying)
        self._close()
        return outcome

    def _close(self) -> None:
        """Close what is open, the rest too if one of it fails."""
        run = self._run_context
        with ExitStack() as closed:
            # What stands last is closed first: watchers and copying end before what they use.
            closed.callback(self._inbox.close)
            closed.callback(forget_gone)
            closed.callback(forget_pools, [node.pool for node in run.nodes.values()])
            closed.callback(run.log.close)
            closed.callback(run.consumers.close)
            if self._copying is not None:
                closed.callback(self._copying.stop)
            closed.callback(self._intake.close)
