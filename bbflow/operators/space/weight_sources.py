"""Where the weights of a remap come from: a file that is checked, or made for a target."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.making import make_weights
from bbflow.operators.space.meshes import Mesh, strays
from bbflow.operators.space.moves import Remap
from bbflow.operators.space.netcdf_files import version_of
from bbflow.operators.space.region_files import region_weights
from bbflow.operators.space.targets import target_of
from bbflow.operators.space.weights import Weights, check_method, read_weights


def weights_for(move: Remap, source: Mesh) -> Weights:
    """Return a remap's weights, with both grids.

    Parameters
    ----------
    move
        The remap.
    source
        The grid of the variable.

    Raises
    ------
    ConfigError
        If the file can't be read, is of another method, or doesn't say what it is for; or weights can't be made.
    """
    if move.regions is not None:
        regions, directory = move.regions, Path(move.directory)
        version = version_of(directory / Path(regions.file).expanduser(), "a file of regions")
        return _once((regions, version), source, lambda: region_weights(regions, directory, source))
    if move.file is None:
        return made(move.method, source, target_of(move.grid or "", move.directory))
    weights = read_weights(move.file)
    check_method(weights.name, weights.method, move.method)
    if weights.target is not None:
        return _named(weights, target_of(move.grid, move.directory)) if move.grid else weights
    if not move.grid:
        raise ConfigError(
            f"{weights.name} doesn't say what its target is, as those of xESMF don't: name it, such as grid: r360x180, "
            "or grid: and a NetCDF file with its coordinates"
        )
    return _completed(weights, source.size, target_of(move.grid, move.directory))


def target_mesh(move: Remap) -> Mesh:
    """Return the target of a remap, without its source.

    Raises
    ------
    ConfigError
        If its file can't be read, or doesn't say what its target is.
    """
    if move.grid:
        return target_of(move.grid, move.directory)
    assert move.file is not None
    weights = read_weights(move.file)
    if weights.target is None:
        raise ConfigError(f"{weights.name} doesn't say what its target is")
    return weights.target


@lru_cache(maxsize=4)
def _named(weights: Weights, target: Mesh) -> Weights:
    """Take as target a grid that the file may not know by its name, such as HEALPix, if the cells are the same."""
    assert weights.target is not None
    if weights.target.size != target.size:
        raise ConfigError(f"{weights.name} has {weights.target.size} points in its target, {target.size} are asked for")
    if found := strays(weights.target, target):
        raise ConfigError(
            f"{weights.name} is for a target of the same size, but {found} of {target.size} points lie elsewhere in "
            "it: a HEALPix grid must be in nested order"
        )
    return replace(weights, target=target)


def made(method: str, source: Mesh, target: Mesh) -> Weights:
    """Make weights, or return those that were made of such a grid before: variables of one grid share them.

    Raises
    ------
    ConfigError
        If they can't be made of these grids.
    """
    return _once((method, id(target)), source, lambda: make_weights(method, source, target))


def _once(key: Any, source: Mesh, make: Callable[[], Weights]) -> Weights:
    for known, weights in tuple(MADE_BEFORE) if source.lat is not None else ():
        if known == key and weights.source is not None and _is_same(weights.source, source):
            return weights
    weights = make()
    MADE_BEFORE.append((key, weights))
    return weights


MADE_BEFORE: deque[tuple[Any, Weights]] = deque(maxlen=4)
"""The last weights that were made, with what they are for: the method and the target, or a file of regions."""


def _is_same(one: Mesh, other: Mesh) -> bool:
    """Whether cells have the same centres, and the same corners or edges, or none."""
    parts = [(own.lat, own.lon, own.lat_corners, own.lon_corners, *(own.edges or (None, None))) for own in (one, other)]
    return one.shape == other.shape and all(map(_is_equal, *parts))


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other, equal_nan=True))


@lru_cache(maxsize=4)
def _completed(weights: Weights, columns: int, target: Mesh) -> Weights:
    """Complete weights with grids of which their file says nothing, not even the sizes."""
    for what, has, size in (
        ("the variable's grid", len(weights.starts) - 1, columns),
        ("the target", len(weights.cover), target.size),
    ):
        if has > size:
            raise ConfigError(f"{weights.name} has links to point {has} of {what}, which has {size} points")
    more = target.size - len(weights.cover)
    return replace(
        weights,
        target=target,
        starts=np.pad(weights.starts, (0, columns + 1 - len(weights.starts)), mode="edge"),
        cover=np.pad(weights.cover, (0, more)),
        share=np.pad(weights.share, (0, more)),
    )
