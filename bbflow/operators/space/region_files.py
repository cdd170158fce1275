"""Regions of files, polygons or masks: the weights of the mean or sum of each."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, nearest, one_line
from bbflow.operators.space.cells import polygons
from bbflow.operators.space.grid import EARTH_RADIUS_M
from bbflow.operators.space.installed import check_installed
from bbflow.operators.space.meshes import Mesh
from bbflow.operators.space.moves import Regions
from bbflow.operators.space.netcdf_files import version_of
from bbflow.operators.space.region_masks import NAMES, WHAT, Shares, read_masks, shares_of
from bbflow.operators.space.weights import Weights, sparse
from bbflow.operators.steps import Array

POLYGONS = (".geojson", ".json", ".shp", ".gpkg", ".zip")
PIECE = 0.25
"""Degrees: sides of polygons, which are straight in latitude and longitude (RFC 7946, section 3.1.1), are divided in
such pieces before they are put on a cylinder on which areas are those of the sphere."""
ON_EDGE = 1e-8
"""Degrees by which a centre counts further south and west: one on a common side is in one of two regions."""
AT_POLE = 1e-12
"""So much less than 1 the sine of a pole's latitude is where a pole is a centre."""


def region_weights(regions: Regions, directory: Path, mesh: Mesh) -> Weights:
    """Return weights whose rows are the regions: of each cell its part in the region, times its area.

    Parameters
    ----------
    regions
        The file, and what of it.
    directory
        Where a relative path begins.
    mesh
        The variable's grid.

    Raises
    ------
    ConfigError
        If the file can't be read, is of another grid, or has nothing in this one; or areas aren't known.
    """
    path = directory / Path(regions.file).expanduser()
    version = version_of(path, WHAT)
    if path.suffix.lower() in POLYGONS:
        names, shapes = _polygons(*version, regions.names)
        shares = [_parts(shape, mesh, regions.cells) for shape in shapes]
    else:
        names, own, values = read_masks(*version, regions.names, regions.variable)
        shares = shares_of(own, values, mesh, path)
    name = f"regions {path.name}"
    columns = np.concatenate([cells for cells, _ in shares])
    rows = np.repeat(np.arange(len(shares)), [len(cells) for cells, _ in shares])
    if not len(columns):
        raise ConfigError(f"{name}: no cell of the variable's grid lies in any of its {len(shares)} regions")
    values = np.concatenate([own for _, own in shares])
    area = np.ones(mesh.size) if regions.weights else _areas(mesh, name)
    values = values * area[columns]
    whole = np.bincount(rows, values, len(shares))
    sums = regions.how == "sum"
    if not sums:
        kept = whole[rows] > 0
        columns, rows, values = columns[kept], rows[kept], values[kept] / whole[rows[kept]]
    elif not regions.weights:
        values = values * EARTH_RADIUS_M**2
    target = Mesh((len(shares),), None, None, area=None if regions.weights else whole, names=np.array(names))
    return sparse(name, "regions", (mesh, target), (mesh.size, len(shares)), (columns, rows, values))


def weighed(weights: Weights, factor: Array, *, sums: bool) -> Weights:
    """Return weights of regions times what each cell counts; of means they add up to 1 again, so that shares do."""
    assert weights.source is not None
    assert weights.target is not None
    columns = np.repeat(np.arange(weights.source.size), np.diff(weights.starts))
    values = weights.values * factor[columns]
    sizes = weights.source.size, weights.target.size
    if not sums:
        whole = np.bincount(weights.rows, values, sizes[1])[weights.rows]
        values = np.divide(values, whole, out=np.zeros(len(values)), where=whole > 0)
    return sparse(
        weights.name, weights.method, (weights.source, weights.target), sizes, (columns, weights.rows, values)
    )


def _areas(mesh: Mesh, name: str) -> Array:
    """Return the areas of cells on the sphere of radius 1."""
    if mesh.edges is not None:
        lat, lon = (np.asarray(own, "f8") for own in mesh.edges)
        return np.outer(np.abs(np.diff(np.sin(np.deg2rad(lat)))), np.deg2rad(np.abs(np.diff(lon)))).reshape(-1)
    if mesh.lat_corners is not None and mesh.lon_corners is not None:
        return polygons(mesh.lat_corners, mesh.lon_corners)
    raise ConfigError(
        f"{name}: the cells' areas aren't known: name their variable, as weights: areacella, or weights: none"
    )


