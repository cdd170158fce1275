"""How the states of a diagnostic's levels lie in their buffers."""

from collections.abc import Mapping
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
from bbflow.transit.folding.slots import INNER, OUTER


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

    def clear(self, views: Views) -> None:
        self.transform.clear(views)

    def fold(self, views: Views, steps: Steps) -> None:
        self.transform.apply(views, steps)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        raise BbflowError("two blocks of one point can't both carry on its sum: let the ranks' blocks not overlap")


def by_region(state_layout: StateLayout, state: Any, count: tuple[int, ...]) -> Mapping[tuple[str, str], Array]:
    """Return all fields of a state, each with the region's shape as its last axes."""
    return {
        (family, name): view.reshape((*view.shape[:-1], *count))
        for family, views in state_layout.views(state).items()
        for name, view in views.items()
    }
