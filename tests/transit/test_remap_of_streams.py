"""Fields on other grids over real streams, of which ranks and nodes have parts, against the product of the whole."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.config import parse_config
from bbflow.errors import ConfigError

STEPS, LEVELS, LATS, LONS = 40, 2, 6, 8
LAT, LON = np.linspace(-75, 75, LATS), np.arange(LONS) * 45.0
TARGET = (3, 4)
ATTRIBUTES = {
    "time/units": "hours since 2001-01-01",
    "time/calendar": "noleap",
    "tas/units": "K",
    "tas/standard_name": "air_temperature",
    "ta/units": "K",
    "lat/units": "degrees_north",
    "lon/units": "degrees_east",
    "plev/units": "Pa",
    "tas/_ARRAY_DIMENSIONS": ["lat", "lon"],
    "ta/_ARRAY_DIMENSIONS": ["plev", "lat", "lon"],
    **{f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon", "plev")},
}


def matrix():
    """Means of two by two points."""
    found = np.zeros((12, 48))
    for row in range(LATS):
        for column in range(LONS):
            found[row // 2 * 4 + column // 2, row * LONS + column] = 0.25
    return found


def weights_file(path):
    rows, columns = np.nonzero(matrix())
    lat, lon = (item.reshape(-1) for item in np.meshgrid(LAT, LON, indexing="ij"))
    new_lat, new_lon = (
        item.reshape(-1) for item in np.meshgrid([-60.0, 0, 60], [22.5, 112.5, 202.5, 292.5], indexing="ij")
    )
    data = {
        "src_grid_dims": ("rank", np.array([LONS, LATS])),
        "dst_grid_dims": ("rank", np.array(TARGET[::-1])),
        "yc_a": ("n_a", lat, {"units": "degrees"}),
        "xc_a": ("n_a", lon, {"units": "degrees"}),
        "yc_b": ("n_b", new_lat, {"units": "degrees"}),
        "xc_b": ("n_b", new_lon, {"units": "degrees"}),
        "area_b": ("n_b", np.full(12, 4 * np.pi / 12)),
        "col": ("n_s", columns + 1),
        "row": ("n_s", rows + 1),
        "S": ("n_s", matrix()[rows, columns]),
    }
    xr.Dataset(data, attrs={"map_method": "Conservative remapping"}).to_netcdf(path)
    return str(path)


def fields():
    random = np.random.default_rng(3)
    tas = random.normal(290, 10, (STEPS, LATS, LONS)).astype("f4")
    tas[random.random(tas.shape) < 0.2] = np.nan
    ta = random.normal(270, 5, (STEPS, LEVELS, LATS, LONS))
    return {"tas": tas, "ta": ta, "lat": LAT, "lon": LON, "plev": np.array([85000.0, 50000.0])}


def product(values):
    valid = np.isfinite(values)
    flat = np.where(valid, values, 0).reshape(*values.shape[:-2], -1) @ matrix().T
    with np.errstate(invalid="ignore"):
        found = flat / (valid.reshape(*values.shape[:-2], -1).astype("f8") @ matrix().T)
    return found.reshape(*values.shape[:-2], *TARGET)


@pytest.fixture(scope="module", params=["latitudes", "longitudes"])
def run(request, tmp_path_factory):
    """Results of a stream whose two ranks, on two nodes, divide one of the dimensions."""
    folder, axis = tmp_path_factory.mktemp("remap"), ["latitudes", "longitudes"].index(request.param)
    remap = {"remapcon": weights_file(folder / "weights.nc")}
    operators = {
        "coarse": {"of": "tas", "space": remap, "operators": ["mean", "max"], "windows": ["day", "run"]},
        "warm": {"of": "tas > 290", "space": [remap, "fldmean"], "operators": ["mean"], "windows": ["run"]},
        "tas": {"operators": ["mean"], "windows": ["run"]},
        "pixels": {"of": "tas", "space": {"healpix": {"zoom": 1}}, "operators": ["min"], "windows": ["run"]},
    }
    values = fields()
    if axis == 0:  # else its levels would be divided, or its latitudes
        operators["upper"] = {
            "of": "ta",
            "space": [{"levels": [50000]}, remap],
            "operators": ["mean"],
            "windows": ["run"],
        }
    else:
        del values["ta"]
    streams.store(folder, values, 6.0 * np.arange(STEPS), ATTRIBUTES, steady=("lat", "lon", "plev"), axis=axis)
    return streams.analyse(folder, {"windows": ["run"], "operators": operators}, ranks=2, nodes=2), values


def test_statistics_over_time_are_those_of_the_remapped_steps(run):
    results, values = run
    wanted = product(values["tas"].astype("f8"))
    np.testing.assert_allclose(results["coarse_run_mean"][0], np.nanmean(wanted, axis=0), rtol=1e-12)
    np.testing.assert_allclose(results["coarse_run_max"][0], np.nanmax(wanted, axis=0), rtol=1e-12)
    daily = wanted.reshape(-1, 4, *TARGET)
    np.testing.assert_allclose(results["coarse_day_max"], np.nanmax(daily, axis=1), rtol=1e-12)


def test_expressions_come_before_and_reductions_after(run):
    results, values = run
    tas = values["tas"]
    wanted = product(np.where(np.isnan(tas), np.nan, tas > 290)).astype("f8")
    shares = np.diff(np.sin(np.deg2rad([-90, -30, 30, 90])))
    valid = np.isfinite(wanted)
    means = (np.where(valid, wanted, 0) * shares[:, np.newaxis]).sum((1, 2)) / (valid * shares[:, np.newaxis]).sum(
        (1, 2)
    )
    np.testing.assert_allclose(results["warm_run_mean"][0], means.mean(), rtol=1e-12)


def test_levels_are_chosen_before(run):
    results, values = run
    if "ta" in values:
        wanted = product(values["ta"])[:, 1:].mean(axis=0)
        np.testing.assert_allclose(results["upper_run_mean"][0], wanted, rtol=1e-12)


def test_the_result_has_the_targets_coordinates_with_bounds_and_areas(run):
    results, _ = run
    coarse = results["coarse_run_mean"]
    assert coarse.dims == ("time_run", "coarse_lat", "coarse_lon")
    assert coarse.attrs["cell_measures"] == "area: coarse_cell_area"
    assert coarse.attrs["cell_methods"] == "area: mean time: mean"
    assert coarse.attrs["standard_name"] == "air_temperature"
    assert results["coarse_lat"].attrs["units"] == "degrees_north"
    assert results["coarse_lat"].attrs["bounds"] == "coarse_lat_bnds"
    np.testing.assert_allclose(results["coarse_lat_bnds"], [[-90, -30], [-30, 30], [30, 90]])
    np.testing.assert_allclose(results["coarse_cell_area"].sum(), 4 * np.pi * 6371000.0**2)


def test_healpix_has_its_grid_mapping(run):
    results, values = run
    pixels = results["pixels_run_min"]
    assert pixels.dims == ("time_run", "pixels_cell")
    crs = results[pixels.attrs["grid_mapping"]].attrs
    assert crs == {"grid_mapping_name": "healpix", "refinement_level": 1, "indexing_scheme": "nested"}
    assert np.isin(pixels.values, np.nanmin(values["tas"], axis=0)).all()


@pytest.mark.parametrize("missing", ["nothing", "always", "sometimes"])
def test_results_that_are_remapped_are_those_of_remapped_steps_to_thirteen_digits(tmp_path, missing):
    weights, values = weights_file(tmp_path / "weights.nc"), fields()
    values["tas"] = np.random.default_rng(5).normal(290, 10, (STEPS, LATS, LONS)).astype("f4")
    del values["ta"]
    if missing == "always":
        values["tas"][:, 1:4, 2:5] = np.nan
    elif missing == "sometimes":
        values["tas"][3, 0, 0] = np.nan
    each = {"remapcon": {"weights": weights}}
    late = {"remapcon": {"weights": weights, "late": True}}
    operators = {
        "each": {"of": "tas", "space": each, "operators": ["mean", "sum"]},
        "late": {"of": "tas", "space": late, "operators": ["mean", "sum"]},
        "fine": {"of": "tas", "space": {"healpix": {"zoom": 1, "late": True}, "pyramid": True}, "operators": ["mean"]},
    }
    streams.store(tmp_path, values, 6.0 * np.arange(STEPS), ATTRIBUTES, steady=("lat", "lon", "plev"))
    config = {"windows": ["day", "run"], "operators": operators}
    outcome, results = streams.analysed(tmp_path, config, ranks=2, nodes=2)
    assert outcome.complete == (missing != "sometimes")
    for name in ("day_mean", "day_sum", "run_mean", "run_sum"):
        one, other = results[f"each_{name}"], results[f"late_{name}"]
        assert one.dtype == other.dtype
        if missing == "sometimes" and name != "day_mean":
            continue
        held = slice(1 if missing == "sometimes" else 0, None)
        np.testing.assert_allclose(other[held], one[held], rtol=1e-13)
        assert np.isfinite(one[held]).any()
    if missing == "sometimes":
        assert np.isnan(results["late_day_mean"][0]).all()
        assert np.isnan(results["late_run_sum"]).all()
        [error] = [text for text in outcome.errors if text.startswith("operators of late:")]
        assert "values were missing at some steps only" in error
        assert results["late_run_sum"].attrs["bbflow_error"] == error
        assert results.attrs["bbflow_status"] == "incomplete"
        assert results.attrs["bbflow_failure"].startswith(error)
    np.testing.assert_array_equal(results["late_lat"], results["each_lat"])
    assert (tmp_path / "out" / "pyramids" / "run_hp1.zarr").exists()


@pytest.mark.parametrize(("more", "says"), [
    ({"operators": ["mean", "max"]}, "max of remapped steps isn't"),
    ({"operators": ["mean"], "each": {"day": "max"}}, "each needs each step's remapped field"),
    ({"operators": ["mean"], "space": [{"remapnn": {"grid": "r4x2", "late": True}}, "fldmean"]}, "another part of"),
])  # fmt: skip
def test_what_needs_each_step_is_not_remapped_late(more, says):
    diagnostic = {"of": "tas", "space": {"remapnn": {"grid": "r4x2", "late": True}}} | more
    with pytest.raises(ConfigError, match=says):
        parse_config({"stream": "s", "operators": {"late": diagnostic}})
