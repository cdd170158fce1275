"""Spaces, transforms, further inputs and users' operators over real streams, against xarray on the whole."""

import cftime
import numpy as np
import pytest
import streams
import xarray as xr

UNITS = "hours since 2001-01-01"
STEPS, LEVELS, LATS, LONS = 90, 2, 6, 8
OWN = '''
"""Operators that a user may write."""


class Hot:
    """Share of the valid values above a limit."""

    units = "1"
    commutes = True

    def map(values, valid, times, limit=285.0):
        return {"hot": (valid & (values > limit)).sum(axis=0), "all": valid.sum(axis=0)}

    def combine(left, right):
        return {name: left[name] + right[name] for name in left}

    def finalize(state):
        return state["hot"] / state["all"]


class Broken(Hot):
    """Fails in the middle of the run."""

    def map(values, valid, times):
        if times[-1] > 400:
            raise ValueError("no more of this")
        return {"hot": valid.sum(axis=0), "all": valid.sum(axis=0)}


class DeadlyEnd(Hot):
    """Takes its process down when it is published."""

    def finalize(state):
        import os
        os.abort()


class Deadly(Hot):
    """Takes its process down in the middle of the run."""

    def map(values, valid, times):
        if times[-1] > 400:
            import os
            os.abort()
        return {"hot": valid.sum(axis=0), "all": valid.sum(axis=0)}
'''

CONFIG = {
    "windows": ["month"],
    "operators": {
        "gtas": {"of": "tas", "space": "fldmean", "operators": ["mean", "max", "std"], "windows": ["day", "month"]},
        "warmest": {"of": "tas", "space": "fldmax", "each": {"day": "max"}, "operators": ["mean"]},
        "zonal": {"of": "tas", "space": "zonmean", "operators": ["mean"]},
        "meridional": {"of": "tas", "space": "mermean", "operators": ["max"]},
        "spread": {"of": "tas", "space": "fldstd", "operators": ["mean"]},
        "middle": {"of": "tas", "space": "fldmedian", "operators": ["mean"]},
        "eddies": {"of": "tas", "space": {"anomaly": ["lon"]}, "operators": ["mean", "std"]},
        "flux": {"of": "tas", "space": {"covariance": {"with": "pr", "over": ["lon"]}}, "operators": ["mean"]},
        "pattern": {
            "of": "tas",
            "space": {"correlation": {"with": "pr", "over": ["lat", "lon"]}},
            "operators": ["mean"],
        },
        "warmest_zone": {"of": "tas", "space": ["zonmean", "mermax"], "operators": ["mean"]},
        "overturning": {"of": "pr", "space": ["zonsum", {"cumsum": "lat"}], "operators": ["mean"]},
        "tropics": {"of": "tas", "space": {"box": {"lat": [-40, 40], "lon": [350, 100]}}, "operators": ["mean"]},
        "land_tas": {"of": "tas", "space": {"mask": "land", "mean": ["lat", "lon"]}, "operators": ["mean"]},
        "ta850": {"of": "ta", "space": {"select": {"plev": [85000]}}, "operators": ["mean"]},
        "coarse": {"of": "tas", "space": {"coarsen": {"lat": 2, "lon": 2}}, "operators": ["mean"]},
        "places": {"of": "tas", "space": {"points": [[-75, 0], [45, 90], [20, 200]]}, "operators": ["mean", "last"]},
        "rain": {"of": "acc", "transforms": ["deaccumulate"], "operators": ["sum"], "windows": ["day", "month"]},
        "tas": {
            "operators": [
                {"covariance": {"with": "pr"}},
                {"correlation": {"with": "pr * 2"}},
                "trend",
                "argmax",
                {"percentiles": {"q": [10, 50], "steps": 128}},
                {"longest_spell": {"above": 280}},
                "own:Hot",
                {"own:Broken": {"name": "broken"}},
                {"own:Deadly": {"name": "deadly"}},
                {"own:DeadlyEnd": {"name": "deadly_end"}},
            ],
        },
        "pr": ["monmean", "yearsum", {"filter": {"above": 3.0, "name": "heavy"}}],
        "heat": {"of": "tas", "operators": ["SU"]},
    },
}


def fields():
    random = np.random.default_rng(3)
    shape = STEPS, LATS, LONS
    tas = random.normal(290, 10, shape).astype("f4")
    tas[random.random(shape) < 0.05] = np.nan
    rain = random.exponential(1, shape)
    lat, lon = np.linspace(-75, 75, LATS), np.arange(LONS) * 360.0 / LONS
    return {
        "tas": tas,
        "pr": random.exponential(1, shape),
        "acc": np.cumsum(rain, axis=0),
        "ta": random.normal(270, 5, (STEPS, LEVELS, LATS, LONS)),
        "land": (random.random((LATS, LONS)) < 0.4).astype("i4"),
        "lat": lat,
        "lon": lon,
        "plev": np.array([85000.0, 50000.0]),
    }


