"""Areas that cells of any two grids have in common, on a cylinder on which areas are those of the sphere."""

from collections.abc import Iterator

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.cells import dot, points_of, uncrossed
from bbflow.operators.space.installed import check_installed
from bbflow.operators.space.meshes import Mesh
from bbflow.operators.steps import Array

PIECE = np.deg2rad(0.25)
"""Sides, which are arcs of great circles, are divided in pieces of this length before they are straight lines."""
MOST_PIECES = 64
AT_POLE = 1e-12
OVER_POLE = 1e-6
"""A side that passes a pole at less than this distance, in radians, goes over it: `AT_POLE` is its sine's distance."""
LEAST = 1e-13
"""A smaller part of the sphere is rounding."""


def has_shapes(mesh: Mesh) -> bool:
    """Whether it is known where a grid's cells end."""
    return mesh.edges is not None or mesh.lat_corners is not None or mesh.zoom is not None


def overlaps(source: Mesh, target: Mesh) -> tuple[Array, Array, Array, Array]:
    """Return which cells have how much in common.

    Returns
    -------
    tuple of numpy.ndarray
        Cells of the source and of the target, int64 of shape (links,), the areas that they have in common, and the
        areas of the target's cells, of shape (cells,); both in radians of longitude times sines of latitude.

    Raises
    ------
    ConfigError
        If shapely isn't installed.
    """
    check_installed("shapely", "conservative weights of such a grid")
    import shapely

    (numbers, own), (others, theirs) = _shapes(source), _shapes(target)
    tree = shapely.STRtree(theirs)
    found: list[tuple[Array, Array, Array]] = []
    # A cell on the meridian where turns begin lies in two of them: what it has in common is found in both.
    for turn in (-2 * np.pi, 0.0, 2 * np.pi):
        turned = own
        if turn:  # whose rounding may let sides cross
            turned = _valid(shapely.transform(own, lambda places, turn=turn: places + np.array([turn, 0.0])))
        here, there = tree.query(turned)
        area = shapely.area(shapely.intersection(turned[here], theirs[there]))
        kept = area > LEAST
        found.append((numbers[here[kept]], others[there[kept]], area[kept]))
    whole = np.zeros(target.size)
    whole[others] = shapely.area(theirs)
    columns, rows, areas = (np.concatenate(items) for items in zip(*found, strict=True))
    return columns, rows, areas, whole


def _shapes(mesh: Mesh) -> tuple[Array, Array]:
    """Return cells and their shapes, in radians of longitude and sines of latitude, each about 0 to 2 pi."""
    import shapely

    if mesh.edges is not None:
        lat, lon = (np.sort(np.deg2rad(np.asarray(own, "f8")), axis=1) for own in mesh.edges)
        z = np.sin(np.clip(lat, -np.pi / 2, np.pi / 2))
        lon = lon - 2 * np.pi * np.floor(lon.mean(axis=1, keepdims=True) / (2 * np.pi))
        row, column = (item.reshape(-1) for item in np.indices(mesh.shape))
        return np.arange(mesh.size), shapely.box(lon[column, 0], z[row, 0], lon[column, 1], z[row, 1])
    numbers, corners = _corners(mesh)
    shapes = np.empty(len(numbers), object)
    for some, rings in _rings(corners):
        shapes[some] = shapely.polygons(rings)
    shapes = _valid(shapes)
    kept = shapely.area(shapes) > LEAST
    return numbers[kept], shapes[kept]


def _valid(shapes: Array) -> Array:
    """Return shapes of which no two sides cross, without lines: of others areas in common may be wrong."""
    import shapely

    for at in np.flatnonzero(~shapely.is_valid(shapes)):
        parts = shapely.get_parts(shapely.make_valid(shapes[at]))
        shapes[at] = shapely.union_all(parts[shapely.area(parts) > 0])
    return shapes


def _corners(mesh: Mesh) -> tuple[Array, Array]:
    """Return cells and points along their sides in space, of shape (cells, points, 3)."""
    if mesh.zoom is not None:
        return np.arange(mesh.size), _healpix_sides(mesh.zoom)
    if mesh.lat_corners is None or mesh.lon_corners is None:
        raise ConfigError("the corners of a grid's cells aren't known")
    known = np.isfinite(mesh.lat_corners) & np.isfinite(mesh.lon_corners)
    numbers = np.flatnonzero(known.sum(axis=1) >= 3)
    corners = uncrossed(points_of(mesh.lat_corners[numbers], mesh.lon_corners[numbers]))
    after = np.roll(corners, -1, axis=1)
    longest = float(np.arccos(np.clip(dot(corners, after), -1, 1)).max(initial=0))
    pieces = min(max(int(np.ceil(longest / PIECE)), 1), MOST_PIECES)
    share = np.broadcast_to(np.arange(pieces) / pieces, (*corners.shape[:2], pieces))
    if (over := _over_pole(corners, after)).any():  # where longitudes jump by half a turn, whose sense is rounding
        share = np.sort(np.concatenate([share, over[..., np.newaxis]], axis=-1), axis=-1)
    share = share[..., np.newaxis]
    points = corners[:, :, np.newaxis] * (1 - share) + after[:, :, np.newaxis] * share
    points = points.reshape(len(numbers), -1, 3)
    return numbers, points / np.linalg.norm(points, axis=-1, keepdims=True)


