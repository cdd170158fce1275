"""Weights that are made here: of neighbours of any centres, bilinear ones along parallels, and conservative ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.installed import check_installed
from bbflow.operators.space.meshes import SAME, Mesh, on_sphere
from bbflow.operators.space.overlaps import has_shapes, overlaps
from bbflow.operators.space.weights import Weights, sparse
from bbflow.operators.steps import Array

NEIGHBOURS = 4
"""Of so many centres distances count, as in CDO's remapdis."""


UNWEIGHTED = 1e-12
"""Weight of a corner that has none, but must be valid."""
CORNERS = 1 - UNWEIGHTED / 10
"""The share of the weights that all four corners have, but no three; sums of so few are off by less."""


def make_weights(method: str, source: Mesh, target: Mesh) -> Weights:
    """Make weights.

    Parameters
    ----------
    method
        One of `MADE` or `MADE_OF_WHOLE`.
    source, target
        Grids whose centres are known; for con both along parallels and meridians, for bil the source, around the globe.

    Raises
    ------
    ConfigError
        If centres aren't known, or the method isn't to be had of these grids.
    """
    return {**MADE, **MADE_OF_WHOLE}[method](source, target)


def _nearest(source: Mesh, target: Mesh) -> Weights:
    """Take the centre that is nearest on the sphere; of several that are equally near, the first, as CDO does.

    Points without a place, as ocean models have them on land, are no point's neighbours.
    """
    (here, places), (there, wanted) = (_placed(mesh) for mesh in (source, target))
    _, found = _neighbours(places, wanted, 1)
    links = here[found[:, 0]], there, np.ones(len(there))
    return sparse("weights of remapnn", "nn", (source, target), (source.size, target.size), links)


def _by_distance(source: Mesh, target: Mesh) -> Weights:
    """Weigh the nearest centres by the inverse of their distance, as CDO's remapdis does."""
    (here, places), (there, wanted) = (_placed(mesh) for mesh in (source, target))
    distances, found = _neighbours(places, wanted, min(NEIGHBOURS, len(here)))
    links = here[found].reshape(-1), np.repeat(there, found.shape[1]), _inverse(distances).reshape(-1)
    return sparse("weights of remapdis", "dis", (source, target), (source.size, target.size), links)


EQUALLY_NEAR = 1e-12
"""Distances on the unit sphere that differ by less are the same."""
MORE = 8
"""How many more neighbours are looked at where some are equally near."""


def _neighbours(places: Array, wanted: Array, count: int) -> tuple[Array, Array]:
    """Return the nearest places to each point: distances and numbers, of shape (points, count).

    Of those that are equally near, such as all of a parallel to a pole, the first ones count, as they do for CDO.
    """
    check_installed("scipy", "a remap without a file of weights")
    from scipy.spatial import cKDTree

    tree = cKDTree(places)
    distances, found = np.empty((len(wanted), count)), np.empty((len(wanted), count), np.int64)
    open_, looked_at = np.arange(len(wanted)), min(count + 1, len(places))
    while len(open_):
        near, which = (np.reshape(item, (len(open_), looked_at)) for item in tree.query(wanted[open_], k=looked_at))
        group = np.cumsum(np.diff(near, axis=1, prepend=near[:, :1]) > EQUALLY_NEAR, axis=1)
        order = np.lexsort((which, group), axis=1)[:, :count]
        distances[open_], found[open_] = (np.take_along_axis(item, order, 1) for item in (near, which))
        if looked_at == len(places):
            break
        open_ = open_[group[:, -1] == group[:, count - 1]]
        looked_at = min(looked_at * MORE, len(places))
    return distances, found


def _inverse(distances: Array) -> Array:
    """Return weights of sum 1 along the last axis; a centre that is the point itself has all."""
    shares = 1 / np.maximum(distances, 1e-14)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Corners:
    """Where points lie between two parallels and two meridians of a grid."""

    there: Array
    """The points that have a place, of shape (points,)."""
    inside: Array
    """Whether they lie between the first and the last parallel."""
    found: Array
    """The four corners: south-west, south-east, north-west, north-east; of shape (points, 4)."""
    north: Array
    """How far each is on the way from one parallel to the other, from 0 to 1."""
    east: Array
    """The same between the meridians."""


