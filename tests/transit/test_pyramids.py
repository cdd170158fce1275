"""Pyramids of results: each cell the mean of what is valid in four, in stores that readers of such grids open."""

import os
import shutil

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.cli import main
from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.operators.parse import parse_operators
from bbflow.operators.space import parse_space
from bbflow.operators.space.coarsening import pyramid_of
from bbflow.operators.space.meshes import Mesh
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.targets import target_of
from bbflow.operators.windows import parse_windows
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.output.claiming import claim_output, clear_output
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.lost_files import LOST
from bbflow.transit.output.pyramid_stores import Pyramids
from bbflow.transit.output.results import Results
from bbflow.zarr_store.growing import GrowingZarr

LAT, LON = np.linspace(-75, 75, 6), np.arange(8) * 45.0
STEPS = 24
ATTRIBUTES = {
    "time/units": "hours since 2001-01-01",
    "time/calendar": "noleap",
    "tas/units": "K",
    "ta/units": "K",
    "lat/units": "degrees_north",
    "lon/units": "degrees_east",
    "plev/units": "Pa",
    "tas/_ARRAY_DIMENSIONS": ["lat", "lon"],
    "ta/_ARRAY_DIMENSIONS": ["plev", "lat", "lon"],
    **{f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon", "plev")},
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """The output of a run with pyramids of a HEALPix grid and of one of latitudes and longitudes."""
    folder, random = tmp_path_factory.mktemp("pyramids"), np.random.default_rng(3)
    tas = random.normal(290, 10, (STEPS, 6, 8)).astype("f4")
    tas[:, 2:4, 3:6] = np.nan
    values = {"tas": tas, "ta": random.normal(270, 5, (STEPS, 2, 6, 8)), "lat": LAT, "lon": LON,
              "plev": np.array([85000.0, 50000.0])}  # fmt: skip
    healpix = {"healpix": {"zoom": 2}, "pyramid": True}
    operators = {
        "tas": {"space": healpix, "operators": ["mean", "max"]},
        "ta": {"space": healpix, "operators": ["mean"]},
        "zoom_1": {"of": "tas", "space": {"healpix": 2, "pyramid": [1]}, "operators": ["mean"]},
        "coarse": {"of": "tas", "space": {"remapnn": "r8x4", "pyramid": [0, 2]}, "operators": ["mean"]},
    }
    streams.store(folder, values, 6.0 * np.arange(STEPS), ATTRIBUTES, steady=("lat", "lon", "plev"), axis=0)
    streams.analyse(folder, {"windows": ["day"], "operators": operators}, ranks=1, nodes=1)
    (found,) = folder.rglob("pyramids")
    return found.parent


def test_each_zoom_has_the_means_of_what_is_valid_at_the_finest(output):
    whole = xr.open_zarr(output / "results.zarr")["tas_day_max"].values
    finest = xr.open_zarr(output / "pyramids/day_hp2.zarr", group="2", consolidated=False)
    np.testing.assert_array_equal(finest["tas_max"], whole)
    assert np.isnan(whole).any()
    for zoom in (1, 0):
        group = xr.open_zarr(output / "pyramids/day_hp2.zarr", group=str(zoom), consolidated=False)
        cells = whole.reshape(len(whole), 12 * 4**zoom, -1)
        counts = np.isfinite(cells).sum(axis=-1)
        expected = np.where(counts, np.nansum(cells, axis=-1) / np.maximum(counts, 1), np.nan)
        np.testing.assert_allclose(group["tas_max"], expected, rtol=1e-12)
        assert group["tas_max"].attrs["cell_methods"].endswith("time: maximum area: mean")
        assert group.sizes == {"time": 6, "cell": 12 * 4**zoom, "plev": 2, "crs": 1, "bnds": 2}
        np.testing.assert_array_equal(group["plev"], [85000, 50000])
        assert group["time"].dtype == finest["time"].dtype
        np.testing.assert_array_equal(group["time"], finest["time"])


def test_grids_of_latitudes_and_longitudes_are_halved_and_weighted_by_area(output):
    store = output / "pyramids/day_r8x4.zarr"
    finest, coarse = (xr.open_zarr(store, group=name, consolidated=False) for name in ("2", "0"))
    assert coarse.sizes["lat"] == 1
    area, values = finest["cell_area"].values, finest["coarse_mean"].values
    weights = np.isfinite(values) * area
    sums, weights = (
        item.reshape(len(values), 4, 2, 4).sum(axis=(1, 3)) for item in (np.nan_to_num(values) * area, weights)
    )
    np.testing.assert_allclose(coarse["coarse_mean"][:, 0], sums / weights, rtol=1e-12)
    np.testing.assert_allclose(coarse["cell_area"].sum(), area.sum())
    np.testing.assert_allclose(coarse["lat_bnds"], [[-90, 90]])
    np.testing.assert_allclose(coarse["lon"], [67.5, 247.5])


def test_what_a_killed_analysis_has_left_out_is_made_of_the_results(output, tmp_path):
    results = Results(output / "results.zarr", "s", StreamAttributes({}), Clock("hours since 2001-01-01", "noleap"))
    pyramid = pyramid_of(target_of("hpz2"), 0, (), frozenset())
    field = ResultField("tas", "<f8", (192,), ("tas_cell",), {}, {}, pyramid=pyramid)
    (window,), fields = parse_windows(["day"]), [(field, parse_operators(["mean"]))]
    Pyramids(tmp_path).follow(results, window, fields, 1)
    Pyramids(tmp_path).follow(results, window, fields, 5)
    found, known = (
        xr.open_zarr(path / "pyramids/day_hp2.zarr", group="1", consolidated=False) for path in (tmp_path, output)
    )
    np.testing.assert_array_equal(found["tas_mean"], known["tas_mean"])
    np.testing.assert_array_equal(found["time"], known["time"])


@pytest.mark.parametrize("name", ["1/tas_max/c.1.0", "0/time/c.0", "1/crs/c.0"])
def test_a_file_of_a_pyramid_that_is_removed_during_the_run_is_told(tmp_path, monkeypatch, name):
    follow, path = Pyramids.follow, tmp_path / "out/pyramids/day_hp2.zarr" / name

    def harmed(self, results, window, fields, at):
        follow(self, results, window, fields, at)
        if at == 2:
            path.unlink(missing_ok=True)

    monkeypatch.setattr(Pyramids, "follow", harmed)
    values = {"tas": np.random.default_rng(3).normal(290, 10, (STEPS, 6, 8)), "lat": LAT, "lon": LON}
    streams.store(tmp_path, values, 6.0 * np.arange(STEPS), ATTRIBUTES, steady=("lat", "lon"))
    operators = {"tas": {"space": {"healpix": {"zoom": 2}, "pyramid": True}, "operators": ["max"]}}
    outcome, _ = streams.analysed(tmp_path, {"windows": ["day"], "operators": operators})
    assert (outcome.complete, outcome.errors) == (False, (f"pyramids/day_hp2.zarr/{name}: {LOST}",))


def test_what_is_gone_of_pyramids_when_an_analysis_takes_over_is_told_and_a_whole_one_made_again(output, tmp_path):
    clock, before = Clock("hours since 2001-01-01", "noleap"), {}
    results = Results(output / "results.zarr", "s", StreamAttributes({}), clock, before=before)
    pyramid = pyramid_of(target_of("hpz2"), 0, (), frozenset())
    field = ResultField("tas", "<f8", (192,), ("tas_cell",), {}, {}, pyramid=pyramid)
    (window,), fields = parse_windows(["day"]), [(field, parse_operators(["mean"]))]
    Pyramids(tmp_path).follow(results, window, fields, 3)
    store = tmp_path / "pyramids/day_hp2.zarr"
    (store / "1/tas_mean/c.1.0").unlink()
    shutil.rmtree(store / "0/tas_mean")
    os.truncate(store / "2/time/c.0", 8)
    after = Pyramids(tmp_path)
    after.follow(results, window, fields, 4)
    files = ["1/tas_mean/c.1.0", "0/tas_mean", "4 files of pyramids/day_hp2.zarr/0/tas_mean", "2/time/c.0"]
    assert {*after.lost()} == {name if " " in name else f"pyramids/day_hp2.zarr/{name}" for name in files}
    shutil.rmtree(store)
    again = Pyramids(tmp_path)
    again.follow(results, window, fields, 5)
    assert again.lost() == []
    assert xr.open_zarr(store, group="0", consolidated=False).sizes["time"] == 6


def test_a_merge_has_the_pyramids_of_its_runs(tmp_path):
    random, runs = np.random.default_rng(3), []
    operators = {"tas": {"space": {"healpix": {"zoom": 2}, "pyramid": [0, 2]}, "operators": ["mean"]}}
    for number in range(2):
        folder = tmp_path / str(number)
        values = {"tas": random.normal(290, 10, (STEPS, 6, 8)).astype("f4"), "lat": LAT, "lon": LON}
        streams.store(folder, values, 6.0 * np.arange(STEPS), ATTRIBUTES, steady=("lat", "lon"))
        streams.analyse(folder, {"windows": ["run"], "operators": operators})
        runs.append(str(folder / "out"))
    assert main(["merge", *runs, "--output", str(tmp_path / "all")]) == 0
    whole = xr.open_zarr(tmp_path / "all" / "results.zarr")["tas_run_mean"].values
    for zoom in (2, 0):
        group = xr.open_zarr(tmp_path / "all" / "pyramids/run_hp2.zarr", group=str(zoom), consolidated=False)
        np.testing.assert_allclose(group["tas_mean"], whole.reshape(1, 12 * 4**zoom, -1).mean(axis=-1), rtol=1e-12)


def test_an_earlier_runs_pyramids_are_its_own(tmp_path):
    content = {"stream": "s", "operators": {"tas": {"space": {"healpix": 2, "pyramid": True}, "operators": ["mean"]}}}
    config = parse_config(content | {"output": str(tmp_path / "out")})
    claim_output(config)
    (config.output / "pyramids").mkdir()
    GrowingZarr(config.output / "pyramids/day_hp2.zarr").commit()
    with pytest.raises(ConfigError, match="pyramids is there from an earlier run"):
        clear_output(config.output, overwrite=False)
    clear_output(config.output, overwrite=True)
    assert not (config.output / "pyramids").exists()


def test_the_root_says_the_levels_as_zarr_conventions_and_ndpyramid_do(output):
    attributes = xr.open_zarr(output / "pyramids/day_r8x4.zarr", consolidated=False).attrs
    (convention,) = attributes["zarr_conventions"]
    assert convention["name"] == "multiscales"
    assert attributes["multiscales"]["layout"] == [
        {"asset": "2"}, {"asset": "0", "derived_from": "2", "transform": {"scale": [4.0, 4.0]}}
    ]  # fmt: skip
    told = attributes["multiscales"]["0"]
    assert (told["datasets"], told["type"]) == ([{"path": "0"}, {"path": "2"}], "reduce")
    of_several = xr.open_zarr(output / "pyramids/day_hp2.zarr", consolidated=False).attrs["multiscales"]
    assert of_several["0"]["datasets"] == [{"path": "0"}, {"path": "1"}, {"path": "2"}], "all that any field has"


def of_multiscales(output):
    tree = xr.open_datatree(output / "pyramids/day_r8x4.zarr", engine="zarr")
    return tree, [level["path"] for level in tree.attrs["multiscales"]["0"]["datasets"]]


def test_levels_are_found_as_the_root_says(output):
    tree, paths = of_multiscales(output)
    assert [tree[path]["coarse_mean"].sizes["lat"] for path in paths] == sorted(
        tree[path]["coarse_mean"].sizes["lat"] for path in paths
    ), "the coarsest is the first"
    assert {f"/{path}" for path in paths} == {*tree.groups} - {"/"}


@pytest.mark.readers
def test_a_reader_of_ndpyramids_pyramids_opens_ours(output):
    ndpyramid = pytest.importorskip("ndpyramid", reason="'make readers-suite' installs it")
    tree, paths = of_multiscales(output)
    finest = tree[paths[-1]].to_dataset()[["coarse_mean"]].load()
    theirs = ndpyramid.pyramid_coarsen(finest, factors=[4, 1], dims=["lat", "lon"], boundary="exact")
    one, (other,) = tree.attrs["multiscales"]["0"], theirs.attrs["multiscales"]
    assert {*one} == {*other}
    assert [{*each} for each in one["datasets"]] == [{*each} for each in other["datasets"]]
    assert one["type"] == other["type"]
    for ours, own in zip(paths, ("0", "1"), strict=True):
        assert dict(tree[ours]["coarse_mean"].sizes) == dict(theirs[own]["coarse_mean"].sizes)


@pytest.mark.readers
def test_the_layout_is_one_of_zarr_conventions(output):
    zarr_cm = pytest.importorskip("zarr_cm", reason="'make readers-suite' installs it")
    for store in ("day_r8x4", "day_hp2"):
        attributes = xr.open_zarr(output / f"pyramids/{store}.zarr", consolidated=False).attrs
        remaining, found = zarr_cm.multiscales.extract(dict(attributes))
        zarr_cm.multiscales.validate(found)
        assert "zarr_conventions" not in remaining
        for level in found["layout"]:
            assert xr.open_zarr(output / f"pyramids/{store}.zarr", group=level["asset"], consolidated=False).sizes


@pytest.mark.readers
def test_easygems_knows_the_grid(output):
    healpix = pytest.importorskip("easygems.healpix", reason="'make readers-suite' installs it")
    data = xr.open_zarr(output / "pyramids/day_hp2.zarr", group="2", consolidated=False)
    assert (healpix.get_nside(data), healpix.is_nested(data)) == (4, True)
    with_places = healpix.attach_coords(data)
    lat, lon = target_of("hpz2").centres
    np.testing.assert_allclose(with_places["lat"], lat)
    np.testing.assert_allclose(with_places["lon"] % 360, lon)


@pytest.mark.readers
def test_xdggs_decodes_the_cells(output):
    xdggs = pytest.importorskip("xdggs", reason="'make readers-suite' installs it")
    data = xr.open_zarr(output / "pyramids/day_hp2.zarr", group="2", consolidated=False)
    lat, _ = target_of("hpz2").centres
    for decoded in (xdggs.decode(data), xdggs.decode(data, convention="cf")):
        assert (decoded.dggs.grid_info.level, decoded.dggs.grid_info.indexing_scheme) == (2, "nested")
        np.testing.assert_allclose(decoded.dggs.cell_centers()["latitude"], lat, atol=1e-9)


@pytest.mark.parametrize(("space", "says"), [
    ({"mean": "lat", "pyramid": True}, "belongs to healpix or a remap"),
    ({"healpix": 2, "pyramid": "yes"}, "'yes' is not a whole number"),
    ({"healpix": 2, "pyramid": [1, -1]}, "not a whole number"),
])  # fmt: skip
def test_what_is_wrong_is_refused(space, says):
    with pytest.raises(ConfigError, match=says):
        parse_space(space)


def test_a_grid_that_a_file_tells_by_its_points_has_the_pyramid_of_its_name():
    """CDO's files of weights have no corners of latitudes and longitudes, and zeros as areas of interpolation."""
    named = target_of("r8x4")
    whole = pyramid_of(named, 0, (), frozenset())
    found = pyramid_of(Mesh((4, 8), named.lat, named.lon, area=np.zeros(32)), 0, (), frozenset())
    values = np.random.default_rng(1).normal(size=(4, 8))
    for (one, ours), (other, theirs) in zip(found.made(values), whole.made(values), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        np.testing.assert_allclose(one.described.coordinates["lat_bnds"], other.described.coordinates["lat_bnds"])
    assert found.label == whole.label == "r8x4"
    elsewhere = pyramid_of(Mesh((4, 8), named.lat, named.lon + 22.5), 0, (), frozenset())
    assert elsewhere.label.startswith("r8x4_"), "it isn't written among results with other longitudes"


def test_levels_that_arent_there_are_refused():
    with pytest.raises(ConfigError, match="no level 3: there are 0 to 2, the finest"):
        pyramid_of(target_of("hpz2"), 0, (3,), frozenset())
    with pytest.raises(ConfigError, match="even in number"):
        pyramid_of(target_of("r9x4"), 0, (), frozenset())
    space = parse_space([{"healpix": 2, "pyramid": True}, {"isel": {"cell": [0]}}])
    with pytest.raises(ConfigError, match="take out what comes after"):
        place_space(space, ("lat", "lon"), (6, 8), {"lat": LAT, "lon": LON}, {}.__getitem__)
