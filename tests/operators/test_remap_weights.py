"""Files of weights: their formats say the same, and what is wrong with one is told in a line."""

from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

from bbflow.configuring.config import load_config
from bbflow.errors import ConfigError
from bbflow.operators.space import installed, parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.weights import read_weights, weights_bytes
from bbflow.operators.steps import Steps
from bbflow.transit.driver.first_step import FirstStep, StreamArrays
from bbflow.transit.driver.placing import check_weights

LATS, LONS = np.linspace(-67.5, 67.5, 4), np.arange(0, 360, 60.0)
LAT, LON = (item.reshape(-1) for item in np.meshgrid(LATS, LONS, indexing="ij"))
COLUMNS = np.arange(24)
ROWS = np.repeat(np.arange(6), 4)
VALUES = np.full(24, 0.25)
TARGET = np.linspace(-50, 50, 6)


def scrip(**changes):
    """What CDO writes."""
    return {
        "src_grid_dims": ("rank", np.array([6, 4], "i4")),
        "dst_grid_dims": ("rank_1", np.array([6], "i4")),
        "src_grid_center_lat": ("src", np.deg2rad(LAT), {"units": "radians"}),
        "src_grid_center_lon": ("src", np.deg2rad(LON), {"units": "radians"}),
        "dst_grid_center_lat": ("dst", np.deg2rad(TARGET), {"units": "radians"}),
        "dst_grid_center_lon": ("dst", np.zeros(6), {"units": "radians"}),
        "src_address": ("num_links", COLUMNS + 1),
        "dst_address": ("num_links", ROWS + 1),
        "remap_matrix": (("num_links", "num_wgts"), VALUES[:, np.newaxis]),
    } | changes


def esmf(**changes):
    """What ESMF_RegridWeightGen, TempestRemap and E3SM's tools write."""
    return {
        "src_grid_dims": ("rank", np.array([6, 4], "i4")),
        "dst_grid_dims": ("rank_1", np.array([6], "i4")),
        "yc_a": ("n_a", LAT, {"units": "degrees"}),
        "xc_a": ("n_a", LON, {"units": "degrees"}),
        "yc_b": ("n_b", TARGET, {"units": "degrees"}),
        "xc_b": ("n_b", np.zeros(6), {"units": "degrees"}),
        "yv_b": (("n_b", "nv_b"), np.stack([TARGET - 1, TARGET - 1, TARGET + 1, TARGET + 1], axis=1)),
        "xv_b": (("n_b", "nv_b"), np.tile([-1.0, 1, 1, -1], (6, 1))),
        "area_b": ("n_b", np.full(6, 0.1)),
        "col": ("n_s", COLUMNS + 1),
        "row": ("n_s", ROWS + 1),
        "S": ("n_s", VALUES),
    } | changes


def xesmf(**changes):
    """What xESMF writes: the matrix, and nothing of the grids."""
    return {name: esmf()[name] for name in ("col", "row", "S")} | changes


def written(path, content, **attributes):
    kept = {name: item for name, item in content.items() if item is not None}
    xr.Dataset(kept, attrs=attributes).to_netcdf(path)
    return str(path)


def placed(item, attributes=None, lats=LATS, word="remap"):
    known = {"lat": lats, "lon": LONS}
    shape = (len(lats), len(LONS))
    return place_space(parse_space({word: item}), ("lat", "lon"), shape, known, {}.__getitem__, attributes or {})


def remapped(placement, values):
    return placement.local((0, 0), placement.source).values(Steps([values.reshape(-1)]))[0]


@pytest.mark.parametrize(("content", "more"), [(scrip, {}), (esmf, {}), (xesmf, {"grid": "target.nc"})])
def test_the_formats_give_the_same_field(tmp_path, content, more):
    target = {
        "lat": ("cell", TARGET, {"units": "degrees_north"}),
        "lon": ("cell", np.zeros(6), {"units": "degrees_east"}),
    }
    written(tmp_path / "target.nc", target)
    path = written(tmp_path / "weights.nc", content())
    more = {key: str(tmp_path / name) for key, name in more.items()}
    placement = placed({"weights": path, **more})
    values = np.random.default_rng(1).normal(size=(4, 6))
    np.testing.assert_allclose(remapped(placement, values), values.reshape(6, 4).mean(axis=1), rtol=1e-15)
    assert placement.dims == ("cell",)
    np.testing.assert_allclose(placement.coordinates["lat"], TARGET, rtol=1e-12)


