"""Reading ``results.zarr`` for the report, whatever part of it is there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from bbflow.report.canvas import Array
from bbflow.report.drawn_fields import DrawnAxis, Statistic, area_mean, axis_kind, choose_level, degrees
from bbflow.report.picture import describe_failure
from bbflow.report.rasters import raster_axes, raster_of
from bbflow.stores.moved import readable
from bbflow.transit.output.decoding import DATES

MOST_PLACES = 8
"""Of a list of points that are told apart."""
_RECURRING = {
    "clim_hour": "%H h",
    "clim_hourofyear": "%d %b, %H h",
    "clim_dayofyear": "%d %b",
    "clim_dayofyear_number": "day %j",
    "clim_month": "%b",
    "clim_season": "around %b",
}
"""How climatologies name their spans, by the middle of each."""


@dataclass(frozen=True, slots=True)
class FilterTable:
    """How many points passed a filter."""

    name: str
    """Of the table in the store."""
    rows: int
    """Points."""
    description: str
    """What passed, where the store says so."""


@dataclass(frozen=True, slots=True)
class DrawnResults:
    """What a report shows of a results store."""

    stream: str | None = None
    """The stream it was made of."""
    status: str | None = None
    """running, complete or incomplete."""
    statistics: tuple[Statistic, ...] = ()
    """In the order of the store's names."""
    steps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Steps in each span, by window, where known."""
    tables: tuple[FilterTable, ...] = ()
    """Filters' tables."""
    notes: tuple[str, ...] = ()
    """What could not be read or is not shown, in sentences."""


def read_results(path: Path) -> DrawnResults:
    """Read the store; what is missing or broken becomes a note.

    Parameters
    ----------
    path
        Of ``results.zarr``; it need not exist.
    """
    if not path.exists():
        return DrawnResults(notes=("There is no results.zarr: no window was published.",))
    try:
        with _open(path) as dataset:
            return _read(path, dataset)
    except Exception as error:  # whatever Zarr's codecs and xarray's decoding meet in a broken store
        return DrawnResults(notes=(f"results.zarr can't be read: {describe_failure(error)}.",))


def _open(path: Path) -> xr.Dataset:
    # Asked first: where there is none, xarray would warn, and read the metadata once more.
    consolidated = zarr.open_group(readable(path), mode="r").metadata.consolidated_metadata is not None
    raw = xr.open_zarr(readable(path), consolidated=consolidated, chunks=None, decode_cf=False)
    # The time of a maximum is drawn as a number.
    dates = {str(name): False if "bbflow_operator" in array.attrs else DATES for name, array in raw.variables.items()}
    try:
        dataset: xr.Dataset = xr.decode_cf(raw, decode_times=dates)
    except ValueError:  # times in units or a calendar that can't be decoded
        dataset = xr.decode_cf(raw, decode_times=False)
    return dataset


def _read(path: Path, dataset: xr.Dataset) -> DrawnResults:
    statistics: list[Statistic] = []
    notes: list[str] = []
    for name, array in dataset.data_vars.items():
        if "bbflow_operator" not in array.attrs:
            continue
        try:
            statistics.append(statistic_of(dataset, str(name)))
        except Exception as error:  # one broken chunk must not cost the other variables
            notes.append(f"{name} can't be read and is left out: {describe_failure(error)}.")
    notes += [f"{describe_failure(text)}." for text in dataset.attrs.get("bbflow_left_out", ())]
    if not statistics:
        notes.append("results.zarr holds no statistics yet.")
    return DrawnResults(
        stream=_text(dataset.attrs.get("bbflow_stream")),
        status=_text(dataset.attrs.get("bbflow_status")),
        statistics=tuple(statistics),
        steps={
            str(name).removeprefix("steps_"): tuple(map(int, array.values))
            for name, array in dataset.data_vars.items()
            if str(name).startswith("steps_") and array.ndim == 1
        },
        tables=tuple(_tables(path)),
        notes=tuple(notes),
    )


