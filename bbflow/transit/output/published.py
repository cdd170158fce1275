"""Files for archives: one result each, with the names and attributes of a table."""

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xarray as xr
from xarray.coders import CFDatetimeCoder

from bbflow.configuring.publication import PublicationConfig, PublishedVariable, time_format
from bbflow.errors import ConfigError
from bbflow.operators.space.grid import LAT, LON, kind_of
from bbflow.transit.output.fields import coordinate_name
from bbflow.transit.output.netcdf import NAMING, referenced, window_dataset, write_dataset

FOLDER = "published"


def write_published(results: Path, publication: PublicationConfig) -> tuple[Path, ...]:
    """Write a file for each published variable into the folder `FOLDER` beside the store; each appears whole.

    Parameters
    ----------
    results
        Path of ``results.zarr``.
    publication
        What is published.

    Returns
    -------
    tuple of Path
        The files; none for a result that isn't there yet.

    Raises
    ------
    ConfigError
        If a table has other units than the result.
    """
    folder, written = results.with_name(FOLDER), []
    folder.mkdir(exist_ok=True)
    with xr.open_zarr(results, decode_cf=False, chunks={}) as dataset:
        for variable in publication.variables:
            if variable.result in dataset and dataset[variable.result].shape[0]:
                made = _published(dataset, variable, publication)
                path = folder / publication.file_name(variable, _range(made, variable))
                write_dataset(made, path)
                written.append(path)
    return tuple(written)


def _published(dataset: xr.Dataset, variable: PublishedVariable, publication: PublicationConfig) -> xr.Dataset:
    window = window_dataset(dataset, str(dataset[variable.result].attrs["bbflow_window"]))
    named = {str(dim) for dim in window[variable.result].dims if dim in window.variables}
    own = _plainly_named(window[sorted(referenced(window, {variable.result, *named}))], variable.result)
    if variable.name != variable.result and variable.name in own.variables:
        raise ConfigError(f"publication: {variable.result}: {variable.name!r} is the name of a coordinate of it")
    _name_places(own)
    own = own.rename({variable.result: variable.name})
    _check_units(own[variable.name].attrs, variable)
    own[variable.name].attrs = own[variable.name].attrs | dict(variable.attributes)
    tracking = f"{publication.attributes.get('tracking_prefix', '')}{uuid.uuid4()}"
    made = {"creation_date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "tracking_id": tracking}
    told = {key: value for key, value in publication.attributes.items() if key != "tracking_prefix"}
    own.attrs = own.attrs | made | told | dict(variable.of_file)
    return own


def _plainly_named(own: xr.Dataset, result: str) -> xr.Dataset:
    """Return the same with the grid's own names: where there is one result, none needs those of its diagnostic."""
    prefix = coordinate_name(str(own[result].attrs["bbflow_variable"]), "")
    all_names = {str(name) for name in (*own.variables, *own.dims)}
    plain = {name: name.removeprefix(prefix) for name in all_names - {result} if name.startswith(prefix)}
    plain = {name: short for name, short in plain.items() if short and short not in all_names}
    own = own.rename(plain)
    for array in own.variables.values():
        for key in NAMING:
            if key in array.attrs:
                array.attrs[key] = " ".join(plain.get(word, word) for word in str(array.attrs[key]).split())
    return own


def _name_places(own: xr.Dataset) -> None:
    """Mark latitudes and longitudes as such, where the program has told only their units."""
    bounds = {array.attrs.get("bounds") for array in own.variables.values()}
    for name, array in own.variables.items():
        kind = kind_of(str(name), array.attrs)
        if kind in PLACES and name not in bounds:
            standard, axis = PLACES[kind]
            array.attrs = {"standard_name": standard} | ({"axis": axis} if array.dims == (name,) else {}) | array.attrs


PLACES = {LAT: ("latitude", "Y"), LON: ("longitude", "X")}
"""Standard name and axis (CF conventions, sections 4.1 and 4.2)."""


def _check_units(own: dict[str, Any], variable: PublishedVariable) -> None:
    wanted = variable.attributes.get("units")
    if wanted is not None and own.get("units", wanted) != wanted:
        raise ConfigError(
            f"publication: {variable.result} is in {own['units']!r}, the table says {wanted!r}: let 'of' convert it"
        )


def _range(made: xr.Dataset, variable: PublishedVariable) -> str:
    """Return the first and the last time as they stand in the file's name."""
    form = time_format(str(variable.of_file["frequency"]))
    if form is None:
        return ""
    times = xr.decode_cf(made[["time"]], decode_times=CFDatetimeCoder(use_cftime=True))["time"].values
    if times.dtype.kind != "O":
        raise ConfigError(f"publication: {variable.result} has no dates, which a file's name needs: say frequency: fx")
    ending = "-clim" if "climatology" in made["time"].attrs else ""
    return f"{times[0].strftime(form).strip():0>4}-{times[-1].strftime(form).strip():0>4}{ending}"
