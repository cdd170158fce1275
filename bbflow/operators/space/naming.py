"""What a result's coordinates, cell methods and units are."""

from collections.abc import Mapping, Sequence

import numpy as np

from bbflow.operators.family import Array
from bbflow.operators.space.grid import LAT, LON, Grid
from bbflow.operators.space.moves import Reduce
from bbflow.operators.space.track import Track

Described = tuple[str, tuple[str, ...], Array]
"""Name, dimensions and values."""
METHODS = {"mean": "mean", "sum": "sum", "min": "minimum", "max": "maximum"}
"""Those of CF (conventions, appendix E)."""


def cell_methods(grid: Grid, tracks: Sequence[Track], reduction: Reduce | None) -> str:
    """Give CF's cell methods of a reduction: 'area' stands for latitude and longitude together.

    Dimensions have their standard names, since those that are reduced to nothing are dimensions no more (CF
    conventions, section 7.3).
    """
    if reduction is None:
        return ""
    reduced = [track for track in tracks if track.factor != 1]
    horizontal = [track for track in reduced if len(track.axes) == 1 and grid.kind(track.axes[0]) in (LAT, LON)]
    names = [_standard_name(grid, track) for track in reduced if len(horizontal) < 2 or track not in horizontal]
    named = "".join(f"{name}: " for name in (*names, *(["area"] if len(horizontal) == 2 else [])))
    comment = "" if reduction.weights in (None, "area", "none") else f" (weighted by {reduction.weights})"
    return f"{named}{METHODS[reduction.how]}{comment}"


def _standard_name(grid: Grid, track: Track) -> str:
    if len(track.axes) > 1:
        return track.name
    kind = grid.kind(track.axes[0])
    given = grid.attributes.get(track.name, {}).get("standard_name", track.name)
    return {LAT: "latitude", LON: "longitude"}.get(kind or "", str(given))


def own_units(reduction: Reduce | None) -> str:
    """Give the units of a result for the variable's {units}; empty if they aren't known."""
    if reduction is None or reduction.how != "sum" or reduction.weights == "none":
        return "{units}"
    return "{units} m2" if reduction.weights == "area" else ""


def result_coordinates(
    grid: Grid, tracks: Sequence[Track], shifted: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Give the coordinates that are not the variable's own, and their dimensions.

    Parameters
    ----------
    grid
        The variable's.
    tracks
        Those of the result's dimensions.
    shifted
        Longitudes that are not the coordinate's, by dimension.
    """
    coordinates: dict[str, Array] = {}
    dims: dict[str, tuple[str, ...]] = {}
    for track in tracks:
        for name, own_dims, values in _of_track(grid, track, shifted.get(track.name)):
            coordinates[name], dims[name] = values, own_dims
    return coordinates, dims


def _of_track(grid: Grid, track: Track, shifted: Array | None) -> list[Described]:
    if len(track.axes) > 1:
        pairs = zip(track.axes, track.indices, strict=True)
        return [(grid.dims[axis], (track.name,), grid.coordinate(axis)[indices]) for axis, indices in pairs]
    (axis,), (indices,) = track.axes, track.indices
    unchanged = track.factor == 1 and np.array_equal(indices, np.arange(grid.shape[axis]))
    if unchanged or track.name not in grid.coordinates:
        return []
    own = grid.coordinate(axis)[indices]
    values = own if shifted is None else shifted
    edges = grid.edges(axis)[indices] + np.asarray(values - own, "f8")[:, np.newaxis]
    if track.factor > 1:
        starts = np.arange(0, track.places, track.factor)
        ends = np.minimum(starts + track.factor, track.places)
        values = np.add.reduceat(np.asarray(values, "f8"), starts) / (ends - starts)
        edges = np.stack([edges[starts, 0], edges[ends - 1, 1]], axis=1)
    found: list[Described] = [(track.name, (track.name,), values)]
    has_bounds = f"{track.name}_bnds" in grid.coordinates or f"{track.name}_bounds" in grid.coordinates
    if track.factor > 1 or has_bounds:
        found.append((f"{track.name}_bnds", (track.name, "bnds"), edges))
    return found
