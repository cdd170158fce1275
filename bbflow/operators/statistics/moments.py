"""Moments and extremes: what count, sum, mean, variance, minimum and maximum are made of; folded by the C++ kernel."""

from dataclasses import dataclass
from typing import Self

from bbflow.operators import kernel, rules
from bbflow.operators.family import Family, StateField
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

FIELDS = (COUNT, SHIFT, FIRST, SECOND, MIN, MAX)
"""In the kernel's order (`library.FIELDS`)."""


@dataclass(frozen=True, slots=True)
class Moments(Family):
    """Keeps those of the fields that its operators need, and no more."""

    own_tiles = True

    needed: frozenset[str]
    """Names of the fields."""

    @classmethod
    def of(cls, *fields: StateField) -> Self:
        """Return the family that keeps some fields."""
        return cls(frozenset(item.name for item in fields))

    @property
    def name(self) -> str:
        """All operators share one set of moments."""
        return "moments"

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
        kernel.run(target, source, steps, [])

    def merge(self, target: Views, left: Views, right: Views) -> None:
        """Merge two states. Moments are about the left shift, where the left side has any value."""
        if "shift" in target:
            rules.merge_moments(target, left, right)
        for item in FIELDS:
            if item.merge is not None and item.name in target:
                rules.merge(item.merge, target[item.name], left[item.name], right[item.name])