def statistic_of(dataset: xr.Dataset, name: str) -> Statistic:
    """Cut a variable down to what a picture shows.

    Raises
    ------
    ValueError
        If it has no window yet.
    """
    array = dataset[name]
    time, *others = array.dims
    if array.sizes[time] == 0:
        raise ValueError("it has no window yet")
    axes = tuple(_axis(dataset, str(dim)) for dim in others)
    is_short = bool(axes) and len(axes[-1].values) <= MOST_PLACES
    raster = raster_of(dataset, array) if axes and not is_short else None
    first_shown = len(axes) - (2 if raster is None else 1)
    shown = axes[max(first_shown, 0) :]
    unseen = axes[: len(axes) - len(shown)]
    hidden = {axis.name: choose_level(axis) for axis in unseen}
    level = ", ".join(axis.label(hidden[axis.name]) for axis in unseen) or None
    windows = array.isel(hidden)
    last = np.empty(0)
    places = _places(dataset, array, shown)
    lines = []
    for index in range(array.sizes[time]):  # one window at a time: memory stays that of one field
        last = np.asarray(windows.isel({time: index}).values, "f8")
        lines.append(last if places else np.array([area_mean(last, shown)]))
    attributes = array.attrs
    return Statistic(
        name=name,
        variable=str(attributes.get("bbflow_variable", name)),
        window=str(attributes.get("bbflow_window", "")),
        operator=str(attributes["bbflow_operator"]),
        long_name=str(attributes.get("bbflow_long_name", attributes.get("long_name", ""))),
        units=str(attributes.get("units", "")),
        labels=_labels(dataset, str(time), str(attributes.get("bbflow_window", ""))),
        axes=shown if raster is None else raster_axes(),
        level=level,
        last=last if raster is None else raster(last),
        lines=np.asarray(lines),
        places=places,
        weighted=any(axis.kind == "lat" and axis.units for axis in shown),
    )


def _places(dataset: xr.Dataset, array: xr.DataArray, axes: tuple[DrawnAxis, ...]) -> tuple[str, ...]:
    """Name the points of a short list by their auxiliary coordinates; of anything else none."""
    if len(axes) != 1 or axes[0].name in dataset.coords or not 0 < len(axes[0].values) <= MOST_PLACES:
        return ()
    along = [name for name, coordinate in array.coords.items() if coordinate.dims == (axes[0].name,)]
    named = [DrawnAxis(str(name), axis_kind(str(name), array[name].attrs), array[name].values, "") for name in along]
    told = [[_place(axis, float(axis.values[at])) for axis in named] for at in range(len(axes[0].values))]
    return tuple(" ".join(words) for words in told) if named else ()


def _place(axis: DrawnAxis, value: float) -> str:
    return degrees(value, axis.kind) if axis.kind in ("lat", "lon") else f"{value:g}"


def _axis(dataset: xr.Dataset, dim: str) -> DrawnAxis:
    size = dataset.sizes[dim]
    if dim not in dataset.coords or dataset[dim].dtype.kind not in "fiu":
        return DrawnAxis(dim, axis_kind(dim, {}), np.arange(size), "")
    coordinate = dataset[dim]
    kind = axis_kind(dim, coordinate.attrs)
    units = {"lat": "°N", "lon": "°E"}.get(kind, str(coordinate.attrs.get("units", "")))
    return DrawnAxis(dim, kind, np.asarray(coordinate.values), units)


def _labels(dataset: xr.Dataset, time: str, window: str) -> tuple[str, ...]:
    """Name each window by its first and last day, or by its first month, where the store has the bounds."""
    if time not in dataset.coords:
        return tuple(str(index) for index in range(dataset.sizes[time]))
    times: Array = dataset[time].values
    if window in _RECURRING:
        return tuple(_recurring(value, window) for value in times)
    bounds = str(dataset[time].attrs.get("bounds") or dataset[time].encoding.get("bounds") or "")
    if bounds not in dataset:
        return tuple(_date(value, window) for value in times)
    pairs = dataset[bounds].values
    if window == "run":
        return tuple(f"{_date(first, window)} to {_date(end, window)}" for first, end in pairs)
    return tuple(_date(first, window) for first, _ in pairs)


def _date(value: Any, window: str) -> str:
    length = {"year": 4, "month": 7}.get(window, 10)
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="D"))[:length]
    return value.strftime("%Y-%m-%d")[:length] if hasattr(value, "strftime") else f"{value:g}"


def _recurring(value: Any, window: str) -> str:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    return str(value.strftime(_RECURRING[window])) if hasattr(value, "strftime") else f"{value:g}"


def _tables(path: Path) -> Iterator[FilterTable]:
    for name, group in sorted(zarr.open_group(readable(path), mode="r").groups()):
        lengths = [array.shape[0] for _, array in group.arrays() if array.shape]
        told = group.attrs.get("description") or group.attrs.get("long_name") or ""
        yield FilterTable(name, min(lengths, default=0), str(told))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
