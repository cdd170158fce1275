"""Batches: steps that are folded together."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, NamedTuple

import cftime  # type: ignore[import-untyped]

from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError, StreamError
from bbflow.operators.frozen import FrozenMap
from bbflow.operators.statistics.weighting import MONTH, TIME
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.records import Parts
from bbflow.transit.folding.dates import StepDates, next_time
from bbflow.transit.folding.inherited import ChainPlace
from bbflow.transit.folding.landings import Landings, whole_landings
from bbflow.transit.folding.losses import Losses
from bbflow.transit.folding.patterns import Pattern, Patterns, Places, Shapes, parts_of
from bbflow.transit.folding.shards import ShardKey
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.timeline import Passed, Timeline, too_coarse, too_late
from bbflow.view.stream import StreamView
from bbflow.view.times import StepTimes

NOTHING = Passed()
Weights = Mapping[str, tuple[float, ...]]
"""How much each step counts, by what diagnostics weigh them."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that lie alike and follow each other."""

    numbers: tuple[int, ...]
    """Their numbers, counted through a chain of jobs."""
    times: tuple[float, ...]
    """Their times."""
    parts: tuple[Parts, ...]
    """For each step what there is of it on each node."""
    weights: Weights
    """How much each step counts."""


class SpanSteps(NamedTuple):
    """Steps of a batch that follow each other and are in one span of every window."""

    at: slice
    """Their positions in the batch."""
    keys: Keys
    """Window name to the span that they are in."""
    passed: Passed
    """What has passed by the last of them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps that are folded together: in one span of every window, or in several if all lie alike."""

    steps: tuple[int, ...]
    """Their numbers; none if all that is there is late."""
    times: tuple[float, ...]
    """Their times."""
    spans: tuple[SpanSteps, ...]
    """Which of them are in which spans; none if there are no steps."""
    through: int
    """Every step up to this one is folded or left out with this batch."""
    passed: Passed = NOTHING
    """What has passed by then."""
    offset: int = 0
    """Steps of the runs before, in a chain of jobs."""
    laid: tuple[tuple[Pattern, Parts], ...] = ()
    """For each step how it lies, and what there is of it on each node."""
    places: Places = field(default_factory=dict)
    """Where the blocks lie."""
    shapes: Shapes = field(default_factory=dict)
    """Of what arrays they are."""
    torn: tuple[int, ...] = ()
    """Steps that are left out since a node lost their time, or a part of them."""
    untimely: tuple[str, ...] = ()
    """Why steps are left out whose times can't be used."""
    weights: Weights = field(default_factory=dict)
    """How much each step counts."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The steps' numbers as operators see them: counted through a chain of jobs."""
        return tuple(number + self.offset for number in self.steps)

    @classmethod
    def of_span(
        cls, steps: tuple[int, ...], times: tuple[float, ...], keys: Keys, through: int, **more: Any
    ) -> "Batch":
        """Return a batch of steps that are all in one span of every window."""
        span = SpanSteps(slice(0, len(steps)), keys, more.get("passed", NOTHING))
        return cls(steps, times, (span,), through, **more)

    def stretches(self, span: SpanSteps) -> "list[tuple[Pattern, Stretch]]":
        """Return a span's steps in their order, those that lie alike and follow each other together."""
        positions = range(len(self.times))[span.at]
        steps = zip(self.laid[span.at], self.numbers[span.at], self.times[span.at], positions, strict=True)
        found = []
        for pattern, own in groupby(steps, key=lambda step: step[0][0]):
            laid, numbers, times, at = zip(*own, strict=True)
            weights = {name: tuple(every[number] for number in at) for name, every in self.weights.items()}
            found.append((pattern, Stretch(numbers, times, tuple(parts for _, parts in laid), weights)))
        return found

    @property
    def patterns(self) -> list[Pattern]:
        """How its steps lie, each once."""
        return list(dict.fromkeys(pattern for pattern, _ in self.laid))


