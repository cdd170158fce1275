"""Windows, cascades and expressions over real streams, against xarray on the whole."""

import cftime
import numpy as np
import pytest
import streams
import xarray as xr
import yaml

from bbflow.errors import StreamError
from bbflow.operators.windows import parse_window
from bbflow.operators.windows.frequencies import EXAMPLES, GROUPS
from bbflow.operators.windows.kinds import KINDS
from bbflow.report.results_reader import read_results
from testsupport.programs import run_program

UNITS = "hours since 2000-11-15"
MONDAY = cftime.datetime(2000, 11, 13, calendar="standard")
TAS = ["mean", "max", {"std": {"ddof": 1}}, "count"]

SLOW = {
    "windows": ["month", {"season": "DJF"}, "year", "clim_month", "run"],
    "operators": {
        "tas": TAS,
        "wind": {
            "of": "sqrt(u**2 + v**2)",
            "operators": ["mean", "max"],
            "windows": ["month"],
            "attributes": {"units": "m s-1", "standard_name": "wind_speed"},
        },
        "hot": {"of": "tas > 285", "operators": ["sum", "mean"], "windows": ["month"]},
    },
}
"""Of a stream with a step every five days, for four years."""

FAST = {
    "windows": ["month"],
    "operators": {
        "tas": {"operators": TAS, "windows": ["day", "month", {"running": {"days": 5}}]},
        "txx": {"of": "tas", "each": {"day": "max"}, "operators": ["max", "mean"], "windows": ["month", "year"]},
        "rx5day": {
            "of": "u",
            "each": {"window": {"running": {"days": 5}}, "operator": "sum"},
            "operators": ["max", "count"],
            "windows": ["year"],
        },
        "sdii": {
            "of": "tas",
            "each": {"day": "mean"},
            "then": "where(value >= 285, value, nan)",
            "operators": ["mean"],
            "windows": ["run"],
        },
        "weekly": {"of": "v", "each": {"week": "mean"}, "operators": ["max", "count"], "windows": ["month"]},
    },
}
"""Of a stream with two steps a day, for four months."""


def fields(steps):
    random = np.random.default_rng(steps)
    shape = steps, 4, 6
    tas = (280 + 10 * np.sin(np.arange(steps) / 100)[:, None, None] + random.normal(0, 5, shape)).astype("f4")
    tas[random.random(shape) < 0.05] = np.nan
    tas[:, 1, 2] = np.nan
    return {"tas": tas, "u": random.normal(0, 5, shape), "v": random.normal(3, 5, shape)}


def attributes(calendar):
    dims = {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in ("tas", "u", "v")}
    return dims | {
        "time/units": UNITS,
        "time/calendar": calendar,
        "tas/units": "K",
        "tas/standard_name": "air_temperature",
    }


def run_stream(folder, config, steps, hours, calendar):
    """Results of one stream, and the stream itself as a dataset."""
    values, times = fields(steps), float(hours) * np.arange(steps)
    streams.store(folder, values, times, attributes(calendar))
    results = streams.analyse(folder, config, ranks=2, nodes=2)
    dates = cftime.num2date(times, UNITS, calendar)
    return results, xr.Dataset(
        {name: (("time", "lat", "lon"), field) for name, field in values.items()}, {"time": dates}
    )


@pytest.fixture(scope="module", params=["standard", "noleap", "360_day"])
def slow(request, tmp_path_factory):
    return run_stream(tmp_path_factory.mktemp("slow"), SLOW, 300, 120, request.param)


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    return run_stream(tmp_path_factory.mktemp("fast"), FAST, 240, 12, "standard")


def assert_same(result, expected, rtol=1e-6):
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.values.astype("f8"), expected.values.astype("f8"), rtol=rtol)


def assert_resampled(stream, window, frequency):
    results, whole = stream
    grouped = whole.tas.astype("f8").resample(time=frequency)
    assert_same(results[f"tas_{window}_mean"], grouped.mean())
    assert_same(results[f"tas_{window}_max"], grouped.max())
    assert_same(results[f"tas_{window}_std"], grouped.std(ddof=1), 1e-4)
    assert_same(results[f"tas_{window}_count"], grouped.count())
    assert list(results[f"steps_{window}"]) == [len(part.time) for _, part in grouped]


def test_days_are_xarrays(fast):
    assert_resampled(fast, "day", "D")


@pytest.mark.slow
@pytest.mark.parametrize(("window", "frequency"), [("month", "MS"), ("year", "YS")])
def test_months_and_years_are_xarrays_in_every_calendar(slow, window, frequency):
    assert_resampled(slow, window, frequency)


@pytest.mark.slow
def test_a_season_leaves_the_other_months_out(slow):
    results, whole = slow
    winter = whole.tas.astype("f8").sel(time=whole.time.dt.season == "DJF")
    expected = winter.resample(time="QS-DEC").mean()
    assert_same(results["tas_season_djf_mean"], expected.dropna("time", how="all"))


