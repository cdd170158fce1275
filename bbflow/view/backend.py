"""``xarray.open_dataset(contact, engine="bbflow", stream=...)``: a stream as one lazy dataset."""

import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from bbflow.errors import StreamError, nearest
from bbflow.operators.decoding import fills_of
from bbflow.operators.windows.calendars import dated, readable
from bbflow.stream.cf import OWN, STEP, StreamAttributes
from bbflow.view.layout import Field, Series, by_dimension, lay_out
from bbflow.view.source import Source
from bbflow.view.stream_opening import Opening, stream_names

Array = np.ndarray[Any, Any]
OPENED = "bbflow_opened"


class BbflowBackend(BackendEntrypoint):
    """Opens the steps that a stream has on its BB nodes."""

    description = "Steps that a simulation has landed on bbflow's burst-buffer nodes"
    open_dataset_parameters = (
        "filename_or_obj", "drop_variables", "stream", "wait", "after", "timeout_s", "time", "mask_and_scale",
        "decode_times", "concat_characters", "decode_coords", "use_cftime", "decode_timedelta",
    )  # fmt: skip

    def open_dataset(  # type: ignore[override]  # each backend has keys of its own
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        drop_variables: str | Iterable[str] | None = None,
        stream: str | None = None,
        wait: bool | int = False,
        after: int = -1,
        timeout_s: float | None = None,
        time: str = "time",
        **decoding: Any,
    ) -> xr.Dataset:
        """Open a stream; its steps stay on the nodes until the dataset is closed.

        Parameters
        ----------
        filename_or_obj
            The contact file.
        drop_variables
            Variables to leave out.
        stream
            Name of the stream; it may be left out if the nodes have one only.
        wait
            True waits for the stream's end, a number until this many steps are there, or it has ended.
        after
            Only steps above this one.
        timeout_s
            How long to wait at most.
        time
            The single value that tells a step's time.
        **decoding
            As in `xarray.decode_cf`.

        Raises
        ------
        StreamError
            If there is no step, or not enough of them in time.
        CapacityError
            If the steps to wait for don't fit the nodes.
        NodeError
            If a node doesn't answer.
        """
        contact = Path(os.path.expanduser(filename_or_obj)).absolute()
        name = stream or _only_stream(contact)
        opening = Opening(contact, name, after)
        wanted = 0 if wait is False else int(wait)
        opening.wait(lambda now: wait is not True and len(now.steps) >= wanted, timeout_s)
        if not opening.steps:
            raise StreamError(_why_empty(opening, name, contact, after))
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        dataset = dataset_of(opening, Source(contact, name, opening.lease), name, time, dropped)
        return _with_own_names(xr.decode_cf(dataset, **decoding))


class StepArray(BackendArray):
    """A variable over its steps, read where it is indexed."""

    def __init__(self, field: Field, source: Source) -> None:
        self._field, self._source = field, source
        self.shape = (len(field.steps), *field.shape)
        self.dtype = field.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[int | slice, ...]) -> Array:
        ranges = [_range(at, size) for at, size in zip(key, self.shape, strict=True)]
        indices, *places = ranges
        region = tuple(_extent(at) for at in places)
        if len(indices) == 1:
            values = self._source.read(self._field, indices[0], region)[np.newaxis]
        else:
            values = np.empty((len(indices), *(at.stop - at.start for at in region)), self.dtype)
            for row, index in zip(values, indices, strict=True):
                self._source.read_into(row, self._field, index, region)
        strides = [0 if isinstance(at, int) else slice(None, None, at.step) for at in key[1:]]
        return values[(0 if isinstance(key[0], int) else slice(None), *strides)]


class _OwnNamedVariable(xr.Variable):
    """Names its Dask array uniquely: the same file shows other steps when it is opened again."""

    __slots__ = ()

    def chunk(self, *words: Any, **keys: Any) -> Any:
        how = dict(keys.get("from_array_kwargs") or {})
        if how.get("name") and OPENED in self.encoding:
            keys["from_array_kwargs"] = how | {"name": f"{how['name']}-{self.encoding[OPENED]}"}
        return super().chunk(*words, **keys)


def _with_own_names(dataset: xr.Dataset) -> xr.Dataset:
    opened = uuid.uuid4().hex
    for name in dataset.variables.keys() - dataset.xindexes.keys():
        variable = dataset.variables[name]
        encoding = variable.encoding | {OPENED: opened}
        own = _OwnNamedVariable(variable.dims, variable._data, variable.attrs, encoding, fastpath=True)
        dataset._variables[name] = own
    return dataset


