"""Moments and extremes: what count, sum, mean, variance, minimum and maximum are made of; folded by the C++ kernel."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from bbflow.operators import kernel
from bbflow.operators.family import Array, DType, Family, StateField, Steps, Views

COUNT = StateField("count", "i4")
"""Valid values: neither NaN nor the fill value."""
SHIFT = StateField("shift", None)
"""The first valid value, or 0 if that is infinite: what the moments are taken about."""
FIRST = StateField("first", "f8")
"""Sum of the differences from the shift."""
SECOND = StateField("second", "f8")
"""Sum of their squares."""
MIN = StateField("min", None)
"""Smallest valid value."""
MAX = StateField("max", None)
"""Largest valid value."""

FIELDS = (COUNT, SHIFT, FIRST, SECOND, MIN, MAX)
"""In the kernel's order (``BbflowAccumulator`` in Fold.h)."""


@dataclass(frozen=True, slots=True)
class Moments(Family):
    """Keeps those of the fields that its operators need, and no more."""

    own_tiles = True

    needed: frozenset[str]
    """Names of the fields."""

    @classmethod
    def of(cls, *fields: StateField) -> Self:
        """Give the family that keeps some fields."""
        return cls(frozenset(item.name for item in fields))

    @property
    def name(self) -> str:
        """All operators share one set of moments."""
        return "moments"

    def join(self, other: Self) -> Self:
        """Give the family that keeps what both keep."""
        return type(self)(self.needed | other.needed)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Give the fields in the kernel's order."""
        return tuple(item for item in FIELDS if item.name in self.needed)

    def clear(self, views: Views) -> None:
        """Set a state to the identity."""
        for name, values in views.items():
            values[...] = identity(name, values.dtype)

    def fold(self, views: Views, steps: Steps) -> None:
        """Take steps into a state."""
        self.fold_from(views, views, steps)

    def fold_from(self, target: Views, source: Views | None, steps: Steps) -> None:
        """Set target = source (+) steps in one pass."""
        kernel.run(target, source, steps, [])

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Merge two states. Moments are about the left shift, where the left side has any value."""
        merged = {"count": left["count"] + right["count"]} if "count" in left else {}
        if "shift" in left:
            merged |= _merge_moments(left, right)
        if "min" in left:
            merged["min"] = np.minimum(left["min"], right["min"])
        if "max" in left:
            merged["max"] = np.maximum(left["max"], right["max"])
        return merged


def identity(name: str, dtype: DType) -> float | int:
    """Give the value that a field has before any value was folded."""
    if name not in (MIN.name, MAX.name):
        return 0
    if dtype.kind == "f":
        return np.inf if name == MIN.name else -np.inf
    limits = np.iinfo(dtype)
    return int(limits.max if name == MIN.name else limits.min)


def _merge_moments(left: Mapping[str, Array], right: Mapping[str, Array]) -> dict[str, Array]:
    """Add the moments of both sides, the right ones rebased on the left shift.

    With d = right shift - left shift, a value's difference x from the right shift is x + d from the left
    one, and the sums over n values become::

        first'  = first + n d
        second' = second + 2 d first + n d**2

    Shifted data, and merging by pairs, follow Chan, Golub and LeVeque, "Algorithms for computing the sample
    variance: analysis and recommendations", The American Statistician 37 (1983), 242-247.
    """
    shift = np.where(left["count"] == 0, right["shift"], left["shift"])
    count, first = right["count"], right["first"]
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values: as in IEEE 754
        difference = right["shift"].astype("f8") - shift.astype("f8")
        merged = {"shift": shift, "first": left["first"] + first + count * difference}
        if "second" in left:
            rebased = right["second"] + 2 * difference * first + count * difference**2
            merged["second"] = left["second"] + rebased
    return merged
