"""The fields of a report: statistics cut down to what a picture shows."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bbflow.report.canvas import Array


@dataclass(frozen=True, slots=True)
class DrawnAxis:
    """One dimension of a field."""

    name: str
    """Of the dimension."""
    kind: str
    """lat, lon, plev or other."""
    values: Array
    """Coordinates, or 0, 1, … where the store has none; shape (size,)."""
    units: str
    """Of the coordinates; empty for indices."""

    def label(self, index: int) -> str:
        """Return where on the axis an index is."""
        value = float(self.values[index])
        if self.kind == "plev" and self.units == "Pa":
            return f"{value / 100:g} hPa"
        return f"{value:g} {self.units}" if self.units else f"{self.name} {index}"


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic of one variable over one kind of window."""

    name: str
    """Of the array in the store."""
    variable: str
    """What was folded."""
    window: str
    """month, run, …"""
    operator: str
    """mean, std, …"""
    long_name: str
    """In words, of the variable or of the statistic."""
    units: str
    """CF units."""
    labels: tuple[str, ...]
    """One for each window, such as 2000-01."""
    axes: tuple[DrawnAxis, ...]
    """At most two, the rows' first."""
    level: str | None
    """Which level or index of the dimensions that are not shown, such as ``500 hPa``."""
    last: Array
    """The last window; shape as `axes`."""
    lines: Array
    """Area-weighted mean of each window, of shape (windows, 1); of a short list of points each, (windows, points)."""
    weighted: bool
    """Whether there were latitudes to weight by."""
    places: tuple[str, ...] = ()
    """The points of such a list."""

    @property
    def means(self) -> Array:
        """Area-weighted mean of each window; shape (windows,). The points of a list count the same."""
        present = np.isfinite(self.lines)
        total = np.where(present, self.lines, 0.0).sum(axis=1)
        return np.where(present.any(axis=1), total / np.maximum(present.sum(axis=1), 1), np.nan)

    @property
    def uniform(self) -> bool:
        """Whether the last window has the same value everywhere."""
        finite = self.last[np.isfinite(self.last)]
        return finite.size == 0 or bool((finite == finite[0]).all())


def axis_kind(name: str, attributes: Mapping[str, object]) -> str:
    """Recognise what a dimension is, by CF's attributes of its coordinate or else by its name."""
    units, standard = str(attributes.get("units", "")), str(attributes.get("standard_name", ""))
    if (units.startswith("degree") and units.endswith(("north", "_N", "N"))) or standard == "latitude":
        return "lat"
    if (units.startswith("degree") and units.endswith(("east", "_E", "E"))) or standard == "longitude":
        return "lon"
    if standard == "air_pressure":
        return "plev"
    names = {"latitude": "lat", "longitude": "lon", "level": "plev", "lev": "plev"}
    kind = names.get(name.lower(), name.lower())
    return kind if kind in ("lat", "lon", "plev") else "other"


def choose_level(axis: DrawnAxis) -> int:
    """Choose the index of a dimension that is not drawn: 500 hPa, or else the middle one."""
    if axis.kind == "plev" and axis.units in ("Pa", "hPa", "mbar"):
        wanted = 50000.0 if axis.units == "Pa" else 500.0
        return int(np.argmin(np.abs(axis.values - wanted)))
    return len(axis.values) // 2


def area_mean(values: Array, axes: tuple[DrawnAxis, ...]) -> float:
    """Mean of a field over the cells that have a value, by the cosine of latitude.

    Parameters
    ----------
    values
        One window; shape as `axes`. NaN is left out.
    axes
        Its dimensions. Without latitudes every cell counts the same.

    Returns
    -------
    float
        NaN if no cell has a value.
    """
    weights = np.ones(values.shape)
    for position, axis in enumerate(axes):
        if axis.kind == "lat" and axis.units:
            shape = [-1 if number == position else 1 for number in range(len(axes))]
            is_latitude = np.abs(axis.values) <= 90.0 + 1e-6  # how large cells elsewhere are is unknown
            angles = np.where(is_latitude, axis.values, 90.0).astype("f8")
            # Rounded, a pole may lie a little beyond 90 degrees, where the cosine is below 0.
            weights = weights * np.cos(np.deg2rad(angles)).clip(0).reshape(shape)
    present = np.isfinite(values)
    total = float(weights[present].sum())
    return float((values[present] * weights[present]).sum()) / total if total > 0 else float("nan")


def degrees(value: float, kind: str) -> str:
    """Write a latitude or longitude as atlases do."""
    if kind == "lon":
        value = (value + 180) % 360 - 180
        letter = "" if value in (0, -180) else "E" if value > 0 else "W"
    else:
        letter = "" if value == 0 else "N" if value > 0 else "S"
    return f"{abs(value):g}°{letter}"
