"""Chains of moves around a remap: which axes it is for, whether the weights are for the grid, and what comes out."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.chaining import Chained, Made, chained, made_of
from bbflow.operators.space.coarsening import pyramid_of
from bbflow.operators.space.described import AREA, CORNERS, CRS, described, horizontal_axes, mesh_of
from bbflow.operators.space.grid import EARTH_RADIUS_M, LAT, LON, Grid, checked_weights, fitted, kind_of
from bbflow.operators.space.interpolation import Interpolated
from bbflow.operators.space.making import UNWEIGHTED
from bbflow.operators.space.meshes import Described, Mesh, sized, strays
from bbflow.operators.space.moves import OF_WHOLE_FIELDS, Move, Reduce, Remap, Whole
from bbflow.operators.space.placement import Placement, TrackPlacement
from bbflow.operators.space.pyramids import Pyramid
from bbflow.operators.space.region_files import weighed
from bbflow.operators.space.remapping import Ending, Remapped
from bbflow.operators.space.resolve import resolve
from bbflow.operators.space.space import Space
from bbflow.operators.space.weight_sources import weights_for
from bbflow.operators.space.weights import Weights, read_weights
from bbflow.operators.steps import Array

Variables = Callable[[str], Array]
LEAST = {"bil": 1.0}
"""Share of a point's weights that must be valid, where the configuration says none: any, but as CDO has it, for
bilinear interpolation all."""


ANY = 10 * UNWEIGHTED
"""Less than this share is nothing: a corner that only must be valid stands for no point."""
ROUNDED = 1 - 1e-9
"""What sums of a million weights may be of what they are: each order of adding them rounds otherwise."""


NO_SIGN = 1e-9
"""Weights below 0 by less than this are rounding."""


def least_of(weights: Weights) -> Array | float:
    """Return the share of each point's area that must be valid, where the configuration says none.

    Of a point with weights of either sign, as methods of higher order have them, what remains may add up to next to
    nothing, by which the sum would be divided: as much as of all its values must remain.
    """
    if weights.needs is not None:
        return weights.needs
    least, mixed = LEAST.get(weights.method, 0.0) * ROUNDED, weights.rows[weights.values < 0]
    if not len(mixed):
        return least
    needs = np.full(len(weights.cover), least)
    needs[mixed] = weights.share[mixed] * ROUNDED
    return needs


def place_space(
    space: Space,
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    coordinates: Mapping[str, Array],
    variables: Callable[[str], Array],
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Placement:
    """Find the points of a space in a variable's grid.

    Parameters
    ----------
    space
        Which points.
    dims, shape
        Names and sizes of the variable's dimensions, one and the same for all steps.
    coordinates
        One-dimensional coordinates by name, and bounds of shape (size, 2) as ``<name>_bnds`` or ``<name>_bounds``.
    variables
        Gives the whole field of one of the space's `variables`, of the shape of the last (or other) dims; raises
        `ConfigError` if there is none.
    attributes
        CF attributes of coordinates by name: units, standard_name and axis tell latitude from longitude; without
        them common names do.

    Raises
    ------
    ConfigError
        If a dimension or coordinate is missing, nothing is selected, or weights are for another grid.
    """
    return resolve_chain(space.moves, Grid(dims, shape, coordinates, attributes or {}), variables)


def resolve_chain(moves: Sequence[Move], grid: Grid, variables: Variables) -> Placement:
    """Place a chain of moves, each group on the grid that the one before results in; see `place_space`."""
    own, *others = _groups(moves)
    placed: Placement = _place_group(own, grid, variables)
    given = grid
    for group in others:
        given = _result_grid(given, placed)
        (move, *_) = group
        second: Placement | Made
        if isinstance(move, Remap) and _is_of_whole(move):
            second = _interpolated(move, given)
            variables = _with_target(second.target, second.meshes[1], variables)
        else:
            second = made_of(move, given) if isinstance(move, Whole) else _place_group(group, given, variables)
        if any(isinstance(own, Placement) and own.pyramid is not None for own in (placed, second)):
            raise ConfigError(
                "pyramid: levels are of a field that is remapped as it lies: take out what needs whole fields: other "
                "items of the space, or eof"
            )
        placed = chained(placed, second, _units([placed.own_units, second.own_units]), grid.shape)
    return placed


def _groups(moves: Sequence[Move]) -> list[list[Move]]:
    """Cut a chain into parts, of which each but the first is made of the whole results of those before it."""
    groups: list[list[Move]] = [[]]
    closed = False
    for move in moves:
        is_whole = isinstance(move, Whole) or (isinstance(move, Remap) and _is_of_whole(move))
        is_further = isinstance(move, Reduce) and any(isinstance(known, Reduce) for known in groups[-1])
        if is_whole or is_further or closed:
            groups.append([])
        groups[-1].append(move)
        closed = is_whole
    return groups


def _is_of_whole(move: Remap) -> bool:
    """Whether a remap needs whole fields, by its method or by that of its file."""
    told = read_weights(move.file).method if move.file is not None and not move.method else move.method
    return told in OF_WHOLE_FIELDS


def _interpolated(move: Remap, given: Grid) -> Interpolated:
    for key, value in (("area_min", move.area_min), ("fraction", move.fraction), ("pyramid", move.pyramid)):
        if value is not None:
            raise ConfigError(f"{key} is for other methods than {', '.join(f'remap{own}' for own in OF_WHOLE_FIELDS)}")
    axes = horizontal_axes(given)
    weights = fitted_weights(move, given, axes)
    assert weights.target is not None
    if weights.gradients is not None and len(axes) != 2:
        raise ConfigError(f"{weights.name} needs gradients, and so a grid of rows and columns, not a list of cells")
    target = described(weights.target, frozenset(dim for axis, dim in enumerate(given.dims) if axis not in axes))
    result = _target_grid(given, axes, target, weights.target)
    return Interpolated(given, axes, METHODS.get(weights.method, ""), weights, target, result)


def _place_group(moves: Sequence[Move], grid: Grid, variables: Variables) -> TrackPlacement | Remapped:
    at = next((at for at, move in enumerate(moves) if isinstance(move, Remap)), None)
    if at is None:
        return _cut(moves, grid, variables)
    move = moves[at]
    assert isinstance(move, Remap)
    before = _cut(moves[:at], grid, variables) if at else None
    given = grid if before is None else _result_grid(grid, before)
    axes = horizontal_axes(given)
    weights = fitted_weights(move, given, axes)
    assert weights.target is not None
    planes = tuple(dim for axis, dim in enumerate(given.dims) if axis not in axes)
    target = described(weights.target, frozenset(planes))
    on_target = _target_grid(given, axes, target, weights.target)
    after = None
    if moves[at + 1 :]:
        after = _cut(moves[at + 1 :], on_target, _with_target(target, weights.target, variables))
    return _remapped(grid, before, given, axes, weights, move, variables, target, on_target, after)


def _cut(moves: Sequence[Move], grid: Grid, variables: Variables) -> TrackPlacement:
    return resolve(moves, grid, variables)


def _result_grid(grid: Grid, before: Placement) -> Grid:
    """Return the grid of what comes out of a placement."""
    if isinstance(before, Chained) and isinstance(before.second, Interpolated):
        return before.second.result
    kept = {name: values for name, values in grid.coordinates.items() if name not in before.coordinates}
    attributes = {**grid.attributes, **before.coordinate_attributes}
    return Grid(before.dims, before.shape, {**kept, **before.coordinates}, attributes, healpix=_cells_of(grid, before))


def _cells_of(grid: Grid, before: Placement) -> str:
    """Return the dimension of all of HEALPix' cells in what comes out of a placement; empty for none."""
    if isinstance(before, Remapped):
        mesh = before.weights.target
        return before.target.dims[0] if before.after is None and mesh is not None and mesh.zoom is not None else ""
    is_whole = isinstance(before, TrackPlacement) and grid.healpix in before.unchanged & {*before.dims}
    return grid.healpix if is_whole else ""


