"""Steps of a raw.zarr written again through ADIOS2, as the simulation did: for statistics that are missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from bbflow.drain.block_tables import KIND
from bbflow.drain.stores import HIDDEN, NAME
from bbflow.errors import ConfigError
from bbflow.host.log import log
from bbflow.operators.decoding import infinite_mark
from bbflow.stores.moved import readable
from bbflow.stream.adios import load_adios2, put_now
from bbflow.stream.cf import DIMENSIONS, OWN, STEP

SHOWN = {hidden: name for name, hidden in HIDDEN.items()}
"""Attributes of the time by the store's names."""
ENGINE = {"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2"}


def replay(raw: Path, stream: str, after: int = -1) -> int:
    """Write the steps of a store as a stream of one rank; whoever folds the stream must be there.

    Parameters
    ----------
    raw
        ``raw.zarr``.
    stream
        Name of the stream.
    after
        Only steps above this one.

    Returns
    -------
    int
        How many steps were written.

    Raises
    ------
    ConfigError
        If there is no such store, or no such step in it.
    """
    if not (raw / "zarr.json").exists():
        raise ConfigError(f"there is no store {raw}: give a raw.zarr")
    try:
        group = zarr.open_group(readable(raw), mode="r")
        arrays: dict[str, Any] = dict(group.arrays())
        axis = arrays[STEP].metadata.dimension_names[0]
    except (ValueError, KeyError, TypeError, FileNotFoundError):  # as what isn't of Zarr, or not of us, may be
        raise ConfigError(f"{raw} isn't a raw.zarr: it has no {STEP} that can be read") from None
    numbers = arrays.pop(STEP)[: int(str(group.attrs.get("bbflow_steps", 0)))]
    rows = [row for row, number in enumerate(numbers) if number > after]
    if not rows:
        raise ConfigError(f"no step of {raw} is above {after}: there is nothing to write again")
    along = {name: array for name, array in arrays.items() if array.metadata.dimension_names[0] == axis}
    steady = {name: array for name, array in arrays.items() if name not in along}
    adios2 = load_adios2("writing steps again")
    io = adios2.Adios().declare_io(stream)
    io.set_engine("Plugin")
    io.set_parameters(ENGINE | {"Stream": stream})
    of_stream = {name: value for name, value in group.attrs.items() if not _is_own(name)}
    names = {name: str(array.attrs.get(NAME, name)) for name, array in arrays.items()}
    _describe(io, of_stream, arrays, set(along), names)
    variables: dict[str, Any] = {}
    tables = [_Table.of(table) for _, table in sorted(group.groups()) if KIND in table.attrs]
    for table in tables:
        table.describe(io)
    engine = io.open(stream, adios2.bindings.Mode.Write)
    for row in rows:
        engine.begin_step()
        for name, array in (steady if row == rows[0] else {}).items():
            _put(io, engine, variables, names[name], np.asarray(array[...]))
        for name, array in along.items():
            values = np.asarray(array[row])
            if not _is_missing(values, _marks(array.attrs)):
                _put(io, engine, variables, names[name], values)
        for table in tables:
            table.put(io, engine, variables, int(numbers[row]))
        engine.end_step()
    engine.close()
    return len(rows)


def _is_own(attribute: str) -> bool:
    """Whether it is the store that has an attribute, not the stream."""
    return attribute.startswith(OWN) or attribute == "Conventions"


