"""Batches: steps that are folded together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from bbflow.transit.folding.patterns import Parts, Pattern, Places, Shapes
from bbflow.transit.folding.shards import ShardKey
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.timeline import Passed

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
