"""What operators take in: the values of some points in consecutive steps, and how arrays are called here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Views = Mapping[str, Array]
"""Field of a state to its array, of shape (inner, points)."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Some points in consecutive steps, oldest first."""

    values: Sequence[Array]
    """For each step an array of shape (points,), contiguous, of one type; only read."""
    fill: Array | None = None
    """Value that stands for 'missing', besides NaN; of shape () and the values' type."""
    times: Array = field(default_factory=lambda: np.empty(0))
    """Time of each step, in the stream's units; float64 of shape (steps,)."""
    numbers: Array = field(default_factory=lambda: np.empty(0, "i8"))
    """Number of each step; int64 of shape (steps,)."""
    others: Mapping[str, "Steps"] = field(default_factory=dict)
    """Further inputs of the same points and steps, by name."""
    weights: Array = field(default_factory=lambda: np.empty(0))
    """How much each step counts; float64 of shape (steps,), or none where all count alike."""

    def stacked(self) -> Array:
        """Return the values as one array of shape (steps, points)."""
        return np.stack(self.values)

    def valid(self) -> Array:
        """Return which values are neither NaN nor the fill value; bool of shape (steps, points)."""
        return self._valid_of(self.stacked())

    def valid_in(self, position: int) -> Array:
        """Return the same for the step at a position alone; bool of shape (points,)."""
        return self._valid_of(self.values[position])

    def _valid_of(self, values: Array) -> Array:
        valid: Array = values == values
        return valid if self.fill is None else valid & (values != self.fill)

    def part(self, points: slice) -> "Steps":
        """Return some of the points."""
        others = {name: other.part(points) for name, other in self.others.items()}
        return Steps(
            [block[points] for block in self.values], self.fill, self.times, self.numbers, others, self.weights
        )

    def some(self, steps: slice) -> "Steps":
        """Return some of the steps."""
        others = {name: other.some(steps) for name, other in self.others.items()}
        weights = self.weights[steps]
        return Steps(self.values[steps], self.fill, self.times[steps], self.numbers[steps], others, weights)
