"""What `each` makes of its span that is open, and the expression of it: a step of the statistics."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bbflow.operators.diagnostic import VALUE, Diagnostic
from bbflow.operators.expressions import Expression
from bbflow.operators.steps import Array, Steps
from bbflow.transit.spans.slots import BASE, INNER, StateSlot, slots_of, whole_units
from bbflow.transit.states.files import combine_files
from bbflow.transit.states.shards import Region, ShardState, places_of
from bbflow.transit.states.state_layouts import state_layout_of


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