@lru_cache(maxsize=4)
def _polygons(path: Path, _changed: int, _size: int, names: str) -> tuple[list[str], list[Any]]:
    """Read regions on the cylinder of `PIECE`; those of one name are one."""
    for package in ("pyogrio", "shapely"):
        check_installed(package, WHAT, "regions")
    import pyogrio
    import shapely

    try:
        told, _, shapes, properties = pyogrio.raw.read(path)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, ValueError) as error:
        raise ConfigError(f"{path} can't be read as {WHAT}: {error}") from None
    fields = dict(zip(map(str, told["fields"]), properties, strict=True))
    if names and names not in fields:
        raise ConfigError(f"{path} has no property {names!r}; {nearest(names, fields)}")
    chosen = names or next((name for name in NAMES if name in fields), "")
    given = fields[chosen] if chosen else [None] * len(shapes)
    labels = [str(at) if label in (None, "") else str(label) for at, label in enumerate(given)]
    found: dict[str, list[Any]] = {}
    for label, shape in zip(labels, shapely.from_wkb(shapes), strict=True):
        if shape is None or shape.geom_type not in ("Polygon", "MultiPolygon"):
            raise ConfigError(f"{path}: {label!r} is {getattr(shape, 'geom_type', 'nothing')}, no polygon")
        mended = shape if shape.is_valid else shapely.make_valid(shape)
        # What becomes of a broken one may have lines too, which older libraries cut nothing with.
        found.setdefault(label, []).extend(own for own in shapely.get_parts(mended) if shapely.area(own) > 0)
    if not found:
        raise ConfigError(f"{path} has no polygon")
    if empty := [label for label, own in found.items() if not own]:
        raise ConfigError(f"{path}: {empty[0]!r} is a polygon without any area: take it out, or draw it")
    whole = shapely.total_bounds([item for own in found.values() for item in own])
    _check_degrees(path, str(told["crs"] or ""), whole)
    return list(found), [_on_cylinder(shapely.union_all(own)) for own in found.values()]


PLAIN = ("", "EPSG:4326", "OGC:CRS84")
"""Systems of degrees that needn't be looked up; a file without any tells by its numbers."""


def _check_degrees(path: Path, system: str, bounds: Array) -> None:
    """Check that places are degrees from the equator and Greenwich, on whichever datum: these differ by metres."""
    within = np.abs(bounds[[1, 3]]).max() <= 90 + ON_EDGE and np.abs(bounds[[0, 2]]).max() <= 720
    plain, name = system in PLAIN, system[:40] or "no system that it tells"
    if within and not plain:
        check_installed("pyproj", f"{path}, which is in {name},", "regions")
        import pyproj

        try:
            known = pyproj.CRS.from_user_input(system)
        except pyproj.exceptions.CRSError as error:
            raise ConfigError(f"{path}: its coordinate system isn't known: {one_line(str(error))}") from None
        turned = known.is_derived or known.prime_meridian is None or known.prime_meridian.longitude
        degrees = known.is_geographic and np.isclose(known.axis_info[0].unit_conversion_factor, np.deg2rad(1))
        plain, name = bool(degrees and not turned), known.name
    if not (within and plain):
        raise ConfigError(
            f"{path} isn't in degrees of latitude and of longitude from Greenwich, but in {name}: bring it there "
            "('ogr2ogr -t_srs EPSG:4326 NEW.geojson FILE')"
        )


def _on_cylinder(shape: Any) -> Any:
    """Return a shape in degrees of longitude, and in the sine of latitude."""
    import shapely

    return shapely.transform(shapely.segmentize(shape, PIECE), _cylinder)


def _cylinder(places: Array) -> Array:
    return np.stack([places[..., 0], np.sin(np.deg2rad(np.clip(places[..., 1], -90, 90)))], axis=-1)


def _parts(shape: Any, mesh: Mesh, cells: str) -> Shares:
    """Return the cells that lie in a shape, or the parts that do."""
    if cells == "centre" or (mesh.edges is None and mesh.lat_corners is None):
        if cells == "share":
            raise ConfigError("cells: share: the corners of the variable's cells aren't known: take cells: centre")
        inside = _centres_in(shape, mesh)
        return np.flatnonzero(inside), np.ones(int(inside.sum()))
    total = np.zeros(mesh.size)
    for numbers, boxes in _cells_near(shape, mesh):
        total[numbers] += _shares_in(shape, boxes)
    if mesh.edges is None:  # around a pole a cell isn't a polygon of latitudes and longitudes
        around = _is_around_pole(mesh)
        total[around] = _centres_in(shape, mesh)[around]
    kept = np.flatnonzero(total > ON_EDGE)
    return kept, np.minimum(total[kept], 1.0)


