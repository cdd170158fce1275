"""Steps of a raw.zarr written again through ADIOS2, as the simulation did: for statistics that are missing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import adios2
import numpy as np
import zarr
from adios2.bindings import Mode

from bbflow.cf import DIMENSIONS, OWN, STEP
from bbflow.drain.stores import NAME
from bbflow.errors import ConfigError

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
        If there is no such store.
    """
    if not (raw / "zarr.json").exists():
        raise ConfigError(f"there is no store {raw}: give a raw.zarr")
    group = zarr.open_group(raw, mode="r")
    arrays: dict[str, Any] = dict(group.arrays())
    axis = arrays[STEP].metadata.dimension_names[0]
    numbers = arrays.pop(STEP)[: int(str(group.attrs.get("bbflow_steps", 0)))]
    along = {name: array for name, array in arrays.items() if array.metadata.dimension_names[0] == axis}
    steady = {name: array for name, array in arrays.items() if name not in along}
    io = adios2.Adios().declare_io(stream)
    io.set_engine("Plugin")
    io.set_parameters(ENGINE | {"Stream": stream})
    of_stream = {name: value for name, value in group.attrs.items() if not _is_own(name)}
    names = {name: str(array.attrs.get(NAME, name)) for name, array in arrays.items()}
    _describe(io, of_stream, arrays, set(along), names)
    rows = [row for row, number in enumerate(numbers) if number > after]
    variables: dict[str, Any] = {}
    engine = io.open(stream, Mode.Write)
    for row in rows:
        engine.begin_step()
        for name, array in (steady if row == rows[0] else {}).items():
            _put(io, engine, variables, names[name], np.asarray(array[...]))
        for name, array in along.items():
            values = np.asarray(array[row])
            if not _is_missing(values, np.atleast_1d(array.attrs.get("missing_value", ()))):
                _put(io, engine, variables, names[name], values)
        engine.end_step()
    engine.close()
    return len(rows)


def _is_own(attribute: str) -> bool:
    """Whether it is the store that has an attribute, not the stream."""
    return attribute.startswith(OWN) or attribute == "Conventions"


def _is_missing(values: np.ndarray[Any, Any], missing: np.ndarray[Any, Any]) -> bool:
    """Whether nothing of a field is there: then the step lacked it."""
    lacking = np.isin(values, missing.astype(values.dtype))
    if values.dtype.kind in "fc":
        lacking |= np.isnan(values)
    return bool(values.size and lacking.all())


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _put(io: Any, engine: Any, variables: dict[str, Any], name: str, values: np.ndarray[Any, Any]) -> None:
    if name not in variables:
        shape = list(values.shape)
        place = (shape, [0] * len(shape), shape) if shape else ()
        variables[name] = io.define_variable(name, np.empty(0 if shape else 1, values.dtype), *place)
    engine.put(variables[name], np.ascontiguousarray(values).reshape(values.shape or (1,)), Mode.Sync)


def _describe(
    io: Any, of_stream: Mapping[str, Any], arrays: Mapping[str, Any], along: set[str], names: Mapping[str, str]
) -> None:
    for name, value in of_stream.items():
        io.define_attribute(name, value)
    for name, array in arrays.items():
        dims = array.metadata.dimension_names[1 if name in along else 0 :]
        if dims:
            io.define_attribute(f"{names[name]}/{DIMENSIONS}", [names.get(dim, dim) for dim in dims])
        for key, value in array.attrs.items():
            if not _is_own(key):
                io.define_attribute(f"{names[name]}/{key}", value if _is_text(value) else np.array(value))
