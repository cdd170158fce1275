"""What needs the whole of a field: a second reduction, ranks and sums along dimensions, and what is left of a mean.

Blocks contribute to the field before it, step by step; where that is whole, the rest is made of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.cells import cells_of
from bbflow.operators.space.columns import Column
from bbflow.operators.space.grid import LAT, LEVEL, LON, Grid, area_weights, common_kind
from bbflow.operators.space.moves import Cumulate, Gather, SpacePercentile, Wavenumbers, Whole
from bbflow.operators.space.placement import Local, Placement
from bbflow.operators.space.weights import Weights
from bbflow.operators.steps import Array, Steps

WAVENUMBER = "wavenumber"
"""Name of the dimension of wavenumbers."""
UNEVEN = 0.02
"""Longitudes that lie by more than this part of their distance from where even ones are aren't even."""


@dataclass(frozen=True, slots=True, eq=False)
class Made(ABC):
    """What is made of whole fields, and where it lies; its grid is that of the fields, less what is reduced."""

    grid: Grid
    """The fields'."""
    axes: tuple[int, ...]
    """Those along which it works."""
    cell_methods: str
    """What was done, as CF writes it; empty if it has no word for it."""
    own_units = "{units}"

    @property
    def kept(self) -> tuple[int, ...]:
        """Return the axes that the result has."""
        return tuple(axis for axis in range(len(self.grid.dims)) if axis not in self.axes)

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the result's dimensions."""
        return tuple(self.grid.dims[axis] for axis in self.kept)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return their sizes."""
        return tuple(self.grid.shape[axis] for axis in self.kept)

    @property
    def coordinates(self) -> Mapping[str, Array]:
        """Return those of dimensions that the fields don't have."""
        return {}

    @property
    def coordinate_dims(self) -> Mapping[str, tuple[str, ...]]:
        """Return the dimensions of each of them."""
        return {}

    @property
    def coordinate_attributes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is known of them."""
        return {}

    @property
    def own_dims(self) -> frozenset[str]:
        """Return the dimensions that the fields don't have."""
        return frozenset(self.coordinates)

    @property
    def attributes(self) -> Mapping[str, str]:
        """Return attributes of the result that name coordinates."""
        return {}

    @property
    def remapping_weights(self) -> Weights | None:
        """Return those of a remap."""
        return None

    @abstractmethod
    def make(self, fields: Array) -> Array:
        """Make the results of fields, float64 of shape (steps, *grid.shape), NaN where they are missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked(Made):
    """A percentile by nearest rank, or the median, of the valid values."""

    q: float | None = None
    """From 0 to 100; None for the median, which is the mean of the two middle values if their number is even."""

    def make(self, fields: Array) -> Array:
        """Return them."""
        moved = np.moveaxis(fields, [axis + 1 for axis in self.axes], range(-len(self.axes), 0))
        values = np.sort(moved.reshape(*moved.shape[: moved.ndim - len(self.axes)], -1), axis=-1)  # NaN comes last
        count = np.isfinite(values).sum(axis=-1, keepdims=True) + np.isinf(values).sum(axis=-1, keepdims=True)
        if self.q is None:
            low, high = (count - 1) // 2, count // 2
            pair = [np.take_along_axis(values, np.clip(rank, 0, None), -1)[..., 0] for rank in (low, high)]
            found = (pair[0] + pair[1]) / 2
        else:
            # Rounded first: a product that should be whole may be a little more, and would give the next rank.
            rank = np.clip(np.ceil(np.round(count * self.q / 100, 9)) - 1, 0, None).astype("i8")
            found = np.take_along_axis(values, rank, -1)[..., 0]
        return np.asarray(np.where(count[..., 0] > 0, found, np.nan))


@dataclass(frozen=True, slots=True, eq=False)
class OfAllDims(Made):
    """What has all dimensions of the fields."""

    @property
    def kept(self) -> tuple[int, ...]:
        """Return all axes."""
        return tuple(range(len(self.grid.dims)))


@dataclass(frozen=True, slots=True, eq=False)
class Cumulated(OfAllDims):
    """The sum of all values from the begin of a dimension on, as CDO's vertcum: missing ones add nothing.

    Before the first value there is none.
    """

    def make(self, fields: Array) -> Array:
        """Return them."""
        (axis,) = self.axes
        known = ~np.isnan(fields)
        begun = np.logical_or.accumulate(known, axis=axis + 1)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.cumsum(np.where(known, fields, 0.0), axis=axis + 1)
        return np.where(begun, sums, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Departure(OfAllDims):
    """What is left of a field without its mean over some dimensions, such as the eddies of a zonal mean."""

    weights: Array | None = None
    """Of the points, float64 that broadcasts against the grid; None if all weigh the same."""

    def make(self, fields: Array) -> Array:
        """Return it."""
        axes = tuple(axis + 1 for axis in self.axes)
        valid = ~np.isnan(fields)
        weights = np.where(valid, 1.0 if self.weights is None else self.weights, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(valid, fields, 0.0) * weights
            return np.asarray(fields - mean.sum(axis=axes, keepdims=True) / weights.sum(axis=axes, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class WaveVariances(Made):
    """The variance of each wavenumber along a dimension: the squares of the Fourier transform's parts.

    They add up to the mean square (Parseval). A circle with a missing value has none.
    """

    most: int = 0
    """The largest wavenumber."""
    own_units = "({units})2"

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the fields', with wavenumbers in the place of the dimension."""
        return tuple(WAVENUMBER if axis in self.axes else dim for axis, dim in enumerate(self.grid.dims))

    @property
    def shape(self) -> tuple[int, ...]:
        """Return their sizes."""
        return tuple(self.most + 1 if axis in self.axes else size for axis, size in enumerate(self.grid.shape))

    @property
    def coordinates(self) -> Mapping[str, Array]:
        """Return the wavenumbers."""
        return {WAVENUMBER: np.arange(self.most + 1.0)}

    @property
    def coordinate_dims(self) -> Mapping[str, tuple[str, ...]]:
        """Return their dimension."""
        return {WAVENUMBER: (WAVENUMBER,)}

    @property
    def coordinate_attributes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what they are."""
        (axis,) = self.axes
        return {WAVENUMBER: {"units": "1", "long_name": f"wavenumber along {self.grid.dims[axis]}"}}

    def make(self, fields: Array) -> Array:
        """Return it."""
        (axis,) = self.axes
        size = self.grid.shape[axis]
        with np.errstate(invalid="ignore", over="ignore"):
            parts = np.abs(np.fft.rfft(fields, axis=axis + 1, norm="forward")) ** 2
        numbers = np.arange(parts.shape[axis + 1])
        # Of two parts that are each other's conjugates rfft gives one; the mean has none, nor has the shortest wave.
        twice = np.where((numbers % size == 0) | (2 * numbers == size), 1, 2)
        parts *= twice.reshape([-1 if at == axis + 1 else 1 for at in range(parts.ndim)])
        return np.take(parts, range(self.most + 1), axis=axis + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Gathered(OfAllDims):
    """The fields as they are, with the points' shares of the area."""

    weights: Array | None = None
    """Of the points, float64 that broadcasts against the grid; None if all weigh the same."""

    @property
    def shares(self) -> Array:
        """Return each point's share, of the grid's shape; their sum is 1."""
        weights = np.broadcast_to(1.0 if self.weights is None else self.weights, self.grid.shape)
        return np.asarray(weights / weights.sum())

    def make(self, fields: Array) -> Array:
        """Return them."""
        return fields


