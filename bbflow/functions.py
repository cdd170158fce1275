"""Users' functions that are called with whole fields: what the configuration says of them, and what they answer.

A function gets an xarray Dataset, of a step or of what a window has come to, and returns None, a Dataset that is
published, or an `Answer`.
"""

import inspect
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, OperatorError, nearest, one_line
from bbflow.operators.conditions import Condition, parse_condition
from bbflow.operators.frozen import Frozen
from bbflow.operators.own.origin import Origin, origin_of
from bbflow.reading.sections import check_keys, positive, read_as, text
from bbflow.stream.attributes import PACKING_NUMBERS, as_cf, is_unicode, plain
from bbflow.stream.cf import OWN, STEP
from bbflow.zarr_store.stored_names import stored_name

Array = Any
SECONDS = {"units": "seconds since 1970-01-01", "dtype": "f8"}
"""How dates are written, whichever a step has …"""
DURATION = {"units": "seconds", "dtype": "f8"}
"""… and spans of time."""
OURS = ("time", STEP)
"""Coordinates that a function is given, and that the store has by itself."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a function has to say of a field."""

    publish: Any = None
    """A Dataset or a named DataArray that is published; None for nothing."""
    keep: bool = False
    """Whether the step is to be kept in ``raw.zarr`` (`raw: asked_by`)."""
    stop: str | None = None
    """Why the simulation is to end; None if it isn't to."""
    spare: Collection[str] = ()
    """Members of an ensemble that need not start (`ensemble: decide`)."""


@dataclass(frozen=True, slots=True)
class UserFunction(Frozen):
    """A function of the user's, and what it is called with."""

    name: str
    """Of the entry in the configuration."""
    origin: Origin
    """Where its code is."""
    of: tuple[str, ...] = ()
    """Variables of each chosen step; none if it is called with results."""
    results: tuple[str, ...] = ()
    """Results of one window, whenever a span of it has ended; none if it is called with steps."""
    window: str = ""
    """The window of the results."""
    every: int = 1
    """Only steps 0, n, 2n, …"""
    when: Condition | None = None
    """What must hold of a step; None if nothing need."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments, by their names."""

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables of the stream that it needs."""
        return (*self.of, *(self.when.variables if self.when else ()))


@dataclass(frozen=True, slots=True)
class FoundVariable:
    """A variable of what a function publishes, as stores have it."""

    dims: tuple[str, ...]
    """Its dimensions."""
    values: Array
    """Its values; texts are of type object."""
    attributes: Mapping[str, Any]
    """CF attributes."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a function publishes of one field."""

    variables: Mapping[str, FoundVariable]
    """Of each field: these get the axis of time."""
    coordinates: Mapping[str, FoundVariable]
    """Of dimensions: these are the same in all fields."""
    attributes: Mapping[str, Any]
    """Of the Dataset."""
    rows: str | None = None
    """The dimension whose length may differ from field to field."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer, in the form in which it is sent."""

    found: Found | None
    """What is published."""
    keep: bool
    """As in `Answer`."""
    stop: str | None
    """As in `Answer`."""


def parse_functions(content: Any, results: Mapping[str, str]) -> tuple[UserFunction, ...]:
    """Read the key 'functions'.

    Parameters
    ----------
    content
        A map from names to maps with the keys of `UserFunction`, but 'call' for the origin.
    results
        Names of all results that there will be, and their windows.

    Raises
    ------
    ConfigError
        If a key is wrong, or a function can't be loaded or called so.
    """
    if content is None:
        return ()
    if not isinstance(content, Mapping):
        raise ConfigError("functions must be a map, such as {lows: {call: 'lows:find', of: [psl]}}")
    return tuple(_function(str(name), entry, results) for name, entry in content.items())