def test_a_climatology_takes_the_same_months_of_all_years(slow):
    results, whole = slow
    expected = whole.tas.astype("f8").groupby("time.month")
    assert_same(results["tas_clim_month_mean"], expected.mean())
    assert_same(results["tas_clim_month_count"], expected.count())


@pytest.mark.slow
def test_a_running_window_ends_with_every_day_that_has_all_before_it(fast):
    results, whole = fast
    steps = whole.tas.astype("f8").rolling(time=10, min_periods=1)
    assert_same(results["tas_running5day_mean"], steps.mean()[9::2], 1e-5)


def test_an_expression_is_computed_step_by_step(slow):
    results, whole = slow
    wind = np.sqrt(whole.u**2 + whole.v**2)
    assert_same(results["wind_month_mean"], wind.resample(time="MS").mean())
    assert_same(results["wind_month_max"], wind.resample(time="MS").max())
    assert results["wind_month_mean"].attrs["standard_name"] == "wind_speed"
    hot = (whole.tas > 285).where(whole.tas.notnull()).resample(time="MS")
    assert_same(results["hot_month_sum"], hot.sum(min_count=1))
    assert_same(results["hot_month_mean"], hot.mean())


@pytest.mark.slow
def test_statistics_of_daily_statistics(fast):
    results, whole = fast
    daily = whole.tas.astype("f8").resample(time="D").max()
    assert_same(results["txx_month_max"], daily.resample(time="MS").max())
    assert_same(results["txx_month_mean"], daily.resample(time="MS").mean())
    assert_same(results["txx_year_mean"], daily.resample(time="YS").mean())


def test_an_expression_of_daily_values_picks_the_days(fast):
    results, whole = fast
    daily = whole.tas.astype("f8").resample(time="D").mean()
    assert_same(results["sdii_run_mean"], daily.where(daily >= 285).mean("time", keepdims=True))


@pytest.mark.slow
def test_running_sums_within_a_year_follow_each_other_across_its_begin(fast):
    results, whole = fast
    days = whole.u.resample(time="D").sum()
    five = days.rolling(time=5).sum()
    assert_same(results["rx5day_year_max"], five.resample(time="YS").max())
    assert_same(results["rx5day_year_count"], five.resample(time="YS").count())


