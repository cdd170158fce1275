"""What the results say of themselves, in Zarr and in NetCDF, of many operators, windows and spaces at once."""

import shutil
import subprocess
import sys

import cftime
import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.host.belongings import MARK, claim
from bbflow.report.writing import write_report
from bbflow.transit.output.claiming import written
from bbflow.transit.output.netcdf import check_netcdf, write_netcdf

STEADY = {
    "lat": np.array([-60.0, -20.0, 20.0, 60.0]),
    "lon": np.arange(6) * 60.0,
    "lat_bnds": np.array([-60.0, -20.0, 20.0, 60.0])[:, None] + [-20.0, 20.0],
    "lon_bnds": np.arange(6)[:, None] * 60.0 + [-30.0, 30.0],
    "slope": np.arange(24.0).reshape(4, 6),
}
DIMS = {
    "tas": "lat lon",
    "slope": "lat lon",
    "pr": "lat lon",
    "bare": "lat lon",
    "lat_bnds": "lat bnds",
    "lon_bnds": "lon bnds",
}
ATTRIBUTES = {
    "institution": "a weather service",
    "history": "made up",
    "time/units": "days since 2000-11-15",
    "time/calendar": "noleap",
    "lat/units": "degrees_north",
    "lat/standard_name": "latitude",
    "lat/bounds": "lat_bnds",
    "lon/units": "degrees_east",
    "lon/standard_name": "longitude",
    "lon/bounds": "lon_bnds",
    "tas/units": "K",
    "tas/standard_name": "air_temperature",
    "tas/cell_methods": "time: point",
    "tas/cell_measures": "area: areacella",
    "tas/coordinates": "slope height",
    "tas/valid_min": 0.0,
    "pr/units": "kg m-2 s-1",
    "pr/standard_name": "precipitation_flux",
    **{f"{name}/_ARRAY_DIMENSIONS": dims for name, dims in DIMS.items()},
}
CONFIG = {
    "windows": ["month", "run"],
    "netcdf": True,
    "operators": {
        "tas": {
            "operators": [
                "mean", "var", "std", "count", "argmin", "median", {"percentiles": {"q": [90]}},
                {"histogram": {"edges": [250, 280, 290, 310]}}, {"covariance": {"with": "pr"}}, "trend",
                {"exceedance": {"above": 285}},
            ],
            "windows": ["month", "run", "clim_month", "season"],
        },
        "pr": ["sum"],
        "bare": ["mean"],
        "global_tas": {"of": "tas", "space": "fldmean", "operators": ["mean"], "windows": ["day", "month"]},
        "zonal_tas": {"of": "tas", "space": "zonmean", "operators": ["mean"]},
        "stations": {"of": "tas", "space": {"points": [[52.5, 13.4], [-33.9, 151.2]]}, "operators": ["mean"]},
        "coarse": {"of": "tas", "space": {"coarsen": {"lat": 2, "lon": 2}}, "operators": ["mean"]},
        "total": {"of": "pr", "space": "fldint", "operators": ["mean"]},
        "txx": {"of": "tas", "each": {"day": "max"}, "operators": ["mean"], "windows": ["month"]},
        "seen": {"of": "tas", "each": {"day": "count"}, "operators": ["mean"], "windows": ["month"]},
    },
}  # fmt: skip
STEPS, DAYS = 30, 14.0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The published results, and the run's directory."""
    folder = tmp_path_factory.mktemp("output")
    random = np.random.default_rng(4)
    tas = random.normal(285, 8, (STEPS, 4, 6)).astype("f4")
    tas[:, 0, 0] = np.nan
    fields = {"tas": tas, "pr": random.random(tas.shape), "bare": random.random(tas.shape), **STEADY}
    streams.store(folder, fields, DAYS * np.arange(STEPS), ATTRIBUTES, steady=STEADY)
    return streams.analyse(folder, CONFIG), folder / "out"


@pytest.fixture(scope="module")
def results(run):
    return run[0]


def netcdf(run, window, **options):
    with xr.open_dataset(run[1] / f"results_{window}.nc", engine="netcdf4", **options) as dataset:
        return dataset.load()


