"""Steps on their way to the statistics: through transforms, `each`, and the expression after them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bbflow.operators.diagnostic import VALUE, Diagnostic
from bbflow.operators.expressions import Expression
from bbflow.operators.fold import HasTiles
from bbflow.operators.state import part_of
from bbflow.operators.steps import Array, Steps, Views
from bbflow.operators.transforms import Transform
from bbflow.transit.folding.shards import Region, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, INNER, Keys, StateSlot, slots_of, whole_units
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import combine_files


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


def inner_step(diagnostic: Diagnostic, region: Region, state: ShardState) -> Steps | None:
    """Return the result of the inner span that is open, as one step of the statistics.

    Returns
    -------
    Steps or None
        None if there is none: no step so far, or a running window that isn't full yet.
    """
    each = diagnostic.each
    if each is None or state.keys is None or (current := state.keys[each.window.name]) is None:
        return None
    begun = StateSlot(INNER, each.window.name, current)  # what an earlier run has of the span
    if BASE[INNER] not in state.files and begun not in state.files:
        return None
    own = [slot.key for slot in state.files if slot.level == INNER and slot.window == each.window.name]
    keys = whole_units(each.window, own, current)
    if keys is None:
        return None
    state_layout = state_layout_of(diagnostic, INNER, np.dtype(state.dtype), region[1])
    buffer = bytearray(state_layout.nbytes)
    combine_files(state_layout, places_of(state.files, [*slots_of(INNER, each.window, keys), BASE[INNER]]), buffer)
    values: Array = each.operator.finalize(state_layout, buffer)
    steps = Steps([values], None, np.array([state.last_time]), np.array([state.last_step]))
    return then(diagnostic.then, steps, diagnostic.parts_after(state.keys, *region))


def places_of(files: Mapping[StateSlot, StatePlace], slots: list[StateSlot]) -> list[StatePlace]:
    """Return where the states of those slots lie that have one, in their order."""
    return [files[slot] for slot in slots if slot in files]