@pytest.mark.parametrize("method", [{}, {"map_method": "Conservative remapping"}])
@pytest.mark.parametrize("norm", ["fracarea", "destarea"])
def test_rows_of_which_too_little_is_covered_are_missing_whatever_the_sums_of_their_weights(tmp_path, method, norm):
    covered = np.linspace(0.2, 1, 6)
    values = VALUES * (covered[ROWS] if norm == "destarea" else 1)
    changes = {"frac_b": ("n_b", covered), "S": ("n_s", values)}
    path = written(tmp_path / "map.nc", esmf(**changes), **method)
    found = remapped(placed({"weights": path, "area_min": 0.5}), np.ones((4, 6)))
    np.testing.assert_array_equal(np.isnan(found), covered < 0.5)
    path = written(tmp_path / "zeros.nc", esmf(frac_b=("n_b", np.zeros(6))))
    assert not np.isnan(remapped(placed({"weights": path, "area_min": 0.5}), np.ones((4, 6)))).any()


def test_where_weights_have_either_sign_what_remains_of_them_is_no_divisor(tmp_path):
    weights, values = np.tile([0.9, 0.95, -0.43, -0.42], 6), np.arange(24.0) % 4
    weights[-4:] = 0.25
    values[[0, 6, 21]] = np.nan  # of the first row much, of the second what counts against it, of the last any
    path = written(tmp_path / "map.nc", esmf(S=("n_s", weights)))
    valid = np.where(np.isnan(values), 0, weights).reshape(6, 4)
    expected = (valid * np.nan_to_num(values).reshape(6, 4)).sum(axis=1) / valid.sum(axis=1)
    assert expected[0] < -3, "beyond all values"
    found = remapped(placed({"weights": path}), values.reshape(4, 6))
    np.testing.assert_allclose(found, np.where(np.arange(6) == 0, np.nan, expected), rtol=1e-12)
    found = remapped(placed({"weights": path, "area_min": 0.05}), values.reshape(4, 6))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_corners_and_areas_of_cells_come_with_the_result(tmp_path):
    placement = placed(written(tmp_path / "map.nc", esmf()))
    assert placement.coordinate_dims["lat_bnds"] == ("cell", "corners_4")
    np.testing.assert_allclose(placement.coordinates["cell_area"], 0.1 * 6371000.0**2)


def test_radians_and_latitudes_of_single_precision_are_the_same_places(tmp_path):
    path = written(tmp_path / "weights.nc", scrip())
    radians = {"lat": {"units": "radians"}, "lon": {"units": "radians"}}
    known = {"lat": np.deg2rad(LATS).astype("f4"), "lon": np.deg2rad(LONS).astype("f4")}
    place_space(parse_space({"remap": path}), ("lat", "lon"), (4, 6), known, {}.__getitem__, radians)


NONE = "none", np.empty(0, "i4")


@pytest.mark.parametrize(("content", "says"), [
    (scrip(src_grid_dims=("rank", np.array([6, 5]))), "is damaged: src_grid_dims says 5 x 6 points, but has 24"),
    (scrip(src_address=NONE, dst_address=NONE, remap_matrix=(("none", "num_wgts"), np.empty((0, 1)))), "no links"),
    (esmf(col=NONE, row=NONE, S=NONE), "has no links: the two grids have nothing in common"),
    (scrip(src_address=("num_links", COLUMNS + 2)), "1 of 24 links lead out of its source grid of 24 points"),
    (scrip(dst_address=("num_links", ROWS)), "4 of 24 links lead out of its target grid of 6 points"),
    (scrip(remap_matrix=(("num_links", "num_wgts"), np.zeros((24, 3)))), "3 weights for each link"),
    (scrip(remap_matrix=(("num_links", "num_wgts"), np.full((24, 1), np.nan))), "24 of 24 weights are no finite"),
    (scrip(src_grid_center_lat=None), "has no src_grid_center_lat"),
    (esmf(row=("other", ROWS[:-1] + 1)), "24 of col, 23 of row and 24 weights"),
    (esmf(yc_a=("n_a", -LAT, {"units": "degrees"})), "24 of 24 points lie elsewhere .* order of its latitudes"),
    (esmf(xc_a=("n_a", np.where(COLUMNS == 3, 7.0, LON), {"units": "degrees"})), "1 of 24 points lie elsewhere"),
    (esmf(xc_a=("n_a", np.where(COLUMNS == 3, np.nan, -LON), {"units": "degrees"})), "16 of 24 points lie elsewhere"),
    ({"tas": ("x", np.zeros(3))}, r"has no weights: .* but tas"),
    (xesmf(), "doesn't say what its target is"),
])  # fmt: skip
def test_weights_that_cant_be_right_are_refused_in_a_line(tmp_path, content, says):
    path = written(tmp_path / "weights.nc", content)
    with pytest.raises(ConfigError, match=says):
        placed(path)