def _function(name: str, entry: Any, results: Mapping[str, str]) -> UserFunction:
    where = f"functions: {name}"
    keys = {"call", *(item.name for item in fields(UserFunction))} - {"name", "origin", "window"}
    if not name.isidentifier():
        raise ConfigError(f"{where}: the name must be a word of letters, digits and _: a store is called so")
    if not isinstance(entry, Mapping) or not entry.get("call"):
        raise ConfigError(f"{where} must be a map with 'call', such as {{call: 'lows:find', of: [psl]}}")
    check_keys(entry, keys, where)
    if bool(entry.get("of")) == bool(entry.get("results")):
        raise ConfigError(f"{where}: say either 'of', variables of each step, or 'results', of a window that has ended")
    if entry.get("results") and (entry.get("every") is not None or entry.get("when") is not None):
        raise ConfigError(f"{where}: 'every' and 'when' choose steps: take them out, or 'results'")
    try:
        own = _names(entry.get("results") or ())
        origin, arguments = origin_of(text(entry["call"])), _arguments(entry.get("arguments"))
        check_arguments(origin, arguments)
        return UserFunction(
            name,
            origin,
            _names(entry.get("of") or ()),
            own,
            _window_of(own, results),
            1 if entry.get("every") is None else read_as(positive, entry["every"], "every"),
            None if entry.get("when") is None else parse_condition(entry["when"]),
            arguments,
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(text, value if isinstance(value, list | tuple) else [value]))


def _arguments(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping | None) or not all(isinstance(name, str) for name in value or ()):
        raise ConfigError(f"arguments must be a map from names to values, not {value!r}")
    return dict(value or {})


def _window_of(names: Collection[str], results: Mapping[str, str]) -> str:
    for name in names:
        if name not in results:
            raise ConfigError(f"there is no result {name!r}; {nearest(name, results)}")
    windows = sorted({results[name] for name in names})
    if len(windows) > 1:
        raise ConfigError(f"results of {' and '.join(windows)} end at different times: make a function of each")
    return windows[0] if windows else ""


def check_arguments(origin: Origin, arguments: Mapping[str, Any]) -> None:
    """Check that a function can be called with a Dataset and some arguments.

    Raises
    ------
    ConfigError
        If it can't, or is none.
    """
    function = origin.load()
    if not callable(function):
        raise ConfigError(f"{origin} isn't a function")
    try:
        inspect.signature(function).bind(None, **arguments)
    except TypeError as error:
        raise ConfigError(
            f"{origin} can't be called with a Dataset and the arguments {sorted(arguments)}: {error}"
        ) from None


def said_by(origin: Origin, dataset: Any, arguments: Mapping[str, Any]) -> Said:
    """Call a function, and return its answer as it is sent; in the process that the user's code has for itself.

    Raises
    ------
    OperatorError
        If it gives something else than None, a Dataset, a named DataArray or an `Answer`.
    """
    import xarray as xr  # late: who only reads a configuration needs none of it

    given = origin.load()(dataset, **arguments)
    answer = given if isinstance(given, Answer) else Answer(given)
    publish = answer.publish
    if isinstance(publish, xr.DataArray) and publish.name is not None:
        publish = publish.to_dataset()
    if not isinstance(publish, xr.Dataset | None):
        raise OperatorError(f"it gave {type(publish).__name__}, not None, a Dataset, a named DataArray or an Answer")
    if answer.spare:
        raise OperatorError("it gave members to spare, which only a function that an ensemble's 'decide' names can")
    stop = None if answer.stop in (None, False, "") else one_line(str(answer.stop))
    return Said(None if publish is None else _found(publish.load()), bool(answer.keep), stop)


def _found(dataset: Any) -> Found:
    _check_names(dataset)
    own_axes = {name for name in OURS if name in dataset.dims}
    for name in own_axes:
        if dataset.sizes[name] != 1:
            raise OperatorError(
                f"it gave a dimension {name!r} of length {dataset.sizes[name]}: an answer has one time; "
                "name the dimension otherwise"
            )
    rows = _rows_of(dataset, own_axes)
    dataset = dataset.squeeze(sorted(own_axes))
    steady = {name for name, item in dataset.coords.items() if item.dims and rows not in item.dims}
    own = {name: _encoded(name, item, rows) for name, item in dataset.variables.items() if name not in OURS}
    variables = {name: item for name, item in own.items() if name not in steady}
    coordinates = {name: item for name, item in own.items() if name in steady}
    told = _attributes("the Dataset", dataset.attrs)
    return Found(variables, coordinates, {name: item for name, item in told.items() if not name.startswith(OWN)}, rows)


