"""Weights that are made here: nearest neighbours of any centres, and conservative ones along parallels and meridians.

What needs the corners of arbitrary cells is left to CDO, ESMF and TempestRemap, whose files are read.
"""

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.installed import check_installed
from bbflow.operators.space.meshes import Mesh, on_sphere
from bbflow.operators.space.weights import Weights, sparse
from bbflow.operators.steps import Array

MADE = {"nn": "Nearest neighbor", "con": "Conservative remapping"}
"""The methods, and what files call them."""


def make_weights(method: str, source: Mesh, target: Mesh) -> Weights:
    """Make weights.

    Parameters
    ----------
    method
        One of `MADE`: nn or con.
    source, target
        Grids whose centres are known; for con both along parallels and meridians.

    Raises
    ------
    ConfigError
        If centres aren't known, or the method isn't to be had of these grids.
    """
    return _nearest(source, target) if method == "nn" else _conservative(source, target)


def _nearest(source: Mesh, target: Mesh) -> Weights:
    """Take the centre that is nearest on the sphere; of several that are equally near, any.

    Points without a place, as ocean models have them on land, are nobody's neighbours.
    """
    check_installed("scipy", "remapnn without a file of weights")
    from scipy.spatial import cKDTree

    (here, places), (there, wanted) = (_placed(mesh) for mesh in (source, target))
    _, found = cKDTree(places).query(wanted)
    links = here[np.asarray(found, np.int64)], there, np.ones(len(there))
    return sparse("weights of remapnn", "nn", (source, target), (source.size, target.size), links)


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
        raise ConfigError("remapnn: all latitudes or longitudes of a grid are missing")
    return known, on_sphere(lat[known], lon[known])


def _conservative(source: Mesh, target: Mesh) -> Weights:
    """Share cells out by the areas that they have in common, which are products of those along each axis.

    The area between two parallels and two meridians is (sin(north) - sin(south)) (east - west) on the unit sphere; see
    Jones, 1999, Mon. Wea. Rev. 127, 2204, equations 2 and 3, for the weights, which are those of 'fracarea'.
    """
    if source.centres and (source.edges is None or target.edges is None):
        raise ConfigError(
            "remapcon can be made here between grids of latitudes and longitudes alone, which have bounds, or rise or "
            "fall all the way: write weights with CDO "
            "('cdo gencon,GRID FILE weights.nc') or ESMF_RegridWeightGen, and name the file"
        )
    (lat, lon), (new_lat, new_lon) = _lines(source.edges), _lines(target.edges)
    rows, columns = _shared(lat, new_lat), _shared_meridians(lon, new_lon)
    across, along = np.ix_(range(len(rows[2])), range(len(columns[2])))
    area = (rows[2][across] * columns[2][along]).reshape(-1)
    sources = (rows[0][across] * len(lon) + columns[0][along]).reshape(-1)
    targets = (rows[1][across] * len(new_lon) + columns[1][along]).reshape(-1)
    covered = np.bincount(targets, area, target.size)
    whole = np.diff(new_lat, axis=1) * np.deg2rad(np.diff(new_lon, axis=1)).T
    share = np.clip(covered / whole.reshape(-1), 0, 1)
    links = sources, targets, area / covered[targets]
    return sparse("weights of remapcon", "con", (source, target), (source.size, target.size), links, share)


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
