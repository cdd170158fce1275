"""How a reference's fields get onto the members' grid: as they are, in another order of dimensions, or remapped."""

from collections.abc import Callable
from math import prod

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.described import horizontal_axes, mesh_of
from bbflow.operators.space.grid import Grid
from bbflow.operators.space.links import links_of
from bbflow.operators.space.meshes import Mesh, strays
from bbflow.operators.space.regridding import least_of
from bbflow.operators.space.remapping import Ending, scattered
from bbflow.operators.space.weight_sources import made
from bbflow.operators.steps import Array

Fit = Callable[[Array], Array]
"""Puts a field of the reference's shape onto the members' grid; of shape (points,) and float64."""
CLOSE = 1e-6
"""Coordinates that differ by less, relatively, are the same."""


def fitting(name: str, source: Grid, target: Grid, method: str) -> Fit:
    """Find out how fields of one grid get onto another.

    Parameters
    ----------
    name
        What messages call the source.
    source, target
        The grids of the reference and of the members.
    method
        con, bil, nn or dis: how it is remapped if its grid differs; empty if it mustn't be.

    Raises
    ------
    ConfigError
        If the grid is another one and isn't to be remapped, or other dimensions aren't the same.
    """
    (axes, mesh), (target_axes, target_mesh) = _horizontal(source, target)
    planes, target_planes = _others(source, axes), _others(target, target_axes)
    _check_planes(name, source, planes, target, target_planes)
    inner = _product(name, mesh, target_mesh, method)
    shape = [source.shape[axis] for axis in planes]
    back = np.argsort([*target_planes, *target_axes])

    def fit(values: Array) -> Array:
        given = np.ascontiguousarray(values.transpose(*planes, *axes), "f8").reshape(prod(shape), mesh.size)
        ordered = inner(given).reshape(*shape, *target_mesh.shape)
        return ordered.transpose(*back).reshape(-1)

    return fit


def _horizontal(*grids: Grid) -> list[tuple[tuple[int, ...], Mesh]]:
    """Return the grids' horizontal axes and meshes; none unless it is known of all of them where their cells are."""
    found = []
    for grid in grids:
        try:
            axes = horizontal_axes(grid)
        except ConfigError:
            axes = ()
        found.append((axes, mesh_of(grid, axes)))
    is_known = all(mesh.lat is not None and mesh.lon is not None for _, mesh in found)
    return found if is_known else [((), Mesh((), None, None)) for _ in grids]


def _others(grid: Grid, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(len(grid.dims)) if axis not in axes)


def _check_planes(
    name: str, source: Grid, planes: tuple[int, ...], target: Grid, target_planes: tuple[int, ...]
) -> None:
    shapes = [tuple(grid.shape[axis] for axis in axes) for grid, axes in ((source, planes), (target, target_planes))]
    if shapes[0] != shapes[1]:
        raise ConfigError(
            f"{name} has the dimensions {_told(source)}, but the members {_told(target)}: give both the same levels, "
            "and name latitudes and longitudes by CF where they are to be remapped"
        )
    for axis, target_axis in zip(planes, target_planes, strict=True):
        own, wanted = source.coordinates.get(source.dims[axis]), target.coordinates.get(target.dims[target_axis])
        if own is None or wanted is None or own.dtype.kind not in "fiu" or wanted.dtype.kind not in "fiu":
            continue
        if not np.allclose(own, wanted, rtol=CLOSE, atol=0):
            raise ConfigError(
                f"{name} has other values of {source.dims[axis]} than the members: put them into the same order first"
            )


def _told(grid: Grid) -> str:
    return ", ".join(f"{dim} {size}" for dim, size in zip(grid.dims, grid.shape, strict=True))


def _product(name: str, source: Mesh, target: Mesh, method: str) -> Fit:
    """Return what puts planes of shape (planes, points) onto the target."""
    apart = strays(source, target) if source.shape == target.shape else 0
    if source.shape == target.shape and not apart:
        return lambda planes: planes
    if not method:
        own, theirs = (" x ".join(map(str, mesh.shape)) for mesh in (source, target))
        what = f"has {own} points, the members' has {theirs}"
        if apart:
            what = f"has the same size, but {apart} of {source.size} points lie elsewhere"
        raise ConfigError(f"the grid of {name} {what}: remap: con, bil, nn or dis puts it onto theirs")
    weights = made(method, source, target)
    axes = [np.arange(size) for size in source.shape]
    links = links_of(weights, source.shape, axes, [prod(source.shape[at + 1 :]) for at in range(len(source.shape))])
    ending = Ending(weights.cover, weights.share, least_of(weights)).some(links.rows)

    def product(planes: Array) -> Array:
        parts = links.apply([planes.reshape(-1)], np.arange(len(planes), dtype=np.int64) * source.size, None)
        ended: Array = scattered(ending.end(parts, out=parts[:, 0]), links.rows, target.size)[0]
        return ended

    return product