def test_weights_for_a_grid_of_another_size_are_refused_with_both_sizes(tmp_path):
    path = written(tmp_path / "weights.nc", scrip())
    with pytest.raises(ConfigError, match="for a grid of 4 x 6 points, the variable's has 5 x 6"):
        placed(path, lats=np.linspace(-60, 60, 5))


def test_weights_of_another_method_are_refused(tmp_path):
    path = written(tmp_path / "weights.nc", scrip(), map_method="Bilinear remapping")
    with pytest.raises(ConfigError, match="of the method 'bil', not 'con': write remapbil"):
        placed(path, word="remapcon")
    placed(path, word="remapbil")


@pytest.mark.parametrize(("word", "attributes"), [
    ("remapnn", {"map_method": "Nearest neighbor"}),
    ("remapdis", {"map_method": "Distance weighted avg of nearest neighbors"}),
    ("remapcon", {"map_method": "Conservative remapping using clipping on sphere"}),
    ("remapnn", {"map_method": "Bilinear remapping", "ESMF_regrid_method": "Nearest source to destination"}),
    ("remapbil", {"map_method": "Bilinear remapping", "ESMF_regrid_method": "Higher-order Patch"}),
    ("remapcon", {"map_method": "Conservative remapping", "ESMF_regrid_method": "Second-order Conservative"}),
    ("remapcon", {"map_method": "Conservative remapping, second order"}),
    ("remapcon", {"map_method": "Conservative remapping", "remap_order": 2}),
])  # fmt: skip
def test_methods_are_known_by_what_cdo_and_esmf_write_of_them(tmp_path, word, attributes):
    path = written(tmp_path / "weights.nc", esmf(), **attributes)
    placed(path, word=word)
    other = "bil" if word != "remapbil" else "con"
    with pytest.raises(ConfigError, match=f"write {word}"):
        placed(path, word=f"remap{other}")
    with pytest.raises(ConfigError, match=f"write {word}"):
        weights_bytes(Path(path), other)


@pytest.mark.parametrize(("told", "wanted"), [("Bicubic remapping", 4), ("Conservative remapping, second order", 3)])
def test_methods_of_gradients_without_their_weights_are_refused(tmp_path, told, wanted):
    path = written(tmp_path / "weights.nc", scrip(), map_method=told)
    with pytest.raises(ConfigError, match=f"1 weights for each link, {wanted} are what its method has"):
        placed(path)


def test_who_lacks_what_reads_weights_is_told_how_to_get_it(tmp_path, monkeypatch):
    path = written(tmp_path / "weights.nc", scrip())
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"needs netCDF4, which isn't installed: pip install 'bbflow\[remap\]'"):
        placed(path)


def test_a_truncated_file_and_none_are_told_in_a_line(tmp_path):
    path = tmp_path / "weights.nc"
    written(path, scrip())
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ConfigError, match="can't be read as NetCDF"):
        placed(str(path))
    with pytest.raises(ConfigError, match=r"can't read the weights .*No such file"):
        placed(str(tmp_path / "nothing.nc"))
    with pytest.raises(ConfigError, match=r"No such file.*, and that isn't a name of a grid: these are r360x180"):
        placed(str(tmp_path / "n32"))


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("records", [0, 1, 2])
def test_a_classic_file_without_its_last_byte_is_refused_and_a_whole_one_is_read(tmp_path, kind, records):
    """The NetCDF library reads zeros where the file has ended: weights that are none."""
    path = tmp_path / "weights.nc"
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("record", None)
        for name, (dims, values, *_) in scrip().items():
            dims = (dims,) if isinstance(dims, str) else dims
            for dim, size in zip(dims, values.shape, strict=True):
                if dim not in file.dimensions:
                    file.createDimension(dim, size)
            file.createVariable(name, "i4" if values.dtype.kind == "i" else "f8", dims)[:] = values
            file[name].units = "degrees"
        for number in range(records):
            file.createVariable(f"more_{number}", "f4", ("record",))[:] = np.arange(3)
    read_weights(path)
    path.write_bytes(path.read_bytes()[:-1])
    for reading in (read_weights, weights_bytes):
        with pytest.raises(ConfigError, match=rf"has {path.stat().st_size} of {path.stat().st_size + 1} bytes"):
            reading(path)


