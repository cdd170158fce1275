"""Fields: where a diagnostic's results lie, and what the CF conventions want to know of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.decoding import decoded_dtype
from bbflow.operators.diagnostic import Diagnostic, Each
from bbflow.operators.names.indices import same_units
from bbflow.operators.operator import Operator
from bbflow.operators.space.placement import Placement
from bbflow.operators.space.pyramids import Pyramid
from bbflow.operators.steps import DType
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import PACKING, StreamAttributes
from bbflow.stream.point_maps import PointMap
from bbflow.stream.records import Block, BlockForm
from bbflow.transit.folding.regions import check_foldable
from bbflow.zarr_store.stored_names import stored_name

DIFFERENCES = ("range", "standard_deviation", "variance")
"""CF's methods that make differences of temperatures (CF conventions 1.11, section 3.1.2 and appendix E)."""
ON_SCALE = ("mean", "minimum", "maximum", "median", "point")
"""CF's methods that keep a temperature one, and a date."""
TEMPERATURES = ("K", "kelvin", "degC", "degF", "Celsius", "celsius", "degree_Celsius", "degrees_Celsius")
OF_VALUES = frozenset(
    ("valid_min", "valid_max", "valid_range", "actual_range", "flag_values", "flag_masks", "flag_meanings")
) | {"dtype", "_Unsigned", *PACKING}
"""Attributes that are about the single values of a variable and how they are written, not about its statistics."""
REFERENCES = frozenset(("ancillary_variables", "bounds", "cell_measures", "formula_terms", "grid_mapping"))
"""Attributes that name variables which the results don't have."""


@dataclass(frozen=True, slots=True)
class ResultField:
    """What the store must know about a diagnostic's field."""

    name: str
    """The diagnostic."""
    dtype: str
    """NumPy's name of the type that its statistics fold."""
    shape: tuple[int, ...]
    """Global shape."""
    dims: tuple[str, ...]
    """Names of its dimensions in stores."""
    attributes: Mapping[str, Any]
    """CF attributes of the field itself."""
    other_units: Mapping[str, str]
    """Units of the operators' further inputs, by their text."""
    map: PointMap | None = None
    """Where its points lie in the stores' grid, if its states have them in an order of their own."""
    pyramid: Pyramid | None = None
    """Coarser levels of its results, if some are wanted."""
    axes: tuple[str, ...] = ()
    """What the configuration calls its dimensions, if it isn't placed by a `space`."""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Its shape in stores, along `dims`."""
        return self.shape if self.map is None else self.map.shape


def field_of(
    diagnostic: Diagnostic,
    blocks: Mapping[str, Block | BlockForm],
    attributes: StreamAttributes,
    placements: Mapping[str, Placement],
    clock: Clock,
) -> ResultField:
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
    clock
        The stream's calendar.

    Raises
    ------
    ConfigError
        If a variable has other units than the diagnostic takes it to have, can't be folded, or has another shape than
        its points were chosen from.
    """
    _check_units(diagnostic, attributes)
    for name in diagnostic.variables:
        check_foldable(blocks[name])
    like = max((blocks[name] for name in diagnostic.of_variables), key=lambda block: len(block.shape))
    _check_order(diagnostic, like.name, attributes)
    types = {name: decoded_dtype(attributes.encoding(name), blocks[name].dtype) for name in diagnostic.of_variables}
    dtype = types[like.name] if diagnostic.of.is_plain else diagnostic.of_dtype(types)
    placement = placements.get(diagnostic.key)
    _check_rows(diagnostic.name, like, attributes, placement)
    if placement is not None:
        if not placement.fits(like.shape):
            dims = attributes.dimensions(like.name, placement.source)
            raise _changed_shape(diagnostic.name, placement.source, like.shape, dims)
        return _placed(diagnostic, placement, placement.dtype(dtype), attributes, clock)
    places = _map_of(diagnostic, attributes)
    axes = attributes.dimensions(like.name, attributes.grid(like.name, like.shape))
    others = _other_units(diagnostic, attributes)
    own = _after_each(diagnostic, _attributes(diagnostic, attributes), others, clock)
    dims, folded = tuple(map(stored_name, axes)), _folded(diagnostic, dtype)
    return ResultField(diagnostic.name, folded, like.shape, dims, own, others, places, axes=axes)


