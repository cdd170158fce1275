"""Fields: where a diagnostic's results lie, and what the CF conventions want to know of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.cf import StreamAttributes
from bbflow.errors import ConfigError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import DType
from bbflow.operators.names.indices import same_units
from bbflow.operators.space import Placement
from bbflow.records import Block


@dataclass(frozen=True, slots=True)
class Field:
    """What the store must know about a diagnostic's field."""

    name: str
    """The diagnostic."""
    dtype: str
    """NumPy's name of the type that its statistics fold."""
    shape: tuple[int, ...]
    """Global shape."""
    dims: tuple[str, ...]
    """Names of its dimensions."""
    attributes: Mapping[str, Any]
    """CF attributes of the field itself."""
    other_units: Mapping[str, str]
    """Units of the operators' further inputs, by their text."""


def field_of(
    diagnostic: Diagnostic,
    blocks: Mapping[str, Block],
    attributes: StreamAttributes,
    placements: Mapping[str, Placement],
) -> Field:
    """Describe a diagnostic's field.

    Parameters
    ----------
    diagnostic
        What is computed.
    blocks
        A block of each variable.
    attributes
        Of the stream.
    placements
        Diagnostic to where its field lies, of those that have a `space`.

    Raises
    ------
    ConfigError
        If a variable has other units than the diagnostic takes it to have.
    """
    _check_units(diagnostic, attributes)
    like = max((blocks[name] for name in diagnostic.of.variables), key=lambda block: len(block.shape))
    types = {name: blocks[name].dtype for name in diagnostic.of.variables}
    dtype = like.dtype if diagnostic.of.is_plain else diagnostic.of.dtype(types)
    placement = placements.get(diagnostic.key)
    if placement is not None:
        return _placed(diagnostic, placement, placement.dtype(dtype), attributes)
    dims = attributes.dimensions(like.name, len(like.shape))
    own = _attributes(diagnostic, attributes)
    return Field(
        diagnostic.name, _folded(diagnostic, dtype), like.shape, dims, own, _other_units(diagnostic, attributes)
    )


def _placed(diagnostic: Diagnostic, placement: Placement, dtype: DType, attributes: StreamAttributes) -> Field:
    own = _attributes(diagnostic, attributes)
    done = f"{own.get('cell_methods', '')} {placement.cell_methods}".strip()
    units = {"units": placement.own_units.format(units=own["units"])} if "units" in own and placement.own_units else {}
    along = [name for name, dims in placement.coordinate_dims.items() if dims != (name,) and "bnds" not in dims]
    auxiliary = {"coordinates": " ".join(coordinate_name(diagnostic.key, name) for name in along)} if along else {}
    dims = tuple(
        coordinate_name(diagnostic.key, dim) if dim in placement.coordinates or dim == "point" else dim
        for dim in placement.dims
    )
    methods = {"cell_methods": done} if done else {}
    own |= units | auxiliary | methods
    others = _other_units(diagnostic, attributes)
    return Field(diagnostic.name, _folded(diagnostic, dtype), placement.shape, dims, own, others)


def coordinate_name(diagnostic: str, name: str) -> str:
    """Name a coordinate that differs from the stream's own."""
    return f"{diagnostic}_{name}"


def _check_units(diagnostic: Diagnostic, attributes: StreamAttributes) -> None:
    """See that an index gets what its thresholds are for; a variable that says nothing is taken to be right."""
    if diagnostic.units is None or not diagnostic.of.is_plain:
        return
    variable = diagnostic.of.variables[0]
    units = str(attributes.of(variable).get("units", diagnostic.units))
    if not same_units(units, diagnostic.units):
        names = ", ".join(operator.name for operator in diagnostic.operators)
        raise ConfigError(
            f"{names} of {diagnostic.name}: {variable} is in {units!r}, but {diagnostic.units!r} is expected: tell the "
            f"index, as in SU: {{units: {units}}}"
        )


def _folded(diagnostic: Diagnostic, dtype: DType) -> str:
    return np.dtype(diagnostic.outer_dtype(diagnostic.transformed_dtype(dtype))).str


def _attributes(diagnostic: Diagnostic, attributes: StreamAttributes) -> dict[str, Any]:
    """Give those of the variable itself, if the field is one; what the configuration says comes first."""
    plain = diagnostic.of.is_plain
    own = attributes.of(diagnostic.of.variables[0]) if plain else {"long_name": diagnostic.of.text}
    if plain and diagnostic.name != diagnostic.of.variables[0]:
        own.setdefault("long_name", diagnostic.of.variables[0])
    if diagnostic.then is not None or diagnostic.transforms:
        own.pop("standard_name", None)
    return own | dict(diagnostic.attributes)


def _other_units(diagnostic: Diagnostic, attributes: StreamAttributes) -> dict[str, str]:
    """Give the units of further inputs that are variables themselves."""
    plain = {text: item.variables[0] for text, item in diagnostic.others.items() if item.is_plain}
    return {text: str(attributes.of(name).get("units", "1")) for text, name in plain.items()}
