"""Meshes in results: what their dimensions and coordinates are called, and what a variable's grid is as a mesh."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.cells import cells_of
from bbflow.operators.space.grid import (
    CELL_IDS,
    CELL_INDEX,
    EARTH_RADIUS_M,
    LAT,
    LON,
    TOLD,
    Grid,
    midpoints,
    to_poles,
)
from bbflow.operators.space.meshes import Described, Mesh
from bbflow.operators.steps import Array

LAT_ATTRIBUTES = {"units": "degrees_north", "standard_name": "latitude", "long_name": "latitude"}
LON_ATTRIBUTES = {"units": "degrees_east", "standard_name": "longitude", "long_name": "longitude"}
AREA_ATTRIBUTES = {"units": "m2", "standard_name": "cell_area", "long_name": "area of the cell"}
CORNERS = "corners_"
"""What the dimension of cells' corners is called, with their number after it."""
AREA = "cell_area"
CRS = "crs"


def described(mesh: Mesh, taken: frozenset[str]) -> Described:
    """Return how a mesh is written.

    Parameters
    ----------
    mesh
        Cells with centres.
    taken
        Names of dimensions that its own mustn't have.
    """
    if mesh.names is not None:
        return _regions(mesh, taken)
    if mesh.zoom is not None:
        return _healpix(mesh, taken)
    axes = mesh.axes()
    return _cells(mesh, taken) if axes is None else _rectilinear(mesh, *axes)


def _rectilinear(mesh: Mesh, lat: Array, lon: Array) -> Described:
    unbroken = np.unwrap(lon, period=360)
    coordinates = {"lat": lat, "lon": unbroken}
    north_south, west_east = edges_of(mesh, lat, lon)
    coordinates |= {"lat_bnds": north_south, "lon_bnds": west_east + (unbroken[0] - lon[0])}
    dims: dict[str, tuple[str, ...]] = {"lat": ("lat",), "lon": ("lon",)}
    dims |= {"lat_bnds": ("lat", "bnds"), "lon_bnds": ("lon", "bnds")}
    attributes = {"lat": LAT_ATTRIBUTES | {"axis": "Y"}, "lon": LON_ATTRIBUTES | {"axis": "X"}}
    return _with_area(mesh, ("lat", "lon"), coordinates, dims, attributes)


def edges_of(mesh: Mesh, lat: Array, lon: Array) -> tuple[Array, Array]:
    """Return between which parallels (ny, 2) and meridians (nx, 2) cells lie; halfway between points, if not told."""
    return mesh.edges or (to_poles(midpoints(lat)), midpoints(np.unwrap(lon, period=360)))


def _regions(mesh: Mesh, taken: frozenset[str]) -> Described:
    """Describe regions by their names (CF conventions, section 6.1.1)."""
    dim = "region" if "region" not in taken else "region_remapped"
    assert mesh.names is not None
    attributes = {dim: {"standard_name": "region", "long_name": "name of the region"}}
    return _with_area(mesh, (dim,), {dim: mesh.names}, {dim: (dim,)}, attributes)


def _cells(mesh: Mesh, taken: frozenset[str]) -> Described:
    """Describe a curvilinear or an unstructured grid: auxiliary coordinates, and corners if they are known."""
    own = ("y", "x") if len(mesh.shape) == 2 else ("cell",) if len(mesh.shape) == 1 else ()
    dims = tuple(name if name not in taken else f"{name}_remapped" for name in own)
    coordinates: dict[str, Array] = {}
    coordinate_dims: dict[str, tuple[str, ...]] = {}
    pairs = {"lat": mesh.lat, "lon": mesh.lon}
    corners = {"lat_bnds": mesh.lat_corners, "lon_bnds": mesh.lon_corners}
    for name, values in pairs.items():
        if values is not None:
            coordinates[name], coordinate_dims[name] = values.reshape(mesh.shape), dims
    for name, values in corners.items():
        if values is not None:
            coordinates[name] = values.reshape(*mesh.shape, -1)
            coordinate_dims[name] = (*dims, f"{CORNERS}{values.shape[-1]}")
    return _with_area(mesh, dims, coordinates, coordinate_dims, {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES})


