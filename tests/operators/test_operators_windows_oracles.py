"""The same steps go together, within the same bounds, as in xarray and CDO."""

import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr

from bbflow.operators.windows import parse_window
from bbflow.operators.windows.calendars import Clock

CALENDARS = ("standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day")
CDO = shutil.which("cdo")
FREQUENCIES = {
    "MS": "MS", "ME": "MS", "YS": "YS", "YE": "YS", "YS-OCT": "YS-OCT", "YE-SEP": "YS-OCT", "QS-DEC": "QS-DEC",
    "QE-NOV": "QS-DEC", "QS": "QS-JAN", "QE": "QS-JAN", "QS-FEB": "QS-FEB", "D": "D", "h": "h", "6h": "6h",
}  # fmt: skip
"""To the one of the same spans that is labelled with their begin."""
ORIGIN, GAP = "1999-10-05", "1581-11-20"
OF_CALENDARS = {
    "daymean": "day", "monmean": "month", "seasmean": "season", "yearmean": "year", "ymonmean": "clim_month",
    "ydaymean": "clim_dayofyear", "yseasmean": "clim_season",
}  # fmt: skip
"""CDO's name and ours of windows in which the calendar counts; CDO has no Julian one."""
SERIES = [*((calendar, ORIGIN) for calendar in CALENDARS), ("standard", GAP), ("proleptic_gregorian", GAP)]
"""Calendar and begin of a series; the last ones go through the days that the standard calendar leaves out."""


def groups(window, clock, times):
    """For each key in order: the steps, and the bounds as numbers."""
    dates = [clock.date(time) for time in times]
    keys = [window.key(date, step) for step, date in enumerate(dates)]
    found = {}
    for key in sorted({key for key in keys if key is not None}):
        steps = [step for step, own in enumerate(keys) if own == key]
        bounds = window.bounds(key, dates[steps[0]], dates[steps[-1]])
        found[key] = steps, tuple(clock.number(bound) for bound in bounds)
    return found


def series(times, clock):
    time = xr.DataArray(times, dims="time", attrs={"units": clock.units, "calendar": clock.calendar})
    dataset = xr.Dataset({"v": ("time", np.arange(len(times), dtype="f8"))}, {"time": time})
    return xr.decode_cf(dataset, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)).v


@pytest.mark.parametrize(
    ("frequency", "calendar", "origin"),
    [
        *((frequency, "standard", origin) for frequency in FREQUENCIES for origin in (ORIGIN, GAP)),
        *(
            (frequency, *own)
            for frequency in ("ME", "QE-NOV", "YS-OCT", "6h")
            for own in SERIES
            if own[0] != "standard"
        ),
    ],
)
def test_a_frequency_cuts_as_xarray_resamples(frequency, calendar, origin):
    clock, every = Clock(f"days since {origin}", calendar), 5 / 24 if frequency[-1] in "Dh" else 2.5
    times = np.arange(0, 500 * every, every)
    ours = groups(parse_window(frequency), clock, times)
    for name in {frequency, FREQUENCIES[frequency]}:
        theirs = series(times, clock).resample(time=name).mean().dropna("time")
        np.testing.assert_allclose([np.mean(steps) for steps, _ in ours.values()], theirs.values, rtol=1e-12)
    theirs = series(times, clock).resample(time=FREQUENCIES[frequency]).mean().dropna("time")
    labels = [clock.number(date) for date in theirs.time.values]
    np.testing.assert_allclose([begin for _, (begin, _) in ours.values()], labels, atol=1e-9)


@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("group", ["hour", "dayofyear", "month", "season", "year"])
def test_a_group_is_as_xarray_groups(group, calendar):
    clock, times = Clock("hours since 1999-10-05", calendar), np.arange(0, 8000, 5.0)
    theirs = series(times, clock).groupby(f"time.{group}").mean()
    ours = groups(parse_window({"groupby": f"time.{group}"}), clock, times)
    means = sorted(np.mean(steps) for steps, _ in ours.values())
    np.testing.assert_allclose(means, sorted(theirs.values), rtol=1e-12)
    if group != "season":
        assert [key[0] for key in ours] == theirs[group].values.tolist()


@pytest.fixture(scope="module")
def daily(tmp_path_factory):
    """Gives a file of daily values with their bounds for a calendar and an origin."""
    directory = tmp_path_factory.mktemp("daily")
    return lambda calendar, origin: write_days(directory / f"{calendar}-{origin}.nc", calendar, origin)


def write_days(path, calendar, origin):
    days = np.arange(0.0, 800.0)
    time = {"units": f"days since {origin}", "calendar": calendar, "bounds": "time_bnds", "standard_name": "time"}
    place = {"lat": ("lat", [0.0], {"units": "degrees_north"}), "lon": ("lon", [0.0], {"units": "degrees_east"})}
    values = {
        "v": (("time", "lat", "lon"), days.reshape(-1, 1, 1)),
        "time_bnds": (("time", "bnds"), np.stack([days, days + 1], 1)),
    }
    if not path.exists():
        xr.Dataset(values, {"time": ("time", days + 0.5, time), **place}).to_netcdf(path, engine="scipy")
    return path


def cdo(operator, source, target):
    done = subprocess.run(["cdo", "-s", operator, source, target], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with xr.open_dataset(target, engine="scipy", decode_times=False) as result:
        bounds = result["time_bnds"].values if "time_bnds" in result else None
        return result["v"].values.ravel(), bounds


@pytest.mark.skipif(CDO is None, reason="needs the program cdo (Debian's package of that name)")
@pytest.mark.parametrize(
    ("operator", "item", "calendar", "origin"),
    [
        *((operator, item, *own) for operator, item in OF_CALENDARS.items() for own in SERIES if own[0] != "julian"),
        ("timmean", "run", "standard", GAP), ("timselmean,10", {"steps": 10}, "standard", GAP),
        ("dhourmean", "clim_hour", "standard", GAP),
    ],
)  # fmt: skip
def test_a_window_is_as_cdo_has_it(operator, item, calendar, origin, daily, tmp_path):
    clock, times = Clock(f"days since {origin}", calendar), np.arange(0.5, 800.0)
    values, bounds = cdo(operator, daily(calendar, origin), tmp_path / "out.nc")
    ours = groups(parse_window(item), clock, times)
    np.testing.assert_allclose([np.mean(steps) for steps, _ in ours.values()], values, rtol=1e-12)
    if bounds is not None and item not in ("run", "clim_hour", {"steps": 10}):
        # CDO ends its spans with the data, ours end with the calendar
        clipped = np.clip([own for _, own in ours.values()], 0, 800)
        np.testing.assert_allclose(clipped, bounds, atol=1e-9)


@pytest.mark.skipif(CDO is None, reason="needs the program cdo (Debian's package of that name)")
def test_a_running_window_is_as_cdo_has_it(daily, tmp_path):
    values, bounds = cdo("runmean,5", daily("noleap", ORIGIN), tmp_path / "out.nc")
    clock, window = Clock(f"days since {ORIGIN}", "noleap"), parse_window({"running": {"days": 5}})
    for first in range(796):
        dates = [clock.date(first + offset + 0.5) for offset in range(window.keeps)]
        own = window.bounds(window.key(dates[-1]), dates[0], dates[-1])
        assert [clock.number(date) for date in own] == bounds[first].tolist()
        assert values[first] == first + 2