def _bilinear(source: Mesh, target: Mesh) -> Weights:
    """Interpolate between two parallels and two meridians; beyond the last parallel by distance, as CDO's remapbil.

    There any of the four nearest points will do; between parallels all four corners must be valid, also where the point
    lies on a side, so that some have no weight.
    """
    own = _corners_of("bil", source, target)
    up, right = (np.stack([1 - at, at], axis=1) for at in (own.north, own.east))
    shares = np.maximum((up[:, :, np.newaxis] * right[:, np.newaxis]).reshape(-1, NEIGHBOURS), UNWEIGHTED)
    return _of_corners("bil", source, target, own, shares, None)


def _bicubic(source: Mesh, target: Mesh) -> Weights:
    """Interpolate so between values and gradients, which are differences of neighbours in the order of the grid.

    The weights are Hermite's polynomials of both ways (Jones, 1998, A User's Guide for SCRIP, section 2.4).
    """
    own, axes = _corners_of("bic", source, target), source.axes()
    assert axes is not None
    up, right = ((1 - at**2 * (3 - 2 * at), at**2 * (3 - 2 * at)) for at in (own.north, own.east))
    grow, turn = ((at * (at - 1) ** 2, at**2 * (at - 1)) for at in (own.north, own.east))
    down = 1.0 if axes[0][0] < axes[0][-1] else -1.0
    back = float(np.sign(np.median(np.diff(np.unwrap(axes[1], period=360)))))

    def product(rows: tuple[Array, Array], columns: tuple[Array, Array]) -> Array:
        return np.stack([rows[at] * columns[more] for at in (0, 1) for more in (0, 1)], axis=1)

    gradients = np.stack([back * product(up, turn), down * product(grow, right), back * down * product(grow, turn)], -1)
    return _of_corners("bic", source, target, own, product(up, right), gradients)


def _corners_of(method: str, source: Mesh, target: Mesh) -> _Corners:
    axes = source.axes()
    if axes is None or not all(_spans_globe(*axes)):
        raise ConfigError(
            f"remap{method} can be made here of grids of latitudes and longitudes that go around the globe: write "
            f"weights with CDO ('cdo gen{method},GRID FILE weights.nc') and name the file"
        )
    (lat, lon), (there, _) = axes, _placed(target)
    y, x = target.centres[0][there], target.centres[1][there]
    rows, parallels = np.argsort(lat), np.sort(lat)
    lon = lon if np.ptp(lon) < 360 else lon % 360
    meridians, columns = np.unique(lon, return_index=True)  # of one that is there at both ends the first, as for CDO
    columns, meridians = np.append(columns, columns[0]), np.deg2rad(np.append(meridians, meridians[0] + 360))
    x = np.deg2rad(x)
    x -= 2 * np.pi * np.where(x > meridians[-1], np.ceil((x - meridians[-1]) / (2 * np.pi)), 0)
    x += 2 * np.pi * np.where(x < meridians[0], np.ceil((meridians[0] - x) / (2 * np.pi)), 0)
    inside = (y >= parallels[0] - SAME) & (y <= parallels[-1] + SAME)
    # On a parallel or meridian the cell before it counts, in the order of the grid and in CDO's arithmetic.
    upper = np.clip(np.searchsorted(parallels, y, side="left" if lat[0] < lat[-1] else "right"), 1, len(lat) - 1)
    north = np.clip((y - parallels[upper - 1]) / (parallels[upper] - parallels[upper - 1]), 0, 1)
    right = np.clip(np.searchsorted(meridians, x), 1, len(columns) - 1)
    east = np.clip((x - meridians[right - 1]) / (meridians[right] - meridians[right - 1]), 0, 1)
    corners = [(rows[upper - 1 + up], columns[right - 1 + more]) for up in (0, 1) for more in (0, 1)]
    found = np.stack([row * len(lon) + column for row, column in corners], axis=1)
    return _Corners(there, inside, found, north, east)


