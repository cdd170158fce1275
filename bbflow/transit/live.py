"""The live result: what is published plus the open spans, as one dataset in memory."""

from collections.abc import Mapping
from pathlib import Path

import xarray as xr

from bbflow.operators.calendars import Clock
from bbflow.operators.windows import Window
from bbflow.transit.folding import Span
from bbflow.transit.publishing import Published
from bbflow.transit.results import result_name


def live_dataset(store: Path, fields: Mapping[Window, tuple[Span, Published]], clock: Clock) -> xr.Dataset:
    """Join what ``results.zarr`` has with the spans that are open.

    Parameters
    ----------
    store
        Path of the store.
    fields
        For each window its open span, and its results so far.
    clock
        The stream's calendar.

    Returns
    -------
    xarray.Dataset
        In memory, with the names, dimensions and coordinates of the store.
    """
    with xr.open_zarr(store) as published:
        dataset: xr.Dataset = published.load()
    for window, (span, results) in fields.items():
        opened = _open_span(window, span, results, clock)
        axis = f"time_{window.name}"
        names = [name for name in dataset.data_vars if axis in dataset[name].dims]
        rest = dataset.drop_vars([*names, axis], errors="ignore")
        if names:
            opened = xr.concat(
                [dataset[names], opened], axis, data_vars="all", coords="minimal", compat="override", join="override"
            )
        dataset = rest.merge(opened, compat="override", join="override", combine_attrs="override")
    return dataset


def _open_span(window: Window, span: Span, results: Published, clock: Clock) -> xr.Dataset:
    axis = f"time_{window.name}"
    bounds = window.bounds(span.key, clock.date(span.first), clock.date(span.last))
    start, end = (clock.number(date) for date in bounds)
    variables = {
        result_name(name, window.name, operator.name): ((axis, *field.dims), arrays[operator.name][None])
        for name, (field, operators, arrays) in results.items()
        for operator in operators
    }
    return xr.Dataset(
        {
            **variables,
            f"steps_{window.name}": ((axis,), [span.steps]),
            f"{axis}_bnds": ((axis, "bnds"), [list(bounds)]),
        },
        coords={axis: [clock.date((start + end) / 2)]},
    )
