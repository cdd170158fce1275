"""Spaces on a grid, what each block contributes to a result and how that is joined; and selections and reductions."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from typing import Any, Self

import numpy as np

from bbflow.operators.frozen import Frozen
from bbflow.operators.kernel_arrays import side_by_side
from bbflow.operators.space.columns import Column, ColumnPart
from bbflow.operators.space.pyramids import Pyramid
from bbflow.operators.space.reductions import REDUCTIONS, Reduction, quietly
from bbflow.operators.space.tracks import REDUCED, TILE_POINTS, Strip, Track, as_index, take, tiles
from bbflow.operators.space.weights import Weights
from bbflow.operators.steps import Array, DType, Steps

POINT = "point"
"""Name of the dimension of a list of points."""


@dataclass(frozen=True, slots=True, eq=False)
class Local(Frozen, ABC):
    """Takes the points of one block, and reduces them; small when pickled."""

    start: tuple[int, ...]
    """First index of the result's region to which the block contributes."""
    count: tuple[int, ...]
    """Shape of that region; () if the result is one number. Parts that the block lacks are missing in the partials."""
    complete: bool
    """Whether every result of the region depends on this block alone."""

    @property
    def column(self) -> ColumnPart | None:
        """Return what is made of the block's columns before that; None for nothing."""
        return None

    @abstractmethod
    def values(self, steps: Steps) -> list[Array]:
        """Return the results of a complete region.

        Parameters
        ----------
        steps
            The block's values, or what `column` made of them, each of shape (points,).

        Returns
        -------
        list
            For each step an array of shape (prod(count),) and type `Placement.dtype`; NaN where nothing is valid.
        """

    @abstractmethod
    def partial(self, steps: Steps) -> Array:
        """Return mergeable components, float64 of shape (steps, k, points); see `Placement.assemble`."""

    def averaged(self, steps: Steps) -> list[Array]:
        """Return as many results as `values`, whose mean and missing points are those of the steps'.

        They are made of the mean of the steps where that costs less and is the same, to rounding in float64.
        """
        return self.values(steps)

    def averaged_partial(self, steps: Steps) -> Array:
        """Return what `partial` does, or of shape (1, k, points) that of the mean of the steps.

        The latter stands for each of them where all blocks of the whole give that.
        """
        return self.partial(steps)


