"""Lows: minima of sea-level pressure with a closed contour around them, and their tracks.

A point is a low if it is the least within `reach` points of its grid, and the contour `depth` above it is closed: it
surrounds the low, holds no lower one, and reaches no end of the grid, which is a regular one of latitude and longitude.
"""

from pathlib import Path

import numpy as np
import xarray as xr
from scipy.ndimage import label, minimum_filter
from scipy.optimize import linear_sum_assignment

EARTH_RADIUS_KM = 6371.0


def find(dataset, variable="psl", depth=200.0, reach=3):
    """Return a row for each low of a step.

    Parameters
    ----------
    dataset
        With the pressure, of dimensions (lat, lon).
    variable
        Its name.
    depth
        How far above the low its contour is, in the pressure's units.
    reach
        Within how many points it is the least.

    Returns
    -------
    xarray.Dataset
        With lat, lon and the pressure, all along `low`, of which each step has as many as there are.
    """
    pressure = dataset[variable].transpose("lat", "lon")
    values = pressure.values.astype("f8")
    is_least = values == minimum_filter(values, 2 * reach + 1, mode=("nearest", "wrap"))
    taken, places = np.zeros(values.shape, bool), []
    for row, column in np.argwhere(is_least):
        inside = _within_contour(values, row, column, depth)
        if inside is not None and not taken[row, column]:  # two points may be equally low
            taken |= inside
            places.append((row, column))
    rows, columns = np.array(places, "i8").reshape(-1, 2).T
    lat, lon = dataset["lat"].values[rows], dataset["lon"].values[columns]
    found = xr.Dataset(
        {
            "lat": ("low", lat.astype("f8"), {"units": "degrees_north", "standard_name": "latitude"}),
            "lon": ("low", lon.astype("f8"), {"units": "degrees_east", "standard_name": "longitude"}),
            variable: ("low", values[rows, columns], pressure.attrs),
        },
        attrs={"description": f"minima of {variable} with a closed contour {depth:g} above them"},
    )
    found.encoding["unlimited_dims"] = {"low"}
    return found


def _within_contour(values, row, column, depth):
    """Return the points within the contour above a point; None if it isn't closed, or a lower point is in it."""
    turn = values.shape[1] // 2 - column
    turned = np.roll(values, turn, axis=1)  # the point in the middle: its contour may cross the grid's seam
    regions, _ = label(turned < values[row, column] + depth)
    region = regions == regions[row, values.shape[1] // 2]
    at_edge = region[0].any() or region[-1].any() or region[:, 0].any() or region[:, -1].any()
    if at_edge or turned[region].min() < values[row, column]:
        return None
    return np.roll(region, -turn, axis=1)


def tracks(store, most_km=600.0):
    """Join the lows of steps that follow each other to tracks.

    Parameters
    ----------
    store
        Path of the store that `find` has filled.
    most_km
        How far a low moves from one step to the next.

    Returns
    -------
    xarray.Dataset
        What is in the store, and for each low the number of its `track`.
    """
    lows = xr.open_zarr(Path(store)).load()
    ends = np.cumsum(lows["row_size"].values)
    track, next_number, before = np.full(lows.sizes["low"], -1), 0, np.empty(0, "i8")
    for end, size in zip(ends, lows["row_size"].values, strict=True):
        now = np.arange(end - size, end)
        distances = _distances_km(lows, before, now)
        for old, new in zip(*linear_sum_assignment(np.minimum(distances, 2 * most_km)), strict=True):
            if distances[old, new] <= most_km:
                track[now[new]] = track[before[old]]
        fresh = now[track[now] < 0]
        track[fresh] = next_number + np.arange(len(fresh))
        next_number, before = next_number + len(fresh), now
    return lows.assign(track=("low", track))


def _distances_km(lows, some, others):
    """Return the distances on the sphere between lows, of shape (some, others): haversines."""
    lat, lon = np.deg2rad(lows["lat"].values), np.deg2rad(lows["lon"].values)
    up, along = np.subtract.outer(lat[some], lat[others]), np.subtract.outer(lon[some], lon[others])
    inner = np.sin(up / 2) ** 2 + np.outer(np.cos(lat[some]), np.cos(lat[others])) * np.sin(along / 2) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(inner, 0, 1)))
