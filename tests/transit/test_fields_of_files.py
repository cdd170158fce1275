"""Thresholds and climatologies of files beside a stream's variables, against NumPy on the whole."""

import cftime
import numpy as np
import pytest
import xarray as xr

from bbflow.errors import ConfigError
from testsupport.programs import part, run_program

UNITS, FIRST = "hours since 2000-02-18", 2000
STEPS, SHAPE = 60, (4, 6)
LAT, LON = np.linspace(-60, 60, 4), np.arange(6) * 60.0
RANDOM = np.random.default_rng(3)
TAS = (280 + RANDOM.normal(0, 5, (STEPS, *SHAPE))).astype("f4")
TAS[:, 1, 2] = np.nan
TIMES = np.arange(STEPS) * 12.0
DATES = cftime.num2date(TIMES, UNITS)
DIMS = ("lat", "lon")
DAYS = 280 + RANDOM.normal(0, 5, (366, *SHAPE))
DAYS[:, 2, 3] = np.nan
MONTHS = (280 + RANDOM.normal(0, 5, (12, *SHAPE))).astype("f4")
DAY_OF = np.array([date.dayofyr - 1 for date in DATES])
MONTH_OF = np.array([date.month - 1 for date in DATES])


@pytest.fixture
def files(tmp_path):
    """A climatology of months as CDO stamps it, thresholds of days as xclim has them, and a mask."""
    places = {"lat": LAT, "lon": LON}
    stamps = [date.toordinal() - cftime.datetime(1980, 1, 1).toordinal()
              for date in (cftime.datetime(2001, month, 15) for month in range(1, 13))]  # fmt: skip
    time = ("time", np.array(stamps, "f8"), {"units": "days since 1980-01-01", "calendar": "standard"})
    field = (("time", *DIMS), MONTHS, {"units": "K"})
    xr.Dataset({"tas": field}, {"time": time, **places}).to_netcdf(tmp_path / "months.nc")
    days = xr.Dataset(
        {"tx90": ((*DIMS, "dayofyear"), np.moveaxis(DAYS, 0, -1), {"units": "K"})},
        {"dayofyear": np.arange(1, 367), **places},
    )
    days.to_zarr(tmp_path / "days.zarr", zarr_format=2)
    line = {"intercept": (DIMS, 280 + 0 * MONTHS[0]), "slope": (DIMS, MONTHS[0] / 1e5)}
    xr.Dataset(line, places).to_netcdf(tmp_path / "line.nc")
    xr.Dataset({"land": (DIMS, LAT[:, None] + 0 * LON > 0)}, places).astype("f4").to_netcdf(tmp_path / "land.nc")
    return tmp_path


def ranks_of(size, steps=range(STEPS)):
    coordinates = [("lat", LAT), ("lon", LON)]
    return [
        [
            [*(coordinates if rank == 0 and step == steps[0] else []), *([("time", TIMES[step])] if rank == 0 else []),
             ("tas", part(TAS[step], size, rank))]
            for step in steps
        ]
        for rank in range(size)
    ]  # fmt: skip


def run(files, operators, size=1, nodes=1, calendar="standard", steps=range(STEPS), units=UNITS, **config):
    attributes = {"tas/_ARRAY_DIMENSIONS": list(DIMS), "tas/units": "K", "time/units": units, "time/calendar": calendar}
    attributes |= {"lat/units": "degrees_north", "lon/units": "degrees_east"}
    config = {"operators": operators, "windows": ["run"], "time": {"variable": "time"}} | config
    return run_program(files, ranks_of(size, steps), config, attributes, nodes)