@dataclass(frozen=True, slots=True, eq=False)
class Placement(ABC):
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
    source: tuple[int, ...]
    """Shape of the variable."""

    @property
    def column(self) -> Column | None:
        """Return what is made of the variable's columns before that; None for nothing."""
        return None

    @property
    def is_selection(self) -> bool:
        """Whether points are only selected: those that a block lacks of its region are missing in its part."""
        return False

    @property
    def is_bare(self) -> bool:
        """Whether it takes all points as they are, or as they were made of columns."""
        return False

    @property
    def coordinate_attributes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return CF attributes of the coordinates that are none of the stream's."""
        return {}

    @property
    def attributes(self) -> Mapping[str, str]:
        """Return attributes of the result that name coordinates: `cell_measures` and `grid_mapping`."""
        return {}

    @property
    def pyramid(self) -> Pyramid | None:
        """Return the coarser levels that are wanted of the results; None for none."""
        return None

    @property
    def remapping_weights(self) -> Weights | None:
        """Return those of a remap; None without one."""
        return None

    @property
    def own_dims(self) -> frozenset[str]:
        """Return the dimensions that are none of the variable's, whatever their names."""
        return frozenset((POINT,))

    def dtype(self, dtype: DType) -> DType:
        """Return the type of the values for the variable's type: its own float type if it is kept, else float64."""
        return np.dtype("f8")

    def may_change(self, axis: int) -> bool:
        """Whether an axis may be of any length: all of it is reduced, and nothing else depends on it."""
        return False

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether the variable may have a shape: only what is reduced as a whole may have another length."""
        return shape == self.source

    def of_shape(self, shape: tuple[int, ...]) -> Self:
        """Return the same space of a variable whose shape has changed to one that `fits`."""
        return self

    @abstractmethod
    def local(self, start: tuple[int, ...], count: tuple[int, ...]) -> Local | None:
        """Return what a block has of the result; None if nothing.

        Parameters
        ----------
        start, count
            The block's region of the variable.
        """

    @abstractmethod
    def assemble(self, steps: int, parts: Iterable[tuple[Local, Array]]) -> Array:
        """Merge the partial results of blocks that don't overlap into that of the whole.

        Parameters
        ----------
        steps
            How many steps each has.
        parts
            Blocks, and what `Local.partial` gives of each.

        Returns
        -------
        numpy.ndarray
            Of shape (steps, k, points): what `finish` takes.
        """

    @abstractmethod
    def finish(self, partial: Array) -> Array:
        """Return the results of the whole.

        Parameters
        ----------
        partial
            Of shape (steps, k, points), assembled.

        Returns
        -------
        numpy.ndarray
            float64 of shape (steps, prod(shape)); NaN where nothing was valid. The type `dtype` holds them too.
        """


@dataclass(frozen=True, slots=True, eq=False)
class StripLocal(Local):
    """Takes strips of a block."""

    block: tuple[int, ...]
    """Shape of the block."""
    how: str
    """What is done with the places, see `REDUCTIONS`."""
    strips: tuple[Strip, ...]
    """The block's places."""
    factor: Array | None = None
    """Weights that are not those of one dimension, masks too; they broadcast against the places."""
    column: ColumnPart | None = None
    """What is made of the block's columns before that; `block` is the shape of what comes out."""

    @quietly
    def values(self, steps: Steps) -> list[Array]:
        """Return the results of a complete region; see `Local.values`."""
        if not self.complete:
            raise ValueError(f"the region at {self.start} of shape {self.count} needs other blocks too: use `partial`")
        if self.how == "select":
            return [self._selected(values, steps.fill) for values in steps.values]
        reduction = REDUCTIONS[self.how]
        finished = reduction.finish(self.partial(steps))
        return [row.astype(reduction.dtype(block.dtype)) for row, block in zip(finished, steps.values, strict=True)]

    @quietly
    def partial(self, steps: Steps) -> Array:
        """Return mergeable components, float64 of shape (steps, k, prod(count)); see `Reduction.merge`."""
        reduction, count = REDUCTIONS[self.how], len(steps.values)
        result = reduction.empty((count, *(strip.size for strip in self.strips)))
        most = max(TILE_POINTS // max(prod(self.block), 1), 1)
        for first in range(0, count, most):
            last = min(first + most, count)
            self._reduce(reduction, side_by_side(steps.values[first:last]), steps.fill, result[:, first:last])
        return result.swapaxes(0, 1).reshape(count, reduction.components, -1)

    def _reduce(self, reduction: Reduction, values: Array, fill: Array | None, result: Array) -> None:
        """Add the components of some steps: their axis is the first one, a strip that is kept whole."""
        count = result.shape[1]
        kept = Strip((0,), (slice(0, count),), slice(0, count), 1, 0, count, None)
        blocks = values.reshape(count, *self.block)
        for cuts, part in tiles(self.strips):
            strips = [kept, *(replace(strip, axes=tuple(axis + 1 for axis in strip.axes)) for strip in part)]
            factor, place = _cut(self.factor, cuts), _place(strips)
            found = reduction.reduce(take(blocks, strips), fill, None if factor is None else factor[np.newaxis], strips)
            result[place] = reduction.merge(result[place], found)

    def _selected(self, values: Array, fill: Array | None) -> Array:
        chosen = take(values.reshape(self.block), self.strips)
        dtype = REDUCTIONS[self.how].dtype(chosen.dtype)
        result = chosen.astype(dtype, order="C")  # a copy: what it is taken from is freed before long
        if fill is not None:
            result[chosen == fill] = np.nan
        if self.factor is not None:
            np.copyto(result, np.nan, where=self.factor == 0)
        return result.reshape(-1)


def _cut(factor: Array | None, cuts: tuple[slice, ...]) -> Array | None:
    """Return a tile's factors; axes of length 1 stand for any length."""
    if factor is None:
        return None
    return factor[tuple(cut if length > 1 else slice(None) for cut, length in zip(cuts, factor.shape, strict=True))]


def _place(part: list[Strip]) -> tuple[Any, ...]:
    """Return the index of a tile's targets in the components of the region."""
    targets = [strip.groups()[1] for strip in part]
    if all(isinstance(item, slice) for item in targets):
        return (slice(None), *targets)
    arrays = [np.arange(item.start, item.stop) if isinstance(item, slice) else item for item in targets]
    return (slice(None), *np.ix_(*arrays))


@dataclass(frozen=True, slots=True, eq=False)
class TrackPlacement(Placement):
    """Selections, and at most one reduction."""

    how: str
    """What is done with the places, see `REDUCTIONS`."""
    tracks: tuple[Track, ...]
    """Where each dimension comes from, those that are reduced to nothing included."""
    factors: tuple[Array, ...] = ()
    """Masks and weights, of the variable's rank; axes of length 1 stand for any length."""
    column: Column | None = None
    """What is made of the columns before that; `tracks` and `factors` are those of what comes out."""
    coordinate_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """CF attributes of coordinates that the stream lacks."""
    is_joined: bool = False
    """Whether what blocks have is joined step by step even where one has all: so there is one state for all shapes."""

    @property
    def unchanged(self) -> set[str]:
        """Return the dimensions that have all of the variable's points, in their order."""
        one = (track for track in self.tracks if track.factor == 1 and len(track.axes) == 1)
        seen = self.source if self.column is None else self.column.seen(self.source)
        return {track.name for track in one if np.array_equal(track.indices[0], np.arange(seen[track.axes[0]]))}

    @property
    def is_selection(self) -> bool:
        """Whether points are only selected."""
        return self.how == "select"

    @property
    def is_bare(self) -> bool:
        """Whether it takes all points as they are, or as they were made of columns."""
        return self.is_selection and not self.factors and len(self.unchanged) == len(self.tracks)

    def dtype(self, dtype: DType) -> DType:
        """Return the type of the values for the variable's type: its own float type if it is kept, else float64."""
        return REDUCTIONS[self.how].dtype(dtype)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether the variable may have a shape: only what is reduced as a whole may have another length."""
        return len(shape) == len(self.source) and all(map(self.may_change, self._changed(shape)))

    def of_shape(self, shape: tuple[int, ...]) -> "TrackPlacement":
        """Return the same space of a variable whose shape has changed to one that `fits`."""
        changed = self._changed(shape)
        tracks = tuple(
            replace(track, indices=(np.arange(shape[track.axes[0]]),)) if track.axes[0] in changed else track
            for track in self.tracks
        )
        return replace(self, tracks=tracks, source=shape, is_joined=True) if changed else self

    def _changed(self, shape: tuple[int, ...]) -> list[int]:
        """Return the axes along which a shape differs from that of the variable."""
        lengths = zip(self.source, shape, strict=True)
        return [axis for axis, (before, now) in enumerate(lengths) if before != now]

    def may_change(self, axis: int) -> bool:
        """Whether an axis may be of any length: all of it is reduced, and nothing else depends on it."""
        if self.column is not None and (axis == self.column.axis or self.column.fixed):
            return False
        track = next(track for track in self.tracks if axis in track.axes)
        is_all = track.factor == REDUCED and not track.is_chosen and track.weights is None and len(track.axes) == 1
        # An axis of length 1 doesn't tell whether a mask is along it.
        free = all(item.shape[axis] == 1 < self.source[axis] for item in self.factors)
        return is_all and free

    def local(self, start: tuple[int, ...], count: tuple[int, ...]) -> Local | None:
        """Return what a block has of the result; None if nothing. See `Placement.local`."""
        column = None if self.column is None else self.column.local(start, count)
        if self.column is not None:
            count = self.column.seen(count)
        inside = [track.inside(start, count) for track in self.tracks]
        if not all(map(len, inside)):
            return None
        strips = [_strip(track, places) for track, places in zip(self.tracks, inside, strict=True)]
        factor = self._factor(strips)
        if factor is not None and not factor.any():
            return None
        regions = zip(self.tracks, strips, inside, strict=True)
        return StripLocal(
            start=tuple(strip.first for strip in strips if strip.factor),
            count=tuple(strip.size for strip in strips if strip.factor),
            complete=not self.is_joined
            and all(track.has_all_of(strip.first, strip.size, places) for track, strip, places in regions),
            block=count,
            how=self.how,
            strips=tuple(_moved(strip, start) for strip in strips),
            factor=factor,
            column=column,
        )

    def _factor(self, strips: list[Strip]) -> Array | None:
        """Return the product of what the strips take of each factor, cut and apart from the whole."""
        if not self.factors:
            return None
        return np.array(reduce(lambda left, right: left * right, [take(item, strips) for item in self.factors]))

    @quietly
    def finish(self, partial: Array) -> Array:
        """Return the results of the whole, or of a part of it; see `Placement.finish`."""
        return REDUCTIONS[self.how].finish(partial)

    @quietly
    def assemble(self, steps: int, parts: Iterable[tuple[Local, Array]]) -> Array:
        """Merge the partial results of blocks that don't overlap; see `Placement.assemble`."""
        reduction = REDUCTIONS[self.how]
        whole = reduction.empty((steps, *self.shape))
        for local, partial in parts:
            ends = (slice(first, first + size) for first, size in zip(local.start, local.count, strict=True))
            place: tuple[Any, ...] = (..., *ends)
            own = partial.reshape(steps, reduction.components, *local.count).swapaxes(0, 1)
            whole[place] = reduction.merge(whole[place], own)
        return whole.swapaxes(0, 1).reshape(steps, reduction.components, -1)


def _strip(track: Track, places: Array) -> Strip:
    """Return the strip of some of a track's places, with the indices of the whole variable."""
    targets = track.targets(places)
    first, last = int(targets[0]), int(targets[-1])
    weights = None if track.weights is None else track.weights[places]
    return Strip(
        axes=track.axes,
        indices=tuple(indices[places] for indices in track.indices),
        places=as_index(places),
        factor=track.factor,
        first=first,
        size=last - first + 1,
        weights=weights,
    )


def _moved(strip: Strip, start: tuple[int, ...]) -> Strip:
    """Return a strip of the whole variable with the indices of a block that starts there."""
    pairs = zip(strip.axes, strip.indices, strict=True)
    indices = tuple(np.asarray(whole) - start[axis] for axis, whole in pairs)
    return replace(strip, indices=indices if len(indices) > 1 else (as_index(indices[0]),))