def _marks(attributes: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return the numbers that stand for missing values."""
    infinite = infinite_mark(attributes.get("_FillValue"))
    told = np.atleast_1d(attributes.get("missing_value", ()))
    return told if infinite is None else np.append(told, infinite)  # which are floats: an int64 would be another one


def _is_missing(values: np.ndarray[Any, Any], missing: np.ndarray[Any, Any]) -> bool:
    """Whether nothing of a field is there: then the step lacked it."""
    if values.dtype.kind not in "iufcb":  # a text
        return not str(values)
    lacking = np.isin(values, missing.astype(values.dtype))
    if values.dtype.kind in "fc":
        lacking |= np.isnan(values)
    return bool(values.size and lacking.all())


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _put(io: Any, engine: Any, variables: dict[str, Any], name: str, values: np.ndarray[Any, Any]) -> None:
    if values.dtype.kind not in "iufcb":
        if name not in variables:
            variables[name] = io.define_variable(name, "")
        engine.put(variables[name], str(values))
        return
    if name not in variables:
        shape = list(values.shape)
        place = (shape, [0] * len(shape), shape) if shape else ()
        variables[name] = io.define_variable(name, np.empty(0 if shape else 1, values.dtype), *place)
    if values.shape and name in variables:
        variables[name].set_shape(list(values.shape))
        variables[name].set_selection([[0] * values.ndim, list(values.shape)])
    put_now(engine, variables[name], np.ascontiguousarray(values).reshape(values.shape or (1,)))


def _describe(
    io: Any, of_stream: Mapping[str, Any], arrays: Mapping[str, Any], along: set[str], names: Mapping[str, str]
) -> None:
    for name, value in of_stream.items():
        io.define_attribute(name, value)
    for name, array in arrays.items():
        dims = array.metadata.dimension_names[1 if name in along else 0 :]
        if dims:
            io.define_attribute(f"{names[name]}/{DIMENSIONS}", [names.get(dim, dim) for dim in dims])
        _describe_variable(io, names[name], array.attrs)


def _describe_variable(io: Any, name: str, attributes: Mapping[str, Any]) -> None:
    for key, value in attributes.items():
        value = infinite_mark(value) if key == "_FillValue" else value
        key = SHOWN.get(key, key)
        if not _is_own(key) and not io.inquire_attribute(f"{name}/{key}"):
            io.define_attribute(f"{name}/{key}", value if _is_text(value) else np.array(value))


@dataclass(frozen=True, slots=True)
class _Table:
    """The blocks of a variable that has no array, or none of all its steps."""

    name: str
    """The variable."""
    kind: str
    """ADIOS2's, of the variable."""
    attributes: Mapping[str, Any]
    """The variable's."""
    values: Any
    """Zarr's array of all of them."""
    columns: Mapping[str, np.ndarray[Any, Any]]
    """What is known of the blocks, each of shape (blocks, …)."""

    @classmethod
    def of(cls, group: Any) -> "_Table":
        arrays = dict(group.arrays())
        values = arrays.pop("value")
        columns = {name: np.asarray(array[...]) for name, array in arrays.items()}
        return cls(str(group.attrs[NAME]), str(group.attrs[KIND]), values.attrs, values, columns)

    def describe(self, io: Any) -> None:
        """Define the variable's attributes, and say how it differs from what it was."""
        _describe_variable(io, self.name, self.attributes)
        if self._is_long:
            log(f"bbflow: {self.name} is long double, and is written again as double")
        if self.kind == "LocalValue":
            log(f"bbflow: {self.name} is a value of each rank's own, and is written again as one array of them")

    def put(self, io: Any, engine: Any, variables: dict[str, Any], number: int) -> None:
        """Put the blocks of a step; values of each rank's own become one array, as ADIOS2 shows them to readers."""
        rows = np.flatnonzero(self.columns["step"] == number)
        if self.kind.endswith("Value"):
            if len(rows):
                values = self._values_of_ranks(rows)
                _put(io, engine, variables, self.name, values[0] if self.kind == "GlobalValue" else values)
            return
        for row in rows.tolist():
            values = self._values(row).reshape(self.columns["count"][row].astype(int))
            _put_block(io, engine, variables, self.name, values, *self._place(row))

    def _values_of_ranks(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the values in the order of their ranks; of texts, which ADIOS2 has no arrays of, all in one."""
        found = [self._values(row)[0] for row in rows[np.argsort(self.columns["rank"][rows], kind="stable")].tolist()]
        is_text = np.asarray(self.values[:1]).dtype.kind not in "iufcb"
        return np.array("\n".join(map(str, found))) if is_text else np.array(found)

    def _values(self, row: int) -> np.ndarray[Any, Any]:
        begin, size = int(self.columns["begin"][row]), int(self.columns["size"][row])
        values = np.asarray(self.values[begin : begin + size])
        # ADIOS2's Python has no long double.
        return values.view(np.longdouble).astype("f8") if self._is_long else values

    @property
    def _is_long(self) -> bool:
        return bool(self.values.metadata.dimension_names == ("byte",))

    def _place(self, row: int) -> tuple[list[int], list[int]]:
        """Return the shape of the whole, and where a block begins in it; of what has no place nothing."""
        shape, start = (self.columns[name][row].tolist() for name in ("shape", "start"))
        if self.kind == "GlobalArray":
            return shape, start
        return (shape, []) if self.kind == "JoinedArray" else ([], [])


def _put_block(
    io: Any,
    engine: Any,
    variables: dict[str, Any],
    name: str,
    values: np.ndarray[Any, Any],
    shape: list[int],
    start: list[int],
) -> None:
    count = list(values.shape)
    if name not in variables:
        variables[name] = io.define_variable(name, np.empty(0, values.dtype), shape, start, count)
    if shape and start:
        variables[name].set_shape(shape)
    variables[name].set_selection([start, count])
    put_now(engine, variables[name], np.ascontiguousarray(values))