def dataset_of(opening: Opening, source: Source, stream: str, time: str, dropped: set[str]) -> xr.Dataset:
    """Return the steps of an opening, not decoded; parameters as of `BbflowBackend.open_dataset`."""
    view, numbers = opening.view, opening.steps
    blocks = {n: [(node, block) for node, block in view.blocks(n) if not block.folded] for n in numbers}
    placed = [[(node, block) for node, block in blocks[n] if block.name not in dropped] for n in numbers]
    _check_names(block.name for blocks in placed for _, block in blocks)
    has_time = any(block.name == time and block.kind == "GlobalValue" for blocks in placed for _, block in blocks)
    axis = time if has_time else STEP
    _check_meanings(opening, axis, dropped)
    there = {block.name for _, block in blocks[numbers[-1]]} | {block.name for own in placed for _, block in own}
    attributes = StreamAttributes(view.attributes_at(numbers[-1]), frozenset({axis}), variables=there)
    found = lay_out(placed, [opening.landed_in(number) for number in numbers], attributes)
    steps = xr.Variable((axis,), np.asarray(numbers, np.int64), {"long_name": "step of the simulation"})
    variables = {name: _variable(name, item, source, axis, attributes) for name, item in found.items()}
    discarded = [step for step in view.discarded if numbers[0] < step < numbers[-1]]
    own_attributes = {"bbflow_stream": stream, "bbflow_status": view.status, "bbflow_discarded_steps": len(discarded)}
    dataset = xr.Dataset({STEP: steps, **variables}, attrs=attributes.of_stream | own_attributes).set_coords(STEP)
    dataset.encoding["unlimited_dims"] = {axis}
    dataset.set_close(source.close)
    return dataset


def _check_meanings(opening: Opening, axis: str, dropped: set[str]) -> None:
    """See that the numbers of all steps are read in one way, as an array of a dataset has one.

    Raises
    ------
    StreamError
        If they aren't.
    """
    view, numbers = opening.view, opening.steps
    parts = (view.step(node, number) for number in numbers for node in view.taking_part)
    # One array has one 'units' attribute: steps in others would be read in the last step's.
    units = dict.fromkeys(part.axis for part in parts if part is not None and part.axis != (None, None))
    if axis == "time" and len(units) > 1:
        told = " and ".join(" in the calendar ".join(filter(None, own)) for own in units)
        raise StreamError(
            f"the time of these steps is in {told}: open those of each by themselves (after=STEP, wait=N)"
        )
    for change in view.changes:
        if numbers[0] < change.step <= numbers[-1] and change.variable not in dropped and change.variable != axis:
            raise StreamError(
                f"{change}: open the steps of each by themselves (after=STEP, wait=N), or leave it out with "
                f"drop_variables={change.variable!r}"
            )


def _variable(name: str, item: Field | Series, source: Source, axis: str, attributes: StreamAttributes) -> xr.Variable:
    own, encoding = attributes.of(name), attributes.encoding(name)
    if name == axis and isinstance(item, Series) and item.values.dtype.kind in "iuf":
        own = readable(own)
        times = dated(item.values.tolist(), own, encoding.missing)
        return xr.Variable((axis,), times if np.isnan(times).any() else item.values, own)
    if isinstance(item, Series):
        fill = {} if item.fill is None or item.values.dtype.kind not in "iuf" else {"_FillValue": item.fill}
        return xr.Variable((axis, *item.dims), item.values, own | fill)
    if item.dims == (name,):
        return _coordinate(item, source, own)
    fills = [fill.item() for fill in fills_of(encoding, item.dtype)]
    several = {"missing_value": fills} if len(fills) > 1 else {}
    return _lazy(item, source, axis, own | several, bool(fills))


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if name.startswith(OWN):
            raise StreamError(
                f"{name}: names that begin with {OWN} are for what bbflow adds: leave it out with "
                f"drop_variables={name!r}"
            )


def _coordinate(field: Field, source: Source, attributes: dict[str, Any]) -> xr.Variable:
    """Return the values of an axis: those of the first step that brings them."""
    index = next(index for index, pieces in enumerate(field.steps) if pieces)
    values = source.read(field, index, tuple(slice(0, size) for size in field.shape))
    return xr.Variable(field.dims, values.copy(), attributes)


def _lazy(field: Field, source: Source, axis: str, attributes: dict[str, Any], has_fill: bool) -> xr.Variable:
    named = has_fill or (field.has_holes and field.dtype.kind in "iu")
    data = indexing.LazilyIndexedArray(StepArray(field, source))
    dims = (axis, *field.dims)
    chunks = by_dimension(dims, (1, *field.chunks))
    fill = {"_FillValue": field.fill} if named else {}
    return xr.Variable(dims, data, attributes | fill, {"preferred_chunks": chunks})


def _range(at: int | slice, size: int) -> range:
    return range(*at.indices(size)) if isinstance(at, slice) else range(at, at + 1)


def _extent(at: range) -> slice:
    """Return the shortest slice that holds a range; `min` and `max` would go through it."""
    # By its ends: counting through a slice of a long dimension took longer than to read it.
    return slice(min(at[0], at[-1]), max(at[0], at[-1]) + 1) if at else slice(0, 0)


def _only_stream(contact: Path) -> str:
    names = stream_names(contact)
    if len(names) == 1:
        return names[0]
    raise StreamError(f"which stream? The nodes of {contact} have {', '.join(names) or 'none yet'}: give stream=NAME")


def _why_empty(opening: Opening, stream: str, contact: Path, after: int) -> str:
    status = opening.view.status
    if status == "expected":
        names = stream_names(contact)
        hint = f" ({nearest(stream, names)})" if names else ""
        return f"no program has written stream {stream!r} yet{hint}: give wait=1 to wait for its first step"
    if opening.view.ended and after >= 0:
        return f"stream {stream!r} is {status}, and its nodes hold no step above {after}"
    if opening.view.ended:
        return f"stream {stream!r} is {status}, and its nodes hold no step of it any more: see the analysis' results"
    return f"stream {stream!r} has no complete step on its nodes now: give wait=1 to wait for one"