@pytest.mark.parametrize(
    ("name", "said"),
    {
        "tas_month_mean": ("K", "air_temperature", "time: mean"),
        "tas_month_var": ("(K)2", "air_temperature", "time: variance"),
        "tas_month_std": ("K", "air_temperature", "time: standard_deviation"),
        "tas_month_count": ("1", "number_of_observations", "time: sum (of 1 for each valid value)"),
        "tas_month_p90": ("K", "air_temperature", "time: point (90 percent quantile by nearest rank)"),
        "tas_month_covariance": ("(K) (kg m-2 s-1)", None, "time: mean (of the product of anomalies)"),
        "tas_month_trend": ("(K)/(days)", None, "time: mean (slope of the least-squares line over time)"),
        "tas_month_exceedance": ("1", None, "time: sum (of 1 for each value above 285)"),
        "tas_clim_month_mean": ("K", "air_temperature", "time: mean within years time: mean over years"),
        "tas_season_mean": ("K", "air_temperature", "time: mean"),
        "pr_run_sum": ("kg m-2 s-1", "precipitation_flux", "time: sum"),
        "bare_run_mean": (None, None, "time: mean"),
        "global_tas_day_mean": ("K", "air_temperature", "area: mean time: mean"),
        "zonal_tas_month_mean": ("K", "air_temperature", "longitude: mean time: mean"),
        "coarse_month_mean": ("K", "air_temperature", "area: mean time: mean"),
        "total_month_mean": ("kg m-2 s-1 m2", None, "area: sum time: mean"),
        "txx_month_mean": ("K", "air_temperature", "time: maximum (in each day) time: mean"),
        "seen_month_mean": ("1", "number_of_observations",
                            "time: sum (of 1 for each valid value, in each day) time: mean"),
    }.items(),
)  # fmt: skip
def test_units_names_and_cell_methods_say_what_a_result_is(results, name, said):
    own = results[name].attrs
    assert (own.get("units"), own.get("standard_name"), own["cell_methods"]) == said
    assert not {"valid_min", "cell_measures"} & set(own)


def test_a_statistic_of_dates_is_a_date_or_a_time_between_two(tmp_path):
    told = {
        "time/units": "days since 2001-01-01",
        "ripe/units": "days since 2000-01-01",
        "ripe/calendar": "standard",
        "on/dtype": "bool",
    }
    values = np.arange(4.0)[:, None] * [1, 10]
    streams.store(tmp_path, {"ripe": values, "on": (values > 0).astype("i1")}, np.arange(4), told)
    names = ("mean", "first", "std", "var", "range", "sum", "count", "trend")
    operators = [*names, {"covariance": {"with": "ripe"}}]
    config = {"windows": ["run"], "operators": {"ripe": operators, "on": ["mean", "sum"]}}
    results = streams.analyse(tmp_path, config)
    dates = np.array([["2000-01-02T12", "2000-01-16"]], "M8[ns]")
    np.testing.assert_array_equal(results.ripe_run_mean.values, dates)
    assert results.on_run_mean.values.ravel().tolist() == [0.75, 0.75]
    with xr.open_zarr(tmp_path / "out" / "results.zarr", decode_cf=False) as raw:
        units = {name: raw[f"ripe_run_{name}"].attrs["units"] for name in names}
        assert {units.pop(name) for name in ("mean", "first")} == {told["ripe/units"]}
        assert {units.pop(name) for name in ("std", "range", "sum")} == {"days"}
        assert units == {"trend": "(days)/(days)", "var": "(days)2", "count": "1"}
        assert raw.ripe_run_covariance.attrs["units"] == "(days) (days)"
        assert "calendar" not in raw.ripe_run_count.attrs


def test_a_temperature_is_told_from_a_difference_of_two(results):
    told = {name: results[f"tas_month_{name}"].attrs.get("units_metadata") for name in ("mean", "std", "count")}
    assert told == {"mean": "temperature: on_scale", "std": "temperature: difference", "count": None}


def test_a_time_has_the_streams_calendar_and_is_missing_where_there_is_none(results):
    when = results.tas_month_argmin
    assert (when.attrs["calendar"], when.attrs["standard_name"]) == ("noleap", "time")
    assert when.attrs["units"] == ATTRIBUTES["time/units"]
    assert np.isnan(when[:, 0, 0]).all()
    inside = when[:, 1, 1] - cftime.date2num(results.time_month_bnds[:, 0], when.attrs["units"], "noleap")
    assert ((inside >= 0) & (inside < 31)).all()


def test_everything_that_is_named_is_there(run):
    stores = [xr.open_zarr(run[1] / "results.zarr", decode_cf=False)]
    stores += [xr.open_dataset(path, decode_cf=False) for path in sorted(run[1].glob("results_*.nc"))]
    assert len(stores) == 6
    for dataset in stores:
        for name, variable in dataset.variables.items():
            for key in ("bounds", "climatology", "coordinates", "cell_measures"):
                named = variable.attrs.get(key, "").split()
                assert set(named) <= set(dataset.variables), (name, key)
        assert dataset.attrs["Conventions"] == "CF-1.11"
        assert dataset.attrs["history"].endswith("bbflow: statistics of stream fields, while it was written\nmade up")
        assert {"title", "source", "institution"} < set(dataset.attrs)
        dataset.close()