def made_of(move: Whole, grid: Grid) -> Made:
    """Find what a move works on in the grid of whole fields.

    Raises
    ------
    ConfigError
        If a dimension isn't there, or is given twice.
    """
    kinds = {name: common_kind(name) for name in grid.there(move.dims)}
    cells = cells_of(grid) if {LAT, LON} <= {*kinds.values()} else None
    others = [name for name, kind in kinds.items() if cells is None or kind not in (LAT, LON)]
    axes = (*(() if cells is None else cells.axes), *(grid.axis(name) for name in others))
    if len(set(axes)) < len(axes):
        raise ConfigError(f"{move.key}: a dimension of {', '.join(move.dims)} is given twice")
    names = "".join(f"{grid.dims[axis]}: " for axis in axes)
    if isinstance(move, SpacePercentile):
        method = "median" if move.q is None else f"mean (percentile {move.q:g})"
        return Ranked(grid, axes, f"{names}{method}", move.q)
    if isinstance(move, Cumulate):
        return Cumulated(grid, axes, f"{names}sum (from the begin of the dimension)")
    if isinstance(move, Wavenumbers):
        return _waves(move, grid, axes)
    if isinstance(move, Gather):
        return Gathered(grid, (), "", _areas(grid) if move.weights == "area" else None)
    by_area = LAT in {grid.kind(axis) for axis in axes}
    weights = cells.areas() if cells is not None else _widths(grid, axes) if by_area else None
    return Departure(grid, axes, f"{names}mean (subtracted)", weights)


def _widths(grid: Grid, axes: Iterable[int]) -> Array:
    """Return the products of points' widths along latitudes and longitudes among some axes, that broadcast."""
    shares = {axis: area_weights(grid, axis) for axis in axes if grid.kind(axis) in (LAT, LON)}
    places = range(len(grid.dims))
    known = (own.reshape([-1 if at == axis else 1 for at in places]) for axis, own in shares.items() if own.any())
    return reduce(np.multiply, known, np.ones([1 for _ in places]))  # of a single place no width is known