def fitted_weights(move: Remap, grid: Grid, axes: tuple[int, ...]) -> Weights:
    """Return the weights of a remap, checked against the grid that they are for.

    Raises
    ------
    ConfigError
        If they are for another grid, by its sizes or the places of its points, or of another method.
    """
    mesh = mesh_of(grid, axes)
    weights = weights_for(move, mesh)
    if weights.source is not None:
        sized(weights.source, mesh.shape, weights.name)
        if found := strays(weights.source, mesh):
            raise ConfigError(
                f"{weights.name} is for a grid of the same size, but {found} of {mesh.size} points lie elsewhere in "
                "the variable's: make weights for its grid, and mind the order of its latitudes"
            )
    return weights


def _target_grid(grid: Grid, axes: tuple[int, ...], target: Described, mesh: Mesh) -> Grid:
    """Return the grid of the result of the product."""
    kept = [axis for axis in range(len(grid.dims)) if axis not in axes]
    at = sum(axis < min(axes) for axis in kept)
    dims = [grid.dims[axis] for axis in kept]
    sizes = [grid.shape[axis] for axis in kept]
    # What is told of the source's cells could be taken for that of as many others.
    own = {name for name in grid.coordinates if kind_of(name, grid.attributes.get(name, {})) in (LAT, LON)}
    own |= {str(grid.attributes.get(name, {}).get("bounds", "")) for name in own}
    coordinates = {name: values for name, values in grid.coordinates.items() if name not in own}
    return Grid(
        (*dims[:at], *target.dims, *dims[at:]),
        (*sizes[:at], *mesh.shape, *sizes[at:]),
        {**coordinates, **target.coordinates},
        {**grid.attributes, **target.attributes},
        healpix=target.dims[0] if mesh.zoom is not None else "",
    )