def _over_pole(begin: Array, end: Array) -> Array:
    """Return at which part of each side's chord it goes over a pole; 0 of others."""
    normal, here, there = np.cross(begin, end), begin[..., :2], end[..., :2]
    passes = np.abs(normal[..., 2]) < OVER_POLE * np.linalg.norm(normal, axis=-1)
    passes &= dot(here, there) < 0
    near, far = np.linalg.norm(here, axis=-1), np.linalg.norm(there, axis=-1)
    return np.asarray(np.divide(near, near + far, out=np.zeros(near.shape), where=passes))


ROWS, TURNS = np.repeat([2, 3, 4], 4), np.array([1, 3, 5, 7, 0, 2, 4, 6, 1, 3, 5, 7])
"""Where the southern corner of each of HEALPix' twelve base cells lies, in steps of a quarter of z and of pi / 4."""


def _healpix_sides(zoom: int) -> Array:
    """Return points along the sides of HEALPix' cells in nested order, of shape (cells, points, 3).

    Within a base cell x and y go from its southern corner to the eastern and the western one; see Górski et al. (2005),
    doi:10.1086/427976, sections 4.1 and 5.
    """
    numbers, bits = np.arange(12 * 4**zoom), np.arange(zoom)
    base, inner = numbers >> (2 * zoom), numbers & (4**zoom - 1)
    x, y = (((inner[:, np.newaxis] >> (2 * bits + odd) & 1) << bits).sum(axis=1) for odd in (0, 1))
    pieces = max(4, min(MOST_PIECES, int(np.ceil(np.pi / 2 / 2**zoom / PIECE))))
    along, none = np.arange(pieces) / pieces, np.zeros(pieces)
    across = np.concatenate([along, none + 1, 1 - along, none]), np.concatenate([none, along, none + 1, 1 - along])
    x, y = ((own[:, np.newaxis] + side) / 2**zoom for own, side in zip((x, y), across, strict=True))
    row = ROWS[base][:, np.newaxis] - x - y
    ring = np.clip(np.minimum(row, 4 - row), 0, 1)
    z = np.where(row < 1, 1 - ring**2 / 3, np.where(row > 3, ring**2 / 3 - 1, (2 - row) * 2 / 3))
    turn = TURNS[base][:, np.newaxis] * ring + x - y
    lon = np.pi / 4 * np.divide(turn, ring, out=np.zeros_like(turn), where=ring > AT_POLE)
    radius = np.sqrt(np.clip(1 - z**2, 0, None))
    return np.stack([radius * np.cos(lon), radius * np.sin(lon), z], axis=-1)


def _rings(points: Array) -> Iterator[tuple[Array, Array]]:
    """Yield cells' numbers and their rings on the cylinder, of shape (cells, points, 2); last those around a pole."""
    z, lon = np.clip(points[..., 2], -1, 1), np.arctan2(points[..., 1], points[..., 0])
    at_pole = np.abs(z) > 1 - AT_POLE  # which is a line: from the longitude of the point before it to that of the next
    before = _last(lon, at_pole)
    after = np.flip(_last(np.flip(lon, 1), np.flip(at_pole, 1)), 1)
    z, lon = np.repeat(z, 2, axis=1), np.stack([before, after], axis=-1).reshape(len(z), -1)
    lon = np.unwrap(np.concatenate([lon, lon[:, :1]], axis=1), axis=1)
    z = np.concatenate([z, z[:, :1]], axis=1)
    around = np.abs(lon[:, -1] - lon[:, 0]) > np.pi
    middle = np.where(around, lon.min(axis=1) + np.pi, lon.mean(axis=1))
    lon = lon - (2 * np.pi * np.floor(middle / (2 * np.pi)))[:, np.newaxis]
    rings = np.stack([lon, z], axis=-1)
    yield np.flatnonzero(~around), rings[~around]
    if around.any():
        pole = np.sign(z[around].mean(axis=1))[:, np.newaxis]
        ends = np.stack([np.stack([lon[around][:, at], pole[:, 0]], axis=-1) for at in (-1, 0)], axis=1)
        yield np.flatnonzero(around), np.concatenate([rings[around], ends, rings[around][:, :1]], axis=1)


def _last(values: Array, hidden: Array) -> Array:
    """Return rings of values in which what is hidden has the last value before it that isn't."""
    size = values.shape[1]
    places = np.where(hidden, -1, np.arange(size))
    known = np.maximum.accumulate(np.concatenate([places, np.where(hidden, -1, places + size)], axis=1), axis=1)
    return np.take_along_axis(values, known[:, size:] % size, axis=1)
