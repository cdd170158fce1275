"""A stream as the keys of a Zarr group (format 2) that grows with it: chunk ``t`` of a variable is step ``t``'s."""

import json
from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbflow.stream.attributes import in_json
from bbflow.stream.cf import STEP
from bbflow.view.backend import dataset_of
from bbflow.view.source import Source
from bbflow.view.stream_opening import Opening
from bbflow.zarr_store.stored_names import stored_name

Array = np.ndarray[Any, Any]
Grid = tuple[int, ...]


class ZarrKeys:
    """One look at a stream: which keys there are now, and their bytes.

    Nothing of it is held on the nodes: a chunk whose step has gone meanwhile can't be read any more. An axis is as
    long as the newest step's number says; steps that have gone are chunks that aren't there, which Zarr's readers see
    as the fill value. Of what earlier looks have seen, numbers such as times are kept, and what there is to a stream of
    which no step is left.

    Parameters
    ----------
    contact
        The contact file.
    stream
        The stream.
    before
        The look before.

    Raises
    ------
    StreamError
        If it can't be laid out.
    NodeError
        If a node is gone.
    """

    def __init__(self, contact: Path, stream: str, before: "ZarrKeys | None" = None) -> None:
        opening = Opening(contact, stream)
        opening.wait(lambda _: True, None)
        self._steps = {number: index for index, number in enumerate(opening.steps)}
        self._variables: dict[str, xr.Variable] = {}
        self._attributes: dict[str, Any] = {}
        self._numbers: dict[str, dict[int, bytes]] = {}
        self._length = max(self._steps, default=-1) + 1
        if before is not None and opening.view.frontier + 1 >= before._length:  # else another stream has the name now
            self._go_on(before, opening.view.status)
        if self._steps:
            dataset = dataset_of(opening, Source(contact, stream, None), stream, "time", set())
            (self._axis,) = dataset.encoding["unlimited_dims"]
            own = {stored_name(str(name)): variable for name, variable in dataset.variables.items()}
            self._variables = self._lasting | own
            # As xarray stores a coordinate that isn't a dimension's.
            self._attributes = {**dataset.attrs, "coordinates": STEP}
            self._keep_numbers()
        self.metadata = self._described(self._attributes)
        """Content of the keys that hold no values."""

    def _go_on(self, before: "ZarrKeys", status: str) -> None:
        """Take over what the look before has seen."""
        self._length = max(self._length, before._length)
        self._numbers = {name: dict(values) for name, values in before._numbers.items()}
        if before._variables:
            self._variables, self._axis = before._variables, before._axis
            self._attributes = before._attributes | {"bbflow_status": status}

    @property
    def _lasting(self) -> dict[str, xr.Variable]:
        """What is kept whatever steps there are: numbers, and axes, which the first step alone may bring."""
        return {
            name: variable
            for name, variable in self._variables.items()
            if name in self._numbers or self._axis not in variable.dims
        }

    def _keep_numbers(self) -> None:
        for name, variable in self._variables.items():
            if variable.dims == (self._axis,) and name != STEP and variable.dtype.kind in "iufc":
                values = {number: variable.values[index].tobytes() for number, index in self._steps.items()}
                self._numbers.setdefault(name, {}).update(values)

    def _described(self, attributes: dict[str, Any]) -> dict[str, bytes]:
        told: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": _plain(attributes)}
        for name, variable in self._variables.items():
            own = {key: value for key, value in variable.attrs.items() if key != "_FillValue"}
            told[f"{name}/.zarray"] = {
                "zarr_format": 2, "shape": self._shape(variable), "chunks": self._chunk(variable),
                "dtype": variable.dtype.str, "compressor": None, "filters": None, "order": "C",
                "fill_value": _fill(variable), "dimension_separator": ".",
            }  # fmt: skip
            dims = [stored_name(str(dim)) for dim in variable.dims]
            told[f"{name}/.zattrs"] = _plain({"_ARRAY_DIMENSIONS": dims, **own})
        told[".zmetadata"] = {"zarr_consolidated_format": 1, "metadata": dict(told)}
        return {key: json.dumps(value, allow_nan=False).encode() for key, value in told.items()}

    def _shape(self, variable: xr.Variable) -> Grid:
        """Return a variable's shape, all steps that ever were included."""
        return tuple(self._length if dim == self._axis else size for dim, size in variable.sizes.items())

    def _chunk(self, variable: xr.Variable) -> Grid:
        """Return the shape of a chunk: one step, and the ranks' blocks where they are of one length."""
        blocks = variable.encoding.get("preferred_chunks", {})
        return tuple(
            1 if dim == self._axis else _length(blocks.get(dim, size), size) for dim, size in variable.sizes.items()
        )

    def chunks(self) -> Iterator[tuple[str, int]]:
        """Iterate over the keys that hold values, with their bytes."""
        for name, variable in self._variables.items():
            chunk = self._chunk(variable)
            ranges = [
                self._held(name) if dim == self._axis else range(-(-size // length))
                for (dim, size), length in zip(variable.sizes.items(), chunk, strict=True)
            ]
            for at in product(*ranges):
                yield f"{name}/{'.'.join(map(str, at)) or '0'}", prod(chunk) * variable.dtype.itemsize

    def _held(self, name: str) -> Iterator[int]:
        return iter(range(self._length) if name == STEP else self._numbers.get(name, self._steps))

    def read(self, key: str) -> bytes:
        """Return the content of a key.

        Raises
        ------
        KeyError
            If there is none.
        StreamError, NodeError
            If the step has gone, or its node.
        """
        if key in self.metadata:
            return self.metadata[key]
        name, _, place = key.rpartition("/")
        variable = self._variables[name]
        chunk, at = self._chunk(variable), [int(number) for number in place.split(".")][: variable.ndim]
        if name == STEP:
            return np.full(chunk, at[0], variable.dtype).tobytes()
        if name in self._numbers:
            return self._numbers[name][at[0]]
        return _padded(self._values(variable, at, chunk), chunk).tobytes()

    def _values(self, variable: xr.Variable, at: list[int], chunk: Grid) -> Array:
        ranges = []
        for number, length, dim in zip(at, chunk, variable.dims, strict=True):
            first = self._steps[number] if dim == self._axis else number * length
            ranges.append(slice(first, first + length))
        return np.asarray(variable[tuple(ranges)].values)


def _length(blocks: Any, size: int) -> int:
    lengths = blocks if isinstance(blocks, tuple) else (blocks,)
    is_regular = len(set(lengths[:-1])) <= 1 and lengths[-1] <= lengths[0]
    return max(int(lengths[0] if is_regular else size), 1)


def _padded(values: Array, chunk: Grid) -> Array:
    """Return a chunk of its whole length, also at an array's end."""
    if values.shape == chunk:
        return values
    whole = np.zeros(chunk, values.dtype)
    whole[tuple(slice(0, size) for size in values.shape)] = values
    return whole


def _fill(variable: xr.Variable) -> Any:
    fill = variable.attrs.get("_FillValue", np.nan if variable.dtype.kind == "f" else None)
    if fill is None or variable.dtype.kind not in "iuf":
        return None
    return in_json(np.asarray(fill, variable.dtype).item())


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key: in_json(value.tolist() if hasattr(value, "tolist") else value) for key, value in attributes.items()}
