"""Fields on other grids over real streams, of which ranks and nodes have parts, against the product of the whole."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps
from bbflow.transit.folding import bookkeeping

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


def basins_file(path):
    """The south and the north, of which the first has no cell of the second's."""
    numbers = np.repeat([5, 5, 5, 7, 7, 7], LONS).reshape(LATS, LONS).astype("i4")
    names = {"flag_values": np.array([7, 5], "i4"), "flag_meanings": "north south"}
    coordinates = {"lat": ("lat", LAT, {"units": "degrees_north"}), "lon": ("lon", LON, {"units": "degrees_east"})}
    xr.Dataset({"basin": (("lat", "lon"), numbers, names)}, coordinates).to_netcdf(path)
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
        "basins": {"of": "tas", "space": {"regions": basins_file(folder / "basins.nc")}, "operators": ["mean"]},
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


def test_regions_of_a_file_are_a_dimension_with_their_names(run):
    results, values = run
    tas, shares = values["tas"].astype("f8"), np.abs(np.diff(np.sin(np.deg2rad(np.linspace(-90, 90, LATS + 1)))))
    weights = np.where(np.isnan(tas), 0, shares[:, np.newaxis])
    halves = [
        np.nansum((tas * weights)[:, half], axis=(1, 2)) / weights[:, half].sum((1, 2))
        for half in (slice(3, None), slice(3))
    ]
    assert list(results["basins_region"].values) == ["north", "south"]
    assert results["basins_region"].attrs["standard_name"] == "region"
    np.testing.assert_allclose(results["basins_run_mean"][0], np.mean(halves, axis=1), rtol=1e-12)


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


def test_the_mean_of_steps_is_remapped_for_each_of_them_to_thirteen_digits(tmp_path):
    """Ranks have parts of a plane, and values come and go in one only; beside an extreme, each step is remapped."""
    random, shape = np.random.default_rng(5), (STEPS, LATS, LONS)
    values = {name: random.normal(290, 10, shape).astype("f4") for name in ("whole", "masked", "moving", "infinite")}
    values["masked"][:, 1:4, 2:5] = np.nan
    values["moving"][3, 0, 0] = np.nan
    values["moving"][20:31:2, 5, 7] = np.nan
    values["infinite"][9, 3, 3] = np.inf
    remap = {"remapcon": {"weights": weights_file(tmp_path / "weights.nc"), "area_min": 0.4}}
    means, operators = (
        ["mean", "sum", "count"],
        {"largest": {"of": "whole", "each": {"day": "mean"}, "operators": ["max"]}},
    )
    for name in values:
        operators[name] = {"operators": means}
        operators[f"{name}_single"] = {"of": name, "operators": [*means, "max"]}
    attributes = ATTRIBUTES | {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in values}
    config = {
        "windows": ["day", "run"],
        "operators": {name: {"space": remap, **own} for name, own in operators.items()},
    }
    config["operators"]["fine"] = {"of": "whole", "space": {"healpix": 1, "pyramid": True}, "operators": ["mean"]}
    steady = {"lat": LAT, "lon": LON}
    streams.store(tmp_path, values | steady, 6.0 * np.arange(STEPS), attributes, steady=tuple(steady))
    outcome, results = streams.analysed(tmp_path, config, ranks=2, nodes=2)
    assert outcome.complete
    for name in (f"{name}_{window}_{operator}" for name in values for window in ("day", "run") for operator in means):
        one, other = results[name.replace("_", "_single_", 1)], results[name]
        assert one.dtype == other.dtype
        np.testing.assert_allclose(other, one, rtol=1e-13, err_msg=name)
        assert np.isfinite(one).any()
    np.testing.assert_allclose(results["largest_run_max"][0], results["whole_day_mean"].max("time_day"), rtol=1e-13)
    assert (tmp_path / "out" / "pyramids" / "run_hp1.zarr").exists()