def _check_order(diagnostic: Diagnostic, like: str, attributes: StreamAttributes) -> None:
    """Check that variables which are taken together have their dimensions in one order: squares would fit in any."""
    dims = attributes.told_dimensions(like)
    for name in diagnostic.variables:
        own = attributes.told_dimensions(name)
        if [dim for dim in own if dim in dims] != [dim for dim in dims if dim in own]:
            raise ConfigError(
                f"operators of {diagnostic.name}: {name} is along ({', '.join(map(str, own))}), but {like} along "
                f"({', '.join(map(str, dims))}): let the program write them in one order"
            )


def _check_rows(name: str, like: Block | BlockForm, attributes: StreamAttributes, placement: Placement | None) -> None:
    """Check that rows which are other things in each step are only taken all together."""
    rows = attributes.unordered(like.name)
    if rows is None:
        return
    axes = [axis for axis, dim in enumerate(attributes.dimensions(like.name, like.shape)) if dim == rows]
    if placement is None or not all(map(placement.may_change, axes)):
        raise ConfigError(
            f"operators of {name}: a row of {like.name} is another {rows} in each step, so each row's statistics mean "
            f"nothing; what each step has of all of them does, as space: {{mean: [{rows}]}}, or sum, min or max, "
            "without selections, masks and weights along it"
        )


def _map_of(diagnostic: Diagnostic, attributes: StreamAttributes) -> PointMap | None:
    """Return where a field's points lie, if not as they are; its variables must agree about that."""
    found = {name: attributes.maps.get(name) for name in diagnostic.variables}
    (first, places), *others = found.items()
    for name, other in others:
        if other != places:
            raise ConfigError(
                f"operators of {diagnostic.name}: the points of {first} and {name} lie in different orders: variables "
                "of one expression must have one decomposition"
            )
    if places is not None and diagnostic.filters:
        raise ConfigError(
            f"operators of {diagnostic.name}: {first} has its points in an order of its own, and a filter can't say "
            "where they lie: take the filter out"
        )
    return places


def check_shape(known: ResultField, now: ResultField) -> None:
    """Check that a field has kept its shape: states are of one.

    Raises
    ------
    ConfigError
        If not.
    """
    if known.shape != now.shape:
        raise _changed_shape(known.name, known.shape, now.shape, known.axes or known.dims)


def _changed_shape(name: str, known: tuple[int, ...], now: tuple[int, ...], dims: tuple[str, ...]) -> ConfigError:
    pairs = zip(known, now, strict=False)
    changed = [dim for dim, (before, after) in zip(dims, pairs, strict=False) if before != after]
    can = f"what each step has of all of it can, as space: {{mean: [{', '.join(changed)}]}}, or sum, min or max"
    return ConfigError(
        f"the shape of {name} changed from {known} to {now}: its statistics can't continue; "
        f"{f'{can}, without selections, masks and weights along it; ' if len(known) == len(now) else ''}"
        "else take it out of 'operators'"
    )


def _placed(
    diagnostic: Diagnostic, placement: Placement, dtype: DType, attributes: StreamAttributes, clock: Clock
) -> ResultField:
    own = {name: value for name, value in _attributes(diagnostic, attributes).items() if name != "coordinates"}
    done = f"{own.get('cell_methods', '')} {placement.cell_methods}".strip()
    if placement.own_units != "{units}":
        own.pop("standard_name", None)
        units = own.pop("units", None)
        own |= {"units": placement.own_units.format(units=units)} if units and placement.own_units else {}
    # CF's 'coordinates' names auxiliary ones (section 5): neither what lies along itself, nor bounds, which those name.
    along = [name for name, dims in placement.coordinate_dims.items() if dims != (name,) and not name.endswith("_bnds")]
    named = [name for name in along if name not in _referenced(placement)]
    still_there = _still_there(diagnostic, placement, attributes)
    if {"mesh", "location"} <= own.keys() and not still_there:
        del own["mesh"], own["location"]
    named = [
        *still_there,
        *(coordinate_name(diagnostic.key, name) for name in named),
    ]
    auxiliary = {"coordinates": " ".join(named)} if named else {}
    for key, text in placement.attributes.items():
        *words, name = text.split()
        auxiliary[key] = " ".join([*words, coordinate_name(diagnostic.key, name)])
    sizes = zip(placement.dims, placement.shape, strict=True)
    dims = tuple(placed_dimension(diagnostic.key, dim, size, placement, attributes) for dim, size in sizes)
    methods = {"cell_methods": done} if done else {}
    others = _other_units(diagnostic, attributes)
    own = _after_each(diagnostic, own | auxiliary | methods, others, clock)
    folded = _folded(diagnostic, dtype)
    return ResultField(diagnostic.name, folded, placement.shape, dims, own, others, pyramid=placement.pyramid)


