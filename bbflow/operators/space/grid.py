"""Grids: what a variable's dimensions are, by the CF conventions or by common names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.operators.family import Array

LAT, LON, LEVEL = "lat", "lon", "level"
NAMES = {
    LAT: ("lat", "latitude", "nav_lat"),
    LON: ("lon", "longitude", "nav_lon"),
    LEVEL: ("level", "lev", "plev", "levels", "height", "depth", "altitude", "pressure", "z"),
}
"""Common names of the kinds of coordinates; they also stand for a dimension of that kind with any other name."""
STANDARD_NAMES = {
    **{"latitude": LAT, "longitude": LON},
    **dict.fromkeys(("air_pressure", "height", "altitude", "depth", "model_level_number"), LEVEL),
}
UNITS = {
    f"{word}{end}": kind
    for kind, ends in ((LAT, ("_north", "_N", "N")), (LON, ("_east", "_E", "E")))
    for word in ("degree", "degrees")
    for end in ends
}
"""CF conventions, sections 4.1 and 4.2."""

NEAR_POLE = 88.0
"""Degrees."""


def kind_of(name: str, attributes: Mapping[str, Any]) -> str | None:
    """Tell latitude, longitude and levels by CF attributes (CF conventions, chapter 4), else by name."""
    units = str(attributes.get("units", ""))
    standard = str(attributes.get("standard_name", "")).lower()
    if units in UNITS or standard in STANDARD_NAMES:
        return UNITS.get(units) or STANDARD_NAMES[standard]
    if "positive" in attributes or str(attributes.get("axis", "")).upper() == "Z":
        return LEVEL
    return next((kind for kind, names in NAMES.items() if name.lower() in names), None)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """A variable's dimensions and their coordinates."""

    dims: tuple[str, ...]
    """Names."""
    shape: tuple[int, ...]
    """Sizes."""
    coordinates: Mapping[str, Array]
    """By name."""
    attributes: Mapping[str, Mapping[str, Any]]
    """CF attributes of coordinates."""

    def kind(self, axis: int) -> str | None:
        """Tell whether a dimension is latitude, longitude or levels."""
        return kind_of(self.dims[axis], self.attributes.get(self.dims[axis], {}))

    def axis(self, name: str) -> int:
        """Find a dimension by its name, or by a common name of its kind.

        Raises
        ------
        ConfigError
            If there is none, or more than one.
        """
        if name in self.dims:
            return self.dims.index(name)
        wanted = next((kind for kind, names in NAMES.items() if name.lower() in names), "")
        found = [axis for axis in range(len(self.dims)) if self.kind(axis) == wanted]
        if len(found) == 1:
            return found[0]
        known = f"no dimension {name!r}; {nearest(name, self.dims)}" if self.dims else f"no dimension {name!r}"
        if found:
            known = f"more than one dimension that could be {name!r}: {', '.join(self.dims[axis] for axis in found)}"
        raise ConfigError(f"the variable has {known}{self._hint(wanted)}")

    def _hint(self, kind: str) -> str:
        others = [name for name in self.coordinates if kind_of(name, self.attributes.get(name, {})) == kind]
        if kind not in (LAT, LON) or not others:
            return ""
        return f"; {others[0]!r} is not one of its dimensions: use a mask, such as mask: '{others[0]} > 0', and weights"

    def coordinate(self, axis: int) -> Array:
        """Give a dimension's coordinate, of shape (size,).

        Raises
        ------
        ConfigError
            If the stream has none.
        """
        name = self.dims[axis]
        values = self.coordinates.get(name)
        if values is None:
            raise ConfigError(f"dimension {name!r} has no coordinate: the stream must have a variable of that name")
        if values.shape != (self.shape[axis],):
            raise ConfigError(
                f"coordinate {name!r} has the shape {values.shape}, the dimension the size {self.shape[axis]}"
            )
        return np.asarray(values)

    def edges(self, axis: int) -> Array:
        """Give the edges of a dimension's cells, float64 of shape (size, 2).

        They are the coordinate's bounds if the stream has them, else midpoints; the outer edges are as far from
        their points as the inner ones, but those of latitude that are beyond 88 degrees are the poles, as in CDO.
        """
        name = self.dims[axis]
        named = self.attributes.get(name, {}).get("bounds")
        for candidate in (named, f"{name}_bnds", f"{name}_bounds"):
            bounds = self.coordinates.get(candidate) if candidate else None
            if bounds is not None and bounds.shape == (self.shape[axis], 2):
                return np.asarray(bounds, "f8")
        values = np.asarray(self.coordinate(axis), "f8")
        if self.kind(axis) == LON:
            values = np.unwrap(values, period=360)
        edges = midpoints(values)
        return to_poles(edges) if self.kind(axis) == LAT else edges


def to_poles(edges: Array) -> Array:
    """Move the outer edges of latitudes, of shape (size, 2), to the poles that they are near to or beyond."""
    outer = [edges[0, 0], edges[-1, 1]]
    edges[0, 0], edges[-1, 1] = (np.sign(edge) * 90 if abs(edge) > NEAR_POLE else edge for edge in outer)
    return edges


def midpoints(values: Array) -> Array:
    """Give edges of shape (size, 2) halfway between points; a single point is its own edges."""
    if len(values) < 2:
        return np.stack([values, values], axis=1)
    inner = (values[:-1] + values[1:]) / 2
    edges = np.concatenate([[2 * values[0] - inner[0]], inner, [2 * values[-1] - inner[-1]]])
    return np.stack([edges[:-1], edges[1:]], axis=1)