def test_headers_that_end_early_and_empty_files_are_told_in_a_line(tmp_path):
    path = tmp_path / "weights.nc"
    xr.Dataset(scrip()).to_netcdf(path, format="NETCDF3_CLASSIC", engine="netcdf4")
    whole = path.read_bytes()
    cut = {0: "is empty", 3: "can't be read as NetCDF", 6: "header isn't whole", 300: "isn't whole|damaged"}
    for length, says in cut.items():
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=says) as refused:
            weights_bytes(path)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("item", "says"), [
    ({"remapnn": "hp12"}, "12 isn't a power of two"),
    ({"healpix": 20}, "from 0 to 13"),
    ({"remapcon": "r0x10"}, "has no points"),
])  # fmt: skip
def test_grids_that_cant_be_had_are_refused_with_the_configuration(item, says):
    with pytest.raises(ConfigError, match=says):
        parse_space(item)


@pytest.mark.parametrize(("item", "says"), [
    ({"remap": {}}, "name a file of weights"),
    ({"remap": "r360x180"}, "weights are made here for remapnn, .*: name a file, such as of 'cdo gencon,"),
    ({"healpix": {"zom": 3}}, "did you mean 'zoom'"),
    ({"healpix": {}}, "name a zoom"),
    ({"remap": {"weights": "w.nc", "areamin": 0.5}}, "did you mean 'area_min'"),
    ({"remap": {"weights": "w.nc", "area_min": 2}}, "from 0 to 1"),
    ({"remapkon": "w.nc"}, "did you mean 'remapcon'"),
    ([{"remap": "a.nc"}, {"remap": "b.nc"}], "one remap at most"),
    ({"remap": "a.nc", "area_min": 0.5}, "belongs inside a remap, such as .*area_min"),
    ({"vertmean": True}, "it is a name: write space: vertmean"),
    ({"remap": 3}, "not a text"),
])  # fmt: skip
def test_what_is_wrong_in_the_configuration_is_refused(item, says):
    with pytest.raises(ConfigError, match=says):
        parse_space(item)


def test_the_text_form_of_cdo_says_what_the_map_says():
    assert parse_space("remapcon,weights.nc") == parse_space({"remapcon": "weights.nc"})
    assert parse_space("healpix,3") == parse_space({"healpix": {"zoom": 3}})


@pytest.mark.parametrize("name", ["e3sm-like", "nextgems-like"])
def test_the_catalogue_has_configurations_that_are_valid(name):
    config = load_config(Path(__file__).parents[2] / f"catalogs/operators/{name}.yml")
    assert all(item.space is not None for item in config.diagnostics.values())


def test_a_file_that_is_another_one_after_a_restart_is_refused(tmp_path):
    first = FirstStep(-1, [], tmp_path, "s", {}, None)
    content = scrip()
    placement = placed(written(tmp_path / "weights.nc", content))
    for _ in range(2):  # the analysis, and the one after it
        check_weights({"tas": placement}, StreamArrays(tmp_path / "fields", first))
    content["remap_matrix"] = (("num_links", "num_wgts"), content["remap_matrix"][1] * 0.999)
    changed = placed(written(tmp_path / "weights.nc", content))
    with pytest.raises(ConfigError, match=r"operators of tas: space: weights weights.nc aren't what they were"):
        check_weights({"tas": changed}, StreamArrays(tmp_path / "fields", first))


@pytest.mark.parametrize("content", [scrip, esmf])
def test_the_bytes_of_weights_are_known_without_reading_them(tmp_path, content):
    path = written(tmp_path / "weights.nc", content())
    whole, parts = weights_bytes(Path(path))
    weights = read_weights(Path(path))
    assert parts == len(weights.values) * 18
    assert len(weights.values) * 12 <= whole <= weights.nbytes + 16
    with pytest.raises(ConfigError, match="has no weights"):
        weights_bytes(Path(written(tmp_path / "other.nc", {"tas": ("x", np.zeros(3))})))
