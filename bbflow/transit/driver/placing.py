"""Where the fields of diagnostics with a `space` lie: found once, in the grid that the first step shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.decoding import without_missing
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.columns import Column
from bbflow.operators.space.grid import TOLD
from bbflow.operators.space.levels import MISSING
from bbflow.operators.space.placement import Placement
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.ugrid import PARTS, mesh_places, topology_of
from bbflow.operators.steps import Array
from bbflow.stream.cf import PACKING, Encoding, StreamAttributes
from bbflow.transit.driver.first_step import StreamArrays
from bbflow.transit.output.fields import coordinate_name, placed_dimension
from bbflow.transit.output.results import Results


def place_diagnostics(
    diagnostics: Mapping[str, Diagnostic], arrays: StreamArrays, attributes: StreamAttributes
) -> tuple[dict[str, Placement], dict[str, list[str]]]:
    """Find the points of each diagnostic that has a `space`, and whose variables were seen.

    Returns
    -------
    tuple
        Diagnostic to placement, and variable to the diagnostics whose points, masks or weights it has told.

    Raises
    ------
    ConfigError
        If a dimension, coordinate or variable is missing; the message names the diagnostic.
    """
    placed, told = {}, dict[str, list[str]]()
    for name, diagnostic in diagnostics.items():
        if diagnostic.space is not None and arrays.blocks.keys() >= set(diagnostic.variables):
            used: set[str] = set()
            try:
                placed[name] = _place(diagnostic, arrays, attributes, used)
            except ConfigError as error:
                raise ConfigError(f"operators of {name}: space: {error}") from None
            for variable in used:
                told.setdefault(variable, []).append(name)
    check_weights(placed, arrays)
    return placed, told


def check_weights(placed: Mapping[str, Placement], arrays: StreamArrays) -> None:
    """Check that weights are those with which an analysis before this one has folded the stream's first steps.

    Raises
    ------
    ConfigError
        If not: steps that were folded and those that come would be remapped in two ways.
    """
    now = {name: own for name, item in placed.items() if (own := item.remapping_weights) is not None}
    digests = {weights: weights.digest for weights in set(now.values())}
    if known := arrays.known_weights():
        for name, weights in now.items():
            if known.get(name, digests[weights]) != digests[weights]:
                raise ConfigError(
                    f"operators of {name}: space: {weights.name} aren't what they were when the run began: put the "
                    "file back, so that all steps are remapped alike"
                )
    elif now:
        arrays.keep_weights({name: digests[weights] for name, weights in now.items()})


def _place(diagnostic: Diagnostic, arrays: StreamArrays, attributes: StreamAttributes, used: set[str]) -> Placement:
    assert diagnostic.space is not None
    blocks = [arrays.block(name) for name in diagnostic.of_variables]
    if ordered := [block.name for block in blocks if block.name in attributes.maps]:
        raise ConfigError(
            f"{ordered[0]} has its points in an order of its own, by a decomposition: parts and means of space can't "
            "be had of it; take 'space' out"
        )
    # Inputs of an expression broadcast: the one with most dimensions has the shape of the result.
    like = max(blocks, key=lambda block: len(block.shape))
    dims = attributes.dimensions(like.name, like.shape)
    located = [*dims, *str(attributes.of(like.name).get("coordinates", "")).split()]
    bounds = [str(attributes.of(name).get("bounds", "")) for name in located]
    # Bounds by their usual names, too: not every program writes the attribute that names them.
    wanted = [*(name for own in located for name in (own, f"{own}_bnds", f"{own}_bounds")), *bounds]
    coordinates = {name: _along(dims, name, arrays, attributes) for name in wanted if arrays.is_field(name)}
    described: dict[str, Mapping[str, Any]] = {
        name: attributes.of(name) | _told(dims, name, attributes)
        for name in (
            *(*coordinates, *dims, *diagnostic.space.of_columns, *diagnostic.space.variables),
            *attributes.having("formula_terms"),
        )
    }
    used.update(coordinates.keys() & set(located))
    mesh_coordinates, mesh_told = _of_mesh(like.name, dims, arrays, attributes, used)
    coordinates |= {name: values for name, values in mesh_coordinates.items() if name not in coordinates}
    described |= mesh_told

    def variables(name: str) -> Array:
        found = _along(dims, name, arrays, attributes)
        used.add(name)  # only now: what isn't there is asked for, too
        return found

    placement = place_space(diagnostic.space, dims, like.shape, coordinates, variables, described)
    if placement.column is not None:
        _check_reach(placement.column, arrays, attributes)
    return placement


def _of_mesh(
    variable: str, dims: Sequence[str], arrays: StreamArrays, attributes: StreamAttributes, used: set[str]
) -> tuple[dict[str, Array], dict[str, Mapping[str, Any]]]:
    """Return what a mesh of UGRID tells of where a variable's points are, with attributes; see `mesh_places`."""

    def values(name: str) -> Array | None:
        if not arrays.is_field(name):
            return None
        used.add(name)
        found, told = _meant(name, arrays, attributes), attributes.told_dimensions(name)
        is_turned = found.ndim == len(told) == 2 and told[1] in dims and told[0] not in dims
        return found.T if is_turned else found

    own = attributes.of(variable)
    return mesh_places(attributes.of, own, values) if {"mesh", "location"} <= own.keys() else ({}, {})


