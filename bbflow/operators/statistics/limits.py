"""Conditions that a value can meet: above one limit, below another, or both."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.kernel_arrays import largest_below, smallest_above
from bbflow.operators.steps import Array, DType, Steps
from bbflow.reading.sections import Parameter, flag, number

PARAMETERS: Mapping[str, Parameter] = {
    "above": Parameter(number, "values greater than this", None),
    "below": Parameter(number, "values less than this", None),
    "inclusive": Parameter(flag, "if true, the limits themselves are within", False),
}
"""How the configuration writes them."""


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """Holds for the values above one limit, below another, or (with both) between them; never for a missing one.

    The comparison is exact, whatever the variable's type: see `blocks`.
    """

    above: float | None = None
    """Values must be greater than this."""
    below: float | None = None
    """Values must be less than this."""
    inclusive: bool = False
    """Whether the limits themselves are within."""

    def __post_init__(self) -> None:
        if self.above is None and self.below is None:
            raise ConfigError("every value would count: give it 'above', 'below' or both")
        if self.above is None or self.below is None:
            return
        if self.above > self.below or (self.above == self.below and not self.inclusive):
            raise ConfigError(f"no value is {self}: 'above' must be less than 'below'")

    def __str__(self) -> str:
        limits = {"above": self.above, "below": self.below}
        at = "at or " if self.inclusive else ""
        return " and ".join(f"{at}{name} {limit!r}" for name, limit in limits.items() if limit is not None)

    def interval(self, dtype: DType) -> tuple[Array, Array] | None:
        """Return the smallest and the largest value of a type that are within; None if none is."""
        lowest = smallest_above(self.above, dtype, inclusive=self.inclusive)
        highest = largest_below(self.below, dtype, inclusive=self.inclusive)
        return None if lowest is None or highest is None or lowest > highest else (lowest, highest)

    def within(self, steps: Steps) -> Array:
        """Return which values are within; bool of shape (steps, points)."""
        values = steps.values
        met = np.zeros((len(values), values[0].size if len(values) else 0), bool)
        interval = self.interval(values[0].dtype) if len(values) else None
        if interval is not None:
            for row, block in zip(met, values, strict=True):
                self._compare(block, *interval, out=row)
                if steps.fill is not None:
                    row &= block != steps.fill
        return met

    def _compare(self, block: Array, lowest: Array, highest: Array, out: Array) -> None:
        # One pass where one limit is given; NaN meets neither comparison.
        if self.below is None:
            np.greater_equal(block, lowest, out=out)
        else:
            np.less_equal(block, highest, out=out)
            if self.above is not None:
                out &= block >= lowest