def _of_corners(
    method: str, source: Mesh, target: Mesh, own: _Corners, shares: Array, gradients: Array | None
) -> Weights:
    """Return the weights of corners, and beyond the last parallel those by distance."""
    there, found, outside = own.there, own.found, ~own.inside
    needs = np.zeros(target.size)
    needs[there[own.inside]] = CORNERS
    if outside.any():
        here, places = _placed(source)
        _, wanted = _placed(target)
        chords, near = _neighbours(places, wanted[outside], NEIGHBOURS)
        found[outside], shares[outside] = here[near], _inverse(2 * np.arcsin(chords / 2))
        if gradients is not None:
            gradients[outside] = 0.0
    links = found.reshape(-1), np.repeat(there, NEIGHBOURS), shares.reshape(-1)
    more = None if gradients is None else gradients.reshape(len(links[0]), -1)
    sizes = source.size, target.size
    made = sparse(f"weights of remap{method}", method, (source, target), sizes, links, gradients=more)
    return replace(made, needs=needs)


def _spans_globe(lat: Array, lon: Array) -> tuple[bool, bool]:
    """Whether parallels reach both poles, and meridians go around, but for a gap as between the others."""
    if len(lat) < 2 or len(lon) < 3:
        return False, False
    gaps, turned = np.diff(np.sort(lat)), np.sort(lon % 360)
    around = np.diff(np.append(turned, turned[0] + 360))
    return 90 - np.abs(lat).max() <= gaps.max() + SAME, bool(around.max() <= 1.5 * np.median(around))


def _placed(mesh: Mesh) -> tuple[Array, Array]:
    """Return the numbers of the points that have a place, and where on the unit sphere that is.

    Raises
    ------
    ConfigError
        If none has one.
    """
    lat, lon = mesh.centres
    known = np.flatnonzero(np.isfinite(lat) & np.isfinite(lon))
    if not len(known):
        raise ConfigError("remap: all latitudes or longitudes of a grid are missing")
    return known, on_sphere(lat[known], lon[known])


def _conservative(source: Mesh, target: Mesh) -> Weights:
    """Share cells out by the areas that they have in common.

    Of latitudes and longitudes they are products of those along each axis: the area between two parallels and two
    meridians is (sin(north) - sin(south)) (east - west) on the unit sphere. Others are cut on a cylinder. See Jones,
    1999, Mon. Wea. Rev. 127, 2204, equations 2 and 3, for the weights, which are those of 'fracarea'.
    """
    if source.centres and not (has_shapes(source) and has_shapes(target)):
        raise ConfigError(
            "remapcon can be made here where the cells' edges are known: of latitudes and longitudes that have bounds, "
            "or rise or fall all the way, or of cells whose corners 'coordinates' and their 'bounds' tell: write "
            "weights with CDO ('cdo gencon,GRID FILE weights.nc') or ESMF_RegridWeightGen, and name the file"
        )
    if source.edges is None or target.edges is None:
        columns, rows, area, whole = overlaps(source, target)
    else:
        columns, rows, area, whole = _boxes(source.edges, target.edges)
    if source.edges is not None:
        kept = _once(_lines(source.edges)[1])[columns % source.shape[-1]]
        columns, rows, area = columns[kept], rows[kept], area[kept]
    covered = np.bincount(rows, area, target.size)
    share = np.clip(np.divide(covered, whole, out=np.zeros(target.size), where=whole > 0), 0, 1)
    links = columns, rows, area / covered[rows]
    return sparse("weights of remapcon", "con", (source, target), (source.size, target.size), links, share)