def _areas(grid: Grid) -> Array | None:
    """Return what the points of a whole grid weigh; None if they have no place on the globe, and so weigh the same.

    Raises
    ------
    ConfigError
        If they have one, but their areas aren't known.
    """
    axes = range(len(grid.dims))
    if {LAT, LON} & {grid.kind(axis) for axis in axes}:
        return _widths(grid, axes)
    if (cells := cells_of(grid)) is not None:
        return cells.areas()
    if grid.auxiliary_shapes(LAT):
        raise ConfigError(
            "the areas of the points aren't known: let the stream have their corners, or say weights: none"
        )
    return None


def _waves(move: Wavenumbers, grid: Grid, axes: tuple[int, ...]) -> WaveVariances:
    (axis,) = axes
    size = grid.shape[axis]
    kind = grid.kind(axis)
    is_list = kind is None and (grid.auxiliary_shapes(LAT) & {(size,)} or grid.dims[axis] == grid.healpix)
    if kind in (LAT, LEVEL) or is_list:
        raise ConfigError(f"wavenumbers: {grid.dims[axis]!r} doesn't go around: take longitudes")
    if kind == LON:
        turned = np.unwrap(np.asarray(grid.coordinate(axis), "f8"), period=360)
        # By place, not by distance: one point too many of 1,441 changes each distance by a thousandth only.
        off = np.abs((turned - turned[0]) * size / 360) - np.arange(size)
        if size < 2 or not np.all(np.abs(off) <= UNEVEN):
            raise ConfigError(
                f"wavenumbers: the points of {grid.dims[axis]!r} don't go around the globe at even distances"
            )
    most = size // 2 if move.most is None else move.most
    if most > size // 2:
        raise ConfigError(f"wavenumbers: {size} points along {grid.dims[axis]!r} have none beyond {size // 2}")
    return WaveVariances(grid, axes, f"{grid.dims[axis]}: variance (of each wavenumber)", most)


@dataclass(frozen=True, slots=True, eq=False)
class Chained(Placement):
    """What is made of a placement's whole results."""

    first: Placement
    """What blocks contribute to."""
    second: Placement | Made
    """What is made of that."""

    @property
    def column(self) -> Column | None:
        """Return what is made of the variable's columns before all else."""
        return self.first.column

    @property
    def remapping_weights(self) -> Weights | None:
        """Return those of the remap among them."""
        return self.first.remapping_weights or self.second.remapping_weights

    @property
    def coordinate_attributes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return those of both."""
        return {**self.first.coordinate_attributes, **self.second.coordinate_attributes}

    @property
    def attributes(self) -> Mapping[str, str]:
        """Return those of what came last."""
        return self.second.attributes

    @property
    def own_dims(self) -> frozenset[str]:
        """Return those of both."""
        return self.first.own_dims | self.second.own_dims

    def local(self, start: tuple[int, ...], count: tuple[int, ...]) -> Local | None:
        """Return what a block has of the first result: never all of the second one."""
        local = self.first.local(start, count)
        return None if local is None else replace(local, complete=False)

    def assemble(self, steps: int, parts: Iterable[tuple[Local, Array]]) -> Array:
        """Merge the partial results of blocks that don't overlap; see `Placement.assemble`."""
        return self.first.assemble(steps, parts)

    def finish(self, partial: Array) -> Array:
        """Make the whole of the first, and the second of it; see `Placement.finish`."""
        fields = self.first.finish(partial)
        if isinstance(self.second, Made):
            made = self.second.make(fields.reshape(len(fields), *self.first.shape))
            return np.ascontiguousarray(made.reshape(len(fields), prod(self.shape)))
        local = self.second.local((0,) * len(self.first.shape), self.first.shape)
        assert local is not None
        return np.stack([np.asarray(row, "f8") for row in local.values(Steps(list(fields)))])


def chained(first: Placement, second: Placement | Made, units: str, source: tuple[int, ...]) -> Chained:
    """Return what is made of a placement's results.

    Parameters
    ----------
    first, second
        Both.
    units
        What becomes of the variable's {units}.
    source
        The variable's shape.
    """
    own, values, there = second.coordinate_dims, second.coordinates, {*second.dims, "bnds"}
    kept = {name: dims for name, dims in first.coordinate_dims.items() if name not in own and there >= {*dims}}
    return Chained(
        dims=second.dims,
        shape=second.shape,
        coordinates={**{name: first.coordinates[name] for name in kept}, **values},
        coordinate_dims={**kept, **own},
        cell_methods=" ".join(filter(None, (first.cell_methods, second.cell_methods))),
        own_units=units,
        source=source,
        first=first,
        second=second,
    )
