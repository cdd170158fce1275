"""Batches: steps that are folded together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

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


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps that are folded together: all in one span of every window."""

    steps: tuple[int, ...]
    """Their numbers; none if all that is there is late."""
    times: tuple[float, ...]
    """Their times."""
    keys: Keys
    """Window name to the span that they are in."""
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

    @property
    def stretches(self) -> "list[tuple[Pattern, Stretch]]":
        """Its steps in their order, those that lie alike and follow each other together."""
        steps = zip(self.laid, self.numbers, self.times, range(len(self.times)), strict=True)
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
    keys: Keys = field(default_factory=dict)
    """Window name to the span that they are in."""
    places: dict[str, frozenset[ShardKey]] = field(default_factory=dict)
    """Where the blocks lie."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of what arrays they are."""

    def fits(self, keys: Keys, pattern: Pattern) -> bool:
        """Whether a step can be folded together with those that are there."""
        if not self.steps:
            return True
        return self.keys == keys and (
            pattern is self.laid[-1][0]
            or (
                all(self.places.get(key, own) == own for key, own in pattern.places.items())
                and all(self.shapes.get(key, own) == own for key, own in pattern.shapes.items())
            )
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
        self.keys, self.through, self.passed = keys, number, passed

    def leave_out(self, number: int, passed: Passed) -> None:
        """Be past a step that is late, or torn."""
        self.passed, self.through = passed, number

    def batch(self, offset: int) -> Batch:
        """Return what was gathered."""
        steps, times, laid, torn = tuple(self.steps), tuple(self.times), tuple(self.laid), tuple(self.torn)
        untimely = tuple(self.untimely)
        places, shapes = self.places, self.shapes
        weights = {name: tuple(own) for name, own in self.weights.items()}
        return Batch(
            steps, times, self.keys, self.through, self.passed, offset, laid, places, shapes, torn, untimely, weights
        )
