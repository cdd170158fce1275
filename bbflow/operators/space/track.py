"""Tracks: where one dimension of a result comes from."""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Array

REDUCED = 0
"""A track's factor if its dimension is reduced to nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """A dimension after selection, and how it is reduced.

    Its places are numbered from 0; place p holds the source's point ``indices[..., p]`` of `axes`.
    """

    name: str
    """Name of the dimension."""
    axes: tuple[int, ...]
    """The source's axes that it selects from: one, or two for a list of points."""
    indices: tuple[Array, ...]
    """For each axis the index of each place; int64 of shape (places,)."""
    factor: int = 1
    """How many places make one of the result; 1 keeps them, `REDUCED` makes one of all."""
    weights: Array | None = None
    """Weight of each place, float64 of shape (places,); None for 1."""

    @property
    def places(self) -> int:
        """Give the number of places."""
        return len(self.indices[0])

    @property
    def size(self) -> int:
        """Give how many places the result has, 1 if it is reduced."""
        return -(-self.places // self.factor) if self.factor else 1

    def inside(self, start: tuple[int, ...], count: tuple[int, ...]) -> Array:
        """Give the places that a block has, ascending; int64.

        Parameters
        ----------
        start, count
            The block's region of the source.
        """
        found = np.ones(self.places, bool)
        for axis, indices in zip(self.axes, self.indices, strict=True):
            found &= (indices >= start[axis]) & (indices < start[axis] + count[axis])
        return np.flatnonzero(found)

    def targets(self, places: Array) -> Array:
        """Give the place of the result to which each place goes; int64 of the same shape."""
        return places // self.factor if self.factor else np.zeros_like(places)

    def has_all_of(self, first: int, size: int, places: Array) -> bool:
        """Say whether places are all that the result's places first to first + size come from."""
        if not self.factor:
            return len(places) == self.places
        return len(places) == min((first + size) * self.factor, self.places) - first * self.factor
