"""The live result: what is published plus the open spans, as one dataset in memory."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bbflow.operators.windows.calendars import Clock
from bbflow.stores.moved import readable
from bbflow.transit.output.cf_attributes import (
    axis_name,
    axis_variables,
    bounds_of,
    count_variables,
    result_attributes,
    stamp_of,
    time_attributes,
    with_known_references,
)
from bbflow.transit.output.decoding import decoded
from bbflow.transit.output.results import SAME_START, Published, result_name
from bbflow.transit.spans.timeline import Closing


def live_dataset(store: Path, fields: Sequence[tuple[Closing, Mapping[str, Published]]], clock: Clock) -> xr.Dataset:
    """Join what ``results.zarr`` has with the spans that are open.

    Parameters
    ----------
    store
        Path of the store.
    fields
        Each open span, and its results so far.
    clock
        The stream's calendar.

    Returns
    -------
    xarray.Dataset
        In memory, with the names, dimensions, coordinates and attributes of the store.
    """
    with xr.open_zarr(readable(store), decode_cf=False) as published:
        dataset: xr.Dataset = published.load()
    for closing, results in fields:
        axis = f"time_{closing.window.name}"
        at, count = _place(dataset, axis, bounds_of(closing, clock)[0])
        before = float(dataset[axis].values[at - 1]) if at else None
        opened = _open_span(closing, results, clock, before, set(dataset.variables))
        names = [name for name in dataset.data_vars if axis in dataset[name].dims]
        rest = dataset.drop_vars([*names, axis], errors="ignore")
        if names:
            # Nothing is compared or aligned: names, coordinates and attributes are made as the store has them.
            opened = xr.concat(
                [dataset[names], opened],
                axis,
                data_vars="all",
                coords="minimal",
                compat="override",
                join="override",
                combine_attrs="override",
            ).isel({axis: [*range(at), count, *range(at + 1, count)]})
        dataset = rest.merge(opened, compat="override", join="override", combine_attrs="override")
    return decoded(dataset)


def _place(dataset: xr.Dataset, axis: str, start: float) -> tuple[int, int]:
    """Return where a span belongs on its axis, where an earlier job may have published a part, and how many it has."""
    if axis not in dataset or not dataset.sizes[axis]:
        return 0, 0
    starts = dataset[f"{axis}_bnds"].values[:, 0]
    (known,) = np.nonzero(np.isclose(starts, start, rtol=0, atol=SAME_START))
    return int(known[0]) if len(known) else len(starts), len(starts)


def _open_span(
    closing: Closing, results: Mapping[str, Published], clock: Clock, before: float | None, known: Container[Any]
) -> xr.Dataset:
    window, span = closing.window, closing.whole
    time = f"time_{window.name}"
    cf = clock.attributes
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {time: ((time,), [stamp_of(closing, clock, before)], time_attributes(window, clock))}
    for field, operators, arrays in results.values():
        for operator in operators:
            own = tuple(axis_name(field, operator, axis) for axis in operator.axes)
            for axis_of, axis in zip(own, operator.axes, strict=True):
                described = axis_variables(axis_of, axis, field)
                coordinates[axis_of] = described.pop(axis_of)
                variables |= described
            name = result_name(field.name, window.name, operator.name)
            attributes = with_known_references(result_attributes(field, window, operator, clock), known)
            variables[name] = ((time, *own, *field.dims), arrays[operator.name][None], attributes)
    return xr.Dataset(
        {
            **variables,
            **{name: ((time,), [number], told) for name, (number, told) in count_variables(window, span).items()},
            f"{time}_bnds": ((time, "bnds"), [list(bounds_of(closing, clock))], cf),
        },
        coords=coordinates,
    )
