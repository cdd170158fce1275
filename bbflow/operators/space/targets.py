"""Grids that a field is remapped to, by the names that CDO has for them, or from a file."""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.described import mesh_of
from bbflow.operators.space.grid import LAT, LON, Grid, kind_of
from bbflow.operators.space.installed import check_installed
from bbflow.operators.space.meshes import Mesh
from bbflow.operators.space.netcdf_files import load, version_of
from bbflow.operators.steps import Array

if TYPE_CHECKING:
    import xarray as xr

REGULAR = re.compile(r"r(\d{1,6})x(\d{1,6})")
GAUSSIAN = re.compile(r"[nN](\d{1,4})")
HEALPIX_NSIDE = re.compile(r"hp(\d{1,8})(_nested)?")
HEALPIX_ZOOM = re.compile(r"hpz(\d{1,2})")
MOST_GAUSSIAN = 1280
"""2560 latitudes: the roots of higher polynomials take minutes."""
MOST_ZOOM = 13
"""8e8 cells: their numbers are int32 in the weights."""
NAMED = (
    "r360x180 (longitudes x latitudes, as in CDO), n32 (Gaussian, of 64 latitudes), hp512 or hpz9 (HEALPix of that "
    "nside or zoom, nested)"
)


def is_named(text: str) -> bool:
    """Whether a text is the name of a grid, and no path."""
    return any(pattern.fullmatch(text) for pattern in (REGULAR, GAUSSIAN, HEALPIX_NSIDE, HEALPIX_ZOOM))


def target_of(text: str, directory: str = "") -> Mesh:
    """Return a grid by its name, or that of a NetCDF file.

    Parameters
    ----------
    text
        Such as r360x180, n32, hp512, hpz9, or a path.
    directory
        Where a relative path begins.

    Raises
    ------
    ConfigError
        If it is neither.
    """
    return _named(text) if is_named(text) else read_mesh(Path(directory) / Path(text).expanduser())


def check_named(text: str) -> None:
    """Check that a grid of which a text `is_named` can be had.

    Raises
    ------
    ConfigError
        If it has no points, too many, or no nested order.
    """
    if found := REGULAR.fullmatch(text):
        if not all(map(int, found.groups())):
            raise ConfigError(f"{text!r} has no points")
    elif found := GAUSSIAN.fullmatch(text):
        if not 0 < int(found[1]) <= MOST_GAUSSIAN:
            raise ConfigError(f"{text!r}: Gaussian grids go from n1 to n{MOST_GAUSSIAN}")
    elif found := HEALPIX_NSIDE.fullmatch(text):
        nside = int(found[1])
        if nside < 1 or nside & (nside - 1):
            raise ConfigError(f"{text!r}: {nside} isn't a power of two, and only such grids have a nested order")
    if (zoom := _zoom(text)) is not None and zoom > MOST_ZOOM:
        raise ConfigError(f"HEALPix of zoom {zoom} isn't to be had: from 0 to {MOST_ZOOM}")


def _zoom(text: str) -> int | None:
    """Return the zoom of a HEALPix grid by its name; None of others."""
    if found := HEALPIX_NSIDE.fullmatch(text):
        return int(found[1]).bit_length() - 1
    found = HEALPIX_ZOOM.fullmatch(text)
    return int(found[1]) if found else None


@lru_cache(maxsize=8)
def _named(text: str) -> Mesh:
    check_named(text)
    zoom = _zoom(text)
    if zoom is not None:
        return healpix(zoom)
    if GAUSSIAN.fullmatch(text):
        return gaussian(int(text[1:]))
    columns, rows = map(int, text[1:].split("x"))
    return regular(rows, columns)


def gaussian(number: int) -> Mesh:
    """Return the full Gaussian grid that CDO calls n<number>, from north to south: 2 number x 4 number points.

    Its latitudes are the arcsines of the roots of the Legendre polynomial of their number.
    """
    roots, _ = np.polynomial.legendre.leggauss(2 * number)
    return _between(np.rad2deg(np.arcsin(roots))[::-1], 4 * number)