def _with_target(target: Described, mesh: Mesh, variables: Variables) -> Variables:
    """Provide the target's coordinates and areas to masks and weights after the remap, even if results lack them."""
    area = None if mesh.area is None else mesh.area * EARTH_RADIUS_M**2
    unwritten = {"lat": mesh.lat, "lon": mesh.lon, AREA: area}
    own = {name: values.reshape(mesh.shape) for name, values in unwritten.items() if values is not None}
    known = {**own, **target.coordinates}
    return lambda name: known[name] if name in known else variables(name)


NO_DIMENSIONS = {"bnds", CRS}
"""Names of dimensions that a coordinate has and no field."""


def _coordinates(
    before: TrackPlacement | None, target: Described, on_target: Grid, after: TrackPlacement | None
) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Return the coordinates that differ from the variable's own, and their dimensions: of those that are unchanged."""
    values: dict[str, Array] = {}
    dims: dict[str, tuple[str, ...]] = {}
    same = set(on_target.dims) if after is None else after.unchanged & set(on_target.dims)
    for name, own in (*(before.coordinate_dims if before else {}).items(), *target.coordinate_dims.items()):
        across = {dim for dim in own if dim not in NO_DIMENSIONS and not dim.startswith(CORNERS)}
        if (across or set(target.dims)) <= same:  # a grid's mapping goes with its cells
            values[name], dims[name] = on_target.coordinates[name], own
    if after is not None:
        values, dims = {**values, **after.coordinates}, {**dims, **after.coordinate_dims}
    return values, dims