def _check_reach(column: Column, arrays: StreamArrays, attributes: StreamAttributes) -> None:
    """Check that columns reach some of the levels in the first step, by what its ranks tell of their coordinates.

    Raises
    ------
    ConfigError
        If they reach none, as where levels are in hPa and pressures in Pa: all results would be missing.
    """
    wanted, coordinate = column.levels, column.levels.coordinate
    if coordinate is None or not wanted.to or (wanted.above, wanted.below) != (MISSING, MISSING):
        return
    ends = [end for name in coordinate.fields for end in _ends(name, arrays, attributes)]
    if len(ends) < 2 * len(coordinate.fields) or min(ends) == max(ends):  # it may not be computed yet
        return
    if column.a is not None and column.b is not None:
        ends += [float(value) for end in ends for value in column.a + column.b * end]
    least, most = min(ends), max(ends)
    if not any(least - LATER * abs(least) <= level <= most + LATER * abs(most) for level in wanted.to):
        name = coordinate.fields[0]
        units = attributes.of(name).get("units", "not told")
        raise ConfigError(
            f"levels: no column reaches {', '.join(f'{level:g}' for level in wanted.to)}: by {name!r} they go from "
            f"{least:g} to {most:g} in the first step, in its units ({units}), which those of 'to' must be"
        )


LATER = 0.1
"""Later steps may have columns that go this share further than the first step's."""


def _ends(name: str, arrays: StreamArrays, attributes: StreamAttributes) -> tuple[float, ...]:
    """Return a variable's smallest and largest value in the first step; none where they may be fill values."""
    told = [(block.min, block.max) for _, block in arrays.first.placed if block.name == name]
    known = [(least, most) for least, most in told if least is not None and most is not None]
    if attributes.encoding(name) != Encoding() or not known or len(known) < len(told):
        return ()
    return float(min(least for least, _ in known)), float(max(most for _, most in known))


def _along(dims: Sequence[str], name: str, arrays: StreamArrays, attributes: StreamAttributes) -> Array:
    """Return a field of the first step with its dimensions in the order that they have in a variable.

    A square field in the other order would fit as well, and be wrong. Corners are the last dimension of bounds.
    """
    values, told = _meant(name, arrays, attributes), attributes.told_dimensions(name)
    told = told[1:] if len(told) == values.ndim + 1 else told
    if len(told) != values.ndim or not set(told[:-1]) <= set(dims):
        return values
    order = sorted(range(values.ndim), key=lambda axis: dims.index(told[axis]) if told[axis] in dims else len(dims))
    return values.transpose(order)


def _told(dims: Sequence[str], name: str, attributes: StreamAttributes) -> dict[str, Any]:
    """Return which of a variable's dimensions a field has, in their order, if its own attributes tell them."""
    told = attributes.told_dimensions(name)
    own = set(told) if set(told) <= set(dims) else set(told[1:])  # the first may be that of the steps
    return {TOLD: tuple(dim for dim in dims if dim in own)} if own and own <= set(dims) else {}


def _meant(name: str, arrays: StreamArrays, attributes: StreamAttributes) -> Array:
    """Return what a variable's values mean, NaN where they are missing."""
    return without_missing(arrays[name], attributes.encoding(name))


def write_referenced(arrays: StreamArrays, attributes: StreamAttributes, results: Results) -> None:
    """Write what the variables' and coordinates' attributes name: auxiliary coordinates, and the bounds of all."""
    names = {name for name in arrays.names if arrays.is_field(name)} - attributes.reserved
    auxiliary = {other for name in names for other in str(attributes.of(name).get("coordinates", "")).split()}
    coordinates = auxiliary | {name for name in names if results.has(name)}
    for name in sorted(coordinates):
        bounds = str(attributes.of(name).get("bounds", ""))
        if bounds in names and not results.has(bounds):
            _write_whole(bounds, arrays, attributes, results)
            results.refer(name, bounds)
        if name in names and not results.has(name):
            _write_whole(name, arrays, attributes, results)
    for mesh in sorted({str(attributes.of(name).get("mesh", "")) for name in names} - {""}):
        topology = topology_of(attributes.of(mesh), names)
        if topology and not results.has(mesh):
            for name in " ".join(str(topology.get(key, "")) for key in PARTS).split():
                if not results.has(name):
                    _write_whole(name, arrays, attributes, results)
            results.add_mesh(mesh, topology)


def _write_whole(name: str, arrays: StreamArrays, attributes: StreamAttributes, results: Results) -> None:
    values = arrays[name]
    if values.ndim:
        dims = attributes.dimensions(name, values.shape)
        results.add_coordinate(name, values, tuple(dims))


def write_field_coordinates(name: str, placement: Placement, attributes: StreamAttributes, results: Results) -> None:
    """Write the coordinates of a field that differ from the stream's own, each under the diagnostic's name."""
    bounds = {own.removesuffix("_bnds"): own for own in placement.coordinates if own.endswith("_bnds")}
    for own in sorted(placement.coordinates, key=lambda own: own not in bounds.values()):  # bounds come first
        written = coordinate_name(name, own)
        if not results.has(written):
            sizes = zip(placement.coordinate_dims[own], placement.coordinates[own].shape, strict=True)
            dims = tuple(placed_dimension(name, dim, size, placement, attributes) for dim, size in sizes)
            known = placement.coordinate_attributes.get(own, attributes.of(own))
            described = {key: value for key, value in known.items() if key not in ("bounds", *PACKING)}
            if own in bounds:
                described["bounds"] = coordinate_name(name, bounds[own])
            results.add_coordinate(written, placement.coordinates[own], dims, described)
