"""Batches: steps that are folded together."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, NamedTuple

import cftime  # type: ignore[import-untyped]
import numpy as np

from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError, StreamError
from bbflow.operators.frozen import FrozenMap
from bbflow.operators.statistics.weighting import MONTH, TIME
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.layouts import EXTREMES_BYTES
from bbflow.stream.records import Parts
from bbflow.transit.folding.patterns import LaidStep, Pattern, Patterns, parts_of, weights_of
from bbflow.transit.folding.plans import FoldPlan, PlannedSteps
from bbflow.transit.spans.lengths import check_joint, next_time
from bbflow.transit.spans.slots import Keys
from bbflow.transit.spans.timeline import Passed, Windows, too_coarse, too_late
from bbflow.transit.states.checkpoints import Checkpoint
from bbflow.transit.states.shards import Place, ShardKey
from bbflow.view.stream import StreamView
from bbflow.view.times import StepDates, StepTimes

Landing = tuple[int, Keys | None]
"""Next step of an unfinished landing, and the spans of all its steps, None if these are left out."""


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

    def add(self, step: LaidStep, passed: Passed, keys: Keys) -> None:
        """Take a step that fits, after which some time has passed."""
        if not self.spans or step.pattern is not self.spans[-1].steps[-1].pattern:
            self.places.update(step.pattern.places)
            self.shapes.update(step.pattern.shapes)
        if not self.spans or self.spans[-1].keys != keys:
            self.spans.append(SpanSteps(keys, passed))
        self.spans[-1].steps.append(step)
        self.leave_out(step.number, passed)

    def leave_out(self, number: int, passed: Passed) -> None:
        """Pass a step without taking it, after which some time has passed."""
        self.passed, self.through = passed, number
        if self.spans:
            self.spans[-1].passed = passed


class StepTime(NamedTuple):
    """When a step is."""

    time: float
    """In the stream's units."""
    spacing: float
    """How far apart such times are."""
    date: cftime.datetime | None
    """None if its time stands for none."""
    error: float
    """By how much the time is off, in the stream's units."""


