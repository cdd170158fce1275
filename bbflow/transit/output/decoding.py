"""Results as xarray shows them: with dates, where it can."""

from pathlib import Path

import xarray as xr
from xarray.coders import CFDatetimeCoder

from bbflow.stores.moved import readable

DATES = CFDatetimeCoder(time_unit="us")
"""Takes dates of all years: nanoseconds, xarray's default, end with 2262, and it warns of later ones."""
STANDARD = ("standard", "gregorian", "proleptic_gregorian")
"""Calendars for which xarray has a missing date's value."""


def open_results(path: Path) -> xr.Dataset:
    """Open ``results.zarr``, wherever its files are; nothing but coordinates is loaded."""
    return decoded(xr.open_zarr(readable(path), decode_cf=False))


def decoded(raw: xr.Dataset) -> xr.Dataset:
    """Decode by the CF conventions, but leave results that are times of other calendars than the standard one.

    xarray takes a missing one for the reference date, and can't open a variable whose first value is missing.

    Parameters
    ----------
    raw
        As the store has it.
    """
    left = {
        name
        for name, array in raw.data_vars.items()
        if "bbflow_operator" in array.attrs and str(array.attrs.get("calendar", STANDARD[0])).lower() not in STANDARD
    }
    dates = {str(name): False if name in left else DATES for name in raw.variables}
    found: xr.Dataset = xr.decode_cf(raw, decode_times=dates)
    return found
