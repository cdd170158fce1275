"""Steps on their way to the statistics: through transforms, and through the expression after them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bbflow.operators.diagnostic import VALUE
from bbflow.operators.expressions import Expression
from bbflow.operators.fold import HasTiles
from bbflow.operators.state import part_of
from bbflow.operators.steps import Array, Steps, Views
from bbflow.operators.transforms import Transform
from bbflow.transit.folding.slots import Keys


@dataclass(frozen=True, slots=True)
class Carried:
    """Steps that transforms have gone through; what they carry is read from one state and written to another."""

    steps: HasTiles
    """Where they come from."""
    transforms: tuple[Transform, ...]
    """In their order."""
    source: Mapping[str, Views] | None
    """For each transform what it carries so far; None before the first step."""
    target: Mapping[str, Views]
    """Where that goes."""
    begun: frozenset[int] = frozenset()
    """Positions of those for which a span of their window begins."""
    keys: Keys = field(default_factory=dict)
    """In which span of each window the steps are."""

    def part(self, points: slice) -> Steps:
        """Transform some of the points; a second time gives the same."""
        steps = self.steps.part(points)
        for number, transform in enumerate(self.transforms):
            views = part_of(self.target[str(number)], points)
            if self.source is None:
                transform.clear(views)
            else:
                _copy(part_of(self.source[str(number)], points), views)
            if transform.window is not None:
                begins = self.source is not None and number in self.begun
                transform.enter(views, self.keys[transform.window.name], begins=begins)
            values = transform.apply(views, steps)
            steps = Steps(values, None, steps.times, steps.numbers, steps.others)
        return steps


def _copy(source: Mapping[str, Array], target: Views) -> None:
    for name, values in source.items():
        target[name][...] = values


@dataclass(frozen=True, slots=True)
class WeighedSteps:
    """Steps of which some count more than others."""

    steps: HasTiles
    """Where they come from."""
    weights: Array
    """How much each counts; of shape (steps,)."""

    def part(self, points: slice) -> Steps:
        """Return some of the points."""
        return replace(self.steps.part(points), weights=self.weights)


@dataclass(frozen=True, slots=True)
class Then:
    """Steps of which an expression is taken."""

    steps: HasTiles
    """Where they come from."""
    expression: Expression | None
    """Of `value`; None for the value itself."""
    fields: Mapping[str, Array] = field(default_factory=dict)
    """Fields of files by name, each of shape (points,)."""

    def part(self, points: slice) -> Steps:
        """Evaluate some of the points."""
        return then(self.expression, self.steps.part(points), {name: own[points] for name, own in self.fields.items()})


def then(expression: Expression | None, steps: Steps, fields: Mapping[str, Array]) -> Steps:
    """Return an expression of some steps, and of fields that are the same in all of them, which go along."""
    alike = {name: Steps([own] * len(steps.values), None, steps.times, steps.numbers) for name, own in fields.items()}
    if expression is None:
        return replace(steps, others={**steps.others, **alike})
    values = expression.evaluate({VALUE: steps, **alike})
    return Steps(values, None, steps.times, steps.numbers, {**steps.others, **alike})
