"""Meshes: the centres, corners and areas of a grid's cells on the sphere, as files of weights and targets have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.steps import Array

SAME = 1e-6
"""Degrees: coordinates that differ by less are those of one parallel or meridian."""
FAR = 0.1
"""Centres further apart than this share of the usual distance of neighbours are those of different cells."""
EQUAL = 1e-9
"""Degrees that centres differ by at most which need no further look: less than `FAR` of any grid's cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Cells of a grid, in the order of its points."""

    shape: tuple[int, ...]
    """Its dimensions, the slowest first: (lat, lon), (y, x) or (cell,)."""
    lat: Array | None
    """Latitudes of the centres in degrees, float64 of shape (cells,); None if they aren't known."""
    lon: Array | None
    """Longitudes, the same."""
    lat_corners: Array | None = None
    """Latitudes of the corners in degrees, of shape (cells, corners); None if they aren't known."""
    lon_corners: Array | None = None
    """Longitudes, the same."""
    area: Array | None = None
    """Areas on the sphere of radius 1, of shape (cells,); None if they aren't known."""
    edges: tuple[Array, Array] | None = None
    """Of cells along parallels and meridians the latitudes (ny, 2) and longitudes (nx, 2) between which they lie."""
    zoom: int | None = None
    """Of a HEALPix grid in nested order: each of the twelve base cells is divided 4**zoom times."""
    names: Array | None = None
    """Of regions, which are no cells: text of shape (regions,)."""

    @property
    def size(self) -> int:
        """Return the number of cells."""
        return prod(self.shape)

    @property
    def centres(self) -> tuple[Array, Array]:
        """Return latitudes and longitudes.

        Raises
        ------
        ConfigError
            If they aren't known.
        """
        if self.lat is None or self.lon is None:
            raise ConfigError(
                "the variable has no latitudes and longitudes, so no weights can be made: let its attribute "
                "'coordinates' name them, or name a file of weights"
            )
        return self.lat, self.lon

    def axes(self) -> tuple[Array, Array] | None:
        """Return latitudes (ny,) and longitudes (nx,) if the cells lie along parallels and meridians, else None."""
        if len(self.shape) != 2 or self.lat is None or self.lon is None:
            return None
        lat, lon = self.lat.reshape(self.shape), self.lon.reshape(self.shape)
        if np.abs(lat - lat[:, :1]).max() > SAME or np.abs((lon - lon[:1] + 180) % 360 - 180).max() > SAME:
            return None
        return lat[:, 0], lon[0]


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """The dimensions of a mesh in results, and its coordinates."""

    dims: tuple[str, ...]
    """Names."""
    coordinates: Mapping[str, Array]
    """By name, bounds and areas too."""
    coordinate_dims: Mapping[str, tuple[str, ...]]
    """The dimensions of each."""
    attributes: Mapping[str, Mapping[str, Any]]
    """CF attributes of each."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Attributes of a field on it, which name coordinates: `cell_measures` and `grid_mapping`."""


def strays(one: Mesh, other: Mesh) -> int:
    """Count the cells whose centres are elsewhere in another mesh of the same size; 0 if one of them has no centres."""
    if one.lat is None or one.lon is None or other.lat is None or other.lon is None:
        return 0
    turned = np.abs((one.lon - other.lon + 180) % 360 - 180)
    if np.abs(one.lat - other.lat).max(initial=0) <= EQUAL and turned.max(initial=0) <= EQUAL:
        return 0  # without a sine, which takes a second for some million points
    here, there = on_sphere(one.lat, one.lon), on_sphere(other.lat, other.lon)
    apart = np.sqrt(((here - there) ** 2).sum(axis=1))
    steps = np.sqrt((np.diff(here, axis=0) ** 2).sum(axis=1))
    usual = float(np.nanmedian(steps)) if np.isfinite(steps).any() else 1.0  # some points may have no place
    return int((apart > FAR * max(min(usual, np.sqrt(4 * np.pi / one.size)), 1e-9)).sum())


def on_sphere(lat: Array, lon: Array) -> Array:
    """Return points of the unit sphere, float64 of shape (points, 3), for degrees."""
    phi, theta = np.deg2rad(lat), np.deg2rad(lon)
    return np.stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)], axis=1)


def sized(mesh: Mesh, shape: tuple[int, ...], name: str) -> None:
    """Check that weights are of a grid of some shape.

    Raises
    ------
    ConfigError
        If not; the message has both.
    """
    same = mesh.shape == shape if len(mesh.shape) == len(shape) else mesh.size == prod(shape)
    if not same:
        raise ConfigError(
            f"{name} is for a grid of {_told(mesh.shape)} points, the variable's has {_told(shape)}: make weights for "
            "its grid"
        )


def _told(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