def regular(rows: int, columns: int) -> Mesh:
    """Return the grid that CDO calls r<columns>x<rows>: from longitude 0; an odd number of rows has the poles."""
    with_poles = rows > 1 and rows % 2 == 1
    lat = np.linspace(-90, 90, rows) if with_poles else -90 + (np.arange(rows) + 0.5) * 180 / rows
    return _between(lat, columns)


def _between(lat: Array, columns: int) -> Mesh:
    """Return a grid of parallels, whose cells' edges lie halfway between them, and even meridians from longitude 0."""
    rows, lon, pole = len(lat), np.arange(columns) * 360 / columns, np.copysign(90, lat[-1])
    parallels = np.concatenate([[-pole], (lat[:-1] + lat[1:]) / 2, [pole]])
    meridians = (np.arange(columns + 1) - 0.5) * 360 / columns
    area = np.repeat(np.abs(np.diff(np.sin(np.deg2rad(parallels)))) * 2 * np.pi / columns, columns)
    edges = tuple(np.stack([lines[:-1], lines[1:]], axis=1) for lines in (parallels, meridians))
    return Mesh((rows, columns), np.repeat(lat, columns), np.tile(lon, rows), area=area, edges=(edges[0], edges[1]))


def healpix(zoom: int) -> Mesh:
    """Return the cells of HEALPix, in nested order, at a zoom level: nside is 2**zoom."""
    lat, lon = healpix_centres(zoom)
    return Mesh((12 * 4**zoom,), lat, lon, area=np.full(len(lat), 4 * np.pi / len(lat)), zoom=zoom)


def healpix_centres(zoom: int) -> tuple[Array, Array]:
    """Return latitudes and longitudes of HEALPix' cells in nested order, degrees, each of shape (12 * 4**zoom,)."""
    check_installed("healpix", "a HEALPix grid")
    import healpix

    lon, lat = healpix.pix2ang(2**zoom, np.arange(12 * 4**zoom), nest=True, lonlat=True)
    return lat, lon % 360


def read_mesh(path: Path) -> Mesh:
    """Read the grid of a NetCDF file: of its latitudes and longitudes, whatever else it has.

    Raises
    ------
    ConfigError
        If it can't be read, or has none, or several.
    """
    if not path.exists():
        raise ConfigError(f"{str(path)!r} is neither a file that is there nor a grid's name: {NAMED}")
    return _read_mesh(*version_of(path, "the grid"))


@lru_cache(maxsize=4)
def _read_mesh(path: Path, _changed: int, _size: int) -> Mesh:
    data = load(path, "the grid of a file", decode_times=False)
    found = {kind: dict(_coordinates(data, kind)) for kind in (LAT, LON)}
    for kind, own in found.items():
        if len(own) != 1:
            raise ConfigError(f"{path} has {', '.join(own) or 'nothing'} as {kind}: a grid has one")
    [(lat_name, lat)], [(lon_name, lon)] = (list(own.items()) for own in found.values())
    if (lat_name,) == lat.dims and (lon_name,) == lon.dims:
        grid = _grid((lat_name, lon_name), data)
        return mesh_of(grid, (0, 1))
    if lat.dims != lon.dims:
        raise ConfigError(f"{path}: {lat_name} is along {lat.dims}, but {lon_name} along {lon.dims}")
    return mesh_of(_grid(tuple(map(str, lat.dims)), data), tuple(range(lat.ndim)))


def _coordinates(data: "xr.Dataset", kind: str) -> Iterator[tuple[str, "xr.DataArray"]]:
    bounds = {str(item.attrs.get("bounds", "")) for item in data.variables.values()}
    for name, item in data.variables.items():
        if str(name) not in bounds and item.ndim and kind_of(str(name), item.attrs) == kind:
            yield str(name), data[name]


def _grid(dims: tuple[str, ...], data: "xr.Dataset") -> Grid:
    coordinates: dict[str, Array] = {str(name): np.asarray(item.values) for name, item in data.variables.items()}
    attributes = {str(name): item.attrs for name, item in data.variables.items()}
    return Grid(dims, tuple(data.sizes[dim] for dim in dims), coordinates, attributes)