def _remapped(
    grid: Grid,
    before: TrackPlacement | None,
    given: Grid,
    axes: tuple[int, ...],
    weights: Weights,
    move: Remap,
    variables: Variables,
    target: Described,
    on_target: Grid,
    after: TrackPlacement | None,
) -> Remapped:
    coordinates, coordinate_dims = _coordinates(before, target, on_target, after)
    told = move.area_min is not None or move.fraction
    # Never nothing at all: a point without any weight would be filled by a division of zeros.
    least = max((move.area_min or 0.0) * ROUNDED, ANY) if told else least_of(weights)
    cell_methods, own_units = _told_of(before, move, weights, after)
    _check_signs(move, weights)
    factor = _factor(move.fraction, variables, given, axes) if move.fraction else None
    if move.regions is not None and factor is not None:
        weights, factor = weighed(weights, factor, sums=move.is_sum), None
    return Remapped(
        dims=after.dims if after else on_target.dims,
        shape=after.shape if after else on_target.shape,
        coordinates=coordinates,
        coordinate_dims=coordinate_dims,
        cell_methods=cell_methods,
        own_units=own_units,
        source=grid.shape,
        before=before,
        weights=weights,
        box=given.shape,
        axes=axes,
        factor=factor,
        ending=Ending(weights.cover, weights.share, least, move.is_sum),
        target=target,
        after=after,
        levels=_levels(move, weights, given, axes, after),
    )


def _check_signs(move: Remap, weights: Weights) -> None:
    """Check that weights don't cancel by which a target's share of valid sources is had."""
    if move.fraction and (weights.values < -NO_SIGN).any():
        raise ConfigError(
            f"remap: fraction {move.fraction!r}: weights of either sign may cancel: take those of first order"
        )


def _told_of(
    before: TrackPlacement | None, move: Remap, weights: Weights, after: TrackPlacement | None
) -> tuple[str, str]:
    """Return the cell methods of what is done before a remap, by it and after it, and the units that this makes."""
    own = "area: sum" if move.is_sum else METHODS.get(weights.method, "")
    done = (before.cell_methods if before else "", own, after.cell_methods if after else "")
    units = [sums_units(move)] if move.is_sum else []
    all_units = [*([before.own_units] if before else []), *units, *([after.own_units] if after else [])]
    return " ".join(filter(None, done)), _units(all_units)


def _levels(
    move: Remap, weights: Weights, given: Grid, axes: tuple[int, ...], after: TrackPlacement | None
) -> Pyramid | None:
    """Return the coarser levels that are wanted."""
    if move.pyramid is None:
        return None
    if after is not None:
        raise ConfigError("pyramid: levels are of the remapped field itself: take out what comes after the remap")
    planes = [axis for axis in range(len(given.dims)) if axis not in axes]
    at = sum(axis < min(axes) for axis in planes)
    assert weights.target is not None
    return pyramid_of(weights.target, at, move.pyramid, frozenset(given.dims[axis] for axis in planes))


def sums_units(move: Remap) -> str:
    """Return the units of sums over regions, of which those of a variable's weights aren't known."""
    weights = move.regions.weights if move.regions else ""
    return {"": "{units} m2", "none": "{units}"}.get(weights, "")


METHODS = {"con": "area: mean", "con2": "area: mean", "laf": "area: mode", "regions": "area: mean"}
"""CF's cell methods of remapping: what interpolates gives values at points, and changes none."""


def _units(all_units: Sequence[str]) -> str:
    """Return what a chain makes of {units}; empty if any part of it doesn't know."""
    made = "{units}"
    for own in all_units:
        made = own.replace("{units}", made) if own and made else ""
    return made


def _factor(name: str, variables: Variables, grid: Grid, axes: tuple[int, ...]) -> Array:
    """Return what each horizontal point counts besides; float64 of shape (points,), in the weights' order."""
    field = fitted(name, checked_weights(name, np.asarray(variables(name))), grid)
    if any(size > 1 for axis, size in enumerate(field.shape) if axis not in axes):
        raise ConfigError(f"remap: fraction {name!r} changes along {', '.join(grid.dims)}: it must be of one plane")
    shape = tuple(grid.shape[axis] for axis in axes)
    planes = tuple(axis for axis in range(len(grid.dims)) if axis not in axes)
    plane = field.transpose(*planes, *axes).reshape([field.shape[axis] for axis in axes])
    return np.ascontiguousarray(np.broadcast_to(plane, shape), "f8").reshape(prod(shape))
