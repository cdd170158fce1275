"""A stream from its first step on: its calendar, what its attributes mean, and the stores that are opened with it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from bbflow.drain.coordinates import write_coordinates
from bbflow.errors import StreamError
from bbflow.host.atomic import write_whole
from bbflow.host.log import tell
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Parts
from bbflow.transit.chain.comparing import check_clock, going_on
from bbflow.transit.chain.saved import SavedState
from bbflow.transit.driver.first_step import (
    FirstStep,
    StreamArrays,
    check_result_chunks,
    check_variables,
    make_clock,
    own_names,
)
from bbflow.transit.driver.publishing import Publishing
from bbflow.transit.driver.stage import DriverStage, Running, Seen, StreamStart
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.folding.patterns import parts_of
from bbflow.transit.output.claiming import FIELDS_DIRECTORY
from bbflow.transit.output.results import Results
from bbflow.transit.states.written import Written, pack, unpack
from bbflow.view.adapting import Adapting
from bbflow.view.times import StepTimes, told_by

CLOCK_FILE = "clock"
"""Beside the fields that were read: units and calendar, for an analysis that sees no step any more."""

OF_EARLIER_JOB = {
    "bbflow_status": "running",
    "bbflow_failure": "",
    "bbflow_left_out": None,
    "bbflow_stopped": None,
}
"""What a store that a later job continues no longer says."""


class ClockRecord(Written, frozen=True, kw_only=True):
    """What `CLOCK_FILE` holds."""

    clock: Clock
    """The stream's calendar."""
    spans: dict[str, int]
    """Array of the results to how many spans of it were there before the run."""


class OpenedStream:
    """What the first step that an analysis sees has told of its stream.

    Parameters
    ----------
    run
        What holds for all stages.
    adapting
        Knows the maps of points.
    saved
        The state of the run that this one continues.
    folding, publishing
        What is folded, and its store.
    stages
        All that are opened with the stream, in this order.
    """

    def __init__(
        self,
        run: Running,
        adapting: Adapting,
        saved: SavedState | None,
        folding: Folding,
        publishing: Publishing,
        stages: Sequence[DriverStage],
    ) -> None:
        self._run, self._adapting, self._saved = run, adapting, saved
        self._folding, self._publishing, self._stages = folding, publishing, stages
        self._clock: Clock | None = None
        self._reserved: frozenset[str] = frozenset()
        self._sizes: Mapping[str, int] = {}
        self._variables: Collection[str] = ()
        self._time_of: Callable[[int, Parts], float | None] = lambda number, parts: None

    @property
    def is_open(self) -> bool:
        """Whether the stores are there."""
        return self._clock is not None

    @property
    def _attributes(self) -> StreamAttributes:
        """The stream's, as far as they are known."""
        told = self._run.view.attributes
        return StreamAttributes(told, self._reserved, self._sizes, self._variables, self._adapting.maps)

    def seen(self, drained: float) -> Seen:
        """Return what stages are told of the stream, which must be open, and of how far it is drained."""
        assert self._clock is not None
        return Seen(self._attributes, self._clock, self._time_of, drained=drained, is_plain=self._adapting.is_plain)

    def open_after(self, cursor: int, *, folds: bool) -> bool:
        """Open the stores when the first step is there; False before that.

        Parameters
        ----------
        cursor
            Every step up to this one is done with.
        folds
            Whether further steps are folded.

        Raises
        ------
        StreamError
            If what the stream's attributes say is lost.
        ConfigError
            If the stream lacks what the configuration names.
        """
        if self.is_open:
            return True
        view, folding = self._run.view, self._folding
        ready = view.steps_after(cursor)
        is_over = view.ended or (view.is_known and not folds)
        if not ready and not (is_over and folding.common.timeline.current is not None and folding.cursor >= 0):
            return False
        if not view.is_told:
            if not is_over:
                return False
            raise StreamError(
                "rank 0, which alone tells attributes, landed on a BB node that is gone for good, and no safe copy has "
                "them: without units and packing what others landed can't be read"
            )
        self._open(ready[0] if ready else None, new=cursor < 0)
        return True

    def _open(self, number: int | None, *, new: bool) -> None:
        """Find the fields in the grid of a step, and open all stores.

        Parameters
        ----------
        number
            The step; None if none comes any more, and all is known from before.
        new
            Whether no step was done with before.
        """
        run, config = self._run, self._run.config
        blocks = [] if number is None else run.view.blocks(number)
        parts = {} if number is None else parts_of(run.view, number)
        if new:
            for why in check_variables(config, (block.name for _, block in blocks)).values():
                tell(f"{why}: the others continue")
        known = self._known(parts)
        clock = self._make_clock(parts, known)
        self._reserved = own_names(config, clock)
        landed_in = next((part.landed_in for part in parts.values()), -1)
        first = FirstStep(landed_in, blocks, run.contact, config.stream, run.nodes, run.cluster)
        arrays = StreamArrays(config.output / FIELDS_DIRECTORY, first)
        self._variables = frozenset(arrays.blocks)
        attributes = self._attributes.agreeing(arrays.shapes)
        self._sizes = attributes.sizes
        if self._saved is not None:
            check_clock(self._saved, clock, "this run")
        told, before = (attributes, clock), self._before(known)
        results = self._publishing.open(config.output / "results.zarr", *told, before, self._folding.gappy)
        self._keep(clock, results)
        write_coordinates(first, [results], attributes)
        start = StreamStart(arrays, attributes, clock, results)
        for stage in self._stages:
            stage.open(start)
        fields = self._publishing.fields.values()
        check_result_chunks(config.results, {field.name: field.dims for field in fields})
        # Coordinates are only in steps that may be done with before the first window ends.
        results.commit(**{} if self._saved is None else OF_EARLIER_JOB)
        times = StepTimes(config.time, clock)
        self._time_of = lambda number, parts: times.find(self._folding.common.in_chain(number), parts)
        self._clock = clock

    @property
    def _record(self) -> Path:
        return self._run.config.output / FIELDS_DIRECTORY / CLOCK_FILE

    def _known(self, parts: Parts) -> ClockRecord | None:
        """Return what an analysis of this run before this one has noted; None for the first one."""
        is_restarted = self._folding.cursor >= 0  # by now the units may be those of a further file
        if (is_restarted or not parts) and self._record.exists():
            return unpack(self._record.read_bytes(), ClockRecord, str(self._record))
        return None

    def _make_clock(self, parts: Parts, known: ClockRecord | None) -> Clock:
        """Return the calendar as the first step tells it; without any step, as the first one has told it."""
        if known is not None:
            return known.clock
        config = self._run.config
        clock = make_clock(config, self._attributes, told_by(parts, config.time.variable))
        if self._saved is not None and config.time.start is None and config.time.interval is None:
            clock = going_on(self._saved, clock)
        return clock

    def _before(self, known: ClockRecord | None) -> Mapping[str, int] | None:
        """Return which spans were there before the run; None if this is its first analysis."""
        if self._folding.cursor < 0:
            return None
        return {} if known is None else known.spans

    def _keep(self, clock: Clock, results: Results) -> None:
        """Note what an analysis that takes over must know."""
        self._record.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._record, pack(ClockRecord(clock=clock, spans=dict(results.before))))