class CountedStep(NamedTuple):
    """A step that counts, and for which a batch is looked for."""

    laid: LaidStep
    """The step, as it is in a batch; its weights aren't known yet."""
    in_chain: int
    """Its number, counted through a chain of jobs."""
    when: StepTime
    """Its time."""
    keys: Keys
    """The spans that it is in."""
    begins: bool
    """Whether it hasn't landed together with the one before."""
    ends: bool
    """Whether it hasn't with the next one."""


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
            If a variable has blocks without a place in a global array, blocks overlap, those of an expression's
            variables don't cover the same regions, or the run before took its last step for one of another length.
        """
        batch, self.is_held_back = Batch(cursor, common.timeline.numbers, common.offset or 0), False
        times = StepTimes(self._config.time, clock)
        for step in self._counted(batch, view, times, clock, common, before):
            laid, has_folded = step.laid, any(part.layout.has_folded for part in step.laid.parts.values())
            if most_spans > 1 and (has_folded or (not batch.spans and not takes_spans(laid.pattern))):
                most_spans = 1
            # What blocks are joined into has all of a batch or nothing, as the mean of its steps is all that there is:
            # such a batch has the steps that landed together, and no others.
            is_alone = has_folded and bool(self._patterns.placements)
            if not batch.fits(step.keys, laid.pattern, most_spans) or (is_alone and step.begins and batch.spans):
                break
            passed = batch.passed.after(laid.time, step.when.error, self._config.time.interval)
            weights = self._weights(step, passed, view, times, clock)
            if weights is None:
                self.is_held_back = True
                break
            joins = common.offset is None and not batch.spans
            if joins and TIME in weights and times.bounds(step.in_chain, laid.parts) is None:
                check_joint(batch.passed, passed)
            batch.add(laid._replace(weights=weights), passed, step.keys)
            if is_alone and step.ends:
                break
        return batch if batch.through > cursor else None

    def _counted(
        self, batch: Batch, view: StreamView, times: StepTimes, clock: Clock, common: Checkpoint, before: float
    ) -> Iterator[CountedStep]:
        """Yield the steps after a batch that count; it is past the others before the next one is yielded."""
        landing: Landing | None = None
        numbers, torn = whole_landings(view, batch.through, self._config.workers.batch_steps, before)
        for at, number in enumerate(numbers):
            parts, in_chain = parts_of(view, number), common.in_chain(number)
            when = None
            if number not in torn and not (common.losses and times.find(in_chain, parts) is None):
                ahead = self._times(islice(numbers, at + 1, None), in_chain - number, view, times)
                when = self._when(number, in_chain, parts, batch.passed, times, clock, ahead)
            if when is None or when.date is None or batch.passed.is_late(when.time, when.spacing):
                landing = next_landing(landing, number, parts, None)
                self._leave_out(batch, number, when, common)
                continue
            common = common.begun(number)
            batch.offset = common.offset or 0
            keys = FrozenMap((window.name, window.key(when.date, in_chain)) for window in self._windows)
            landing, begins = next_landing(landing, number, parts, keys), landing is None
            pattern = self._patterns.of(number, parts, whole=not common.losses or view.is_whole(number))
            laid = LaidStep(number, when.time, pattern, parts, {})
            yield CountedStep(laid, in_chain, when, keys, begins, landing is None)

    def _when(
        self,
        number: int,
        in_chain: int,
        parts: Parts,
        passed: Passed,
        times: StepTimes,
        clock: Clock,
        ahead: Iterator[float | None],
    ) -> StepTime:
        time = times.of(in_chain, parts)
        date, spacing = self._dates.of(time, clock, ahead), times.spacing(time, parts)
        if date is None:
            return StepTime(time, spacing, None, 0.0)
        error_s = passed.error_s(time, spacing, clock.unit_s)
        time, date = clock.settled(time, date, error_s, passed.first)
        if passed.is_too_coarse(time, spacing):
            raise ConfigError(too_coarse(number, time, spacing, passed, clock))
        return StepTime(time, spacing, date, error_s / clock.unit_s if clock.unit_s else 0.0)

    def _leave_out(self, batch: Batch, number: int, when: StepTime | None, common: Checkpoint) -> None:
        """Move a batch past a step that is torn, or whose time can't be used.

        Nothing is said of one that a run that continues another one writes again.
        """
        if when is None:
            batch.leave_out(number, batch.passed._replace(late=batch.passed.late + 1))
            batch.torn.append(number)
            return
        batch.leave_out(number, batch.passed.without(when.time, when.spacing))
        is_date = when.date is not None
        if self._config.time.late == "error":
            raise StreamError(too_late(number, when.time, is_date=is_date))
        if not is_date or common.offset is not None:
            why = f"follows {batch.passed.last:g}" if is_date else "is not a date"
            batch.untimely.append(f"step {number}, whose time {when.time:g} {why}")

    def _weights(
        self, step: CountedStep, passed: Passed, view: StreamView, times: StepTimes, clock: Clock
    ) -> dict[str, float] | None:
        """Return how much a step counts, by what diagnostics weigh it; None if only the next step will tell.

        A step is as long as its bounds say, else until the next one, the stream's last as long as the one before it.
        """
        number, date = step.laid.number, step.when.date
        assert date is not None
        found = {MONTH: float(date.daysinmonth)} if MONTH in self._weighed else {}
        if TIME not in self._weighed:
            return found
        bounds = times.bounds(step.in_chain, step.laid.parts)
        if bounds is not None:
            length: float | None = bounds[1] - bounds[0]
        else:
            offset, later = step.in_chain - number, view.steps_after(number)
            told = ((next(self._times([at], offset, view, times), None), parts_of(view, at)) for at in later)
            after = next_time(told, passed, times, clock)
            if after is None and not view.ended:
                return None
            assert passed.last is not None
            length = after - passed.last if after is not None else passed.length or self._config.time.interval
        if length is None or not 0 <= length < math.inf:
            raise ConfigError(
                f"weights: time: step {number} has {'no length' if length is None else f'the length {length:g}'}: "
                "let the program write the bounds of its time, ascending, or set time: interval"
            )
        return found | {TIME: length}

    @staticmethod
    def _times(numbers: Iterable[int], offset: int, view: StreamView, times: StepTimes) -> Iterator[float | None]:
        """Yield the times of steps, None for those without one; nothing for one that can't be read."""
        for number in numbers:
            with suppress(ConfigError):  # it will be said when the step's turn comes
                yield times.find(number + offset, parts_of(view, number))


def whole_landings(view: StreamView, cursor: int, most: int, before: float) -> tuple[list[int], list[int]]:
    """Return what `StreamView.settled_after` does of steps before one, with those that landed with the last of them.

    Raises
    ------
    StreamError
        If the step that has their state was discarded.
    """
    numbers, torn = view.settled_after(cursor, most)
    while len(numbers) == most and view.continues(numbers[-1]):
        most += len(numbers)
        numbers, torn = view.settled_after(cursor, most)
    if numbers and view.continues(numbers[-1]):
        raise StreamError(_parted(numbers[-1] + 1))
    numbers = [number for number in numbers if number < before]
    while numbers and view.continues(numbers[-1]):
        numbers.pop()
    return numbers, torn


def next_landing(landing: Landing | None, number: int, parts: Parts, keys: Keys | None) -> Landing | None:
    """Return the landing that continues after a step, if one does: what ranks have folded together can't be parted.

    Parameters
    ----------
    landing
        The one that continues before it.
    number, parts
        The step, and its parts.
    keys
        The spans that it is in; None if it is left out.

    Raises
    ------
    StreamError
        If those before it, which ranks have folded with it, are in others, or one of them was discarded.
    """
    if landing is not None and landing != (number, keys):
        raise StreamError(_parted(number))
    return (number + 1, keys) if any(part.layout.continues for part in parts.values()) else None


def _parted(number: int) -> str:
    return (
        f"step {number} is in another span of time than the steps before it, left out for its time, or one was "
        "discarded, but its ranks have folded all of them into one state: start the program again with ranks that all "
        "Put the time, or with fold: on: node"
    )


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
