"""Spaces on a grid: which region of a result each block contributes to, and how the contributions merge."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from bbflow.operators.family import Array, DType
from bbflow.operators.space.lane import Lane, as_index, take
from bbflow.operators.space.local import Local
from bbflow.operators.space.track import Track
from bbflow.operators.space.ways import WAYS


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A space on a variable's grid."""

    dims: tuple[str, ...]
    """Dimensions of the result; () if it is one number."""
    shape: tuple[int, ...]
    """Their sizes."""
    coordinates: Mapping[str, Array]
    """Coordinates that differ from the variable's own, by name: of changed dimensions, their bounds, and of points."""
    coordinate_dims: Mapping[str, tuple[str, ...]]
    """Dimensions of each of them: (lat,), (lat, bnds), (point,)."""
    cell_methods: str
    """What was done in space, as CF writes it, such as 'area: mean'; empty for selections."""
    own_units: str
    """Units of the result; {units} stands for the variable's. Empty if they aren't known."""
    how: str
    """What is done with the places, see `WAYS`."""
    tracks: tuple[Track, ...]
    """Where each dimension comes from, those that are reduced to nothing included."""
    factors: tuple[Array, ...] = ()
    """Masks and weights, of the variable's rank; axes of length 1 stand for any length."""

    @property
    def components(self) -> int:
        """Give how many numbers (k) a partial result has for each point."""
        return WAYS[self.how].components

    def dtype(self, dtype: DType) -> DType:
        """Give the type of the values for the variable's type: its own float type if it is kept, else float64."""
        return WAYS[self.how].dtype(dtype)

    def local(self, start: tuple[int, ...], count: tuple[int, ...]) -> Local | None:
        """Give what a block has of the result; None if nothing.

        Parameters
        ----------
        start, count
            The block's region of the variable.
        """
        inside = [track.inside(start, count) for track in self.tracks]
        if not all(map(len, inside)):
            return None
        lanes = [_lane(track, places) for track, places in zip(self.tracks, inside, strict=True)]
        factor = self._factor(lanes)
        if factor is not None and not factor.any():
            return None
        regions = zip(self.tracks, lanes, inside, strict=True)
        return Local(
            start=tuple(lane.first for lane in lanes if lane.factor),
            count=tuple(lane.size for lane in lanes if lane.factor),
            complete=all(track.has_all_of(lane.first, lane.size, places) for track, lane, places in regions),
            block=count,
            how=self.how,
            lanes=tuple(_moved(lane, start) for lane in lanes),
            factor=factor,
        )

    def _factor(self, lanes: list[Lane]) -> Array | None:
        """Give the product of what the lanes take of each factor, cut and apart from the whole."""
        if not self.factors:
            return None
        return np.array(reduce(lambda left, right: left * right, [take(item, lanes) for item in self.factors]))

    def merge(self, left: Array, right: Array) -> Array:
        """Merge two partial results of one region and of blocks that don't overlap, in any order."""
        return WAYS[self.how].merge(left, right)

    def finish(self, partial: Array) -> Array:
        """Give the results of a partial one.

        Parameters
        ----------
        partial
            Of shape (steps, k, points).

        Returns
        -------
        numpy.ndarray
            float64 of shape (steps, points); NaN where nothing was valid. The type `dtype` holds them too.
        """
        return WAYS[self.how].finish(partial)

    def assemble(self, steps: int, parts: Iterable[tuple[Local, Array]]) -> Array:
        """Merge the partial results of blocks that don't overlap into that of the whole.

        Parameters
        ----------
        steps
            How many steps each has.
        parts
            Regions, and partial results of shape (steps, k, prod(region's count)).

        Returns
        -------
        numpy.ndarray
            Of shape (steps, k, prod(shape)).
        """
        way = WAYS[self.how]
        whole = np.stack([way.empty(self.shape) for _ in range(steps)])
        for local, partial in parts:
            ends = (slice(first, first + size) for first, size in zip(local.start, local.count, strict=True))
            place: tuple[Any, ...] = (..., *ends)
            whole[place] = way.merge(whole[place], partial.reshape(steps, way.components, *local.count))
        return whole.reshape(steps, way.components, -1)


def _lane(track: Track, places: Array) -> Lane:
    """Give the lane of some of a track's places, with the indices of the whole variable."""
    targets = track.targets(places)
    first, last = int(targets[0]), int(targets[-1])
    weights = None if track.weights is None else track.weights[places]
    return Lane(
        axes=track.axes,
        indices=tuple(indices[places] for indices in track.indices),
        places=as_index(places),
        factor=track.factor,
        first=first,
        size=last - first + 1,
        weights=weights,
    )


def _moved(lane: Lane, start: tuple[int, ...]) -> Lane:
    """Give a lane of the whole variable with the indices of a block that starts there."""
    pairs = zip(lane.axes, lane.indices, strict=True)
    indices = tuple(np.asarray(whole) - start[axis] for axis, whole in pairs)
    return replace(lane, indices=indices if len(indices) > 1 else (as_index(indices[0]),))