def _with_area(
    mesh: Mesh,
    dims: tuple[str, ...],
    coordinates: Mapping[str, Array],
    coordinate_dims: Mapping[str, tuple[str, ...]],
    attributes: Mapping[str, Mapping[str, Any]],
) -> Described:
    if mesh.area is None or not mesh.area.any():
        return Described(dims, coordinates, coordinate_dims, attributes)
    area = mesh.area.reshape(mesh.shape) * EARTH_RADIUS_M**2
    return Described(
        dims,
        {**coordinates, AREA: area},
        {**coordinate_dims, AREA: dims},
        {**attributes, AREA: AREA_ATTRIBUTES},
        {"cell_measures": f"area: {AREA}"},
    )


def _healpix(mesh: Mesh, taken: frozenset[str]) -> Described:
    """Describe HEALPix in nested order: the cells' numbers, and what readers know the grid by.

    The attributes of `crs` and of the index are those of CF 1.13, by which easy.gems' readers know the grid, and xdggs
    as its convention 'cf'; those of the numbers are xdggs' own, which it looks for if it isn't told.
    """
    dims = ("cell" if "cell" not in taken else "cell_remapped",)
    assert mesh.zoom is not None
    crs = {
        "grid_mapping_name": "healpix",
        "refinement_level": mesh.zoom,
        "indexing_scheme": "nested",
    }
    index = {"standard_name": "healpix_index", "long_name": "number of the cell in nested order", "units": "1"}
    ids = {"grid_name": "healpix", "level": mesh.zoom, "indexing_scheme": "nested"}
    numbers = np.arange(mesh.size, dtype="i8")
    coordinates = {CELL_IDS: numbers, CELL_INDEX: numbers, CRS: np.zeros(1, "i4")}
    coordinate_dims: dict[str, tuple[str, ...]] = {CELL_IDS: dims, CELL_INDEX: dims, CRS: (CRS,)}
    return Described(
        dims, coordinates, coordinate_dims, {CELL_IDS: ids, CELL_INDEX: index, CRS: crs}, {"grid_mapping": CRS}
    )


def mesh_of(grid: Grid, axes: tuple[int, ...]) -> Mesh:
    """Return the mesh of a variable's horizontal axes, with what is known of its centres.

    Parameters
    ----------
    grid
        The variable's.
    axes
        Its horizontal ones, the slowest of the mesh first; latitude before longitude.
    """
    shape = tuple(grid.shape[axis] for axis in axes)
    kinds = [grid.kind(axis) for axis in axes]
    if kinds == ["lat", "lon"] and all(grid.dims[axis] in grid.coordinates for axis in axes):
        lat, lon = np.meshgrid(*(np.asarray(grid.coordinate(axis), "f8") for axis in axes), indexing="ij")
        known = all(map(grid.knows_edges, axes))
        edges = (grid.edges(axes[0]), grid.edges(axes[1])) if known else None
        return Mesh(shape, lat.reshape(-1), lon.reshape(-1), edges=edges)
    found = {kind: grid.auxiliary(kind, shape) for kind in ("lat", "lon")}
    cells = cells_of(grid)
    if cells is None or cells.axes != axes or not cells.names:
        return Mesh(shape, found["lat"], found["lon"])
    corners = (grid.in_degrees(name, grid.coordinates[bounds]) for name, bounds in cells.names)
    lat_corners, lon_corners = (own.reshape(-1, own.shape[-1]) for own in corners)
    return Mesh(shape, found["lat"], found["lon"], lat_corners, lon_corners)


def horizontal_axes(grid: Grid) -> tuple[int, ...]:
    """Find the axes of latitude and longitude, or those that two-dimensional or cells' coordinates have.

    Raises
    ------
    ConfigError
        If nothing tells them.
    """
    kinds = [grid.kind(axis) for axis in range(len(grid.dims))]
    if kinds.count(LAT) == kinds.count(LON) == 1:
        return kinds.index(LAT), kinds.index(LON)
    shapes = {shape for kind in (LAT, LON) for shape in grid.auxiliary_shapes(kind)}
    for shape in shapes:
        for name in grid.auxiliary_names(shape):
            if TOLD in grid.attributes.get(name, {}) and (axes := grid.axes_of(name, shape)):
                return axes
    pairs = [axes for rank in (2, 1) for axes in combinations(range(len(grid.dims)), rank)]
    for axes in reversed(pairs):
        if tuple(grid.shape[axis] for axis in axes) in shapes and not any(kinds[axis] for axis in axes):
            return axes
    others = tuple(axis for axis, kind in enumerate(kinds) if kind is None)
    if others and len(others) <= 2 and not shapes:
        return others
    raise ConfigError(
        f"remap: none of the dimensions {', '.join(grid.dims)} are told to be horizontal: let the variable's attribute "
        "'coordinates' name its latitudes and longitudes"
    )