def test_coordinates_keep_their_bounds_and_get_new_ones(results):
    for name in ("lat", "lon", "coarse_lat", "coarse_lon", "tas_histogram_bin"):
        bounds = results[results[name].attrs["bounds"]]
        assert ((bounds[:, 0] < results[name]) & (results[name] < bounds[:, 1])).all()
    assert results.tas_histogram_bin.attrs["units"] == "K"
    assert list(results.stations_month_mean.stations_lat) == [60, -20]


def test_an_auxiliary_coordinate_stays_with_the_fields_that_have_its_dimensions(results):
    np.testing.assert_array_equal(results.tas_month_mean.slope, STEADY["slope"])
    assert "slope" not in results.global_tas_month_mean.coords


def test_a_climatology_ascends_from_january_also_if_the_stream_began_in_november(results):
    times = results.time_clim_month
    assert [date.month for date in times.values] == list(range(1, 13))
    assert times.to_index().is_monotonic_increasing
    assert times.attrs["climatology"] == "time_clim_month_bnds"
    first, last = results.time_clim_month_bnds.values[10]
    assert (str(first)[:10], str(last)[:10]) == ("2000-11-01", "2001-12-01")


@pytest.mark.parametrize("window", ["day", "month", "run", "clim_month", "season"])
def test_each_window_is_a_netcdf_file_with_the_same_values(run, window):
    own = netcdf(run, window, decode_times=False)
    names = [name for name in own if own[name].attrs.get("bbflow_window") == window]
    with xr.open_zarr(run[1] / "results.zarr", decode_cf=False) as stored:
        assert set(names) == {name for name in stored if stored[name].attrs.get("bbflow_window") == window}
        for name in names:
            np.testing.assert_array_equal(own[name], stored[name])
            assert own[name].dtype == stored[name].dtype
    assert own.encoding["unlimited_dims"] == {"time"}
    assert np.isnan(own[names[0]].encoding["_FillValue"])
    with xr.open_dataset(run[1] / f"results_{window}.nc", decode_times={"tas_" + window + "_argmin": False}) as read:
        assert read.time.dtype.kind == "O"


@pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed")
def test_cdo_reads_the_files(run, tmp_path):
    def cdo(*arguments):
        return subprocess.run(["cdo", "-s", *arguments], check=True, capture_output=True, text=True).stdout

    for path in sorted(run[1].glob("results_*.nc")):
        cdo("sinfo", str(path))
    assert cdo("showtimestamp", str(run[1] / "results_clim_month.nc")).split()[0] == "2001-01-16T12:00:00"
    mean = tmp_path / "mean.nc"
    cdo("zonmean", "-selname,tas_month_mean", str(run[1] / "results_month.nc"), str(mean))
    with xr.open_dataset(mean) as found:
        own = netcdf(run, "month", decode_times={"tas_month_argmin": False}).tas_month_mean
        np.testing.assert_allclose(found.tas_month_mean.squeeze(), own.mean("lon"), rtol=1e-12)


@pytest.mark.slow
def test_the_report_draws_every_window_and_shape(run):
    text = write_report(run[1]).read_text()
    pictures = {path.name for path in (run[1] / "figures").iterdir()}
    series = {f"series{window}.png" for window in ("", "_day", "_clim_month", "_season")}
    assert series < pictures
    assert {"maps_tas.png", "maps_zonal_tas.png", "maps_coarse.png"} < pictures
    assert "maps_stations.png" not in pictures
    assert "Of a list of points, each is drawn." in text
    assert "can&#39;t be read" not in text


def test_what_a_crash_left_of_a_file_goes_when_it_is_written_anew(run, tmp_path):
    shutil.copytree(run[1] / "results.zarr", tmp_path / "results.zarr")
    claim(tmp_path, *written("results_month.nc"))
    (tmp_path / ".results_month.nc.1").write_bytes(b"half a file")
    (tmp_path / "results_month.nc").write_bytes(b"an old one")
    files = write_netcdf(tmp_path / "results.zarr")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / MARK, tmp_path / "results.zarr", *files])
    with xr.open_dataset(tmp_path / "results_month.nc", decode_times=False) as found:
        assert "tas_month_mean" in found


def test_netcdf_is_no_word_but_yes_or_no():
    with pytest.raises(ConfigError, match="netcdf"):
        parse_config({"stream": "s", "operators": {"a": ["mean"]}, "netcdf": "netcdf4"})


def test_netcdf_without_its_library_is_an_error_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "netCDF4", None)
    with pytest.raises(ConfigError, match=r"pip install 'bbflow\[netcdf\]'"):
        check_netcdf()