def operators_of(files):
    months, days = {"clim": str(files / "months.nc")}, {"tx90": {"file": str(files / "days.zarr")}}
    every = {"day": "max"}
    return {
        "anomaly": {"of": "tas - clim", "fields": months, "operators": ["mean", "max"], "windows": ["run", "month"]},
        "masked": {"of": "where(land > 0.5, tas, nan)", "fields": {"land": str(files / "land.nc")},
                   "operators": ["mean"]},
        "warm": {"of": "tas", "each": every, "then": "value > tx90", "fields": days, "operators": ["mean", "sum"]},
        "hot": {"of": "tas > tx90", "fields": days, "operators": ["sum"]},
        "spells": {"of": "tas", "each": every, "then": "value > tx90", "fields": days,
                   "operators": [{"longest_spell": {"above": 0.5}}]},
        "rows": {"of": "tas - clim", "fields": months, "operators": [{"filter": {"above": 8}}, "mean"]},
        "global": {"of": "tas - clim", "fields": months, "space": {"mean": ["lat", "lon"], "weights": "none"},
                   "operators": ["mean"]},
        "march": {"of": "where(m == 3, tas, nan)", "fields": {"m": {"calendar": "month"}}, "operators": ["mean"]},
        "TX90p": {"of": "tas", "operators": [{"TX90p": {"thresholds": str(files / "days.zarr"), "window": "run"}}]},
        "lagged": {"of": "tas", "transforms": [{"shift": {"steps": 2}}],
                   "operators": [{"correlation": {"with": "tas"}}]},
        "detrended": {"of": "tas - (a + b * t)", "operators": ["mean", "std"],
                      "fields": {"a": {"file": str(files / "line.nc"), "variable": "intercept"},
                                 "t": {"calendar": "time"},
                                 "b": {"file": str(files / "line.nc"), "variable": "slope"}}},
        "so_far": {"of": "tas", "transforms": [{"anomaly_so_far": {"by": "hour"}}], "operators": ["mean", "max"]},
        "pairs": {"of": "tas", "operators": [
            {"joint_histogram": {"with": "tas * 2", "bins": [3, 2], "range": [[270, 290], [540, 580]]}},
            {"harmonics": {"periods": [48, 240]}}, "detrended_std"]},
        "pair": {"of": "tas", "fields": days, "operators": [{"covariance": {"with": "tx90 + 0 * tas"}}]},
    }  # fmt: skip


