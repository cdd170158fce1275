"""Finding a space's points in a grid, and the coordinates, cell methods and units of what comes out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.cells import Cells, cells_of
from bbflow.operators.space.columns import Column, place_column
from bbflow.operators.space.grid import (
    CELL_IDS,
    CELL_INDEX,
    LAT,
    LEVEL,
    LON,
    Grid,
    area_weights,
    between,
    between_meridians,
    checked_weights,
    common_kind,
    equal,
    fitted,
    nearest_points,
)
from bbflow.operators.space.levels import Levels
from bbflow.operators.space.moves import AVERAGING, Box, Mask, Move, Points, Reduce, Select, SelectIndex
from bbflow.operators.space.placement import POINT, TrackPlacement
from bbflow.operators.space.tracks import REDUCED, Track
from bbflow.operators.steps import Array, Steps

Described = tuple[str, tuple[str, ...], Array]
"""Name, dimensions and values."""
AREA_VARIABLE = "`area`"
"""Weights that are the stream's variable of this name."""
METHODS = {
    "mean": "mean", "sum": "sum", "min": "minimum", "max": "maximum", "range": "range", "std": "standard_deviation",
    "std1": "standard_deviation", "var": "variance", "var1": "variance", "count": "sum (of 1 for each valid value)",
    "covariance": "mean (of the product of departures)", "correlation": "mean (of the product of departures, scaled)",
}  # fmt: skip
"""Those of CF (conventions, appendix E)."""
AREA_TYPES = ("land", "sea", "sea_ice", "land_ice", "ice_free_land", "ice_free_sea", "vegetation", "trees", "cloud")
"""Of CF's table those that fractions and masks have in their standard names."""


def cell_methods(
    grid: Grid, tracks: Sequence[Track], reduction: Reduce | None, cells: Cells | None, where: str = ""
) -> str:
    """Return CF's cell methods of a reduction: 'area' stands for latitude and longitude together, and for all of cells.

    Dimensions have their standard names, since those that are reduced to nothing are dimensions no more (CF
    conventions, section 7.3). What is left of a mask is a part of the area, such as 'where land' (7.3.3).
    """
    if reduction is None:
        return ""
    reduced = [track for track in tracks if track.factor != 1]
    across = [axis for axis in range(len(grid.dims)) if grid.kind(axis) in (LAT, LON)] if cells is None else cells.axes
    area = [track for track in reduced if len(track.axes) == 1 and track.axes[0] in across]
    area = area if len(area) == (2 if cells is None else len(cells.axes)) else []
    names = [_standard_name(grid, track) for track in reduced if track not in area]
    named = "".join(f"{name}: " for name in (*names, *(["area"] if area else [])))
    weights = str(reduction.weights).strip("`")
    comment = "" if reduction.weights in (None, "area", "none") else f" (weighted by {weights})"
    method, _, told = METHODS[reduction.how].partition(" ")
    part = f" where {where}" if where and any(axis in across for track in reduced for axis in track.axes) else ""
    return f"{named}{method}{part}{f' {told}' if told else ''}{comment}"


def _area_type(mask: Mask, field: Array, grid: Grid) -> str:
    """Return what kind of area a mask keeps, if it is the one that its only variable tells of; else nothing."""
    (name, *more) = mask.expression.variables
    told = str(grid.attributes.get(name, {}).get("standard_name", ""))
    found = told.removesuffix("_area_fraction").removesuffix("_binary_mask")
    if more or found == told or found not in AREA_TYPES or not np.isfinite(field).any():
        return ""
    ends = np.array([0.0, field[np.isfinite(field)].max()])
    (kept,) = mask.expression.evaluate({name: Steps([ends])})
    return found if list(kept != 0) == [False, True] else ""


def _standard_name(grid: Grid, track: Track) -> str:
    if len(track.axes) > 1:
        return track.name
    kind = grid.kind(track.axes[0])
    given = grid.attributes.get(track.name, {}).get("standard_name", track.name)
    return {LAT: "latitude", LON: "longitude"}.get(kind or "", str(given))


def own_units(reduction: Reduce | None, made: str, thickness: str) -> str:
    """Return the units of a result for the variable's {units}; empty if they aren't known.

    Parameters
    ----------
    reduction
        What was done last.
    made
        The units of what it was done with.
    thickness
        Those of the levels' coordinate.
    """
    if reduction is not None and reduction.other is not None:
        return "1" if reduction.how == "correlation" else ""
    if reduction is not None and reduction.how in ("var", "var1", "count"):
        return "1" if reduction.how == "count" else f"({made})2" if made else ""
    if reduction is None or reduction.how != "sum" or reduction.weights == "none":
        return made
    if reduction.weights == "thickness":
        return f"{made} {thickness}" if made and thickness else ""
    return f"{made} m2" if made and reduction.weights == "area" else ""


