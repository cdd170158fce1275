"""Columns: what is made of each column of a block, by the kernel."""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import BbflowError, ConfigError
from bbflow.operators.frozen import Frozen
from bbflow.operators.kernel_arrays import as_blocks
from bbflow.operators.library import load
from bbflow.operators.space.grid import LEVEL, Grid
from bbflow.operators.space.levels import DERIVATIVE, INTEGRAL, MAKES, MEAN, TO, Levels
from bbflow.operators.space.vertical import HEIGHT, PRESSURE, LevelCoordinate, reference_of
from bbflow.operators.steps import Array, Steps


class _Columns(ctypes.Structure):
    """``BbflowColumns`` in Levels.h."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("before", "levels", "after", "interfaces", "targets")),
        *((name, ctypes.c_void_p) for name in ("values", "fill", "a", "b", "surface", "points", "to", "result")),
        ("sign", ctypes.c_double),
        *((name, ctypes.c_int32) for name in ("double", "wide", "make", "log", "linear", "lowest")),
    ]


@cache
def _library() -> ctypes.CDLL:
    library = load(BbflowColumns=_Columns)
    library.bbflow_levels.argtypes = [ctypes.POINTER(_Columns)]
    library.bbflow_levels.restype = ctypes.c_int
    return library


TARGETS = {PRESSURE: "plev", HEIGHT: "height"}
"""Names of dimensions that are made."""
ATTRIBUTES = {
    PRESSURE: {"standard_name": "air_pressure", "long_name": "pressure", "positive": "down", "axis": "Z"},
    HEIGHT: {"long_name": "height", "positive": "up", "axis": "Z"},
}
"""Their CF attributes."""


@dataclass(frozen=True, slots=True, eq=False)
class Column(Frozen):
    """What is made of the columns of a whole variable."""

    levels: Levels
    """What is wanted."""
    axis: int
    """The dimension of the levels."""
    dim: str
    """Its name."""
    length: int
    """How many levels there are."""
    size: int
    """How many there are in the result; 1 if one value is made of all."""
    is_up: bool
    """Whether coordinates grow away from the ground."""
    a: Array | None = None
    """float64 of shape (interfaces,): coordinates are a + b * surface, or a if there is no b."""
    b: Array | None = None
    """float64 of the same shape."""
    fixed: Mapping[str, Array] = field(default_factory=dict)
    """Whole fields that hold for all steps, float64, by name."""

    @property
    def is_one(self) -> bool:
        """Whether one value is made of a column, which isn't a dimension then."""
        return self.levels.make in (MEAN, INTEGRAL)

    @property
    def surface(self) -> str | None:
        """The variable of each step that has no levels; None if there is none."""
        coordinate = self.levels.coordinate
        return (coordinate.surface or None) if coordinate is not None and not coordinate.is_fixed else None

    def seen(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that comes out of a shape of the variable."""
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :])

    def of_grid(self, grid: Grid) -> Grid:
        """Return the grid that comes out of the variable's."""
        shape, dim, units = self.seen(grid.shape), self.dim, self._units(grid)
        if self.levels.make != TO:
            return replace(grid, shape=shape)
        coordinate = self.levels.coordinate
        described = dict(grid.attributes.get(dim, {}))
        if coordinate is not None:
            dim = TARGETS[coordinate.kind]
            described = {**ATTRIBUTES[coordinate.kind], **({"units": units} if units else {})}
        dims = (*grid.dims[: self.axis], dim, *grid.dims[self.axis + 1 :])
        if len(set(dims)) < len(dims):
            raise ConfigError(f"the variable has a dimension {dim!r} besides its levels {self.dim!r}")
        gone = (self.dim, *(f"{self.dim}_{ending}" for ending in ("bnds", "bounds")))
        kept = {name: values for name, values in grid.coordinates.items() if name not in gone}
        coordinates = {**kept, dim: np.asarray(self.levels.to, "f8")}
        return Grid(dims, shape, coordinates, {**grid.attributes, dim: described}, made=frozenset([dim]))

    def own_units(self, grid: Grid) -> str:
        """Return the units of what is made, where {units} are the variable's; empty if they aren't known."""
        if self.levels.make not in (INTEGRAL, DERIVATIVE):
            return "{units}"
        units = self._units(grid)
        if not units:
            return ""
        return f"{{units}} {units}" if self.levels.make == INTEGRAL else f"{{units}} {_inverse(units)}"

    def _units(self, grid: Grid) -> str:
        coordinate = self.levels.coordinate
        name = self.dim if coordinate is None else coordinate.field or coordinate.surface
        return str(grid.attributes.get(name, {}).get("units", ""))

    @property
    def cell_methods(self) -> str:
        """What is done, as CF writes it; empty if values stay values of points."""
        done = {MEAN: "mean (weighted by thickness)", INTEGRAL: "sum (weighted by thickness)"}.get(self.levels.make)
        return f"{self.dim}: {done}" if done else ""

    def without(self, place: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a start or a shape of the variable as a field without levels has it."""
        return (*place[: self.axis], *place[self.axis + 1 :])

    def local(self, start: tuple[int, ...], count: tuple[int, ...]) -> "ColumnPart":
        """Return what is made of one block.

        Raises
        ------
        ConfigError
            If it hasn't its columns whole.
        """
        first, last = start[self.axis], start[self.axis] + count[self.axis]
        if (first, last) != (0, self.length):
            raise ConfigError(
                f"levels: a block has {first} to {last - 1} of the {self.length} levels of {self.dim!r}: each column "
                f"must be in one block, so let ranks divide the other dimensions, not {self.dim!r}"
            )
        region = tuple(slice(at, at + length) for at, length in zip(start, count, strict=True))
        fixed = {
            name: np.ascontiguousarray(whole[region if whole.ndim == len(start) else self.without(region)]).reshape(-1)
            for name, whole in self.fixed.items()
        }
        return ColumnPart(self.levels, count, self.axis, self.size, self.is_up, self.a, self.b, fixed)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPart(Frozen):
    """What is made of the columns of one block."""

    levels: Levels
    """What is wanted."""
    block: tuple[int, ...]
    """Shape of the block."""
    axis: int
    """The dimension of the levels."""
    size: int
    """How many there are in the result."""
    is_up: bool
    """Whether coordinates grow away from the ground."""
    a: Array | None
    """See `Column`."""
    b: Array | None
    """See `Column`."""
    fixed: Mapping[str, Array]
    """Fields of all steps, flat, by name."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables that are needed besides the field's own."""
        return self.levels.variables

    def apply(self, steps: Steps, others: Mapping[str, Steps]) -> Steps:
        """Return the field's steps on its new levels.

        Parameters
        ----------
        steps
            The block's values, each of shape (points,).
        others
            For each of `variables` (and maybe others) its values in the same steps, of shape (points,) or (columns,).
        """
        targets = np.asarray(self.levels.to, "f8")
        made = []
        for at, values in enumerate(steps.values):
            own = {**{name: _step(others[name], at) for name in self.variables}, **self.fixed}
            made.append(self._make(values, steps.fill, own, targets))
        return Steps(made, None, steps.times, steps.numbers)

    def _make(self, values: Array, fill: Array | None, fields: Mapping[str, Array], targets: Array) -> Array:
        before, after = prod(self.block[: self.axis]), prod(self.block[self.axis + 1 :])
        values, fill = _floats(values, fill)
        coordinate = self.levels.coordinate
        surface = _surface(coordinate, fields, before * after)
        points = fields[coordinate.field] if coordinate is not None and coordinate.field else None
        if points is not None and points.size != values.size:
            raise BbflowError(f"levels: the coordinate has {points.size} points, the field {values.size}")
        result = np.empty(before * self.size * after, values.dtype)
        task = _Columns(
            before=before, levels=self.block[self.axis], after=after,
            interfaces=self.block[self.axis] if self.a is None else len(self.a), targets=self.size,
            values=values.ctypes.data, fill=_address(fill), a=_address(self.a), b=_address(self.b),
            surface=_address(surface), points=_address(points), to=targets.ctypes.data, result=result.ctypes.data,
            sign=-1.0 if self.is_up else 1.0,
            double=values.dtype == np.dtype("f8"), wide=points is not None and points.dtype == np.dtype("f8"),
            make=MAKES.index(self.levels.make), log=self.levels.is_log,
            linear=self.levels.above == "linear", lowest=self.levels.below == "lowest",
        )  # fmt: skip
        if _library().bbflow_levels(task) != 0:
            raise BbflowError(f"no memory for the columns of a block of shape {self.block}")
        return result


def _inverse(units: str) -> str:
    return f"{units}-1" if units.isalpha() else f"({units})-1"


def _address(values: Array | None) -> int | None:
    return None if values is None else values.ctypes.data


def _floats(values: Array, fill: Array | None) -> tuple[Array, Array | None]:
    """Return values that the kernel takes: float32 and float64 as they are, others as float64."""
    dtype = values.dtype if values.dtype in (np.dtype("f4"), np.dtype("f8")) else np.dtype("f8")
    (whole,) = as_blocks([values.astype(dtype, copy=False)], dtype, values.size)
    return whole, None if fill is None else fill.astype(dtype)


def _step(steps: Steps, at: int) -> Array:
    """Return a step of a coordinate, NaN where it is missing."""
    values, fill = _floats(steps.values[at], steps.fill)
    return values if fill is None else np.where(values == fill, np.asarray(np.nan, values.dtype), values)


def _surface(coordinate: LevelCoordinate | None, fields: Mapping[str, Array], columns: int) -> Array | None:
    if coordinate is None or not coordinate.surface:
        return None
    surface = fields[coordinate.surface]
    if surface.size > columns and (surface == surface[0]).all():  # a single value, which stands for all points
        surface = surface[:columns]
    if surface.size != columns:
        raise BbflowError(f"levels: {coordinate.surface!r} has {surface.size} points, the field {columns} columns")
    return np.ascontiguousarray(surface, "f8")


def place_column(levels: Levels, grid: Grid, variables: Callable[[str], Array]) -> Column:
    """Find the columns of a variable's grid.

    Parameters
    ----------
    levels
        What is made of them.
    grid
        The variable's.
    variables
        Gives fields of the first step.

    Raises
    ------
    ConfigError
        If there is no such dimension, coefficients don't fit, or a coordinate never reaches a level.
    """
    axis = grid.axis(LEVEL)
    dim, length = grid.dims[axis], grid.shape[axis]
    size = {TO: len(levels.to), DERIVATIVE: length}.get(levels.make, 1)
    if levels.make == DERIVATIVE and length < 2:
        raise ConfigError(f"{dim!r} has one level, along which there is no derivative")
    place = partial(Column, levels, axis, dim, length, size)
    coordinate = levels.coordinate
    if coordinate is None:
        is_up = str(grid.attributes.get(dim, {}).get("positive", "")).lower() == "up"
        own = np.ascontiguousarray(grid.coordinate(axis), "f8")
        _check_targets(levels, own, dim, is_up=is_up)
        return place(is_up, own)
    is_up = coordinate.kind == HEIGHT
    fixed = {name: np.asarray(variables(name), "f8") for name in coordinate.fields} if coordinate.is_fixed else {}
    wanted = {coordinate.field: grid.shape, coordinate.surface: (*grid.shape[:axis], *grid.shape[axis + 1 :])}
    for name, values in fixed.items():
        if values.shape != wanted[name]:
            raise ConfigError(f"{name!r} has the shape {values.shape}, which doesn't fit the variable's {grid.shape}")
    if coordinate.field:
        return place(is_up, fixed=fixed)
    interfaces = length if levels.make in (TO, DERIVATIVE) else length + 1
    a, b = (_coefficients(name, variables(name), interfaces, dim) for name in (coordinate.a, coordinate.b))
    return place(is_up, a * reference_of(coordinate, grid.attributes, variables, a), b, fixed)


def _check_targets(levels: Levels, coordinate: Array, dim: str, *, is_up: bool) -> None:
    steps = np.diff(coordinate)
    if not ((steps > 0).all() or (steps < 0).all()):
        raise ConfigError(f"the coordinate {dim!r} must rise or fall from level to level")
    least, most = float(coordinate.min()), float(coordinate.max())
    above, below = (levels.above == "missing", levels.below == "missing")
    under, over = (below, above) if is_up else (above, below)
    for target in levels.to:
        if (target < least and under) or (target > most and over):
            raise ConfigError(f"{target:g} is beyond {dim!r}, which goes from {least:g} to {most:g}")


def _coefficients(name: str, values: Array, count: int, dim: str) -> Array:
    if values.shape != (count,):
        raise ConfigError(f"{name!r} has the shape {values.shape}, but must have {count} coefficients for {dim!r}")
    return np.ascontiguousarray(values, "f8")