def _boxes(source: tuple[Array, Array], target: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Return what `overlaps` does, of cells between parallels and meridians."""
    (lat, lon), (new_lat, new_lon) = _lines(source), _lines(target)
    rows, columns = _shared(lat, new_lat), _shared_meridians(lon, new_lon)
    across, along = np.ix_(range(len(rows[2])), range(len(columns[2])))
    area = (rows[2][across] * columns[2][along]).reshape(-1)
    sources = (rows[0][across] * len(lon) + columns[0][along]).reshape(-1)
    targets = (rows[1][across] * len(new_lon) + columns[1][along]).reshape(-1)
    whole = np.diff(new_lat, axis=1) * np.deg2rad(np.diff(new_lon, axis=1)).T
    return sources, targets, area, whole.reshape(-1)


OVERLAP = 1e-3
"""Degrees that cells may overlap by: bounds may be rounded."""


def _lines(edges: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the sines of cells' southern and northern edges, and their western and eastern edges in degrees.

    Raises
    ------
    ConfigError
        If a cell has no width, or cells overlap.
    """
    lat, lon = (np.sort(np.asarray(own, "f8"), axis=1) for own in edges)
    for name, own in (("latitude", lat), ("longitude", lon)):
        if not (np.diff(own, axis=1) > 0).all():
            raise ConfigError(
                f"remapcon: a cell has no width: of a grid with one {name}, or twice the same, the edges aren't known "
                "without bounds"
            )
        lower, upper = own[np.argsort(own[:, 0], kind="stable")].T
        if (upper[:-1] > lower[1:] + OVERLAP).any():
            raise ConfigError(f"remapcon: cells overlap: the bounds of a {name} are wrong")
    return np.sin(np.deg2rad(np.clip(lat, -90, 90))), lon


def _once(meridians: Array) -> Array:
    """Return which cells around the globe lie where none before them does, as the last from 0 to 360 degrees does.

    Raises
    ------
    ConfigError
        If others overlap where the globe is closed.
    """
    west, width = meridians[:, 0], np.diff(meridians, axis=1)[:, 0]
    places = np.round(np.stack([west % 360, width], axis=1) / OVERLAP) % np.array([round(360 / OVERLAP), np.inf])
    once = np.zeros(len(west), bool)
    once[np.unique(places, axis=0, return_index=True)[1]] = True
    begins = west - 360 * np.floor((west - west.min()) / 360)
    if (begins + width)[once].max() > west.min() + 360 + OVERLAP:
        raise ConfigError("remapcon: cells overlap where the globe is closed: the bounds of a longitude are wrong")
    return once


def _shared(one: Array, other: Array, least: float = 1e-12) -> tuple[Array, Array, Array]:
    """Return which cells of two axes have how much in common: their numbers, and the lengths.

    Parameters
    ----------
    one, other
        Lower and upper edges, of shape (cells, 2), in any order; cells of one axis don't overlap.
    least
        What is less is rounding.
    """
    order = np.argsort(other[:, 0], kind="stable")
    lower, upper = other[order].T
    first = np.searchsorted(upper, one[:, 0], side="right")
    last = np.searchsorted(lower, one[:, 1], side="left")
    counts = np.maximum(last - first, 0)
    own = np.repeat(np.arange(len(one)), counts)
    theirs = order[np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)]
    length = np.minimum(one[own, 1], other[theirs, 1]) - np.maximum(one[own, 0], other[theirs, 0])
    kept = length > least
    return own[kept], theirs[kept], length[kept]


def _shared_meridians(one: Array, other: Array) -> tuple[Array, Array, Array]:
    """Return the same for cells around the globe, with the lengths in radians."""
    start = other[:, 0].min()
    turns = 360 * np.floor((one[:, :1] - start) / 360)  # so that every cell begins within one turn from there
    # The last shift is for targets that have a meridian twice, at both ends.
    found = [_shared(one - turns + shift, other) for shift in (0, -360, 360)]
    own, theirs, length = (np.concatenate(items) for items in zip(*found, strict=True))
    return own, theirs, np.deg2rad(length)


def _largest(source: Mesh, target: Mesh) -> Weights:
    made = _conservative(source, target)
    # Sums of such fractions are exact: which of equal parts counts isn't for rounding to say.
    values = np.ldexp(np.round(np.ldexp(made.values, PART_BITS)), -PART_BITS)
    return replace(made, name="weights of remaplaf", method="laf", values=values)


PART_BITS = 40
"""Of the parts of cells that are compared."""


MADE: Mapping[str, Callable[[Mesh, Mesh], Weights]] = {
    "nn": _nearest, "dis": _by_distance, "bil": _bilinear, "con": _conservative,
}  # fmt: skip
"""The methods."""
MADE_OF_WHOLE: Mapping[str, Callable[[Mesh, Mesh], Weights]] = {"bic": _bicubic, "laf": _largest}
"""Those of whole fields."""