@dataclass(slots=True)
class OpenBatch:
    """A batch that still takes steps."""

    through: int
    """Every step up to this one is in it, or left out."""
    passed: Passed
    """What has passed by then."""
    torn: list[int] = field(default_factory=list)
    """Those of them that a node lost, or a part of them."""
    untimely: list[str] = field(default_factory=list)
    """Why others of them are, whose times can't be used."""
    steps: list[int] = field(default_factory=list)
    """Numbers of those that are in it."""
    times: list[float] = field(default_factory=list)
    """Their times."""
    weights: dict[str, list[float]] = field(default_factory=dict)
    """How much each counts."""
    laid: list[tuple[Pattern, Parts]] = field(default_factory=list)
    """How each lies, and what there is of it on each node."""
    spans: list[SpanSteps] = field(default_factory=list)
    """Which of them are in which spans."""
    places: dict[str, frozenset[ShardKey]] = field(default_factory=dict)
    """Where the blocks lie."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of what arrays they are."""

    def fits(self, keys: Keys, pattern: Pattern, most_spans: int = 1) -> bool:
        """Whether a step can be folded together with those that are there, which may be in some spans at most."""
        if not self.steps:
            return True
        begins = self.spans[-1].keys != keys
        if begins or len(self.spans) > 1:
            is_alike = all(pattern is own for own, _ in (self.laid if len(self.spans) == 1 else self.laid[-1:]))
            return is_alike and len(self.spans) + begins <= most_spans
        return pattern is self.laid[-1][0] or (
            all(self.places.get(key, own) == own for key, own in pattern.places.items())
            and all(self.shapes.get(key, own) == own for key, own in pattern.shapes.items())
        )

    def add(self, number: int, passed: Passed, keys: Keys, pattern: Pattern, parts: Parts, **weights: float) -> None:
        """Take a step that fits, by which some time has passed."""
        assert passed.last is not None
        if not self.laid or pattern is not self.laid[-1][0]:
            self.places.update(pattern.places)
            self.shapes.update(pattern.shapes)
        self.steps.append(number)
        self.times.append(passed.last)
        for name, weight in weights.items():
            self.weights.setdefault(name, []).append(weight)
        self.laid.append((pattern, parts))
        first = self.spans.pop().at.start if self.spans and self.spans[-1].keys == keys else len(self.steps) - 1
        self.spans.append(SpanSteps(slice(first, len(self.steps)), keys, passed))
        self.through, self.passed = number, passed

    def leave_out(self, number: int, passed: Passed) -> None:
        """Be past a step that is late, or torn."""
        self.passed, self.through = passed, number

    def batch(self, offset: int) -> Batch:
        """Return what was gathered."""
        steps, times, laid, torn = tuple(self.steps), tuple(self.times), tuple(self.laid), tuple(self.torn)
        untimely = tuple(self.untimely)
        places, shapes = self.places, self.shapes
        spans = (*self.spans[:-1], *(own._replace(passed=self.passed) for own in self.spans[-1:]))
        weights = {name: tuple(own) for name, own in self.weights.items()}
        return Batch(
            steps, times, spans, self.through, self.passed, offset, laid, places, shapes, torn, untimely, weights
        )