def result_coordinates(
    grid: Grid, tracks: Sequence[Track], shifted: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Return the coordinates that are not the variable's own, and their dimensions.

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
        for name, own_dims, values in (
            *_of_track(grid, track, shifted.get(track.name)),
            *_of_cells_chosen(grid, track),
        ):
            coordinates[name], dims[name] = values, own_dims
    return coordinates, dims


def _of_cells_chosen(grid: Grid, track: Track) -> list[Described]:
    """Return where cells are that were chosen from a list, and their numbers in HEALPix."""
    if len(track.axes) > 1 or track.factor != 1 or grid.shape.count(grid.shape[track.axes[0]]) > 1:
        return []
    (axis,), (indices,) = track.axes, track.indices
    if np.array_equal(indices, np.arange(grid.shape[axis])):
        return []
    names = [
        *grid.auxiliary_names((grid.shape[axis],)),
        *([CELL_IDS, CELL_INDEX] if track.name == grid.healpix else []),
    ]
    return [(name, (track.name,), np.asarray(grid.coordinates[name])[indices]) for name in names]


def _of_track(grid: Grid, track: Track, shifted: Array | None) -> list[Described]:
    if len(track.axes) > 1:
        pairs = zip(track.axes, track.indices, strict=True)
        return [
            (grid.dims[axis], (track.name,), grid.coordinate(axis)[indices] / grid.to_degrees(axis))
            for axis, indices in pairs
        ]
    (axis,), (indices,) = track.axes, track.indices
    is_all = track.factor == 1 and np.array_equal(indices, np.arange(grid.shape[axis]))
    if (is_all and track.name not in grid.made) or track.name not in grid.coordinates:
        return []
    own = grid.coordinate(axis)[indices]
    values = own if shifted is None else shifted
    edges = grid.edges(axis)[indices] + np.asarray(values - own, "f8")[:, np.newaxis]
    if track.factor > 1:
        starts = np.arange(0, track.places, track.factor)
        ends = np.minimum(starts + track.factor, track.places)
        values = np.add.reduceat(np.asarray(values, "f8"), starts) / (ends - starts)
        edges = np.stack([edges[starts, 0], edges[ends - 1, 1]], axis=1)
    if (factor := grid.to_degrees(axis)) != 1:
        values, edges = values / factor, edges / factor
    found: list[Described] = [(track.name, (track.name,), values)]
    named = grid.attributes.get(track.name, {}).get("bounds")
    has_bounds = any(name in grid.coordinates for name in (named, f"{track.name}_bnds", f"{track.name}_bounds"))
    if track.factor > 1 or has_bounds:
        found.append((f"{track.name}_bnds", (track.name, "bnds"), edges))
    return found


def resolve(moves: Sequence[Move], grid: Grid, variables: Callable[[str], Array]) -> TrackPlacement:
    """Place selections and one reduction on a grid; see `place_space`."""
    column = place_column(moves[0], grid, variables) if moves and isinstance(moves[0], Levels) else None
    draft = Draft.of(grid, variables)
    if column is not None:
        draft = Draft.of(column.of_grid(grid), variables).with_column(column, grid)
    for move in moves if column is None else moves[1:]:
        draft = APPLY[type(move)](draft, move)
    return replace(draft.placement(), source=grid.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A placement as far as the moves have come."""

    grid: Grid
    """The variable's."""
    variables: Callable[[str], Array]
    """Returns fields of the stream."""
    tracks: tuple[Track, ...]
    """By the first of the axes."""
    shifted: Mapping[str, Array]
    """Longitudes of a box that goes beyond the coordinate's range, by dimension."""
    cells: Cells | None
    """What has areas, if latitude and longitude are no dimensions."""
    factors: tuple[Array, ...] = ()
    """Masks and weights, of the grid's rank."""
    reduction: Reduce | None = None
    """If there was one."""
    column: Column | None = None
    """What was made of the columns before anything else."""
    made_units: str = "{units}"
    """The units then, where {units} are the variable's."""
    where: str = ""
    """Kind of area that a mask has kept, as in CF's table; empty for all and for others."""

    @classmethod
    def of(cls, grid: Grid, variables: Callable[[str], Array]) -> "Draft":
        """Return what keeps all points."""
        every = enumerate(zip(grid.dims, grid.shape, strict=True))
        tracks = tuple(Track(dim, (axis,), (np.arange(size),)) for axis, (dim, size) in every)
        return cls(grid, variables, tracks, {}, cells_of(grid))

    def with_column(self, column: Column, grid: Grid) -> "Draft":
        """Return the same after something was made of a grid's columns; one value of a column isn't a dimension."""
        gone = (column.axis,) if column.is_one else None
        tracks = tuple(replace(track, factor=REDUCED) if track.axes == gone else track for track in self.tracks)
        return replace(self, tracks=tracks, column=column, made_units=column.own_units(grid))

    def has(self, name: str) -> bool:
        """Whether the stream has a variable."""
        try:
            self.variables(name)
        except (ConfigError, KeyError):
            return False
        return True

    def find(self, name: str) -> int:
        """Find a track by the name of its dimension; it must not be reduced yet."""
        names = [track.name for track in self.tracks]
        if name not in names:
            name = self.grid.dims[self.grid.axis(name)]
        if name not in names:
            raise ConfigError(f"{name!r} has become a list of points, of the dimension {POINT!r}")
        if self.tracks[names.index(name)].factor != 1:
            raise ConfigError(f"{name!r} is reduced already: select its points before that")
        return names.index(name)

    def values(self, place: int) -> Array:
        """Return the coordinate of a track of one dimension, at its places."""
        track = self.tracks[place]
        if len(track.axes) > 1:
            raise ConfigError(f"dimension {track.name!r} has no coordinate: use isel")
        if track.name in self.shifted:
            return self.shifted[track.name]
        return np.asarray(self.grid.coordinate(track.axes[0])[track.indices[0]], "f8")

    def chosen(self, place: int, chosen: Array, what: str) -> "Draft":
        """Keep some of a track's places.

        Raises
        ------
        ConfigError
            If there are none, or one is given twice.
        """
        track = self.tracks[place]
        if not len(chosen):
            values = self.values(place)
            raise ConfigError(f"{what} has no point: {track.name!r} goes from {values.min():g} to {values.max():g}")
        if not np.diff(np.sort(chosen)).all():
            raise ConfigError(f"{what} has a point of {track.name!r} twice: take one out")
        kept = replace(track, indices=tuple(indices[chosen] for indices in track.indices), is_chosen=True)
        shifted = {name: values[chosen] if name == track.name else values for name, values in self.shifted.items()}
        return replace(self, tracks=(*self.tracks[:place], kept, *self.tracks[place + 1 :]), shifted=shifted)

    def placement(self) -> TrackPlacement:
        """Return the placement."""
        kept = tuple(track for track in self.tracks if track.factor)
        coordinates, coordinate_dims = result_coordinates(self.grid, kept, self.shifted)
        return TrackPlacement(
            dims=tuple(track.name for track in kept),
            shape=tuple(track.size for track in kept),
            coordinates=coordinates,
            coordinate_dims=coordinate_dims,
            cell_methods=self._cell_methods(),
            own_units=own_units(self.reduction, self.made_units, self._level_units()),
            how=self.reduction.how if self.reduction else "select",
            tracks=self.tracks,
            factors=self.factors,
            source=self.grid.shape,
            column=self.column,
            coordinate_attributes={name: self.grid.attributes.get(name, {}) for name in self.grid.made},
        )

    def _level_units(self) -> str:
        levels = [dim for axis, dim in enumerate(self.grid.dims) if self.grid.kind(axis) == LEVEL]
        return str(self.grid.attributes.get(levels[0], {}).get("units", "")) if len(levels) == 1 else ""

    def _cell_methods(self) -> str:
        column = self.column
        gone = (column.axis,) if column is not None and column.is_one else None
        own = [track for track in self.tracks if track.axes != gone or track.factor != REDUCED]
        done = [
            column.cell_methods if column else "",
            cell_methods(self.grid, own, self.reduction, self.cells, self.where),
        ]
        return " ".join(filter(None, done))


def _box(draft: Draft, box: Box) -> Draft:
    kind, grid = common_kind(box.dim), draft.grid
    is_dim = box.dim in grid.dims or kind in {grid.kind(axis) for axis in range(len(grid.dims))}
    if kind in (LAT, LON) and not is_dim and len(shapes := grid.auxiliary_shapes(kind)) == 1:
        return _box_of_cells(draft, box, kind, *shapes)
    place = draft.find(box.dim)
    values, what = draft.values(place), f"box {{{box.dim}: [{box.low:g}, {box.high:g}]}}"
    track = draft.tracks[place]
    if draft.grid.kind(track.axes[0]) != LON:
        return draft.chosen(place, between(values, box.low, box.high), what)
    chosen, longitudes = between_meridians(values, box.low, box.high)
    after = draft.chosen(place, chosen, what)
    if np.array_equal(longitudes, values[chosen]):
        return after
    return replace(after, shifted={**after.shifted, track.name: longitudes})


def _box_of_cells(draft: Draft, box: Box, kind: str, shape: tuple[int, ...]) -> Draft:
    """Choose cells of a list by their latitudes or longitudes; of a curvilinear grid the others become missing."""
    what = f"box {{{box.dim}: [{box.low:g}, {box.high:g}]}}"
    if draft.reduction:
        raise ConfigError(f"{what} comes after the {draft.reduction.how}: put it first")
    values = draft.grid.auxiliary(kind, shape)
    assert values is not None
    low, high = (box.low, box.high) if kind == LON else sorted((box.low, box.high))
    if kind == LON:
        width = high - low if high >= low else (high - low) % 360
        kept = (values - low + WITHIN) % 360 <= width + 2 * WITHIN
    else:
        kept = (values >= low - WITHIN) & (values <= high + WITHIN)
    (name, *_) = draft.grid.auxiliary_names(shape)
    if len(shape) == 1:
        if not (axes := draft.grid.axes_of(name, shape)):
            raise ConfigError(f"{what}: {name!r} doesn't say of which of {', '.join(draft.grid.dims)} it is")
        (axis,) = axes
        place = next(at for at, track in enumerate(draft.tracks) if track.axes == (axis,))
        chosen = np.flatnonzero(kept[draft.tracks[place].indices[0]])
        if len(chosen):
            return draft.chosen(place, chosen, what)
    if not kept.any() or len(shape) == 1:
        raise ConfigError(f"{what} has no point: they go from {np.nanmin(values):g} to {np.nanmax(values):g}")
    return replace(draft, factors=(*draft.factors, fitted(what, kept.reshape(shape), draft.grid, name)))


WITHIN = 1e-9
"""Degrees that cells may lie beyond a box: rounding."""


def _select(draft: Draft, select: Select) -> Draft:
    place = draft.find(select.dim)
    chosen = equal(draft.tracks[place].name, draft.values(place), select.values)
    return draft.chosen(place, chosen, f"select {select.dim}")


def _select_index(draft: Draft, select: SelectIndex) -> Draft:
    place = draft.find(select.dim)
    track = draft.tracks[place]
    for index in select.indices:
        if not -track.places <= index < track.places:
            raise ConfigError(f"isel: {track.name!r} has no index {index}; it has {track.places} points")
    return draft.chosen(place, np.array(select.indices) % track.places, f"isel {select.dim}")


def _points(draft: Draft, points: Points) -> Draft:
    lat, lon = draft.find(LAT), draft.find(LON)
    rows, columns = nearest_points(draft.values(lat), draft.values(lon), points.places)
    first, second = draft.tracks[lat], draft.tracks[lon]
    axes, indices = (*first.axes, *second.axes), (first.indices[0][rows], second.indices[0][columns])
    tracks = [track for track in draft.tracks if track not in (first, second)]
    tracks.append(Track(POINT, axes, indices))
    return replace(draft, tracks=tuple(sorted(tracks, key=lambda track: min(track.axes))))


def _mask(draft: Draft, mask: Mask) -> Draft:
    if draft.reduction:
        raise ConfigError(f"mask {mask.expression.text!r} comes after the {draft.reduction.how}: put it first")
    fields = {name: np.asarray(draft.variables(name)) for name in mask.expression.variables}
    shapes = {field.shape for field in fields.values()}
    if len(shapes) > 1:
        raise ConfigError(
            f"mask {mask.expression.text!r}: its variables have different shapes: give each a mask of its own"
        )
    flat = {name: Steps([field.reshape(-1)]) for name, field in fields.items()}
    (values,) = mask.expression.evaluate(flat)
    kept = (values != 0) & ~np.isnan(values)
    factor = fitted(mask.expression.text, kept.reshape(*shapes), draft.grid, next(iter(fields)))
    where = _area_type(mask, next(iter(fields.values())), draft.grid) if not draft.factors else ""
    return replace(draft, factors=(*draft.factors, factor), where=where)


def _reduce(draft: Draft, move: Reduce) -> Draft:
    given = move.weights
    if draft.cells is not None and not move.factors and set(map(common_kind, move.dims)) >= {LAT, LON}:
        move = _of_cells(draft.grid, draft.cells, move)
    elif not move.factors:
        move = replace(move, dims=draft.grid.there(move.dims))
    places = [draft.find(name) for name in move.dims]
    if len(set(places)) < len(places):
        raise ConfigError(f"{move.how}: a dimension of {', '.join(move.dims)} is given twice")
    weights = _chosen_weights(draft, move, places)
    if weights == given == "area" and draft.has("area"):
        raise ConfigError(
            "weights: area may mean the areas of the cells or the stream's variable 'area': write "
            f"{AREA_VARIABLE!r} for that (a mean over latitudes without weights has those of the cells)"
        )
    factors = dict(zip(places, move.factors or [REDUCED] * len(places), strict=True))
    tracks = [
        replace(track, factor=factors[place], weights=_track_weights(draft, track, weights, move.how))
        if place in factors
        else track
        for place, track in enumerate(draft.tracks)
    ]
    reduction = replace(move, weights=weights)
    after = replace(draft, tracks=tuple(tracks), reduction=reduction)
    if weights == "area" and draft.cells is not None:
        return replace(after, factors=(*draft.factors, draft.cells.areas()))
    if weights in ("area", "thickness", "none"):
        return after
    name = weights.strip("`")
    field = checked_weights(name, np.asarray(draft.variables(name)))
    return replace(after, factors=(*draft.factors, fitted(name, field, draft.grid)))


def _of_cells(grid: Grid, cells: Cells, move: Reduce) -> Reduce:
    """Return a reduction over latitude and longitude as one over the dimensions of the cells."""
    others = [name for name in move.dims if common_kind(name) not in (LAT, LON)]
    weights = "area" if move.how in AVERAGING and move.weights is None else move.weights
    return replace(move, dims=(*(grid.dims[axis] for axis in cells.axes), *others), weights=weights)


def _chosen_weights(draft: Draft, move: Reduce, places: Sequence[int]) -> str:
    axes = {axis for place in places for axis in draft.tracks[place].axes if len(draft.tracks[place].axes) == 1}
    kinds = {draft.grid.kind(axis) for axis in axes}
    if move.weights is None and move.how in AVERAGING and LAT not in kinds and _has_layers(draft, places):
        return "thickness"
    if move.weights is None:
        return "area" if move.how in AVERAGING and LAT in kinds else "none"
    if move.weights == "thickness":
        return _checked_thickness(draft, move, places)
    if draft.cells is not None:
        own = {*draft.cells.axes}
        kinds |= {LAT, LON} if axes >= own else {LAT} if axes & own else set()
    if move.weights != "area":
        return move.weights
    needed = {LAT, LON} if move.how == "sum" else {LAT}
    has_areas = needed & kinds if move.how in AVERAGING else needed <= kinds
    if not has_areas and not draft.has("area"):
        raise ConfigError(f"{move.how} over {', '.join(move.dims)} has no area: take out weights, or name a variable")
    return "area" if has_areas else AREA_VARIABLE


def _checked_thickness(draft: Draft, move: Reduce, places: Sequence[int]) -> str:
    if draft.has("thickness"):
        raise ConfigError(
            "weights: thickness may mean what is between the levels' bounds or the stream's variable 'thickness': name "
            "that otherwise"
        )
    if not _has_layers(draft, places):
        raise ConfigError(
            f"{move.how} over {', '.join(move.dims)} has no thickness: the stream must have bounds of the levels, as "
            "the attribute 'bounds' of their coordinate names them"
        )
    return "thickness"


def _has_layers(draft: Draft, places: Sequence[int]) -> bool:
    """Whether levels are among some tracks, and the stream has their bounds."""
    found = [track.axes[0] for track in (draft.tracks[place] for place in places) if len(track.axes) == 1]
    return any(draft.grid.kind(axis) == LEVEL and draft.grid.has_bounds(axis) for axis in found)


def _track_weights(draft: Draft, track: Track, weights: str, how: str) -> Array | None:
    if weights == "thickness" and len(track.axes) == 1 and draft.grid.kind(track.axes[0]) == LEVEL:
        edges = draft.grid.edges(track.axes[0])
        thickness: Array = np.abs(edges[:, 1] - edges[:, 0])
        return np.asarray(thickness[track.indices[0]])
    if weights != "area" or len(track.axes) > 1 or draft.grid.kind(track.axes[0]) not in (LAT, LON):
        return None
    shares = area_weights(draft.grid, track.axes[0])
    if not shares.any() and how == "sum":
        raise ConfigError(f"the area of a single {track.name!r} is not known: the stream must have its bounds")
    return shares[track.indices[0]] if shares.any() else None


APPLY: Mapping[type[Any], Callable[[Draft, Any], Draft]] = {
    Box: _box,
    Select: _select,
    SelectIndex: _select_index,
    Points: _points,
    Mask: _mask,
    Reduce: _reduce,
}
"""What each move does."""
