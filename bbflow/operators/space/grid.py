"""Grids: what a variable's dimensions are, which of their points a selection takes, and what the points weigh."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.operators.steps import Array

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

CELL_IDS, CELL_INDEX = "cell_ids", "healpix_index"
"""Coordinates with the numbers of HEALPix' cells: with xdggs' attributes, which bear no others, and with CF's."""
RADIANS = ("radian", "radians", "rad")
DEGREES = ("", "deg", "degs", "degree", "degrees", "1", *(units.lower() for units in UNITS))
"""Other units of latitudes and longitudes, in small letters."""

NEAR_POLE = 88.0
"""Degrees."""


def kind_of(name: str, attributes: Mapping[str, Any]) -> str | None:
    """Recognise latitude, longitude and levels by CF attributes (CF conventions, chapter 4), else by name."""
    units = next((known for known in UNITS if known.lower() == str(attributes.get("units", "")).lower()), "")
    standard = str(attributes.get("standard_name", "")).lower()
    if units in UNITS or standard in STANDARD_NAMES:
        return UNITS.get(units) or STANDARD_NAMES[standard]
    if "positive" in attributes or str(attributes.get("axis", "")).upper() == "Z":
        return LEVEL
    return common_kind(name)


def common_kind(name: str) -> str | None:
    """Return the kind of coordinate that a common name stands for."""
    return next((kind for kind, names in NAMES.items() if name.lower() in names), None)


