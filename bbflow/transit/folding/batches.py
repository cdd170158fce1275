"""Batches: steps that are folded together."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

import cftime  # type: ignore[import-untyped]
import numpy as np

from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError, StreamError
from bbflow.operators.frozen import FrozenMap
from bbflow.operators.statistics.weighting import MONTH, TIME
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.layouts import EXTREMES_BYTES
from bbflow.stream.records import Parts
from bbflow.transit.folding.checkpoints import Checkpoint
from bbflow.transit.folding.dates import StepDates, next_time
from bbflow.transit.folding.landings import next_landing, whole_landings
from bbflow.transit.folding.patterns import LaidStep, Pattern, Patterns, parts_of, weights_of
from bbflow.transit.folding.plans import FoldPlan, PlannedSteps
from bbflow.transit.folding.shards import Place, ShardKey
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.timeline import Passed, Windows, too_coarse, too_late
from bbflow.view.stream import StreamView
from bbflow.view.times import StepTimes


@dataclass(slots=True)
class SpanSteps:
    """Steps of a batch that follow each other and are in one span of every window."""

    keys: Keys
    """Window name to the span that they are in."""
    passed: Passed
    """What has passed by the last of them."""
    steps: list[LaidStep] = field(default_factory=list)
    """Which ones."""

    @property
    def times(self) -> tuple[float, ...]:
        """Their times."""
        return tuple(step.time for step in self.steps)

    @property
    def stretches(self) -> list[tuple[Pattern, list[LaidStep]]]:
        """The steps in their order, those that lie alike and follow each other together."""
        return [(pattern, [*own]) for pattern, own in groupby(self.steps, key=lambda step: step.pattern)]


@dataclass(slots=True)
class Batch:
    """Steps that are folded together: in one span of every window, or in several if all lie alike."""

    through: int
    """Every step up to this one is folded or left out with this batch."""
    passed: Passed
    """What has passed by then."""
    offset: int = 0
    """Steps of the runs before, in a chain of jobs."""
    spans: list[SpanSteps] = field(default_factory=list)
    """The steps by the spans that they are in; none if all that is there is late."""
    torn: list[int] = field(default_factory=list)
    """Steps that are left out since a node lost their time, or a part of them."""
    untimely: list[str] = field(default_factory=list)
    """Why steps are left out whose times can't be used."""
    places: dict[str, frozenset[ShardKey]] = field(default_factory=dict)
    """Where the blocks lie."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of what arrays they are."""

    @property
    def laid(self) -> list[LaidStep]:
        """Its steps."""
        return [step for span in self.spans for step in span.steps]

    @property
    def steps(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(step.number for step in self.laid)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Their numbers as operators see them: counted through a chain of jobs."""
        return tuple(step.number + self.offset for step in self.laid)

    @property
    def patterns(self) -> list[Pattern]:
        """How its steps lie, each once."""
        return list(dict.fromkeys(step.pattern for step in self.laid))

    def fits(self, keys: Keys, pattern: Pattern, most_spans: int = 1) -> bool:
        """Whether a step can be folded together with those that are there, which may be in some spans at most."""
        if not self.spans:
            return True
        last = self.spans[-1]
        begins = last.keys != keys
        if begins or len(self.spans) > 1:
            is_alike = all(pattern is step.pattern for step in last.steps)
            return is_alike and len(self.spans) + begins <= most_spans
        return pattern is last.steps[-1].pattern or (
            all(self.places.get(key, own) == own for key, own in pattern.places.items())
            and all(self.shapes.get(key, own) == own for key, own in pattern.shapes.items())
        )

    def add(self, number: int, passed: Passed, keys: Keys, pattern: Pattern, parts: Parts, **weights: float) -> None:
        """Take a step that fits, after which some time has passed."""
        assert passed.last is not None
        if not self.spans or pattern is not self.spans[-1].steps[-1].pattern:
            self.places.update(pattern.places)
            self.shapes.update(pattern.shapes)
        if not self.spans or self.spans[-1].keys != keys:
            self.spans.append(SpanSteps(keys, passed))
        self.spans[-1].steps.append(LaidStep(number, passed.last, pattern, parts, weights))
        self.leave_out(number, passed)

    def leave_out(self, number: int, passed: Passed) -> None:
        """Pass a step without taking it, after which some time has passed."""
        self.passed, self.through = passed, number
        if self.spans:
            self.spans[-1].passed = passed


class Cutter:
    """Cuts what has landed into batches.

    Parameters
    ----------
    config
        The run's configuration.
    windows
        Those that steps are in.
    patterns
        How steps lie.
    """

    def __init__(self, config: Config, windows: Windows, patterns: Patterns) -> None:
        self._config, self._windows, self._patterns = config, windows.all, patterns
        self._weighed = {item.weights for item in config.diagnostics.values()}
        self._dates = StepDates()
        self.is_held_back = False
        """Whether a step waits for the next one, which tells its length."""

    def next_batch(
        self,
        view: StreamView,
        clock: Clock,
        cursor: int,
        common: Checkpoint,
        takes_spans: Callable[[Pattern], bool],
        before: float = math.inf,
        most_spans: int = 1,
    ) -> Batch | None:
        """Return the next steps to fold, of those before some number, or None if none is complete.

        They are in so many spans at most, and in one only if they don't lie alike.

        Parameters
        ----------
        view, clock
            The stream, and its calendar.
        cursor
            Every step up to this one is folded.
        common
            What holds by that one.
        takes_spans
            Whether a task may fold several spans of steps that lie so.
        before, most_spans
            See above.

        Raises
        ------
        StreamError
            If a step isn't later than the one before, or has no date, and the configuration makes that an error.
        ConfigError
            If a variable has blocks without a place in a global array, blocks overlap, or those of an expression's
            variables don't cover the same regions.
        """
        batch, self.is_held_back = Batch(cursor, common.timeline.numbers), False
        numbers, torn = whole_landings(view, cursor, self._config.workers.batch_steps, before)
        landing, times = None, StepTimes(self._config.time, clock)
        for at, number in enumerate(numbers):
            parts, in_chain = parts_of(view, number), common.in_chain(number)
            if number in torn or (common.losses and times.find(in_chain, parts) is None):
                landing = next_landing(landing, number, parts, None)
                batch.leave_out(number, batch.passed._replace(late=batch.passed.late + 1))
                batch.torn.append(number)
                continue
            ahead = self._times(islice(numbers, at + 1, None), in_chain - number, view, times)
            time, spacing, date, error = self._dated(number, in_chain, parts, batch.passed, times, clock, ahead)
            if date is None or batch.passed.is_late(time, spacing):
                landing = next_landing(landing, number, parts, None)
                batch.leave_out(number, batch.passed.without(time, spacing))
                batch.untimely += self._refused(number, time, batch.passed, common, is_date=date is not None)
                continue
            common = common.begun(number)
            keys = FrozenMap((window.name, window.key(date, in_chain)) for window in self._windows)
            landing, begins = next_landing(landing, number, parts, keys), landing is None
            pattern = self._patterns.of(number, parts, whole=not common.losses or view.is_whole(number))
            has_folded = any(part.layout.has_folded for part in parts.values())
            if most_spans > 1 and (has_folded or (not batch.spans and not takes_spans(pattern))):
                most_spans = 1
            # What blocks are joined into has all of a batch or nothing, as the mean of its steps is all that there is:
            # such a batch has the steps that landed together, and no others.
            is_alone = has_folded and bool(self._patterns.placements)
            if not batch.fits(keys, pattern, most_spans) or (is_alone and begins and batch.spans):
                break
            passed = batch.passed.after(time, error, self._config.time.interval)
            weights = self._weights(number, in_chain, passed, date, view, times, clock)
            if weights is None:
                self.is_held_back = True
                break
            batch.add(number, passed, keys, pattern, parts, **weights)
            if is_alone and landing is None:
                break
        batch.offset = common.offset or 0
        return batch if batch.through > cursor else None

    def _dated(
        self,
        number: int,
        in_chain: int,
        parts: Parts,
        passed: Passed,
        times: StepTimes,
        clock: Clock,
        ahead: Iterator[float | None],
    ) -> tuple[float, float, cftime.datetime | None, float]:
        """Return a step's time, how far apart such are, its date if there is one, and by how much the time is off."""
        time = times.of(in_chain, parts)
        date, spacing = self._dates.of(time, clock, ahead), times.spacing(time, parts)
        if date is None:
            return time, spacing, None, 0.0
        error_s = passed.error_s(time, spacing, clock.unit_s)
        time, date = clock.settled(time, date, error_s, passed.first)
        if passed.is_too_coarse(time, spacing):
            raise ConfigError(too_coarse(number, time, spacing, passed, clock))
        return time, spacing, date, error_s / clock.unit_s if clock.unit_s else 0.0

    def _refused(self, number: int, time: float, passed: Passed, common: Checkpoint, *, is_date: bool) -> list[str]:
        """Return why a step is left out; nothing if a run that continues another one writes its last steps again."""
        if self._config.time.late == "error":
            raise StreamError(too_late(number, time, is_date=is_date))
        if is_date and common.offset is None:
            return []
        return [f"step {number}, whose time {time:g} {f'follows {passed.last:g}' if is_date else 'is not a date'}"]

    def _weights(
        self,
        number: int,
        in_chain: int,
        passed: Passed,
        date: cftime.datetime,
        view: StreamView,
        times: StepTimes,
        clock: Clock,
    ) -> dict[str, float] | None:
        """Return how much a step counts, by what diagnostics weigh it; None if only the next step will tell.

        A step is as long as its bounds say, else until the next one, the stream's last as long as the one before it.
        """
        found = {MONTH: float(date.daysinmonth)} if MONTH in self._weighed else {}
        if TIME not in self._weighed:
            return found
        bounds = times.bounds(in_chain, parts_of(view, number))
        if bounds is not None:
            length: float | None = bounds[1] - bounds[0]
        else:
            later = view.steps_after(number)
            told = ((next(self._times([at], in_chain - number, view, times), None), parts_of(view, at)) for at in later)
            after = next_time(told, passed, times, clock)
            if after is None and not view.ended:
                return None
            assert passed.last is not None
            length = after - passed.last if after is not None else passed.length or self._config.time.interval
        if length is None or not 0 <= length < math.inf:
            raise ConfigError(
                f"weights: time: step {number} has {'no length' if length is None else f'the length {length:g}'}: let "
                "the program write the bounds of its time, ascending, or set time: interval"
            )
        return found | {TIME: length}

    @staticmethod
    def _times(numbers: Iterable[int], offset: int, view: StreamView, times: StepTimes) -> Iterator[float | None]:
        """Yield the times of steps, None for those without one; nothing for one that can't be read."""
        for number in numbers:
            with suppress(ConfigError):  # it will be said when the step's turn comes
                yield times.find(number + offset, parts_of(view, number))


def planned_steps(plan: FoldPlan, steps: Sequence[LaidStep], offset: int) -> PlannedSteps:
    """Return what a plan's tasks must know of some steps, whose numbers are counted on from an offset."""
    own = [step.parts[plan.node] for step in steps]
    return PlannedSteps(
        tuple(step.number + offset for step in steps),
        tuple(step.time for step in steps),
        tuple(part.sources for part in own),
        tuple(part.files for part in own),
        tuple(_values(plan, step.parts) for step in steps),
        tuple(_rows_of(part.extremes, plan.filtered) for part in own),
        weights_of(steps),
    )


def _values(plan: FoldPlan, parts: Parts) -> dict[Place, Any]:
    steps = {place: parts[place[0]] for place in plan.singles}
    return {place: step.values[step.layout.singles.index(place[1])] for place, step in steps.items()}


def _rows_of(extremes: bytes, positions: tuple[int, ...]) -> bytes:
    if not positions or not extremes:
        return b""
    rows = np.frombuffer(extremes, np.uint8).reshape(-1, EXTREMES_BYTES)
    return rows[list(positions)].tobytes()