def _turns(shape: Any, west: float, east: float) -> Iterator[float]:
    """Yield by how much a shape is turned so that it may lie between two meridians."""
    first, last = np.ceil((west - shape.bounds[2]) / 360), np.floor((east - shape.bounds[0]) / 360)
    yield from (360.0 * turn for turn in np.arange(first, last + 1))


def _centres_in(shape: Any, mesh: Mesh) -> Array:
    import shapely

    lat, lon = (own - ON_EDGE for own in mesh.centres)
    y = np.clip(np.sin(np.deg2rad(lat)), AT_POLE - 1, 1 - AT_POLE)  # a pole lies in what goes up to it
    inside = np.zeros(mesh.size, bool)
    shapely.prepare(shape)
    for turn in _turns(shape, np.nanmin(lon), np.nanmax(lon)):
        inside |= shapely.contains_xy(shape, lon - turn, y)
    return inside


def _shares_in(shape: Any, boxes: Array) -> Array:
    """Return which part of the area of each box lies in a shape."""
    import shapely

    shapely.prepare(shape)
    shares: Array = shapely.covers(shape, boxes).astype("f8")
    cut = np.flatnonzero((shares == 0) & shapely.intersects(shape, boxes))
    areas = shapely.area(boxes[cut])
    with np.errstate(invalid="ignore", divide="ignore"):
        shares[cut] = np.where(areas > 0, shapely.area(shapely.intersection(shape, boxes[cut])) / areas, 0.0)
    return shares


def _cells_near(shape: Any, mesh: Mesh) -> Iterator[tuple[Array, Array]]:
    """Yield cells that may touch a shape, and their own shapes, turned to where it is."""
    import shapely

    west, south, east, north = shape.bounds
    if mesh.edges is not None:
        lat, lon = (np.sort(np.asarray(own, "f8"), axis=1) for own in mesh.edges)
        y = np.sin(np.deg2rad(np.clip(lat, -90, 90)))
        rows = np.flatnonzero((y[:, 0] < north) & (y[:, 1] > south))
        for turn in _turns(shape, lon.min(), lon.max()):
            columns = np.flatnonzero((lon[:, 0] - turn < east) & (lon[:, 1] - turn > west))
            row, column = (item.reshape(-1) for item in np.meshgrid(rows, columns, indexing="ij"))
            yield (
                row * len(lon) + column,
                shapely.box(lon[column, 0] - turn, y[row, 0], lon[column, 1] - turn, y[row, 1]),
            )
        return
    numbers, corners = _rings(mesh)
    least, most = corners.min(axis=1), corners.max(axis=1)
    among = (least[:, 1] < north) & (most[:, 1] > south)
    for turn in _turns(shape, least[:, 0].min(initial=0), most[:, 0].max(initial=0)):
        own = np.flatnonzero(among & (least[:, 0] - turn < east) & (most[:, 0] - turn > west))
        yield numbers[own], shapely.polygons(corners[own] - [turn, 0])


def _unbroken(mesh: Mesh) -> tuple[Array, Array]:
    """Return latitudes and longitudes of corners, the latter about the first; missing ones repeat one before."""
    assert mesh.lat_corners is not None
    assert mesh.lon_corners is not None
    there = np.isfinite(mesh.lat_corners) & np.isfinite(mesh.lon_corners)
    known = np.maximum.accumulate(np.where(there, np.arange(there.shape[1]), 0), axis=1)
    lat, lon = (np.take_along_axis(own, known, 1) for own in (mesh.lat_corners, mesh.lon_corners))
    return lat, lon[:, :1] + (lon - lon[:, :1] + 180) % 360 - 180


def _is_around_pole(mesh: Mesh) -> Array:
    lat, lon = _unbroken(mesh)
    turned = np.diff(lon, axis=1, append=lon[:, :1])
    around = np.abs(((turned + 180) % 360 - 180).sum(axis=1)) > 180
    return np.asarray(around | (np.ptp(lon, axis=1) > 180) | (np.abs(lat).max(axis=1) >= 90 - ON_EDGE))


def _rings(mesh: Mesh) -> tuple[Array, Array]:
    """Return the cells that are polygons, and their corners on the cylinder, of shape (cells, corners, 2), in order."""
    lat, lon = _unbroken(mesh)
    good = np.flatnonzero(np.isfinite(lat).all(axis=1) & np.isfinite(lon).all(axis=1) & ~_is_around_pole(mesh))
    places = _cylinder(np.stack([lon[good], lat[good]], axis=-1))
    apart = places - places.mean(axis=1, keepdims=True)
    order = np.argsort(np.arctan2(apart[..., 1], apart[..., 0]), axis=1)  # cells bulge outwards, in whichever order
    return good, np.take_along_axis(places, order[..., np.newaxis], 1)