def _check_names(dataset: Any) -> None:
    """Check that names can be those of files and of dimensions, wherever the store is taken to."""
    for name in {*dataset.variables, *dataset.dims}:
        if not isinstance(name, str) or not is_unicode(name):
            raise OperatorError(f"{name!r} can't be the name of a variable or a dimension: it's no text")
        if not name or stored_name(name) != name or name.startswith("_"):
            raise OperatorError(f"{name!r} can't be the name of a variable in its store: give it another")


def _rows_of(dataset: Any, own_axes: Collection[str]) -> str | None:
    """Return the unlimited dimension, other than that of time, which a Dataset from a file may have."""
    unlimited = sorted({*map(str, dataset.encoding.get("unlimited_dims") or ())} - {*own_axes})
    if len(unlimited) > 1:
        raise OperatorError(f"the dimensions {' and '.join(unlimited)} are both unlimited: one may be")
    if unlimited and unlimited[0] not in dataset.dims:
        raise OperatorError(f"no variable has the unlimited dimension {unlimited[0]!r}")
    return unlimited[0] if unlimited else None


def _encoded(name: str, variable: Any, rows: str | None) -> FoundVariable:
    import xarray as xr

    if rows in variable.dims:
        variable = variable.transpose(rows, ...)
    is_date = variable.dtype.kind == "M" or (variable.size and hasattr(variable.values.flat[0], "calendar"))
    units = SECONDS if is_date else DURATION if variable.dtype.kind == "m" else {}
    own = xr.Variable(variable.dims, variable.values, _attributes(name, variable.attrs), units)
    made = xr.conventions.encode_cf_variable(own, name=name)
    values = made.values
    if values.dtype.kind in "OUS":
        values = _texts(name, values.astype(object))
    elif values.dtype.kind not in "iufc" or values.dtype.itemsize > (16 if values.dtype.kind == "c" else 8):
        raise OperatorError(f"{name} has type {values.dtype}, which no store has")
    values, told = _filled(name, values, _attributes(name, made.attrs))
    _check_readable(name, xr.Variable(made.dims, values, told))
    return FoundVariable(tuple(map(str, made.dims)), values, told)


def _filled(name: str, values: Array, told: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
    """Return values and attributes with a fill value as readers of Zarr take it: floating-point ones have NaN."""
    fill, kind = told.get("_FillValue"), values.dtype.kind
    if fill is None or (kind in "iu" and np.can_cast(np.min_scalar_type(fill), values.dtype)):
        return values, told
    if kind != "f":
        raise OperatorError(f"{name} of type {values.dtype} can't have the _FillValue {fill!r:.80}")
    rest = {key: value for key, value in told.items() if key != "_FillValue"}
    return (np.where(values == fill, values.dtype.type(np.nan), values) if fill == fill else values), rest


def _check_readable(name: str, variable: Any) -> None:
    """Check that attributes such as units of dates are none that readers stumble over."""
    import xarray as xr

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            xr.conventions.decode_cf_variable(name, variable)
    except Exception as error:  # whatever it is, they would get it too
        raise OperatorError(f"{name} can't be read with its attributes: {error}") from None


def _texts(name: str, values: Array) -> Array:
    for item in values.flat:
        if not isinstance(item, str):
            raise OperatorError(f"{name} has {item!r:.80} among its values, which isn't text: give texts, or numbers")
        if not is_unicode(item):
            raise OperatorError(f"{name} has the text {item!r:.80}, which isn't Unicode")
    return values


def _attributes(name: str, attributes: Mapping[Any, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for key, value in attributes.items():
        try:
            told[key] = as_cf(key, plain(value)) if isinstance(key, str) and is_unicode(key) else None
        except TypeError as error:
            raise OperatorError(f"{name} has an attribute {key!r} that no store has: {error}") from None
        if told[key] is None or (key in PACKING_NUMBERS and isinstance(told[key], list)):
            raise OperatorError(f"{name} has an attribute {key!r} that can't be {value!r:.80}")
    return told
