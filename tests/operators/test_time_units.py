"""Units of time axes as programs write them, against UDUNITS and xarray: read whole, or refused."""

import cftime
import pytest
import xarray as xr

from bbflow.errors import ConfigError
from bbflow.operators.windows.calendars import Clock, readable

UDUNITS = [
    "days since 2000",
    "days since 1800",
    "days since 0347-01",
    "days since 1",
    "days since 80-1-1",
    "days since 200001",
    "hours since 2000-1-1 6 -3",
    "hours since 2000-01-01 00:00:00 -6:00",
    "h since 20000101T0600 +0530",
    "days since 2000-01-01T00:00:00Z",
    "days since 2000-01-01 UTC",
    "minutes since 1850-1-1 0:0:0.5",
    "sec since 2000-01-01 00:00 +05:30",
    "days since 2000-01-01 00:00:00.0 0:00",
    "days since 2000-1-1 0630",
    "Hours Since 1999-12-31 23:59:59 GMT",
]
OTHERS = ["hours since 2000/01/01", "days since 1850/1/1 06:00"]
REFUSED = [
    "days since 01/02/2000",
    "days since 2000-01-01 00:00:00 CET",
    "days since 2000-01-01 -3",
    "days since 2000-13",
    "days since 20000",
    "days since 2000-01-01 00:00:00 +25",
    "days since 2000-01-01 24:00",
    "days since 2000-02-30",
    "days since 2000-01-01 and a bit",
    "days since 0000-01-01",
    "days after 2000-01-01",
    "weeks since 2000-01-01",
    "days since",
    "",
]


@pytest.mark.parametrize("units", UDUNITS)
def test_reference_dates_are_those_of_udunits(units):
    cf_units = pytest.importorskip("cf_units", reason="cf-units has no wheel for this Python")
    seconds = cf_units.Unit("seconds since 1970-01-01", calendar="standard")
    right = cftime.num2date(cf_units.Unit(units, calendar="standard").convert(1.5, seconds), str(seconds), "standard")
    assert Clock.of(units, "standard").date(1.5) == right


@pytest.mark.parametrize("units", [*UDUNITS, *OTHERS])
@pytest.mark.parametrize("calendar", ["standard", "noleap"])
def test_any_reader_opens_what_we_write_of_them(units, calendar):
    clock = Clock.of(units, calendar)
    times = xr.Dataset({"time": ("time", [0.0, 36.25], clock.attributes)})
    decoded = xr.decode_cf(times, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))
    assert decoded["time"].values.tolist() == clock.dates([0.0, 36.25])


@pytest.mark.parametrize("units", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(units):
    with pytest.raises(ConfigError) as refused:
        Clock.of(units, "standard")
    assert "\n" not in str(refused.value)
    assert readable({"units": units}) == {"units": units}


def test_zones_and_slashes_count():
    assert Clock.of("hours since 2000/01/01 00:00 -6:00", "standard").units == "hours since 2000-01-01 06:00:00"
    assert Clock.of("days since 2000-01-01", "noleap").units == "days since 2000-01-01"


@pytest.mark.parametrize("unit", ["h", "Hr", "hours"])
def test_units_become_such_as_xarray_knows_where_no_time_is_a_date(unit):
    clock = Clock.of(f"{unit} since 1900", "standard")
    times = xr.decode_cf(xr.Dataset({"time": ("time", [float("nan")], clock.attributes)}))
    assert times["time"].isnull().all()
