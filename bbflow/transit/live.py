"""The live result: what is published plus the open spans, as one dataset in memory."""

from collections.abc import Sequence
from pathlib import Path

import xarray as xr

from bbflow.operators.windows.calendars import Clock
from bbflow.transit.publishing import Published
from bbflow.transit.results import bounds_of, result_name
from bbflow.transit.timeline import Closing


def live_dataset(store: Path, fields: Sequence[tuple[Closing, Published]], clock: Clock) -> xr.Dataset:
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
        In memory, with the names, dimensions and coordinates of the store.
    """
    with xr.open_zarr(store) as published:
        dataset: xr.Dataset = published.load()
    for closing, results in fields:
        opened = _open_span(closing, results, clock)
        axis = f"time_{closing.window.name}"
        names = [name for name in dataset.data_vars if axis in dataset[name].dims]
        rest = dataset.drop_vars([*names, axis], errors="ignore")
        if names:
            opened = xr.concat(
                [dataset[names], opened], axis, data_vars="all", coords="minimal", compat="override", join="override"
            )
        dataset = rest.merge(opened, compat="override", join="override", combine_attrs="override")
    return dataset


def _open_span(closing: Closing, results: Published, clock: Clock) -> xr.Dataset:
    window, span = closing.window, closing.whole
    axis = f"time_{window.name}"
    start, end = bounds_of(closing, clock)
    variables = {
        result_name(field.name, window.name, operator.name): (
            (axis, *(f"{field.name}_{operator.name}_{own.name}" for own in (operator.axis,) if own), *field.dims),
            arrays[operator.name][None],
        )
        for field, operators, arrays in results.values()
        for operator in operators
    }
    return xr.Dataset(
        {
            **variables,
            f"steps_{window.name}": ((axis,), [span.steps]),
            f"missing_{window.name}": ((axis,), [span.missing]),
            f"{axis}_bnds": ((axis, "bnds"), [[clock.date(start), clock.date(end)]]),
        },
        coords={axis: [clock.date((start + end) / 2)]},
    )
