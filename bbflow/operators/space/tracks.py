"""Tracks: where a dimension of a result comes from; and strips, one track's share of a block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bbflow.operators.frozen import Frozen
from bbflow.operators.steps import Array

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
    is_chosen: bool = False
    """Whether the places were chosen, and aren't just all that there are."""

    @property
    def places(self) -> int:
        """Return the number of places."""
        return len(self.indices[0])

    @property
    def size(self) -> int:
        """Return how many places the result has, 1 if it is reduced."""
        return -(-self.places // self.factor) if self.factor else 1

    def inside(self, start: tuple[int, ...], count: tuple[int, ...]) -> Array:
        """Return the places that a block has, ascending; int64.

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
        """Return the place of the result to which each place goes; int64 of the same shape."""
        return places // self.factor if self.factor else np.zeros_like(places)

    def has_all_of(self, first: int, size: int, places: Array) -> bool:
        """Return whether places are all that the result's places first to first + size come from."""
        if not self.factor:
            return len(places) == self.places
        return len(places) == min((first + size) * self.factor, self.places) - first * self.factor


TILE_POINTS = 1 << 16
"""How many points are worked on at once, as float64: they stay in the cache."""
Index = slice | Array
"""Indices, as a slice where they follow each other: that takes a view, and is small when pickled."""


@dataclass(frozen=True, slots=True, eq=False)
class Strip(Frozen):
    """What a block has of a `Track`."""

    axes: tuple[int, ...]
    """The block's axes that it selects from."""
    indices: tuple[Index, ...]
    """For each axis the places' indices in the block."""
    places: Index
    """Which places of the track these are, ascending."""
    factor: int
    """The track's."""
    first: int
    """Where the region of the result begins."""
    size: int
    """How many places the region has; 1 if the track is reduced to nothing."""
    weights: Array | None
    """float64 of shape (places,); None for 1."""

    @property
    def length(self) -> int:
        """Return the number of places."""
        return self.places.stop - self.places.start if isinstance(self.places, slice) else len(self.places)

    def part(self, cut: slice) -> "Strip":
        """Return some of the places, at least one."""
        indices = tuple(_cut(index, cut) for index in self.indices)
        weights = None if self.weights is None else self.weights[cut]
        return Strip(self.axes, indices, _cut(self.places, cut), self.factor, self.first, self.size, weights)

    @property
    def whole_groups(self) -> bool:
        """Whether the places are some neighbouring places of the result, each with all that it is made of."""
        if not isinstance(self.places, slice) or not self.factor:
            return False
        return bool(self.places.start % self.factor == 0 == self.length % self.factor)

    def groups(self) -> tuple[Array, Index]:
        """Return where each run of places of one target begins, and the targets (places in the region), each once."""
        if not self.factor:
            return np.zeros(1, np.int64), slice(0, 1)
        places = np.arange(self.places.start, self.places.stop) if isinstance(self.places, slice) else self.places
        targets, starts = np.unique(places // self.factor - self.first, return_index=True)
        return starts, as_index(targets)


def as_index(indices: Array) -> Index:
    """Return a slice if the indices follow each other."""
    if len(indices) and np.array_equal(indices, np.arange(indices[0], indices[0] + len(indices))):
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _cut(index: Index, cut: slice) -> Index:
    if isinstance(index, slice):
        return slice(index.start + cut.start, index.start + cut.stop)
    return index[cut]


def take(block: Array, strips: Sequence[Strip]) -> Array:
    """Take the strips' places of a block, of the block's rank; the result has an axis for each strip.

    Axes of length 1 stand for any length, as in NumPy's broadcasting.
    """
    values = block.transpose([axis for strip in strips for axis in strip.axes])
    at = values.ndim
    for strip in reversed(strips):
        at -= len(strip.axes)
        before: tuple[Any, ...] = (slice(None),) * at
        lengths = values.shape[at : at + len(strip.axes)]
        if len(lengths) > 1:
            pairs = zip(strip.indices, lengths, strict=True)
            values = values[
                (*before, *(index if length > 1 else np.zeros(strip.length, int) for index, length in pairs))
            ]
        elif lengths[0] > 1:
            values = values[(*before, strip.indices[0])]
    return values


def tiles(strips: Sequence[Strip]) -> Iterator[tuple[tuple[slice, ...], list[Strip]]]:
    """Cut the strips into tiles of about `TILE_POINTS`: give the places of each strip, and the strips of them."""
    room, cuts = TILE_POINTS, []
    for strip in reversed(strips):
        length = max(1, min(strip.length, room))
        length -= length % strip.factor if length > strip.factor > 1 else 0  # groups stay whole where they can
        cuts.append([slice(at, min(at + length, strip.length)) for at in range(0, strip.length, length)])
        room //= strip.length
    for chosen in product(*reversed(cuts)):
        yield chosen, [strip.part(cut) for strip, cut in zip(strips, chosen, strict=True)]
