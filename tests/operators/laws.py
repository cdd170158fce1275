"""What every operator must obey: any cut of the steps, any tree of merges, and for those that commute any order."""

import numpy as np
from hypothesis import strategies as st

from bbflow.operators import StateLayout, fold_steps


def layout_of(operators, values):
    """Layout of a state for values of shape (steps, points)."""
    return StateLayout.of(operators, dtype=values.dtype, points=values.shape[1])


def folded(layout, values, *, fill=None, times=None, first=0, others=None):
    """State of values of shape (steps, points), folded at once."""
    state = bytearray(layout.nbytes)
    numbers = np.arange(first, first + len(values))
    fold_steps(layout, None, state, list(values), fill, steps=numbers, times=times, others=others)
    return state


@st.composite
def cuts(draw, steps, most=4):
    """Slices that cut a number of steps into parts, some of them perhaps empty."""
    places = sorted(draw(st.lists(st.integers(0, steps), max_size=most)))
    return [slice(a, b) for a, b in zip([0, *places], [*places, steps], strict=True)]


def merged(data, layout, states):
    """One state of several, merged in an order and a tree that hypothesis draws; by neighbours if order counts."""
    states = [bytearray(state) for state in states]
    while len(states) > 1:
        at = data.draw(st.integers(0, len(states) - 2))
        left = states.pop(at)
        other = data.draw(st.integers(0, len(states) - 1)) if layout.commutes else at
        right = states.pop(other)
        if layout.commutes and data.draw(st.booleans()):
            left, right = right, left
        target = data.draw(st.sampled_from([left, right, bytearray(layout.nbytes)]))
        layout.combine(left, right, target)
        states.insert(min(at, len(states)), target)
    return states[0]
