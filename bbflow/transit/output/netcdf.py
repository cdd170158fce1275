"""NetCDF-4 copies of ``results.zarr``: one file for each window."""

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import normalize

import dask
import numpy as np
import xarray as xr

from bbflow.errors import ConfigError
from bbflow.host.atomic import replacing
from bbflow.host.belongings import is_ours
from bbflow.host.log import log
from bbflow.zarr_store.stored_names import netcdf_attribute

DEFLATE = {"zlib": True, "complevel": 1, "shuffle": True}
"""What every reader of NetCDF-4 can read, at the level that costs least."""


def check_netcdf() -> None:
    """Check that NetCDF can be written.

    Raises
    ------
    ConfigError
        If netCDF4 isn't installed.
    """
    if find_spec("netCDF4") is None:
        raise ConfigError("netcdf: netCDF4 isn't installed: pip install 'bbflow[netcdf]', or take the key out")


def write_netcdf(results: Path) -> tuple[Path, ...]:
    """Copy what a store has: each window's results into a file beside it, such as ``results_month.nc``.

    A file appears whole, or stays as it was.

    Parameters
    ----------
    results
        Path of ``results.zarr``.

    Returns
    -------
    tuple of Path
        The files.
    """
    written = []
    with xr.open_zarr(results, decode_cf=False, chunks={}) as dataset:
        for window in windows_of(dataset):
            path = results.with_name(f"{results.stem}_{window}.nc")
            write_dataset(window_dataset(dataset, window), path)
            written.append(path)
    return tuple(written)


def windows_of(dataset: xr.Dataset) -> Iterator[str]:
    """Yield the windows that a store has results of."""
    yield from dict.fromkeys(
        str(array.attrs["bbflow_window"]) for array in dataset.data_vars.values() if "bbflow_window" in array.attrs
    )


def window_dataset(dataset: xr.Dataset, window: str) -> xr.Dataset:
    """Return one window's results with their coordinates and bounds; its axis is called time, as elsewhere.

    Parameters
    ----------
    dataset
        The whole store, not decoded.
    window
        Which window.
    """
    axis = f"time_{window}"
    own = [str(name) for name, array in dataset.data_vars.items() if axis in array.dims]
    named = {str(dim) for name in own for dim in dataset[name].dims if dim in dataset.variables}
    found = dataset[sorted({*own, *referenced(dataset, {*own, *named})})]
    if axis in found.variables and "time" not in found.variables and "time" not in found.dims:
        found = found.rename({axis: "time", f"{axis}_bnds": "time_bnds"})
        for key in ("bounds", "climatology"):
            if key in found["time"].attrs:
                found["time"].attrs[key] = "time_bnds"
    found.attrs = {key: value for key, value in found.attrs.items() if not key.endswith("_committed")}
    return _with_known_types(found, window)


def _with_known_types(dataset: xr.Dataset, window: str) -> xr.Dataset:
    """Return what NetCDF has types for: float16 becomes float32, and complex coordinates are left out by name."""
    complex_ones = [name for name, array in dataset.variables.items() if array.dtype.kind == "c"]
    for name in complex_ones:
        log(f"bbflow: netcdf: {name} is complex, which NetCDF has no type for: results_{window}.nc lacks it")
    half = {name: array.astype("f4") for name, array in dataset.variables.items() if array.dtype == "f2"}
    return dataset.assign(half).drop_vars(complex_ones)


NAMING = ("coordinates", "bounds", "climatology", "grid_mapping", "cell_measures")
"""Attributes that name variables, some with other words between them."""


def referenced(dataset: xr.Dataset, names: set[str]) -> set[str]:
    """Return variables and what their attributes name: auxiliary coordinates, bounds, a grid's mapping and areas."""
    known = {
        other
        for name in names
        for key in NAMING
        for other in str(dataset[name].attrs.get(key, "")).split()
        if other in dataset.variables
    }
    return names if known <= names else referenced(dataset, names | known)


def write_dataset(dataset: xr.Dataset, path: Path) -> None:
    """Write a dataset, not decoded, as NetCDF-4; the file appears whole."""
    for left in path.parent.glob(f".{path.name}.*"):  # by a crash
        if is_ours(path.parent, left):
            left.unlink()
    encoding = {str(name): encoding_of(array) for name, array in dataset.variables.items()}
    dataset.attrs = _attributes(dataset.attrs)
    for array in dataset.variables.values():
        array.encoding, array.attrs = {}, _attributes(array.attrs)
    unlimited = [dim for dim in dataset.dims if str(dim).startswith("time")]
    # a worker of the run's cluster would write one file from afar
    with replacing(path) as temporary, dask.config.set(scheduler="synchronous"):
        dataset.to_netcdf(temporary, engine="netcdf4", format="NETCDF4", encoding=encoding, unlimited_dims=unlimited)


def _attributes(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as NetCDF may have them: not without a value, and of two names that become one the first."""
    found: dict[str, Any] = {}
    for name, value in own.items():
        if not isinstance(value, list) or value:
            found.setdefault(normalize("NFC", netcdf_attribute(str(name))), _storable(value))
    return found


def _storable(value: Any) -> Any:
    """Return a value as NetCDF may have it: what the configuration gives may be any of YAML."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float) for item in items):
        return json.dumps(value)
    plain = [int(item) if isinstance(item, bool) else item for item in items]  # NetCDF has no type for yes and no
    return plain if isinstance(value, list) else plain[0]


def encoding_of(array: xr.Variable) -> Mapping[str, Any]:
    """Return how a variable is stored: results can be missing, coordinates can't."""
    result = "bbflow_operator" in array.attrs
    missing = np.array(np.nan, array.dtype) if result and array.dtype.kind == "f" else None
    return {"_FillValue": missing} | (DEFLATE if array.ndim > 1 else {})