def test_a_week_belongs_to_the_month_in_which_it_ends(fast):
    results, whole = fast
    numbers = [(date - MONDAY).days // 7 for date in whole.time.values]
    weeks = whole.v.assign_coords(week=("time", numbers)).groupby("week")
    last = [part.time.values[-1] for _, part in weeks]
    weekly = weeks.mean().rename(week="time").assign_coords(time=last).resample(time="MS")
    assert_same(results["weekly_month_max"], weekly.max())
    assert_same(results["weekly_month_count"], weekly.count())


NOT_A_TIME = [np.nan, 0.0, np.inf, 9.969209968386869e36, 24.0, -999.0, 1e20]
"""Besides NaN and infinity fill values: netCDF's, one that the stream names, and one that models like."""
LATE = [0.0, 24.0, 48.0, 48.0, 12.0, 72.0, 144.0, 100.0, 168.0]
SKIP = {"time": {"late": "skip"}}


def test_late_steps_are_left_out_and_gaps_are_counted(tmp_path):
    values = {"tas": np.arange(9.0)[:, None, None] * np.ones((9, 2, 3))}
    streams.store(tmp_path, values, LATE, attributes("noleap"))
    results = streams.analyse(tmp_path, {"operators": {"tas": ["mean", "count"]}, "windows": ["run"]} | SKIP)
    assert results["tas_run_count"].values.tolist() == [[[6] * 3] * 2]
    assert results["tas_run_mean"].values.ravel().tolist() == [np.mean([0, 1, 2, 5, 6, 8])] * 6
    assert results["steps_run"].values.tolist() == [6]
    assert results["missing_run"].values.tolist() == [2]
    assert (results.attrs["bbflow_late_steps"], results.attrs["bbflow_missing_steps"]) == (3, 2)


@pytest.mark.parametrize("late", ["incomplete", "skip"])
def test_a_step_whose_time_is_no_date_is_left_out_and_said(tmp_path, late):
    steps = len(NOT_A_TIME)
    values = {"tas": np.arange(float(steps))[:, None, None] * np.ones((steps, 2, 3))}
    streams.store(tmp_path, values, NOT_A_TIME, attributes("standard") | {"time/_FillValue": -999.0})
    config = {"operators": {"tas": ["mean"]}, "windows": ["run"], "time": {"late": late}, "raw": {"variables": ["tas"]}}
    outcome, results = streams.analysed(tmp_path, config)
    assert results["tas_run_mean"].values.ravel().tolist() == [2.5] * 6
    assert (outcome.steps, outcome.late, outcome.complete) == (2, 5, late == "skip")
    assert results.attrs["bbflow_status"] == ("complete" if late == "skip" else "incomplete")
    (said,) = outcome.errors
    assert "5 of 7 steps were left out" in said
    assert "the first is step 0, whose time nan is not a date" in said
    assert ("let the program write" in said) is (late == "incomplete")
    assert results.attrs["bbflow_left_out"] == [said]
    with xr.open_zarr(tmp_path / "out" / "raw.zarr") as raw:
        assert raw.tas[:, 0, 0].values.tolist() == list(range(steps))


def test_one_date_that_is_far_ahead_makes_the_results_incomplete(tmp_path):
    times = np.arange(40.0)
    times[10] = 2921938.0  # 9999-12-31
    values = {"tas": np.arange(40.0)[:, None, None] * np.ones((40, 2, 3))}
    streams.store(tmp_path, values, times, {"time/units": "Days Since 2000-01-01", "time/calendar": "Standard"})
    outcome, results = streams.analysed(tmp_path, {"operators": {"tas": ["count"]}, "windows": ["month"]})
    assert results["tas_month_count"].values[:, 0, 0].tolist() == [10, 1]
    assert [str(time)[:4] for time in results.time_month.values] == ["2000", "9999"]
    assert not outcome.complete
    assert "29 of 40 steps were left out" in outcome.errors[0]
    assert "step 11, whose time 11 follows 2.92194e+06" in outcome.errors[0]
    assert "29 of 40 steps" in read_results(tmp_path / "out" / "results.zarr").notes[0]


def test_a_late_step_may_be_an_error(tmp_path):
    values = {"tas": np.zeros((9, 2, 3))}
    streams.store(tmp_path, values, LATE, attributes("noleap"))
    config = {"operators": {"tas": ["mean"]}, "windows": ["run"], "time": {"late": "error"}}
    with pytest.raises(StreamError, match="step 3 has the time 48, which isn't later"):
        streams.analyse(tmp_path, config)


def test_every_window_that_can_be_named_runs(tmp_path):
    """Those of xarray's groupby give what xarray gives."""
    times = 24.0 * np.array(
        [*range(8), *range(8, 430, 13)]
    )  # the first for running windows, the others for climatologies
    values = np.random.default_rng(3).normal(size=(len(times), 3))
    streams.store(tmp_path, {"v": values}, times, {"time/units": UNITS})
    own = [yaml.safe_load(kind.example or kind.name) for kind in KINDS.values()]
    familiar = [{"groupby": name} for name in GROUPS] + [{"resample": name} for name in EXAMPLES]
    windows = {parse_window(item).name: item for item in own + familiar}
    operators = {"v": {"operators": ["mean", "count"], "windows": list(windows.values())}}
    results = streams.analyse(tmp_path, {"operators": operators})
    assert {name.removeprefix("v_").removesuffix("_mean") for name in results if name.endswith("_mean")} == {*windows}
    of_parts = [name for name in windows if "running" not in name and "season_" not in name]
    assert {int(results[f"v_{name}_count"][:, 0].sum()) for name in of_parts} == {len(times)}
    dates = cftime.num2date(times, UNITS, "standard")
    whole = xr.DataArray(values, {"time": dates}, ("time", "x"), name="v")
    for key in GROUPS:
        theirs = whole.groupby(key).mean()
        ours = results[f"v_{parse_window({'groupby': key}).name}_mean"]
        np.testing.assert_allclose(np.sort(ours.values, axis=0), np.sort(theirs.values, axis=0), rtol=1e-9, err_msg=key)


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize(
    ("resets", "closed", "at_midnight"),
    [
        ("day", "right", "total"),
        ({"day": {"closed": "left"}}, "left", "new"),
        ("day", "right", "zero"),
        ({"steps": 8}, "left", "steps"),
        ({"variable": "start"}, "right", "total"),
        ({"variable": "counter * 2"}, "right", "total"),
    ],
)
def test_sums_begin_anew_with_a_windows_spans_or_a_variables_changes(tmp_path, batch, resets, closed, at_midnight):
    added = (
        np.random.default_rng(batch).normal(size=(3, 8, 4)) * (np.arange(3) % 2)[:, None, None]
    )  # also below 0; dry days
    added[2, 0] = 5  # at once further than the day before
    sums = np.cumsum(added, axis=1)
    hours = np.arange(24) * 3.0 + (3 if at_midnight in ("total", "zero") else 0)
    if at_midnight == "zero":
        added[:, -1] = 0
        sums = np.cumsum(added, axis=1)
        sums[:, -1] = 0
    steps = [
        [("time", time), ("pr", own), ("start", 24.0 * day), ("counter", np.full(4, day))]
        for time, own, day in zip(hours, sums.reshape(24, 4), np.repeat(np.arange(3), 8), strict=True)
    ]
    config = {
        "time": "time",
        "workers": {"processes": 0, "threads": 1, "batch_steps": batch},
        "windows": [{"day": {"closed": closed}}, "run"],
        "operators": {"pr": {"transforms": [{"deaccumulate": {"resets": resets}}], "operators": ["sum"]}},
    }
    ran = run_program(tmp_path, [steps], config, {"time/units": "hours since 2003-01-01"})
    np.testing.assert_allclose(ran.results.pr_day_sum, added.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(ran.results.pr_run_sum[0], added.sum(axis=(0, 1)), atol=1e-12)