def _still_there(diagnostic: Diagnostic, placement: Placement, attributes: StreamAttributes) -> list[str]:
    """Return the variable's auxiliary coordinates whose dimensions the result has all, as the stream has them."""
    own = str(_attributes(diagnostic, attributes).get("coordinates", "")).split()
    sizes = zip(placement.dims, placement.shape, strict=True)
    whole = {dim for dim, size in sizes if not _is_own(dim, size, placement, attributes)}
    told = {name: set(attributes.told_dimensions(name)) for name in own}
    return [name for name, dims in told.items() if dims and dims <= whole]


def _referenced(placement: Placement) -> set[str]:
    """Return the coordinates that other attributes name than 'coordinates': areas, and the grid mapping."""
    return {text.split()[-1] for text in placement.attributes.values()}


def reinterpreted(
    own: Mapping[str, Any], operator: Operator, other_units: Mapping[str, str], clock: Clock
) -> dict[str, Any]:
    """Return what a statistic leaves of its input's attributes: other units are another quantity.

    The standard name stays where the quantity does; the variance keeps it too, as appendix E of the CF conventions
    has it, and a count gets its own. Units that depend on unknown ones are left out.

    Parameters
    ----------
    own
        The input's attributes.
    operator
        The statistic.
    other_units
        Those of further inputs, by their text, where known.
    clock
        The stream's calendar.
    """
    method = operator.cell_method.partition(" ")[0]
    same = operator.own_units == "{units}"
    if not (same and method in ON_SCALE):
        own = _without_reference(own)
    kept = {name: value for name, value in own.items() if name not in ("units", "standard_name", "units_metadata")}
    units = _result_units(own, operator, other_units, clock.units)
    if units is not None:
        kept["units"] = units
    if operator.dated:
        kept |= clock.attributes | clock.meaning
    elif operator.name == "count":
        kept["standard_name"] = "number_of_observations"
    elif "standard_name" in own and (method == "variance" or same):
        kept["standard_name"] = own["standard_name"]
    if own.get("units") in TEMPERATURES and method in DIFFERENCES:
        kept["units_metadata"] = "temperature: difference"
    elif same and "units_metadata" in own:
        kept["units_metadata"] = own["units_metadata"] if method in ON_SCALE else "temperature: unknown"
    return kept