@pytest.mark.parametrize(("size", "nodes", "batch"), [(1, 1, 64), (2, 2, 7)])
def test_statistics_with_fields_of_files_are_those_of_all_steps(files, size, nodes, batch):
    workers = {"processes": 0, "threads": 2, "batch_steps": batch}
    ran = run(files, operators_of(files), size, nodes, workers=workers)
    assert (ran.outcome.complete, ran.told) == (True, "")
    results = ran.results
    anomaly = TAS.astype("f8") - MONTHS[MONTH_OF]
    np.testing.assert_allclose(results.anomaly_run_mean[0], anomaly.mean(axis=0), rtol=1e-4, atol=1e-5)
    february = MONTH_OF == 1
    np.testing.assert_allclose(results.anomaly_month_max[0], anomaly[february].max(axis=0), rtol=1e-4)
    np.testing.assert_allclose(results.anomaly_month_max[1], anomaly[~february].max(axis=0), rtol=1e-4)
    np.testing.assert_allclose(results.masked_run_mean[0], np.where(LAT[:, None] > 0, TAS.mean(axis=0), np.nan), 1e-6)
    daily, limits = TAS.reshape(-1, 2, *SHAPE).max(axis=1), DAYS[DAY_OF[::2]]
    warm = np.where(np.isnan(daily) | np.isnan(limits), np.nan, daily > limits)
    np.testing.assert_allclose(results.warm_run_mean[0], warm.mean(axis=0))
    np.testing.assert_allclose(results.warm_run_sum[0], warm.sum(axis=0))
    every = np.where(np.isnan(TAS) | np.isnan(DAYS[DAY_OF]), np.nan, DAYS[DAY_OF] < TAS)
    np.testing.assert_allclose(results.hot_run_sum[0], every.sum(axis=0))
    assert results.spells_run_longest_spell[0, 0, 0] == longest(warm[:, 0, 0])
    assert int(results.spells_run_longest_spell.max()) >= 3
    with xr.open_zarr(ran.output / "results.zarr", group="rows_above", decode_times=False) as rows:
        assert len(rows.value) == (anomaly > 8).sum()
    np.testing.assert_allclose(results.global_run_mean[0], np.nanmean(anomaly), rtol=1e-5)
    np.testing.assert_allclose(results.march_run_mean[0], TAS[MONTH_OF == 2].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(results.TX90p_run_TX90p[0], 100 * warm.mean(axis=0))
    assert results.TX90p_run_TX90p.attrs["units"] == "%"
    early, late = (part - part.mean(axis=0) for part in (TAS[:-2].astype("f8"), TAS[2:].astype("f8")))
    lagged = (early * late).sum(axis=0) / np.sqrt((early**2).sum(axis=0) * (late**2).sum(axis=0))
    np.testing.assert_allclose(results.lagged_run_correlation[0], lagged, rtol=1e-6)
    line = 280 + TIMES[:, None, None] * MONTHS[0] / 1e5
    np.testing.assert_allclose(results.detrended_run_std[0], (TAS - line).std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(results.detrended_run_mean[0], (TAS - line).mean(axis=0), rtol=1e-4, atol=1e-4)
    before = np.stack([TAS[at % 2 : at : 2].mean(axis=0, dtype="f8") for at in range(2, STEPS)])
    np.testing.assert_allclose(results.so_far_run_max[0], (TAS[2:] - before).max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(results.so_far_run_mean[0], (TAS[2:] - before).mean(axis=0), rtol=1e-4, atol=1e-6)
    told = results.pairs_run_joint_histogram
    assert told.dims[1:3] == ("pairs_joint_histogram_bin", "pairs_joint_histogram_other_bin")
    for at in np.ndindex(SHAPE):
        column = TAS[:, *at][~np.isnan(TAS[:, *at])].astype("f8")
        counts = np.histogram2d(column, 2 * column, (3, 2), ((270, 290), (540, 580)))[0]
        np.testing.assert_array_equal(told[(0, slice(None), slice(None), *at)], counts)
    angles = 2 * np.pi * TIMES / np.array([[48], [240]])
    parts = [np.tensordot(wave(angles), TAS - TAS.mean(axis=0), 1) for wave in (np.cos, np.sin)]
    np.testing.assert_allclose(results.pairs_run_amplitude[0], 2 * np.hypot(*parts) / STEPS, rtol=1e-4)
    left = TAS - np.polynomial.polynomial.polyval(
        TIMES, np.polynomial.polynomial.polyfit(TIMES, TAS.reshape(STEPS, -1), 1)
    ).T.reshape(TAS.shape)
    np.testing.assert_allclose(results.pairs_run_detrended_std[0], left.std(axis=0), rtol=1e-4)
    pairs = ((TAS - TAS.mean(axis=0)) * (DAYS[DAY_OF] - DAYS[DAY_OF].mean(axis=0))).mean(axis=0)
    np.testing.assert_allclose(results.pair_run_covariance[0], pairs, rtol=1e-5)


def test_a_run_that_goes_on_in_the_middle_of_a_day_comes_to_the_same(files):
    operators = {
        name: own for name, own in operators_of(files).items() if name in ("anomaly", "warm", "spells", "lagged")
    }
    whole = run(files, operators).results
    (files / "out").rename(files / "whole")
    first = run(files, operators, steps=range(31))
    assert first.outcome.complete
    chained = run(files, operators, 2, steps=range(31, STEPS), **{"continue": str(files / "out")})
    for name, expected in whole.data_vars.items():
        np.testing.assert_allclose(chained.results[name], expected, rtol=1e-6, err_msg=name)


def test_steps_that_end_a_day_take_its_row(files):
    by = {"clim_dayofyear": {"by": "number", "closed": "right"}}
    fields = {"tx90": {"file": str(files / "days.zarr"), "by": by}}
    results = run(files, {"y": {"of": "tas - tx90", "fields": fields, "operators": ["mean"]}}).results
    rows = np.array([cftime.num2date(time - 0.001, UNITS).dayofyr - 1 for time in TIMES])
    np.testing.assert_allclose(results.y_run_mean[0], (TAS - DAYS[rows]).mean(axis=0), rtol=1e-6, atol=1e-5)


def of_month(files, **month):
    window = {"month": month}
    march = {"of": "where(m == 3, tas, nan)", "fields": {"m": {"calendar": "month"}}, "operators": ["count"]}
    indices = [{"SU": {"threshold": 10, "window": window}}, {"DTR": {"window": window}},
               {"TX90p": {"thresholds": str(files / "days.zarr"), "window": window}}]  # fmt: skip
    return {"tas": {"operators": indices}, "march": {**march, "windows": [window]}}


def test_days_of_indices_and_dates_in_expressions_end_as_the_windows_do(files):
    begins = run(files, of_month(files), 2).results
    (files / "out").rename(files / "begins")
    ends = run(files, of_month(files, closed="right"), units=f"{UNITS} 12:00").results
    assert begins.march_month_count.values[:, 0, 0].tolist() == [0, 36]
    for name, expected in begins.drop_vars("time_month_bnds").items():
        np.testing.assert_array_equal(ends[name], expected, err_msg=name)


def longest(met):
    best = run = 0
    for value in met:
        run = run + 1 if value == 1 else 0
        best = max(best, run)
    return best


def refused(files, field, why, of="tas - x", calendar="standard", **more):
    with pytest.raises(ConfigError, match=why):
        run(files, {"y": {"of": of, "fields": {"x": field}, "operators": ["mean"], **more}}, calendar=calendar)


def test_a_field_of_another_grid_is_refused(files):
    with xr.open_dataset(files / "land.nc") as land:
        land.isel(lat=slice(None, None, -1)).to_netcdf(files / "turned.nc")
        land.isel(lon=slice(5)).to_netcdf(files / "less.nc")
    refused(files, str(files / "turned.nc"), "point 0 along lat is at 60, but the stream's at -60")
    refused(files, str(files / "less.nc"), r"is on the grid \(lat: 4, lon: 5\)")


def test_days_of_another_calendar_are_refused(files):
    refused(files, str(files / "days.zarr"), "366 numbered days", calendar="noleap")
    with xr.open_zarr(files / "days.zarr") as days:
        days.isel(dayofyear=slice(365)).to_netcdf(files / "short.nc")
    refused(files, str(files / "short.nc"), "has no row for day 366")


def test_other_units_are_refused(files):
    with xr.open_dataset(files / "months.nc", decode_times=False) as months:
        months.tas.attrs["units"] = "degC"
        months.to_netcdf(files / "celsius.nc")
    refused(files, str(files / "celsius.nc"), "tas is in 'K', but x in 'degC'")


def test_what_no_file_has_is_said_before_the_run(files):
    refused(files, str(files / "none.nc"), "No such file")
    refused(files, {"file": str(files / "land.nc"), "variable": "lnd"}, "no field 'lnd'")
    refused(files, {"file": str(files / "land.nc"), "by": "clim_month"}, "no dimension with dates")
    refused(files, str(files / "land.nc"), "is in no expression", of="tas")
    refused(files, str(files / "land.nc"), "no variable of the stream", of="x + 1")
    refused(files, {"file": str(files / "months.nc"), "by": {"running": {"days": 3}}}, "has steps in several spans")


def index_file(path, days, **dims):
    """A series of daily numbers, as an index of a circulation is."""
    values = np.random.default_rng(8).normal(size=len(days))
    time = ("time", np.asarray(days, "f8") + 0.5, {"units": "days since 2000-02-18", "calendar": "standard"})
    xr.Dataset({"nao": (("time", *dims), values.reshape(len(days), *dims.values()))}, {"time": time}).to_netcdf(path)
    return values


@pytest.mark.parametrize(("size", "nodes", "batch"), [(1, 1, 64), (2, 2, 7)])
def test_a_field_is_correlated_with_a_series_of_a_file_by_its_dates(tmp_path, size, nodes, batch):
    daily = index_file(tmp_path / "nao.nc", range(-3, 40), lat=1, lon=1)[3:]
    by_day = {"nao": {"file": str(tmp_path / "nao.nc"), "by": "day"}}
    operators = {
        "tas": {"fields": by_day, "operators": [{"correlation": {"with": "nao"}}]},
        "without": {"of": "tas - 2 * nao", "fields": by_day, "operators": ["mean"], "windows": ["month"]},
        "warmth": {"of": "tas", "fields": by_day, "space": {"mean": ["lat", "lon"], "weights": "none"},
                   "operators": [{"correlation": {"with": "nao"}}]},
    }  # fmt: skip
    workers = {"processes": 0, "threads": 2, "batch_steps": batch}
    ran = run(tmp_path, operators, size, nodes, workers=workers)
    assert (ran.outcome.complete, ran.told) == (True, "")
    nao, tas = np.repeat(daily, 2)[:STEPS], TAS.astype("f8")
    wanted = [np.corrcoef(nao, tas[:, 0, 1])[0, 1], np.corrcoef(nao, tas[:, 3, 4])[0, 1]]
    found = next(value for name, value in ran.results.items() if name.startswith("tas_run_corr"))[0]
    np.testing.assert_allclose([found[0, 1], found[3, 4]], wanted, rtol=1e-6)
    assert np.isnan(found[1, 2])
    mean = next(value for name, value in ran.results.items() if name.startswith("warmth_run_corr"))
    np.testing.assert_allclose(mean[0], np.corrcoef(nao, np.nanmean(tas, axis=(1, 2)))[0, 1], rtol=1e-6)
    less = (tas - 2 * nao[:, None, None])[MONTH_OF == 1].mean(axis=0)
    np.testing.assert_allclose(ran.results.without_month_mean[0], less, rtol=1e-6)


def test_a_series_that_lacks_a_day_of_the_run_ends_it_with_a_line(tmp_path):
    index_file(tmp_path / "nao.nc", range(20))
    fields = {"nao": {"file": str(tmp_path / "nao.nc"), "by": "day"}}
    with pytest.raises(ConfigError, match="has no row for the day of a step"):
        run(tmp_path, {"tas": {"fields": fields, "operators": [{"covariance": {"with": "nao"}}]}})