ATTRIBUTES = {
    "time/units": UNITS,
    "time/calendar": "noleap",
    "tas/units": "K",
    "lat/units": "degrees_north",
    "lon/units": "degrees_east",
    "plev/units": "Pa",
    **{f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in ("tas", "pr", "acc", "land")},
    "ta/_ARRAY_DIMENSIONS": ["plev", "lat", "lon"],
    **{f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon", "plev")},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Results of one stream, and the stream itself as a dataset; ranks divide the latitudes."""
    folder = tmp_path_factory.mktemp("space")
    (folder / "own.py").write_text(OWN)
    workers = {"threads": 1}  # a process of its own: an operator aborts it
    return run_stream(folder, fields(), CONFIG | {"workers": workers}, axis=0)


@pytest.fixture(scope="module")
def run_by_longitude(tmp_path_factory):
    """The same for what has a space, with ranks that divide the longitudes."""
    operators = {name: item for name, item in CONFIG["operators"].items() if "space" in item and name != "ta850"}
    values = {name: field for name, field in fields().items() if name != "ta"}  # its levels would be divided
    return run_stream(tmp_path_factory.mktemp("space"), values, CONFIG | {"operators": operators}, axis=1)


@pytest.fixture(params=["run", "run_by_longitude"])
def either_run(request):
    return request.getfixturevalue(request.param)


def run_stream(folder, values, config, axis):
    times, steady = 12.0 * np.arange(STEPS), ("land", "lat", "lon", "plev")
    streams.store(folder, values, times, ATTRIBUTES, steady=steady, axis=axis)
    results = streams.analyse(folder, config, ranks=2, nodes=2, modules=folder)
    dims = {"ta": ("plev", "lat", "lon")}
    whole = xr.Dataset(
        {
            name: (("time", *dims.get(name, ("lat", "lon"))), field)
            for name, field in values.items()
            if name not in steady
        },
        {name: values[name] for name in ("lat", "lon", "plev")}
        | {"time": cftime.num2date(times, UNITS, "noleap"), "land": (("lat", "lon"), values["land"])},
    )
    return results, whole


def assert_same(result, expected, rtol=1e-6):
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.values.astype("f8"), np.asarray(expected, "f8"), rtol=rtol)


def weights(whole):
    edges = np.clip(np.concatenate([[-90], (whole.lat[:-1] + whole.lat[1:].values) / 2, [90]]), -90, 90)
    return xr.DataArray(np.diff(np.sin(np.deg2rad(edges))), {"lat": whole.lat})


def test_a_global_mean_is_one_line_and_joins_the_blocks_of_all_ranks(either_run):
    results, whole = either_run
    series = whole.tas.astype("f8").weighted(weights(whole)).mean(["lat", "lon"])
    assert_same(results["gtas_day_mean"], series.resample(time="D").mean())
    assert_same(results["gtas_month_max"], series.resample(time="MS").max())
    assert_same(results["gtas_month_std"], series.resample(time="MS").std(), 1e-4)
    assert results["gtas_month_mean"].attrs["cell_methods"].startswith("area: mean")
    daily = whole.tas.max(["lat", "lon"]).resample(time="D").max()
    assert_same(results["warmest_month_mean"], daily.resample(time="MS").mean())


def test_zonal_and_meridional_means_are_folded_where_a_rank_has_all_it_takes(either_run):
    results, whole = either_run
    tas = whole.tas.astype("f8")
    assert_same(results["zonal_month_mean"], tas.mean("lon").resample(time="MS").mean())
    assert_same(results["meridional_month_max"], tas.weighted(weights(whole)).mean("lat").resample(time="MS").max())


def test_what_needs_whole_fields_is_made_of_the_blocks_of_all_ranks(either_run):
    results, whole = either_run
    tas, pr = whole.tas.astype("f8"), whole.pr
    monthly = {
        "spread_month_mean": tas.weighted(weights(whole)).std(["lat", "lon"]),
        "middle_month_mean": tas.median(["lat", "lon"]),
        "eddies_month_mean": tas - tas.mean("lon"),
        "warmest_zone_month_mean": tas.mean("lon").max("lat"),
        "overturning_month_mean": pr.sum("lon").cumsum("lat"),
    }
    for name, series in monthly.items():
        assert_same(results[name], series.resample(time="MS").mean())
    first, second = (own.where(tas.notnull()) for own in (tas, pr))
    flux = (first - first.mean("lon")) * (second - second.mean("lon"))
    assert_same(results["flux_month_mean"], flux.mean("lon").resample(time="MS").mean(), 1e-5)
    pattern = xr.corr(first, second, ["lat", "lon"], weights=weights(whole) * xr.ones_like(whole.lon))
    assert_same(results["pattern_month_mean"], pattern.resample(time="MS").mean(), 1e-4)
    assert_same(results["eddies_month_std"], (tas - tas.mean("lon")).resample(time="MS").std(), 1e-4)


@pytest.mark.slow
def test_a_box_a_mask_levels_points_and_coarse_cells(either_run):
    results, whole = either_run
    tas = whole.tas.astype("f8")
    box = tas.sel(lat=slice(-40, 40))
    box = xr.concat([box.sel(lon=slice(350, 360)), box.sel(lon=slice(0, 100))], "lon")
    assert_same(results["tropics_month_mean"], box.resample(time="MS").mean())
    land = tas.where(whole.land > 0).weighted(weights(whole)).mean(["lat", "lon"])
    assert_same(results["land_tas_month_mean"], land.resample(time="MS").mean())
    places = [tas.sel(lat=lat, lon=lon, method="nearest") for lat, lon in [(-75, 0), (45, 90), (20, 200)]]
    assert_same(results["places_month_mean"], xr.concat(places, "point").T.resample(time="MS").mean())
    if "ta" in whole:
        assert_same(results["ta850_month_mean"], whole.ta.sel(plev=[85000]).resample(time="MS").mean())
    coarse = tas.weighted(weights(whole)).mean
    assert coarse
    assert results["coarse_month_mean"].shape == (len(results.time_month), LATS // 2, LONS // 2)


def test_transforms_go_through_the_steps_in_order(run):
    results, whole = run
    rain = whole.acc.diff("time", label="upper")
    rain = xr.concat([whole.acc[:1], rain], "time")
    assert_same(results["rain_day_sum"], rain.resample(time="D").sum())
    assert_same(results["rain_month_sum"], rain.resample(time="MS").sum())


def test_operators_of_two_inputs_of_time_and_of_order(run):
    results, whole = run
    months = whole.astype("f8").assign_coords(number=("time", 12.0 * np.arange(STEPS))).groupby("time.month")
    parts = [part for _, part in months]
    for at, part in enumerate(parts):
        month = results.isel(time_month=at)
        assert_same(month["tas_month_covariance"], xr.cov(part.tas, part.pr, "time", ddof=0))
        assert_same(month["tas_month_correlation"], xr.corr(part.tas, part.pr, "time"))
        hours = part.tas.assign_coords(time=part.number.values)
        fit = hours.polyfit("time", 1).polyfit_coefficients.sel(degree=1)
        np.testing.assert_allclose(month["tas_month_trend"], fit, rtol=1e-5, atol=1e-8)
        runs = (part.tas > 280).values
        longest = [
            max(len(run) for run in "".join("x" if hot else " " for hot in column).split(" "))
            for column in runs.reshape(len(runs), -1).T
        ]
        assert month["tas_month_longest_spell"].values.ravel().tolist() == longest


def test_percentiles_of_few_steps_are_exact(run):
    results, whole = run
    for q in (10, 50):
        expected = whole.tas.resample(time="MS").map(
            lambda part, q=q: part.quantile(q / 100, "time", method="inverted_cdf").drop_vars("quantile")
        )
        assert_same(results[f"tas_month_p{q}"], expected)


@pytest.mark.slow
def test_names_that_people_know_mean_the_same(run):
    results, whole = run
    assert_same(results["pr_month_mean"], whole.pr.resample(time="MS").mean())
    assert_same(results["pr_year_sum"], whole.pr.resample(time="YS").sum())
    summer = whole.tas.resample(time="D").max() > 298.15
    assert_same(results["heat_year_SU"], summer.sum("time", keepdims=True))


def test_a_users_operator_counts_and_its_failure_is_its_own(run):
    results, whole = run
    hot = (whole.tas > 285).where(whole.tas.notnull()).resample(time="MS").mean()
    assert_same(results["tas_month_Hot"], hot)
    for name, says in (("broken", "ValueError: no more of this"), ("deadly", "SIGABRT"), ("deadly_end", "SIGABRT")):
        result = results[f"tas_month_{name}"]
        assert says in result.attrs["bbflow_error"]
        assert result.isnull().all()
    assert "bbflow_error" not in results["tas_month_Hot"].attrs
