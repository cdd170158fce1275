"""Lanes: one track's share of a block, and the tiles in which a block is worked through."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bbflow.operators.family import Array

TILE_POINTS = 1 << 16
"""So many points are worked on at once, as float64: they stay in the cache."""
Index = slice | Array
"""Indices, as a slice where they follow each other: that takes a view, and is small when pickled."""


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
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
        """Give the number of places."""
        return self.places.stop - self.places.start if isinstance(self.places, slice) else len(self.places)

    def part(self, cut: slice) -> "Lane":
        """Give some of the places, at least one."""
        indices = tuple(_cut(index, cut) for index in self.indices)
        weights = None if self.weights is None else self.weights[cut]
        return Lane(self.axes, indices, _cut(self.places, cut), self.factor, self.first, self.size, weights)

    @property
    def whole_groups(self) -> bool:
        """Whether the places are some neighbouring places of the result, each with all that it is made of."""
        if not isinstance(self.places, slice) or not self.factor:
            return False
        return bool(self.places.start % self.factor == 0 == self.length % self.factor)

    def groups(self) -> tuple[Array, Index]:
        """Give where each run of places of one target begins, and the targets (places in the region), each once."""
        if not self.factor:
            return np.zeros(1, np.int64), slice(0, 1)
        places = np.arange(self.places.start, self.places.stop) if isinstance(self.places, slice) else self.places
        targets, starts = np.unique(places // self.factor - self.first, return_index=True)
        return starts, as_index(targets)


def as_index(indices: Array) -> Index:
    """Give a slice if the indices follow each other."""
    if len(indices) and np.array_equal(indices, np.arange(indices[0], indices[0] + len(indices))):
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _cut(index: Index, cut: slice) -> Index:
    if isinstance(index, slice):
        return slice(index.start + cut.start, index.start + cut.stop)
    return index[cut]


def take(block: Array, lanes: Sequence[Lane]) -> Array:
    """Take the lanes' places of a block, of the block's rank; the result has an axis for each lane.

    Axes of length 1 stand for any length, as in NumPy's broadcasting.
    """
    values = block.transpose([axis for lane in lanes for axis in lane.axes])
    at = values.ndim
    for lane in reversed(lanes):
        at -= len(lane.axes)
        before: tuple[Any, ...] = (slice(None),) * at
        lengths = values.shape[at : at + len(lane.axes)]
        if len(lengths) > 1:
            pairs = zip(lane.indices, lengths, strict=True)
            values = values[
                (*before, *(index if length > 1 else np.zeros(lane.length, int) for index, length in pairs))
            ]
        elif lengths[0] > 1:
            values = values[(*before, lane.indices[0])]
    return values


def tiles(lanes: Sequence[Lane]) -> Iterator[tuple[tuple[slice, ...], list[Lane]]]:
    """Cut the lanes into tiles of about `TILE_POINTS`: give the places of each lane, and the lanes of them."""
    room, cuts = TILE_POINTS, []
    for lane in reversed(lanes):
        length = max(1, min(lane.length, room))
        length -= length % lane.factor if length > lane.factor > 1 else 0  # groups stay whole where they can
        cuts.append([slice(at, min(at + length, lane.length)) for at in range(0, lane.length, length)])
        room //= lane.length
    for chosen in product(*reversed(cuts)):
        yield chosen, [lane.part(cut) for lane, cut in zip(lanes, chosen, strict=True)]
