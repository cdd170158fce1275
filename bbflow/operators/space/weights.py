"""Weights: areas of cells, and fields of the stream on a variable's grid."""

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.family import Array
from bbflow.operators.space.grid import LAT, LON, Grid

EARTH_RADIUS_M = 6371000.0
"""Of the sphere that CDO's gridarea uses."""


def area_weights(grid: Grid, axis: int) -> Array:
    """Give a dimension's share of the cells' areas, float64 of shape (size,).

    The area of a cell between two parallels and two meridians is R^2 (sin(north) - sin(south)) (east - west):
    latitude's share is R (sin(north) - sin(south)), longitude's R (east - west). Other dimensions have 1; a single
    point without bounds has 0, since its width is not known.
    """
    edges = np.deg2rad(grid.edges(axis))
    if grid.kind(axis) == LAT:
        weights = np.abs(np.diff(np.sin(edges), axis=1))[:, 0]
    elif grid.kind(axis) == LON:
        weights = np.abs(np.diff(edges, axis=1))[:, 0]
    else:
        return np.ones(grid.shape[axis])
    return EARTH_RADIUS_M * weights


def fitted(name: str, values: Array, grid: Grid) -> Array:
    """Give a field the variable's rank: its dimensions are the last ones, else the only ones of these sizes.

    Raises
    ------
    ConfigError
        If its shape fits nowhere, or in several ways.
    """
    rank = len(grid.shape)
    if values.shape == grid.shape[rank - values.ndim :]:
        return values.reshape((1,) * (rank - values.ndim) + values.shape)
    fits = [axis for axis in range(rank) if values.shape == (grid.shape[axis],)]
    if len(fits) != 1:
        sizes = ", ".join(f"{dim} {size}" for dim, size in zip(grid.dims, grid.shape, strict=True))
        raise ConfigError(f"{name!r} has the shape {values.shape}, which doesn't fit the variable's ({sizes})")
    return values.reshape([-1 if axis == fits[0] else 1 for axis in range(rank)])


def checked_weights(name: str, values: Array) -> Array:
    """Give weights without NaN (0 instead).

    Raises
    ------
    ConfigError
        If one is negative or infinite.
    """
    weights = np.where(np.isnan(values), 0, values)
    if (weights < 0).any() or not np.isfinite(weights).all():
        raise ConfigError(f"weights {name!r} must be finite and not negative; they go from {weights.min():g}")
    return weights
