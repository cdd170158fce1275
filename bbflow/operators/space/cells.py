"""Cells whose areas are known: those of curvilinear grids and of lists of cells by their corners, and of HEALPix."""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.space.grid import EARTH_RADIUS_M, LAT, LON, Grid, kind_of
from bbflow.operators.steps import Array

ON_A_LINE = 1e-14
"""What is nearer to a plane than this lies in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells of HEALPix, or of which a latitude and a longitude that are none of the dimensions tell the corners."""

    grid: Grid
    """Theirs."""
    axes: tuple[int, ...]
    """The grid's axes of which they are the points."""
    names: tuple[tuple[str, str], ...]
    """A latitude and its bounds, a longitude and its; bounds have the points' shape, with the corners last.

    Empty for HEALPix, whose cells are all alike.
    """

    def areas(self) -> Array:
        """Return the cells' areas in m2 on CDO's sphere, float64, that broadcast against the grid's fields.

        Raises
        ------
        ConfigError
            As for `Grid.in_degrees`.
        """
        if not self.names:
            (axis,) = self.axes
            return np.full([1] * len(self.grid.shape), 4 * np.pi * EARTH_RADIUS_M**2 / self.grid.shape[axis])
        lats, lons = (self.grid.in_degrees(name, self.grid.coordinates[bounds]) for name, bounds in self.names)
        areas = EARTH_RADIUS_M**2 * polygons(lats, lons)
        shape = [size if axis in self.axes else 1 for axis, size in enumerate(self.grid.shape)]
        return areas.reshape(shape)


def cells_of(grid: Grid) -> Cells | None:
    """Find the cells of a grid of which no dimension is a latitude or a longitude; None if it tells none."""
    if {LAT, LON} & {grid.kind(axis) for axis in range(len(grid.shape))}:
        return None
    if grid.healpix in grid.dims:
        return Cells(grid, (grid.dims.index(grid.healpix),), ())
    lat, lon = _with_corners(grid, LAT), _with_corners(grid, LON)
    if lat is None or lon is None:
        return None
    shape = grid.coordinates[lat[1]].shape
    axes = grid.axes_of(lat[0], shape[:-1]) if grid.coordinates[lon[1]].shape == shape else ()
    return Cells(grid, axes, (lat, lon)) if axes else None


def _with_corners(grid: Grid, kind: str) -> tuple[str, str] | None:
    """Return the first coordinate of a kind that has three or more corners of each cell, and their variable."""
    for name, values in grid.coordinates.items():
        bounds = grid.bounds_of(name, values.shape)
        is_wanted = kind_of(name, grid.attributes.get(name, {})) == kind
        if is_wanted and bounds is not None and grid.coordinates[bounds].shape[-1] > 2:
            return name, bounds
    return None


def polygons(lats: Array, lons: Array) -> Array:
    """Return the areas of polygons on the unit sphere whose sides are great circles, as CDO's are.

    Parameters
    ----------
    lats, lons
        Corners in degrees, of shape (..., corners), going around either way; four may be in any order. Missing ones are
        left out: cells with fewer than three have no area.

    Returns
    -------
    numpy.ndarray
        Steradians, float64 of shape (...).

    References
    ----------
    Van Oosterom and Strackee (1983), The solid angle of a plane triangle, doi:10.1109/TBME.1983.325207.
    """
    corners = uncrossed(points_of(lats, lons))
    first = corners[..., 0, :]
    total = np.zeros(lats.shape[:-1])
    for at in range(1, lats.shape[-1] - 1):
        second, third = corners[..., at, :], corners[..., at + 1, :]
        # Of the differences: that of the corners themselves would lose digits in small cells.
        height = dot(first, np.cross(second - first, third - first))
        total += 2 * np.arctan2(height, 1 + dot(first, second) + dot(second, third) + dot(third, first))
    return np.abs(total)


def points_of(lats: Array, lons: Array) -> Array:
    """Return corners in space, of shape (..., corners, 3); a missing one lies where one before it does, or after it."""
    there = np.isfinite(lats) & np.isfinite(lons)
    known = np.maximum.accumulate(np.where(there, np.arange(lats.shape[-1]), 0), axis=-1)
    known = np.where(np.take_along_axis(there, known, -1), known, there.argmax(axis=-1)[..., np.newaxis])
    lat, lon = (np.nan_to_num(np.deg2rad(np.take_along_axis(own, known, -1))) for own in (lats, lons))
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def uncrossed(corners: Array) -> Array:
    """Return four corners so that no two sides cross; as they are if there are more, or fewer."""
    if corners.shape[-2] != 4:
        return corners
    one, two, three, four = (corners[..., at, :] for at in range(4))
    found = corners.copy()
    for crossed, places in (
        (crosses(one, two, three, four), [0, 2, 1, 3]),
        (crosses(two, three, four, one), [0, 1, 3, 2]),
    ):
        found[crossed] = corners[crossed][:, places]
    return found


def crosses(begin: Array, end: Array, other_begin: Array, other_end: Array) -> Array:
    """Return whether two sides cross: the ends of each lie on both sides of the other."""
    normal, other = np.cross(begin, end), np.cross(other_begin, other_end)
    return np.asarray(
        _apart(dot(other_begin, normal), dot(other_end, normal)) & _apart(dot(begin, other), dot(end, other))
    )


def _apart(one: Array, other: Array) -> Array:
    """Return whether points lie on two sides of a plane, further from it than rounding takes them."""
    return np.asarray((np.minimum(one, other) < -ON_A_LINE) & (np.maximum(one, other) > ON_A_LINE))


def dot(left: Array, right: Array) -> Array:
    """Return the scalar products of vectors along the last axis."""
    return np.asarray((left * right).sum(axis=-1))