def _without_reference(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of differences of what may be dates: `days` of `days since 2000-01-01`, and no calendar."""
    units, since, _ = str(own.get("units", "")).partition(" since ")
    kept = {name: value for name, value in own.items() if name != "calendar"}
    return kept | {"units": units} if since else dict(own)


def _is_on_scale(own: Mapping[str, Any]) -> bool:
    """Whether it is a temperature, and no difference of two."""
    name = str(own.get("standard_name", ""))
    return own.get("units") in TEMPERATURES and name.endswith("temperature")


def _result_units(
    own: Mapping[str, Any], operator: Operator, other_units: Mapping[str, str], time_units: str
) -> str | None:
    """Return a result's units; None if they depend on units that are unknown."""
    known = {"units": own.get("units"), "other": other_units.get(operator.inputs[0]) if operator.inputs else None}
    if any(value is None and f"{{{name}}}" in operator.own_units for name, value in known.items()):
        return None
    units, other = (str(value) for value in known.values())
    return operator.units(units, time_units.split()[0], time_units=time_units, other=other)


def _after_each(
    diagnostic: Diagnostic, own: dict[str, Any], other_units: Mapping[str, str], clock: Clock
) -> dict[str, Any]:
    """Return what is known of the results of `each`, which are the field that is folded."""
    each = diagnostic.each
    if each is None:
        return own
    made = reinterpreted(own, each.operator, other_units, clock)
    earlier = str(own.get("cell_methods", "")).replace("time: point", "").strip()
    told = own.get("long_name", diagnostic.of.text)
    made["long_name"] = f"{each.operator.long_name} of {told} in each {each.window.name}"
    made["cell_methods"] = f"{earlier} {inner_methods(each)}".strip()
    if diagnostic.then is not None:
        made.pop("standard_name", None)
    return made | dict(diagnostic.attributes)


def inner_methods(each: Each) -> str:
    """Return CF's cell methods of an inner statistic, such as 'time: maximum (in each day)'."""
    method, _, comment = each.operator.cell_method.partition(" (")
    told = f"{comment.removesuffix(')')}, " if comment else ""
    return f"time: {method} ({told}in each {each.window.name})"


def coordinate_name(diagnostic: str, name: str) -> str:
    """Name a coordinate that differs from the stream's own."""
    return stored_name(f"{diagnostic}_{name}")


def placed_dimension(diagnostic: str, dim: str, size: int, placement: Placement, attributes: StreamAttributes) -> str:
    """Name a dimension of a field with a `space`: the diagnostic's own unless it is the whole of the stream's."""
    is_own = _is_own(dim, size, placement, attributes)
    return coordinate_name(diagnostic, dim) if is_own else stored_name(dim)


def _is_own(dim: str, size: int, placement: Placement, attributes: StreamAttributes) -> bool:
    return dim in placement.coordinates or dim in placement.own_dims or attributes.sizes.get(dim, size) != size


def _check_units(diagnostic: Diagnostic, attributes: StreamAttributes) -> None:
    """Check that an index gets what its thresholds are for; a variable that says nothing is taken to be right."""
    if diagnostic.units is None or not diagnostic.of.is_plain:
        return
    variable = diagnostic.of_variables[0]
    units = str(attributes.of(variable).get("units", diagnostic.units))
    if not same_units(units, diagnostic.units):
        names = ", ".join(operator.name for operator in diagnostic.operators)
        raise ConfigError(
            f"{names} of {diagnostic.name}: {variable} is in {units!r}, but {diagnostic.units!r} is expected: tell the "
            f"index what the numbers are, as {diagnostic.operators[0].name}: {{units: {units}}}"
        )


def _folded(diagnostic: Diagnostic, dtype: DType) -> str:
    return np.dtype(diagnostic.outer_dtype(diagnostic.transformed_dtype(dtype))).str


def _attributes(diagnostic: Diagnostic, attributes: StreamAttributes) -> dict[str, Any]:
    """Return those of the variable itself, if the field is one; what the configuration says comes first."""
    plain = diagnostic.of.is_plain
    own = attributes.of(diagnostic.of_variables[0]) if plain else {"long_name": diagnostic.of.text}
    if not plain:  # what all its variables have says where the points of the expression are, too
        for keys in (("coordinates",), ("mesh", "location")):
            places = {tuple(attributes.of(name).get(key) for key in keys) for name in diagnostic.of_variables}
            if len(places) == 1 and None not in (told := places.pop()):
                own |= dict(zip(keys, told, strict=True))
    if plain and diagnostic.name != diagnostic.of_variables[0]:
        own.setdefault("long_name", diagnostic.of_variables[0])
    if diagnostic.then is not None or diagnostic.transforms:
        own.pop("standard_name", None)
    kept = {name: value for name, value in own.items() if name not in OF_VALUES | REFERENCES}
    on_scale = {"units_metadata": "temperature: on_scale"} if _is_on_scale(own) else {}
    return on_scale | kept | dict(diagnostic.attributes)


def _other_units(diagnostic: Diagnostic, attributes: StreamAttributes) -> dict[str, str]:
    """Return the units of further inputs that are variables themselves."""
    plain = {text: item.variables[0] for text, item in diagnostic.others.items() if item.is_plain}
    units = {text: _without_reference(attributes.of(name)).get("units") for text, name in plain.items()}
    return {text: str(value) for text, value in units.items() if value is not None}