TOLD = "_ARRAY_DIMENSIONS"
"""The attribute that has the names of a field's dimensions, in the order of the variable's."""


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
    """CF attributes of coordinates, and `TOLD` of all fields that tell which of the dimensions they have."""
    made: frozenset[str] = frozenset()
    """Dimensions whose coordinates the stream lacks."""
    healpix: str = ""
    """The dimension that has all cells of HEALPix; empty if there is none."""

    def kind(self, axis: int) -> str | None:
        """Return whether a dimension is latitude, longitude or levels."""
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
        wanted = common_kind(name) or ""
        found = [axis for axis in range(len(self.dims)) if self.kind(axis) == wanted]
        if len(found) == 1:
            return found[0]
        known = f"no dimension {name!r}; {nearest(name, self.dims)}" if self.dims else f"no dimension {name!r}"
        if found:
            known = f"more than one dimension that could be {name!r}: {', '.join(self.dims[axis] for axis in found)}"
        raise ConfigError(f"the variable has {known}{self._hint(wanted)}")

    def there(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of dimensions less latitude or longitude, if the one was reduced before: as of a zonal mean.

        Of such a dimension its coordinate has remained, which no other one has.
        """
        kinds = {self.kind(axis) for axis in range(len(self.dims))}
        along = [own for own in self.coordinates if own not in self.dims and self.coordinates[own].ndim == 1]
        gone = {kind_of(own, self.attributes.get(own, {})) for own in along if not self._is_of(own)} & {LAT, LON}
        kept = tuple(name for name in names if name in self.dims or common_kind(name) not in gone - kinds)
        return kept or tuple(names)

    def _is_of(self, name: str) -> bool:
        return self.coordinates[name].shape[0] in self.shape

    def _hint(self, kind: str) -> str:
        others = [name for name in self.coordinates if kind_of(name, self.attributes.get(name, {})) == kind]
        if kind not in (LAT, LON) or not others or not (self.coordinates[others[0]].ndim > 1 or self._is_of(others[0])):
            return ""
        return (
            f"; {others[0]!r} has the shape {self.coordinates[others[0]].shape} and is none of its dimensions, "
            f"{', '.join(self.dims)}: name these, and a variable of cell areas, such as mean: [{', '.join(self.dims)}] "
            "and weights: areacella; a box goes by these coordinates, such as box: {lat: [0, 90]}"
        )

    def to_degrees(self, axis: int) -> float:
        """Return what makes degrees of a dimension's coordinate, which may be a latitude or longitude in radians."""
        return self._factor(self.dims[axis]) if self.kind(axis) in (LAT, LON) else 1.0

    def _factor(self, name: str) -> float:
        units = str(self.attributes.get(name, {}).get("units", "")).lower()
        return float(np.rad2deg(1.0)) if units in RADIANS else 1.0

    def in_degrees(self, name: str, values: Array) -> Array:
        """Return latitudes or longitudes in degrees that are of a coordinate, or of its bounds, in its units.

        Raises
        ------
        ConfigError
            If these are neither degrees nor radians, or latitudes lie beyond a pole, so that there are no areas.
        """
        attributes = self.attributes.get(name, {})
        units = str(attributes.get("units", ""))
        if units.lower() not in (*DEGREES, *RADIANS):
            raise ConfigError(
                f"{name!r} is in {units!r}, neither degrees nor radians, so the cells' areas aren't known: name a "
                "variable of weights, or none"
            )
        degrees = np.asarray(values, "f8") * self._factor(name)
        if degrees.ndim == 1 and not np.isfinite(degrees).all():
            raise ConfigError(
                f"{name!r} has a missing value, so the cells' areas aren't known: name a variable of weights"
            )
        most = float(np.nanmax(np.abs(degrees), initial=0.0))
        if kind_of(name, attributes) == LAT and most > 90 + CLOSE:
            raise ConfigError(
                f"{name!r} has a latitude of {most:g} degrees, beyond a pole: name a variable of weights, or none"
            )
        return degrees

    def bounds_of(self, name: str, shape: tuple[int, ...]) -> str | None:
        """Return the name of the bounds of a coordinate's points of some shape, which have one dimension more."""
        named = self.attributes.get(name, {}).get("bounds")
        known = (str(own) for own in (named, f"{name}_bnds", f"{name}_bounds") if own in self.coordinates)
        return next((own for own in known if self.coordinates[own].shape[:-1] == shape), None)

    def coordinate(self, axis: int) -> Array:
        """Return a dimension's coordinate, of shape (size,); latitudes and longitudes in degrees.

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
        factor = self.to_degrees(axis)
        return np.asarray(values) if factor == 1 else np.asarray(values, "f8") * factor

    def axes_of(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the axes that a field of some shape has; none if these can't be told.

        They are those of its dimensions' names, else the last ones, else the only one of its length.
        """
        told = self.attributes.get(name, {}).get(TOLD, ())
        if told and set(told) <= set(self.dims):
            named = tuple(self.dims.index(dim) for dim in told)
            return named if tuple(self.shape[axis] for axis in named) == shape else ()
        rank = len(self.shape)
        if shape == self.shape[rank - len(shape) :]:
            return tuple(range(rank - len(shape), rank))
        alike = [axis for axis in range(rank) if shape == (self.shape[axis],)]
        return tuple(alike) if len(alike) == 1 else ()

    def auxiliary_shapes(self, kind: str) -> set[tuple[int, ...]]:
        """Return the shapes of the latitudes or longitudes that are of several dimensions, or of cells."""
        return {values.shape for _, values in self._auxiliary(kind)}

    def auxiliary_names(self, shape: tuple[int, ...]) -> list[str]:
        """Return the names of the latitudes and longitudes of points of some shape."""
        return [name for kind in (LAT, LON) for name, values in self._auxiliary(kind) if values.shape == shape]

    def auxiliary(self, kind: str, shape: tuple[int, ...]) -> Array | None:
        """Return the latitudes or longitudes of points of some shape, in degrees, flat; None if there are none."""
        for name, values in self._auxiliary(kind):
            if values.shape == shape:
                units = str(self.attributes.get(name, {}).get("units", "")).lower()
                factor = float(np.rad2deg(1.0)) if units in RADIANS else 1.0
                return np.asarray(values, "f8").reshape(-1) * factor
        return None

    def _auxiliary(self, kind: str) -> Iterator[tuple[str, Array]]:
        for name, values in self.coordinates.items():
            is_bounds = name.endswith(("_bnds", "_bounds")) or any(
                name == own.get("bounds") for own in self.attributes.values()
            )
            own_kind = kind_of(name, self.attributes.get(name, {}))
            if name not in self.dims and values.ndim and not is_bounds and own_kind == kind:
                yield name, np.asarray(values)

    def edges(self, axis: int) -> Array:
        """Return the edges of a dimension's cells, float64 of shape (size, 2); of latitudes and longitudes in degrees.

        They are the coordinate's bounds if the stream has them, else midpoints; the outer edges are as far from
        their points as the inner ones, but those of latitude that are beyond 88 degrees are the poles, as in CDO.
        """
        if (bounds := self._edges_told(axis)) is not None:
            return self._bounds(axis, np.asarray(bounds, "f8") * self.to_degrees(axis))
        values = np.asarray(self.coordinate(axis), "f8")
        if self.kind(axis) == LON:
            values = np.unwrap(values, period=360)
        edges = midpoints(values)
        return to_poles(edges) if self.kind(axis) == LAT else edges

    def knows_edges(self, axis: int) -> bool:
        """Whether a dimension has bounds, or rises or falls all the way, so that edges lie between its points."""
        if self.has_bounds(axis):
            return True
        values = np.asarray(self.coordinate(axis), "f8")
        steps = np.diff(np.unwrap(values, period=360) if self.kind(axis) == LON else values)
        return bool((steps >= 0).all() or (steps <= 0).all())

    def has_bounds(self, axis: int) -> bool:
        """Whether the stream has the edges of a dimension's cells."""
        return self._edges_told(axis) is not None

    def _edges_told(self, axis: int) -> Array | None:
        """Return the edges of a dimension's cells that the stream has, of shape (size, 2); None for none."""
        bounds = self.bounds_of(self.dims[axis], (self.shape[axis],))
        named = str(self.attributes.get(self.dims[axis], {}).get("bounds", ""))
        if named in self.coordinates and self.coordinates[named].shape != (self.shape[axis], 2):
            raise ConfigError(
                f"{named!r}, the bounds of {self.dims[axis]!r}, has the shape {self.coordinates[named].shape}, not "
                f"{(self.shape[axis], 2)}: let the program put two edges for each point"
            )
        return self.coordinates[bounds] if bounds and self.coordinates[bounds].shape[-1] == 2 else None

    def _bounds(self, axis: int, bounds: Array) -> Array:
        """Return bounds without jumps: those of longitude around their points, of latitude up to the poles."""
        if self.kind(axis) == LAT:
            return np.clip(bounds, -90, 90)
        return unwrapped(np.asarray(self.coordinate(axis), "f8"), bounds) if self.kind(axis) == LON else bounds


def unwrapped(points: Array, bounds: Array) -> Array:
    """Return bounds of longitudes between which their points lie, in the order that they have.

    Parameters
    ----------
    points
        Degrees, of shape (size,), of any range of 360.
    bounds
        Of shape (size, 2). A cell such as 357.5 to 2.5 crosses a meridian where numbers start again if its point isn't
        between them; if the point is on its edge, or nowhere, the cell is the narrower of the two.
    """
    least, most = bounds.min(axis=1), bounds.max(axis=1)
    from_least = (points - least) % 360  # how far east of the lesser one the point is
    width = most - least
    inside = (from_least > ROUNDING) & (from_least < width - ROUNDING)
    on_edge = (from_least <= ROUNDING) | (np.abs(from_least - width) <= ROUNDING) | (from_least >= 360 - ROUNDING)
    wraps = (width < 360 - ROUNDING) & ((~inside & ~on_edge) | (on_edge & (width > 180)))
    is_most = bounds == most[:, np.newaxis]
    return np.where(wraps[:, np.newaxis] & is_most, bounds - 360, bounds)


def to_poles(edges: Array) -> Array:
    """Move the outer edges of latitudes, of shape (size, 2), to the poles that they are near to or beyond."""
    outer = [edges[0, 0], edges[-1, 1]]
    edges[0, 0], edges[-1, 1] = (np.sign(edge) * 90 if abs(edge) > NEAR_POLE else edge for edge in outer)
    return edges


def midpoints(values: Array) -> Array:
    """Return edges of shape (size, 2) halfway between points; a single point is its own edges."""
    if len(values) < 2:
        return np.stack([values, values], axis=1)
    inner = (values[:-1] + values[1:]) / 2
    edges = np.concatenate([[2 * values[0] - inner[0]], inner, [2 * values[-1] - inner[-1]]])
    return np.stack([edges[:-1], edges[1:]], axis=1)


CLOSE = 1e-2
"""Coordinates that differ by less than this share of the least spacing are the same: many are float32."""
ROUNDING = 1e-6
"""Coordinates that differ by less than this share of their value are the same, too."""


def between(values: Array, low: float, high: float) -> Array:
    """Return the indices of the values between two limits, both included."""
    margin = margins(values)
    low, high = min(low, high), max(low, high)
    return np.flatnonzero((values >= low - margin) & (values <= high + margin))


def between_meridians(values: Array, west: float, east: float) -> tuple[Array, Array]:
    """Return the indices of longitudes going east from one meridian to another, and the longitudes without a jump.

    Parameters
    ----------
    values
        Degrees, of any range of 360.
    west, east
        Degrees; if east is less than west, the box continues around the globe.
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
    """Return the indices of some values.

    Raises
    ------
    ConfigError
        If one isn't there; the message says which is nearest.
    """
    margin = margins(values)
    nearest = [int(np.argmin(np.abs(values - value))) for value in wanted]
    for value, index in zip(wanted, nearest, strict=True):
        # So written, what is NaN isn't equal either.
        if not abs(values[index] - value) <= margin[index]:
            raise ConfigError(
                f"{name!r} has no {value:g}; the nearest of its {len(values)} values is {values[index]:g}"
            )
    return np.array(nearest, np.int64)


def nearest_points(lats: Array, lons: Array, places: tuple[tuple[float, float], ...]) -> tuple[Array, Array]:
    """Return the indices of the grid points with the least great-circle distance to some places.

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
    """Return what grows with the distance: sin²(d/2) = sin²(Δlat/2) + cos lat cos lat' sin²(Δlon/2)."""
    half = np.deg2rad(lats - lat) / 2
    across = np.sin(np.deg2rad(apart) / 2) ** 2
    return np.asarray(np.sin(half) ** 2 + np.cos(np.deg2rad(lat)) * np.cos(np.deg2rad(lats)) * across)


def margins(values: Array) -> Array:
    """Return how far off each value may be, of shape (size,)."""
    least = float(np.diff(np.sort(values)).min()) if len(values) > 1 else 0.0
    return np.maximum(CLOSE * least, ROUNDING * np.abs(values))


def spacing(values: Array) -> float:
    """Return the usual distance of neighbours; of a single point any is."""
    return float(np.median(np.diff(np.sort(values)))) if len(values) > 1 else float("inf")


EARTH_RADIUS_M = 6371000.0
"""Of the sphere that CDO's gridarea uses."""


def area_weights(grid: Grid, axis: int) -> Array:
    """Return a dimension's share of the cells' areas, float64 of shape (size,).

    The area of a cell between two parallels and two meridians is R^2 (sin(north) - sin(south)) (east - west):
    latitude's share is R (sin(north) - sin(south)), longitude's R (east - west). Other dimensions have 1; a single
    point without bounds has 0, since its width is not known.
    """
    if grid.kind(axis) in (LAT, LON):
        grid.in_degrees(grid.dims[axis], grid.coordinates.get(grid.dims[axis], np.zeros(0)))
        if not grid.knows_edges(axis):
            raise ConfigError(
                f"{grid.dims[axis]!r} neither rises nor falls all the way, so the cells' areas aren't known: let the "
                "program put its bounds, or name a variable of weights, or none"
            )
    edges = np.deg2rad(grid.edges(axis))
    if grid.kind(axis) == LAT:
        weights = np.abs(np.diff(np.sin(edges), axis=1))[:, 0]
    elif grid.kind(axis) == LON:
        weights = np.abs(np.diff(edges, axis=1))[:, 0]
    else:
        return np.ones(grid.shape[axis])
    return EARTH_RADIUS_M * weights


def fitted(what: str, values: Array, grid: Grid, field: str = "") -> Array:
    """Return a field the variable's rank, so that it broadcasts against it; see `Grid.axes_of`.

    Parameters
    ----------
    what
        What messages call it.
    values
        Its values, their dimensions in the order of the variable's.
    grid
        The variable's.
    field
        The one that tells the dimensions, where it isn't of that name.

    Raises
    ------
    ConfigError
        If its shape fits nowhere, or in several ways.
    """
    axes = grid.axes_of(field or what, values.shape)
    if not axes and values.ndim:
        sizes = ", ".join(f"{dim} {size}" for dim, size in zip(grid.dims, grid.shape, strict=True))
        raise ConfigError(f"{what!r} has the shape {values.shape}, which doesn't fit the variable's ({sizes})")
    return values.reshape([size if axis in axes else 1 for axis, size in enumerate(grid.shape)])


def checked_weights(name: str, values: Array) -> Array:
    """Return weights as float64, without NaN (0 instead).

    Raises
    ------
    ConfigError
        If one is negative or infinite.
    """
    weights = np.where(np.isnan(values), 0.0, values.astype("f8"))  # their sums would be of float32 if they were
    if (weights < 0).any() or not np.isfinite(weights).all():
        raise ConfigError(f"weights {name!r} must be finite and not negative; they go from {weights.min():g}")
    return weights