def test_steps_are_folded_as_their_mean_until_values_come_and_go(tmp_path, monkeypatch):
    """Then each is, and the batch in which that is noticed is folded once more."""
    weights, values = weights_file(tmp_path / "weights.nc"), {"lat": LAT, "lon": LON}
    values["tas"] = np.random.default_rng(5).normal(290, 10, (STEPS, LATS, LONS)).astype("f4")
    values["tas"][21, 0, 0] = np.nan
    seen, join = [], bookkeeping.join_partials

    def joined(partials, *more):
        seen.append({(len(part.numbers), len(part.values)) for part in partials})
        return join(partials, *more)

    monkeypatch.setattr(bookkeeping, "join_partials", joined)
    streams.store(tmp_path, values, 6.0 * np.arange(STEPS), ATTRIBUTES, steady=("lat", "lon"))
    operators = {"means": {"of": "tas", "space": {"remapcon": weights}, "operators": ["mean"]}}
    config = {"windows": ["day"], "operators": operators}
    outcome, results = streams.analysed(tmp_path, config, ranks=2, nodes=2)
    assert outcome.complete
    sizes = [size for [size] in seen]
    noticed = next(at for at, (steps, parts) in enumerate(sizes) if parts > 1)
    assert (4, 1) in sizes[:noticed]
    assert all(parts == steps for steps, parts in sizes[noticed:])
    wanted = product(values["tas"].astype("f8")).reshape(-1, 4, *TARGET).mean(axis=1)
    np.testing.assert_allclose(results["means_day_mean"], wanted, rtol=1e-13)


def test_whole_fields_of_two_ranks_are_remapped_step_by_step(tmp_path):
    """Where values have gradients, and where the one with most of a cell counts, which no mean of steps tells."""
    random, shape = np.random.default_rng(6), (STEPS, LATS, LONS)
    values = {"smooth": random.normal(290, 10, shape).astype("f4"), "kinds": random.integers(0, 3, shape).astype("f4")}
    values["smooth"][20:31:2, 5, 7] = np.nan
    spaces = {"smooth": {"remapbic": "r12x6"}, "kinds": {"remaplaf": "r4x3"}}
    config = {
        "windows": ["day", "run"],
        "operators": {
            **{name: {"space": item, "operators": ["mean", "max", "count"]} for name, item in spaces.items()},
            "pixels": {"of": "kinds", "space": [{"remaplaf": "hpz0"}, "fldmax"], "operators": ["max"]},
        },
    }
    attributes = ATTRIBUTES | {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in values}
    steady = {"lat": LAT, "lon": LON}
    streams.store(tmp_path, values | steady, 6.0 * np.arange(STEPS), attributes, steady=tuple(steady))
    outcome, results = streams.analysed(tmp_path, config, ranks=2, nodes=2)
    assert outcome.complete
    for name, item in spaces.items():
        placement = place_space(
            parse_space(item), ("lat", "lon"), shape[1:], steady, {}.__getitem__,
            {own: {"units": ATTRIBUTES[f"{own}/units"]} for own in steady},
        )  # fmt: skip
        local = placement.local((0, 0), shape[1:])
        parts = local.partial(Steps(list(values[name].reshape(STEPS, -1))))
        steps = placement.finish(placement.assemble(STEPS, [(local, parts)])).reshape(STEPS, *placement.shape)
        counts = np.isfinite(steps).sum(axis=0)
        np.testing.assert_array_equal(results[f"{name}_run_count"][0], counts)
        np.testing.assert_allclose(results[f"{name}_run_mean"][0], np.nansum(steps, axis=0) / counts, rtol=1e-9)
        np.testing.assert_allclose(results[f"{name}_run_max"][0], np.nanmax(steps, axis=0), rtol=1e-12)
        assert results[f"{name}_run_mean"].dims[1:] == results[f"{name}_day_mean"].dims[1:]
        assert counts.min() > 0
    assert results["kinds_day_mean"].attrs["cell_methods"].startswith("area: mode")
    assert results["pixels_run_max"].values.item() == 2
