"""How the states of a diagnostic's levels lie in their buffers, and how many of them live at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import Family, StateField
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.operators.transforms import Transform
from bbflow.operators.windows.spans import Months, Run, Spans
from bbflow.operators.windows.window import Window
from bbflow.transit.spans.slots import CARRIED, INNER, OUTER
from bbflow.transit.states.shards import Region


def state_layout_of(diagnostic: Diagnostic, level: str, dtype: DType, count: tuple[int, ...]) -> StateLayout:
    """Return a level's layout.

    Parameters
    ----------
    diagnostic
        Whose.
    level
        `OUTER`, `INNER` or `CARRIED`.
    dtype
        Type of the values after the transforms; what is carried is of one type for all.
    count
        Shape of the region.
    """
    points = max(prod(count), 1)
    if level == OUTER:
        return StateLayout.of(diagnostic.operators, dtype=diagnostic.outer_dtype(dtype), points=points)
    if level == INNER:
        assert diagnostic.each is not None
        return StateLayout.of([diagnostic.each.operator], dtype=dtype, points=points)
    families = tuple(_Carrying(number, item) for number, item in enumerate(diagnostic.transforms))
    return StateLayout(families, np.dtype("f8"), points)


def state_sizes(diagnostic: Diagnostic, dtype: DType, count: tuple[int, ...]) -> dict[str, int]:
    """Return the bytes of one state of each level; `dtype` is that of the values after the transforms."""
    levels = dict.fromkeys((OUTER, *states_of(diagnostic)))
    return {level: state_layout_of(diagnostic, level, dtype, count).nbytes for level in levels}


@dataclass(frozen=True, slots=True)
class _Carrying(Family):
    """What a transform carries from step to step, laid out like a family's state; it can't be merged."""

    number: int
    transform: Transform

    @property
    def name(self) -> str:
        return str(self.number)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        return self.transform.fields(dtype)

    def fold(self, views: Views, steps: Steps) -> None:
        self.transform.apply(views, steps)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        raise BbflowError("two blocks of one point can't both continue its sum: let the ranks' blocks not overlap")


def by_region(state_layout: StateLayout, state: Any, count: tuple[int, ...]) -> Mapping[tuple[str, str], Array]:
    """Return all fields of a state, each with the region's shape as its last axes."""
    return {
        (family, name): view.reshape((*view.shape[:-1], *count))
        for family, views in state_layout.views(state).items()
        for name, view in views.items()
    }


def place_of(start: tuple[int, ...], count: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the index of a region in arrays whose last axes are the field's."""
    return (..., *(slice(first, first + size) for first, size in zip(start, count, strict=True)))


def put_state(
    fields: Mapping[tuple[str, str], Array], state_layout: StateLayout, region: Region, own: Any, *, shared: bool
) -> None:
    """Put a region's state into a whole's fields, as `by_region` gives them; merged with what is there if it shares it.

    Parameters
    ----------
    fields
        Of the whole.
    state_layout, region, own
        How the state lies, where in the whole its region is, and the state.
    shared
        Whether others have points of the region.
    """
    place, (_, count) = place_of(*region), region
    if shared:
        there = np.empty(state_layout.nbytes, np.uint8)
        for name, view in by_region(state_layout, there, count).items():
            view[...] = fields[name][place]
        state_layout.combine(there, own, there)
        own = there
    for name, view in by_region(state_layout, own, count).items():
        fields[name][place] = view


RECURRING = {"month": 12, "season": 4, "day": 31, "hour": 24, "dayofyr": 366}
"""How many values each part of a climatology's key has."""


def states_of(diagnostic: Diagnostic) -> Mapping[str, int]:
    """Return for each level how many states of one region live at once, at most."""
    found = {OUTER: 1 + _extra(diagnostic.windows)} if diagnostic.operators else {}
    if diagnostic.each is not None:
        found[INNER] = 1 + _extra((diagnostic.each.window,))
    if diagnostic.transforms:
        found[CARRIED] = 1
    return found


def written_of(diagnostic: Diagnostic, level: str) -> int:
    """Return how many states of one region a batch writes at most: the open steps', and of each window one they end."""
    if level == CARRIED:
        return 1
    inner = () if diagnostic.each is None else (diagnostic.each.window,)
    return 1 + len(_further(diagnostic.windows if level == OUTER else inner))


def ends_within(diagnostic: Diagnostic) -> bool:
    """Whether any window ends before the run does: what it comes to is published while further steps are folded."""
    return any(window.keeps is not None and not isinstance(window.spans, Run) for window in diagnostic.windows)


def _extra(windows: Sequence[Window]) -> int:
    """Return how many states there are beside the base."""
    return sum(map(living_spans, _further(windows)))


def _further(windows: Sequence[Window]) -> list[Window]:
    """Return the windows that have states beside the base: not the one whose every end ends the base."""
    finest = max(windows, key=lambda window: window.level)
    ends_base = finest.keeps == 1 and all(
        other is finest or (other.keeps == 1 and _holds(other.spans, finest.spans)) for other in windows
    )
    return [window for window in windows if not (ends_base and window is finest)]


def _holds(outer: Spans, inner: Spans) -> bool:
    """Whether spans end only where finer ones end too."""
    if isinstance(outer, Months) and isinstance(inner, Months):
        return outer.count % inner.count == 0
    return isinstance(outer, Run)


def living_spans(window: Window) -> int:
    """Return how many spans of a window are alive at once, at most."""
    if window.keeps is not None:
        return window.keeps
    return prod(RECURRING[part] for part in window.recurs)