class Cutter:
    """Cuts what has landed into batches.

    Parameters
    ----------
    config
        The run's configuration.
    timeline
        The spans of time that are alive.
    chain
        Which step of a chain of jobs each step is.
    losses
        What nodes that are gone have cost.
    patterns
        How steps lie.
    """

    def __init__(
        self, config: Config, timeline: Timeline, chain: ChainPlace, losses: Losses, patterns: Patterns
    ) -> None:
        self._config, self._timeline, self._chain = config, timeline, chain
        self._losses, self._patterns = losses, patterns
        self._weighed = {item.weights for item in config.diagnostics.values()}
        self._dates = StepDates()
        self.is_held_back = False
        """Whether a step waits for the next one, which tells its length."""

    def next_batch(
        self,
        view: StreamView,
        clock: Clock,
        cursor: int,
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
        found, self.is_held_back = OpenBatch(cursor, self._timeline.passed), False
        numbers, torn = whole_landings(view, cursor, self._config.workers.batch_steps, before)
        landings = Landings()
        windows, times = self._timeline.windows, StepTimes(self._config.time, clock)
        for at, number in enumerate(numbers):
            parts = parts_of(view, number)
            if number in torn or (self._losses and times.find(self._chain.of(number), parts) is None):
                landings.take(number, parts, None)
                found.leave_out(number, found.passed._replace(late=found.passed.late + 1))
                found.torn.append(number)
                continue
            time = times.of(self._chain.of(number), parts)
            date = self._dates.of(time, clock, self._times(islice(numbers, at + 1, None), view, times))
            spacing = times.spacing(time, parts)
            if date is not None:
                error_s = found.passed.error_s(time, spacing, clock.unit_s)
                time, date = clock.settled(time, date, error_s, found.passed.first)
                if found.passed.is_too_coarse(time, spacing):
                    raise ConfigError(too_coarse(number, time, spacing, found.passed, clock))
            if date is None or found.passed.is_late(time, spacing):
                landings.take(number, parts, None)
                found.leave_out(number, found.passed.without(time, spacing))
                found.untimely += self._refused(number, time, found, is_date=date is not None)
                continue
            self._chain.begin(number)
            keys = FrozenMap((window.name, window.key(date, self._chain.of(number))) for window in windows)
            has_folded = landings.take(number, parts, keys)
            pattern = self._patterns.of(number, parts, whole=not self._losses or view.is_whole(number))
            if most_spans > 1 and (has_folded or (not found.steps and not takes_spans(pattern))):
                most_spans = 1
            if not found.fits(keys, pattern, most_spans):
                break
            passed = self._timeline.after(found.passed, time, error_s / clock.unit_s if clock.unit_s else 0.0)
            weights = self._weights(number, passed, date, view, times, clock)
            if weights is None:
                self.is_held_back = True
                break
            found.add(number, passed, keys, pattern, parts, **weights)
        return found.batch(self._chain.offset or 0) if found.through > cursor else None

    def _weights(
        self, number: int, passed: Passed, date: cftime.datetime, view: StreamView, times: StepTimes, clock: Clock
    ) -> dict[str, float] | None:
        """Return how much a step counts, by what diagnostics weigh it; None if only the next step will tell.

        A step is as long as its bounds say, else until the next one, the stream's last as long as the one before it.
        """
        found = {MONTH: float(date.daysinmonth)} if MONTH in self._weighed else {}
        if TIME not in self._weighed:
            return found
        bounds = times.bounds(self._chain.of(number), parts_of(view, number))
        if bounds is not None:
            length: float | None = bounds[1] - bounds[0]
        else:
            later = ((at, parts_of(view, at)) for at in view.steps_after(number))
            told = ((next(self._times([at], view, times), None), parts) for at, parts in later)
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

    def _times(self, numbers: Iterable[int], view: StreamView, times: StepTimes) -> Iterator[float | None]:
        """Yield the times of steps, None for those without one, or with one that can't be read."""
        for number in numbers:
            with suppress(ConfigError):  # it will be said when the step's turn comes
                yield times.find(self._chain.of(number), parts_of(view, number))

    def _refused(self, number: int, time: float, found: OpenBatch, *, is_date: bool) -> list[str]:
        """Return why a step is left out; nothing if a run that goes on from another one writes its last steps again."""
        if self._config.time.late == "error":
            raise StreamError(too_late(number, time, is_date=is_date))
        if is_date and self._chain.offset is None:
            return []
        last = found.times[-1] if found.times else self._timeline.last
        return [f"step {number}, whose time {time:g} {f'follows {last:g}' if is_date else 'is no date'}"]
