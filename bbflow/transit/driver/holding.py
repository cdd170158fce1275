"""Fields of files are held where all tasks map them: on the stream's grid, and as they were when the run began."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from bbflow.errors import ConfigError
from bbflow.host.atomic import replacing
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.evaluation import unlike
from bbflow.operators.file_fields import AreaField, BesideSteps, DateField, FileField
from bbflow.operators.names.indices import same_units
from bbflow.operators.operator import FINISHED_POINTS
from bbflow.operators.space.chaining import Chained, Gathered
from bbflow.operators.space.placement import Placement
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.driver.first_step import StreamArrays

GridOf = tuple[tuple[str, ...], tuple[int, ...], Mapping[str, Array]]
"""Dimensions, their sizes, and coordinates by name."""


def hold_fields(
    diagnostics: Mapping[str, Diagnostic],
    placements: Mapping[str, Placement],
    arrays: StreamArrays,
    attributes: StreamAttributes,
    clock: Clock,
) -> dict[str, Diagnostic]:
    """Hold what diagnostics need of files.

    What is held stays: an analysis that takes over after a crash doesn't look at the files again.

    Returns
    -------
    dict
        Those of the diagnostics that need any, with their fields held.

    Raises
    ------
    ConfigError
        If a field is of another grid, calendar or other units than what it goes with.
    """
    found = {}
    for key, diagnostic in diagnostics.items():
        if diagnostic.fields and arrays.blocks.keys() >= set(diagnostic.variables):
            try:
                held = _held(diagnostic, placements.get(key), arrays, attributes, clock)
            except ConfigError as error:
                raise ConfigError(f"operators of {diagnostic.name}: fields: {error}") from None
            found[key] = replace(diagnostic, fields=held)
    return found


def _held(
    diagnostic: Diagnostic,
    placement: Placement | None,
    arrays: StreamArrays,
    attributes: StreamAttributes,
    clock: Clock,
) -> dict[str, BesideSteps]:
    _check_units(diagnostic, attributes)
    stream = _stream_grid(diagnostic, arrays, attributes)
    after = stream if placement is None else _placed_grid(placement, stream)
    held: dict[str, BesideSteps] = dict(diagnostic.fields)
    for name, item in diagnostic.fields.items():
        if isinstance(item, DateField):
            continue
        if isinstance(item, AreaField):
            held[name] = _hold_shares(item, diagnostic, placement, arrays)
            continue
        item.check_calendar(clock.calendar)
        grids = [own for own, used in ((stream, diagnostic.fields_of_steps), (after, diagnostic.fields_after))
                 if name in used]  # fmt: skip
        if any(own[:2] != grids[0][:2] for own in grids):
            raise ConfigError(f"{name} goes with the field before 'space' and with that after it: give it two names")
        held[name] = _hold(item, grids[0], arrays)
    return held


def _hold_shares(
    item: AreaField, diagnostic: Diagnostic, placement: Placement | None, arrays: StreamArrays
) -> AreaField:
    assert isinstance(placement, Chained)
    assert isinstance(placement.second, Gathered)
    shares = placement.second.shares
    if shares.size > FINISHED_POINTS:
        raise ConfigError(
            f"{', '.join(own.name for own in diagnostic.operators)}: a field of {shares.size} points is too large, "
            f"{FINISHED_POINTS} are taken at most: coarsen it first, as space: {{coarsen: {{lat: 4, lon: 4}}}}"
        )
    path = arrays.directory / f"shares-{blake2b(diagnostic.key.encode(), digest_size=12).hexdigest()}.npy"
    if not path.exists():
        with replacing(path) as temporary, temporary.open("wb") as new:
            np.save(new, shares)
    return replace(item, held=str(path))


def _hold(item: FileField, grid: GridOf, arrays: StreamArrays) -> FileField:
    dims, shape, coordinates = grid
    path = arrays.directory / f"{item.label(dims, shape)}.npy"
    if not path.exists():
        values = item.read(dims, shape, coordinates)
        with replacing(path) as temporary, temporary.open("wb") as new:
            np.save(new, values)
    return item.held_in(path)


def _stream_grid(diagnostic: Diagnostic, arrays: StreamArrays, attributes: StreamAttributes) -> GridOf:
    like = max((arrays.block(name) for name in diagnostic.of_variables), key=lambda block: len(block.shape))
    if like.name in attributes.maps:
        raise ConfigError(f"{like.name} has its points in an order of its own, by a decomposition: no file has that")
    dims = tuple(attributes.dimensions(like.name, like.shape))
    return dims, tuple(like.shape), {dim: arrays[dim] for dim in dims if arrays.is_field(dim)}


def _placed_grid(placement: Placement, stream: GridOf) -> GridOf:
    return placement.dims, placement.shape, {**stream[2], **placement.coordinates}


def _check_units(diagnostic: Diagnostic, attributes: StreamAttributes) -> None:
    """Check that what an expression adds, subtracts or compares is in the same units, where both tell theirs."""
    for expression in (diagnostic.of, *diagnostic.others.values()):
        told = {name: str(attributes.of(name).get("units", "")) for name in expression.variables}
        told |= {name: item.units for name, item in diagnostic.fields.items()}
        for left, right in unlike(expression.tree):
            units = told.get(left, ""), told.get(right, "")
            if all(units) and not same_units(*units):
                raise ConfigError(
                    f"{expression.text!r}: {left} is in {units[0]!r}, but {right} in {units[1]!r}: convert one of them"
                )
