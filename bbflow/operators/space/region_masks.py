"""Regions of NetCDF files: masks with a number for each region, or the shares that each has of the cells."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.operators.space.described import horizontal_axes, mesh_of
from bbflow.operators.space.grid import Grid
from bbflow.operators.space.meshes import Mesh, sized, strays
from bbflow.operators.space.netcdf_files import load
from bbflow.operators.steps import Array

WHAT = "a file of regions"
NAMES = ("name", "names", "NAME", "Name", "abbrev", "abbrevs", "Acronym")
"""Properties of polygons, and variables of masks, that have the names where none is told."""
DIGITS = 3
"""Of degrees, for putting points in order: those of float32 and float64 come out the same."""
ROUNDED = 1e-8
"""Shares above 1 by less than this are 1."""
Shares = tuple[Array, Array]
"""The cells that a region has a part of, and these parts, from 0 to 1."""


@lru_cache(maxsize=4)
def read_masks(path: Path, _changed: int, _size: int, names: str, variable: str) -> tuple[list[str], Mesh, Array]:
    """Return regions' names, their grid and the share of each cell, float64 of shape (regions, cells).

    Parameters
    ----------
    path, _changed, _size
        The file, and by what it is known to be the same.
    names, variable
        The variable with regions' names, and that with numbers or shares; empty if there is one that must be it.

    Raises
    ------
    ConfigError
        If the file can't be read, or has no mask.
    """
    data = load(path, WHAT, decode_times=False)
    field = data[_mask_of(data, path, variable)]
    known = {str(name): np.asarray(item.values) for name, item in data.variables.items() if item.dtype.kind in "iuf"}
    attributes = {str(name): item.attrs for name, item in data.variables.items()}
    grid = Grid(tuple(map(str, field.dims)), field.shape, known, attributes)
    axes = horizontal_axes(grid)
    others = [dim for axis, dim in enumerate(grid.dims) if axis not in axes]
    if len(others) > 1:
        told = f"the dimensions {', '.join(others)} beside those of the grid, not one of regions"
        raise ConfigError(f"{path}: {field.name!r} has {told}")
    mesh = mesh_of(grid, axes)
    values = field.transpose(*others, *(grid.dims[axis] for axis in axes)).values.astype("f8").reshape(-1, mesh.size)
    if others:
        return _labels(data, others[0], names, len(values)), mesh, values
    if names:
        raise ConfigError(f"names: {path}: of {field.name!r} 'flag_values' and 'flag_meanings' name the numbers")
    labels, shares = _numbered(field, values, path)
    return labels, mesh, shares


def _mask_of(data: Any, path: Path, variable: str) -> str:
    """Return the name of the variable that is the mask."""
    bounds = {str(item.attrs.get("bounds", "")) for item in data.variables.values()}
    fields = [str(own) for own, item in data.data_vars.items()
              if str(own) not in bounds and item.ndim and item.dtype.kind in "iufb"]  # fmt: skip
    likely = [own for own in fields if data[own].ndim > 1] or fields  # others may be names' numbers
    wanted = variable or (likely[0] if len(likely) == 1 else "")
    if wanted not in fields:
        told = nearest(variable, fields) if variable else f"say which of {', '.join(likely)} is meant, as 'variable'"
        raise ConfigError(f"{path} has no mask {variable!r}; {told}")
    return wanted


def _numbered(field: Any, values: Array, path: Path) -> tuple[list[str], Array]:
    """Return the names of the regions that a mask has numbers for, and the share of each cell."""
    numbers = np.atleast_1d(field.attrs.get("flag_values", []))
    if numbers.dtype.kind not in "iuf":
        told = f"flag_values of {field.name!r} are {str(numbers[0])!r}"
        raise ConfigError(f"{path}: {told}: they must be numbers, not text")
    there = np.unique(values[np.isfinite(values)])
    if not len(numbers) and ((there < 0) | (there > 1)).any():
        numbers = there[there != 0]
    if not len(numbers):
        return [str(field.name)], values
    if (numbers != np.round(numbers)).any():
        raise ConfigError(
            f"{path}: {field.name!r} goes from {there[0]:g} to {there[-1]:g}: shares lie in 0 to 1, numbers are whole"
        )
    words = str(field.attrs.get("flag_meanings", "")).split()
    labels = words if len(words) == len(numbers) else [f"{number:g}" for number in numbers]
    return labels, np.concatenate([values == number for number in numbers]).astype("f8")


def _labels(data: Any, dim: str, names: str, size: int) -> list[str]:
    """Return the names of regions along a dimension: of a variable, else its coordinate, else numbers."""
    if names and names not in data.variables:
        raise ConfigError(f"no variable {names!r}; {nearest(names, map(str, data.variables))}")
    if names and data[names].dims != (dim,):
        raise ConfigError(f"names: {names!r} isn't along {dim}, but {', '.join(map(str, data[names].dims))}")
    among = [names] if names else [*NAMES, dim]
    chosen = next((name for name in among if name in data.variables and data[name].dims == (dim,)), None)
    return [str(at) for at in range(size)] if chosen is None else [_text(label) for label in data[chosen].values]


def _text(label: Any) -> str:
    return label.decode().strip() if isinstance(label, bytes) else str(label).strip()


def _places(own: Mesh, mesh: Mesh) -> Array:
    """Return where the file has each cell of the variable's grid, if all are there: its order may be another one."""
    places = np.empty(mesh.size, "i8")
    orders = []
    for lat, lon in (own.centres, mesh.centres):
        orders.append(np.lexsort((np.round(lon % 360, DIGITS) % 360, np.round(lat, DIGITS))))
    places[orders[1]] = orders[0]
    return places


def shares_of(own: Mesh, values: Array, mesh: Mesh, path: Path) -> list[Shares]:
    """Return what regions have of the cells of a variable's grid, which must be the file's, in any order.

    Raises
    ------
    ConfigError
        If it is another grid, or shares don't lie in 0 to 1.
    """
    name = f"regions {path.name}"
    sized(own, mesh.shape, name)
    if found := strays(own, mesh):
        (lat, lon), places = own.centres, _places(own, mesh)
        if strays(Mesh(mesh.shape, lat[places], lon[places]), mesh):
            raise ConfigError(
                f"{name}: {found} of {mesh.size} points lie elsewhere in the variable's grid: bring them there"
            )
        values = values[:, places]
    values = np.nan_to_num(values)
    if values.min(initial=0) < 0 or values.max(initial=0) > 1 + ROUNDED:
        raise ConfigError(f"{name}: shares go from {values.min():g} to {values.max():g}, not from 0 to 1")
    return [(cells := np.flatnonzero(row), row[cells]) for row in values]
