"""Moments and extremes: what count, sum, mean, variance, minimum and maximum are made of; folded by the C++ kernel."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators import kernel, library
from bbflow.operators.family import Family, StateField
from bbflow.operators.library import addresses
from bbflow.operators.steps import DType, Steps, Views

COUNT = StateField("count", "i4", merge="add")
"""Valid values: neither NaN nor the fill value."""
SHIFT = StateField("shift", None)
"""The first valid value, or 0 if that is infinite: what the moments are taken about."""
FIRST = StateField("first", "f8")
"""Sum of the differences from the shift."""
SECOND = StateField("second", "f8")
"""Sum of their squares."""
MIN = StateField("min", None, merge="min")
"""Smallest valid value."""
MAX = StateField("max", None, merge="max")
"""Largest valid value."""
WEIGHT = StateField("weight", "f8", merge="add")
"""Sum of the weights of the steps with valid values; where it is kept, the moments are weighted."""

FIELDS = (COUNT, SHIFT, FIRST, SECOND, MIN, MAX, WEIGHT)
"""In the kernel's order (`library.FIELDS`), which doesn't know weights."""
MOMENTS = ("shift", "first", "second", "weight")


@dataclass(frozen=True, slots=True)
class Moments(Family):
    """Keeps those of the fields that its operators need, and no more."""

    needed: frozenset[str]
    """Names of the fields."""
    name = "moments"

    @property
    def is_weighted(self) -> bool:
        """Whether steps count by their weights: then the kernel folds counts and extremes only."""
        return WEIGHT.name in self.needed

    @property
    def own_tiles(self) -> bool:  # type: ignore[override]
        """The kernel cuts tiles by itself."""
        return not self.is_weighted

    @classmethod
    def of(cls, *fields: StateField) -> Self:
        """Return the family that keeps some fields."""
        return cls(frozenset(item.name for item in fields))

    def join(self, other: Self) -> Self:
        """Return the family that keeps what both keep."""
        return type(self)(self.needed | other.needed)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the fields in the kernel's order."""
        return tuple(item for item in FIELDS if item.name in self.needed)

    def fold(self, views: Views, steps: Steps) -> None:
        """Take steps into a state."""
        self.fold_from(views, views, steps)

    def fold_from(self, target: Views, source: Views | None, steps: Steps) -> None:
        """Set target = source (+) steps in one pass."""
        if self.is_weighted:
            _fold_weighted(target, source, steps)
            target, source = _others(target), None if source is None else _others(source)
        kernel.fold_state(target, source, steps)

    def merge(self, target: Views, left: Views, right: Views) -> None:
        """Merge two states. Moments are about the left shift, where the left side has any value."""
        if self.is_weighted:
            _merge_weighted(target, left, right)
            target, left, right = _others(target), _others(left), _others(right)
        dtype = next((target[name].dtype for name in ("shift", "min", "max") if name in target), np.dtype("f8"))
        words = [*addresses(left), *addresses(right), *addresses(target), next(iter(target.values())).size]
        library.merge_state(dtype, words)


def _others(views: Views) -> Views:
    """Return what weights don't matter for."""
    return {name: values for name, values in views.items() if name not in MOMENTS}


def _fold_weighted(target: Views, source: Views | None, steps: Steps) -> None:
    """Take steps into moments: sums of w (x - shift) and w (x - shift)^2, after West (1979)."""
    if len(steps.weights) != len(steps.values):
        raise BbflowError(f"{len(steps.values)} steps came with {len(steps.weights)} weights: each needs one")
    values, valid, weights = steps.stacked(), steps.valid(), steps.weights[:, None]
    own = {name: np.zeros(view.shape, view.dtype) for name, view in target.items()} if source is None else source
    first = np.take_along_axis(values, valid.argmax(axis=0)[None], axis=0)[0]
    known = valid.any(axis=0) & np.isfinite(first)
    shift = np.where(own["count"] > 0, own["shift"], np.where(known, first, np.zeros_like(first)))
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.where(valid, values - shift.astype("f8"), 0.0)
        moved = {"first": (weights * off).sum(axis=0), "second": (weights * off**2).sum(axis=0)}
    for name in moved.keys() & target.keys():
        target[name][...] = own[name] + moved[name]
    target["weight"][...] = own["weight"] + (weights * valid).sum(axis=0)
    target["shift"][...] = shift


def _merge_weighted(target: Views, left: Views, right: Views) -> None:
    """Merge moments about the left shift, where the left side has any value: Chan, Golub and LeVeque (1983)."""
    shift = np.where(left["count"] > 0, left["shift"], right["shift"])
    weight, off = right["weight"].copy(), right["shift"].astype("f8") - shift
    with np.errstate(invalid="ignore", over="ignore"):
        # Before the first moment, of which it needs the right side's own: the target may be one of the two sides.
        if "second" in target:
            second = left["second"] + right["second"] + 2 * off * right["first"] + off**2 * weight
            target["second"][...] = second
        target["first"][...] = left["first"] + right["first"] + off * weight
    target["weight"][...] = left["weight"] + weight
    target["shift"][...] = shift
