"""Which points of a coordinate a selection takes."""

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.family import Array

CLOSE = 1e-2
"""Coordinates that differ by less than this share of the least spacing are the same: many are float32."""
ROUNDING = 1e-6
"""So are those that differ by less than this share of their value."""


def between(values: Array, low: float, high: float) -> Array:
    """Give the indices of the values between two limits, both included."""
    margin = margins(values)
    low, high = min(low, high), max(low, high)
    return np.flatnonzero((values >= low - margin) & (values <= high + margin))


def between_meridians(values: Array, west: float, east: float) -> tuple[Array, Array]:
    """Give the indices of longitudes going east from one meridian to another, and the longitudes without a jump.

    Parameters
    ----------
    values
        Degrees, of any range of 360.
    west, east
        Degrees; if east is less than west, the box goes on around the globe.
    """
    margin = float(margins(values).max())
    width = east - west if east >= west else (east - west) % 360
    beyond = (values - west + margin) % 360 - margin
    chosen = np.flatnonzero(beyond <= min(width, 360 - 2 * margin) + margin)
    chosen = chosen[np.argsort(beyond[chosen], kind="stable")]
    own = values[chosen]
    if (np.diff(own) > 0).all():
        return chosen, own
    return chosen, own + 360 * np.round((west + beyond[chosen] - own) / 360)


def equal(name: str, values: Array, wanted: tuple[float, ...]) -> Array:
    """Give the indices of some values.

    Raises
    ------
    ConfigError
        If one isn't there; the message says which is nearest.
    """
    margin = margins(values)
    nearest = [int(np.argmin(np.abs(values - value))) for value in wanted]
    for value, index in zip(wanted, nearest, strict=True):
        if not abs(values[index] - value) <= margin[index]:
            raise ConfigError(
                f"{name!r} has no {value:g}; the nearest of its {len(values)} values is {values[index]:g}"
            )
    return np.array(nearest, np.int64)


def nearest_points(lats: Array, lons: Array, places: tuple[tuple[float, float], ...]) -> tuple[Array, Array]:
    """Give the indices of the grid points with the least great-circle distance to some places.

    On a grid of latitudes and longitudes the nearest point of every parallel has the nearest longitude.

    Raises
    ------
    ConfigError
        If a place is further from the grid than its points are from each other.
    """
    found = [_nearest(lats, lons, *place) for place in places]
    return np.array([lat for lat, _ in found], np.int64), np.array([lon for _, lon in found], np.int64)


def _nearest(lats: Array, lons: Array, lat: float, lon: float) -> tuple[int, int]:
    apart = np.abs((lons - lon + 180) % 360 - 180)
    column = int(np.argmin(apart))
    row = int(np.argmin(_haversine(lats, lat, apart[column])))
    if abs(lats[row] - lat) > spacing(lats) or apart[column] > spacing(lons):
        raise ConfigError(
            f"point ({lat:g}, {lon:g}) is outside of the grid (latitudes {lats.min():g} to {lats.max():g}, "
            f"longitudes {lons.min():g} to {lons.max():g})"
        )
    return row, column


def _haversine(lats: Array, lat: float, apart: float) -> Array:
    """Give what grows with the distance: sin²(d/2) = sin²(Δlat/2) + cos lat cos lat' sin²(Δlon/2)."""
    half = np.deg2rad(lats - lat) / 2
    across = np.sin(np.deg2rad(apart) / 2) ** 2
    return np.asarray(np.sin(half) ** 2 + np.cos(np.deg2rad(lat)) * np.cos(np.deg2rad(lats)) * across)


def margins(values: Array) -> Array:
    """Give how far off each value may be, of shape (size,)."""
    least = float(np.diff(np.sort(values)).min()) if len(values) > 1 else 0.0
    return np.maximum(CLOSE * least, ROUNDING * np.abs(values))


def spacing(values: Array) -> float:
    """Give the usual distance of neighbours; of a single point any is."""
    return float(np.median(np.diff(np.sort(values)))) if len(values) > 1 else float("inf")
