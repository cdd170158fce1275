"""Weights that are made here: what CDO makes, what a search of all points finds, and a file that CDO takes."""

import re
import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

from bbflow.cli import main
from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.cells import polygons
from bbflow.operators.space.described import LAT_ATTRIBUTES, LON_ATTRIBUTES, mesh_of
from bbflow.operators.space.grid import EARTH_RADIUS_M, Grid
from bbflow.operators.space.making import make_weights
from bbflow.operators.space.meshes import Mesh, on_sphere
from bbflow.operators.space.overlaps import overlaps
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.targets import regular, target_of
from bbflow.operators.space.weights import read_weights
from bbflow.operators.steps import Steps

needs_cdo = pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed")


def dense(weights):
    return csc_array(
        (weights.values, weights.rows, weights.starts), (len(weights.cover), len(weights.starts) - 1)
    ).toarray()


def rectilinear(parallels, meridians):
    """The cells between some parallels and meridians."""
    edges = tuple(np.stack([lines[:-1], lines[1:]], axis=1) for lines in (parallels, meridians))
    lat, lon = (pairs.mean(axis=1) for pairs in edges)
    area = np.outer(np.abs(np.diff(np.sin(np.deg2rad(parallels)))), np.abs(np.diff(np.deg2rad(meridians))))
    shape = (len(lat), len(lon))
    return Mesh(shape, np.repeat(lat, shape[1]), np.tile(lon, shape[0]), area=area.reshape(-1), edges=edges)


@st.composite
def grids(draw):
    """The globe, cut by parallels and meridians anywhere, in either order."""
    parallels, meridians = (
        np.cumsum([0, *draw(st.lists(st.floats(0.2, 1), min_size=1, max_size=7))]) for _ in range(2)
    )
    way = draw(st.sampled_from([1, -1])), draw(st.sampled_from([1, -1]))
    meridians = draw(st.floats(-400, 400)) + meridians / meridians[-1] * 360
    return rectilinear((parallels / parallels[-1] * 180 - 90)[:: way[0]], meridians[:: way[1]])


@settings(max_examples=60, deadline=None)
@given(source=grids(), target=grids())
def test_conservative_weights_keep_a_constant_and_share_out_each_cell(source, target):
    weights = make_weights("con", source, target)
    np.testing.assert_allclose(weights.cover, 1, rtol=1e-10)
    np.testing.assert_allclose(weights.share, 1, rtol=1e-10)
    np.testing.assert_allclose(target.area @ dense(weights), source.area, rtol=1e-9)


def test_cells_that_the_source_covers_in_part_say_so():
    source = rectilinear(np.array([0.0, 45, 90]), np.array([0.0, 90]))
    weights = make_weights("con", source, regular(1, 2))
    np.testing.assert_allclose(weights.share, [0.25, 0], atol=1e-12)
    np.testing.assert_allclose(weights.cover, [1, 0])


@needs_cdo
@pytest.mark.parametrize(("source", "target"), [("r36x18", "r20x9"), ("r20x9", "r36x18"), ("r72x36", "r50x30")])
def test_conservative_weights_are_those_of_cdo(tmp_path, source, target):
    """CDO's cells have great circles for sides: where parallels divide cells, that is another area."""
    field, file = tmp_path / "field.nc", tmp_path / "weights.nc"
    subprocess.run(["cdo", "-s", "-f", "nc", f"-random,{source},1", field], check=True)
    subprocess.run(["cdo", "-s", f"gencon,{target}", field, file], check=True)
    ours, theirs = make_weights("con", target_of(source), target_of(target)), read_weights(file)
    np.testing.assert_allclose(dense(ours), dense(theirs), atol=3e-2)
    np.testing.assert_allclose(ours.share, 1)


@needs_cdo
@pytest.mark.parametrize(
    ("source", "target", "method"),
    [
        ("r36x18", "n7", "nn"), ("n5", "r23x16", "nn"), ("r36x18", "n7", "bil"), ("n5", "r23x16", "bil"),
        ("n5", "r23x16", "dis"),
    ],
)  # fmt: skip
def test_weights_of_neighbours_are_those_of_cdo(tmp_path, source, target, method):
    field, file = tmp_path / "field.nc", tmp_path / "weights.nc"
    subprocess.run(["cdo", "-s", "-f", "nc", f"-random,{source},1", field], check=True)
    subprocess.run(["cdo", "-s", f"gen{method},{target}", field, file], check=True)
    mesh, reach = target_of(target), np.abs(target_of(source).lat).max()
    ours, theirs = make_weights(method, target_of(source), mesh), read_weights(file)
    # Beyond the last parallel CDO's gendis gives a nearer point less than a farther one.
    rows = np.abs(mesh.lat) < (reach if method == "dis" else 90)
    np.testing.assert_allclose(dense(ours)[rows], dense(theirs)[rows], atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(points=st.integers(4, 40), seed=st.integers(0, 999))
def test_weights_by_distance_are_those_of_a_search_of_all_points(points, seed):
    random = np.random.default_rng(seed)
    source = Mesh((points,), random.uniform(-90, 90, points), random.uniform(-180, 540, points))
    target = target_of("hpz1")
    apart = np.linalg.norm(on_sphere(*target.centres)[:, None] - on_sphere(*source.centres), axis=2)
    expected = np.where(apart <= np.sort(apart, axis=1)[:, 3:4], 1 / apart, 0)
    made = dense(make_weights("dis", source, target))
    np.testing.assert_allclose(made, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)


@needs_cdo
def test_gaussian_cells_are_those_of_cdo(tmp_path):
    subprocess.run(["cdo", "-s", "-f", "nc", "-gridarea", "-random,n24,1", tmp_path / "area.nc"], check=True)
    mesh = target_of("n24")
    with xr.open_dataset(tmp_path / "area.nc") as theirs:
        np.testing.assert_allclose(mesh.axes()[0], theirs.lat, atol=1e-9)
        np.testing.assert_allclose(mesh.axes()[1], theirs.lon, atol=1e-9)
        np.testing.assert_allclose(mesh.area.reshape(mesh.shape), theirs.cell_area / 6371000**2, rtol=2e-3)


def test_weights_of_cells_are_not_those_of_others_with_the_same_centres():
    values, fields = np.random.default_rng(6).normal(size=4), []
    lat, lon = np.array([-45.0, -45, 45, 45]), np.array([0.0, 180, 0, 180])
    for half in (90, 45):
        known = {"lat": lat, "lon": lon, "lat_b": np.sign(lat)[:, None] * [0, 0, 90, 90]}
        known["lon_b"] = lon[:, None] + half * np.array([-1.0, 1, 1, -1])
        attributes = {"lat": LAT_ATTRIBUTES | {"bounds": "lat_b"}, "lon": LON_ATTRIBUTES | {"bounds": "lon_b"}}
        placement = place_space(parse_space({"remapcon": "r4x2"}), ("n",), (4,), known, {}.__getitem__, attributes)
        fields.append(placement.local((0,), (4,)).values(Steps([values]))[0].reshape(2, 4))
    assert np.isfinite(fields[0]).all()
    np.testing.assert_array_equal(np.isnan(fields[1]), [[False, True, False, True]] * 2)
    bare = {name: known[name] for name in ("lat", "lon")}
    with pytest.raises(ConfigError, match="where the cells' edges are known"):
        place_space(parse_space({"remapcon": "r4x2"}), ("n",), (4,), bare, {}.__getitem__, {})


def test_what_goes_half_around_the_globe_makes_no_bilinear_weights():
    half = rectilinear(np.linspace(-90, 90, 10), np.linspace(0, 180, 10))
    with pytest.raises(ConfigError, match="that go around the globe"):
        make_weights("bil", half, regular(4, 8))


@settings(max_examples=30, deadline=None)
@given(points=st.integers(1, 40), seed=st.integers(0, 999))
def test_nearest_neighbours_are_those_of_a_search_of_all_points(points, seed):
    random = np.random.default_rng(seed)
    source = Mesh((points,), random.uniform(-90, 90, points), random.uniform(-180, 540, points))
    target = target_of("hpz1")
    weights = make_weights("nn", source, target)
    closeness = on_sphere(*target.centres) @ on_sphere(*source.centres).T
    chosen = (dense(weights) * closeness).sum(axis=1)
    np.testing.assert_allclose(chosen, closeness.max(axis=1), rtol=1e-12)


@needs_cdo
@pytest.mark.parametrize("method", ["nn", "dis", "bil", "con", "bic", "laf"])
def test_a_file_that_is_written_is_what_cdo_takes_and_what_is_read_again(tmp_path, method, capfd):
    field, file, result = (tmp_path / name for name in ("field.nc", "weights.nc", "result.nc"))
    subprocess.run(["cdo", "-s", "-f", "nc", "-b", "F64", "-random,r36x18,1", field], check=True)
    assert main(["weights", str(field), "r20x10", "--method", method, "--output", str(file)]) == 0
    assert "links from 648 to 200 points" in capfd.readouterr().err
    command = ["cdo", "-s", "-b", "F64", f"remap,r20x10,{file}", field, result]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "not used" not in told.stderr
    with xr.open_dataset(field) as given_field, xr.open_dataset(result) as made:
        places = {name: given_field[name].values for name in ("lat", "lon")}
        found = remapped(given_field["random"].values, {"remap": str(file)}, places)
        np.testing.assert_allclose(found, made["random"].values.reshape(-1), rtol=1e-12)


@pytest.mark.parametrize(("words", "says"), [
    (["r36x18", "r0x10"], "has no points"),
    (["r36x18", "hp12"], "12 isn't a power of two"),
    (["r36x18", "hpz20"], "from 0 to 13"),
    (["nothing.nc", "r36x18"], "neither a file .* nor a grid's name: r360x180"),
])  # fmt: skip
def test_grids_that_arent_to_be_had_are_told_in_a_line(words, says, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["weights", *words]) == 64

    assert re.search(says, capfd.readouterr().err)


def test_a_file_without_a_grid_or_with_two_is_refused(tmp_path):
    path = tmp_path / "field.nc"
    xr.Dataset({"tas": ("x", np.zeros(3))}).to_netcdf(path)
    with pytest.raises(ConfigError, match="has nothing as lat"):
        target_of(str(path))


@pytest.mark.parametrize("source", ["r36x18", "cells"])
def test_means_over_healpix_are_of_equal_areas_and_not_of_the_cells_before(source):
    """A source with as many cells, of which the corners are known, doesn't lend them to the result."""
    count = 12 * 4**2
    values = np.random.default_rng(3).normal(size=648 if source == "r36x18" else count)
    if source == "cells":
        cell = target_of("hpz2")
        west = cell.lon - 3
        known = {"lat": cell.lat, "lon": cell.lon}
        known["lat_bnds"] = np.stack([cell.lat - 1, cell.lat - 1, cell.lat + 1, cell.lat + 1], axis=1)
        known["lon_bnds"] = np.stack([west, west + 6, west + 6, west], axis=1)
        attributes = {"lat": LAT_ATTRIBUTES | {"bounds": "lat_bnds"}, "lon": LON_ATTRIBUTES | {"bounds": "lon_bnds"}}
        grid = (("ncol",), (count,), known, {}.__getitem__, attributes)
    else:
        known = {"lat": np.linspace(-85, 85, 18), "lon": np.arange(36) * 10.0}
        grid = (("lat", "lon"), (18, 36), known, {}.__getitem__)
    found = {}
    for name in ("", "fldmean", "fldint"):
        placement = place_space(parse_space([{"remapnn": "hpz2"}, *filter(None, [name])]), *grid)
        found[name] = placement.local((0,) * len(grid[1]), grid[1]).values(Steps([values]))[0]
    np.testing.assert_allclose(found["fldmean"], found[""].mean(), rtol=1e-12)
    np.testing.assert_allclose(found["fldint"], found[""].mean() * 4 * np.pi * EARTH_RADIUS_M**2, rtol=1e-12)
    assert placement.cell_methods == "area: sum"
    assert not placement.attributes
    north = target_of("hpz2").lat > 0
    for weights in ({}, {"weights": "cell_area"}):
        placement = place_space(
            parse_space([{"remapnn": "hpz2"}, {"mask": "lat > 0"}, {"mean": ["cell"], **weights}]), *grid
        )
        found["north"] = placement.local((0,) * len(grid[1]), grid[1]).values(Steps([values]))[0]
        np.testing.assert_allclose(found["north"], found[""][north].mean(), rtol=1e-12)


def axes(parallels, meridians):
    """Return the mesh of a stream's latitudes and longitudes."""
    known = {"lat": np.asarray(parallels, "f8"), "lon": np.asarray(meridians, "f8")}
    return mesh_of(Grid(("lat", "lon"), (len(parallels), len(meridians)), known, {}), (0, 1))


def test_a_meridian_that_is_there_at_both_ends_has_the_same_mean_twice():
    source = axes(np.linspace(-85, 85, 18), np.arange(36) * 10.0)
    field = np.random.default_rng(4).normal(size=source.size)
    target = axes(np.arange(-80, 81, 20.0), np.arange(0, 361, 20.0))
    found = (dense(make_weights("con", source, target)) @ field).reshape(target.shape)
    np.testing.assert_allclose(found[:, 0], found[:, -1], rtol=1e-12)
    once = axes(np.arange(-80, 81, 20.0), np.arange(0, 360, 20.0))
    expected = (dense(make_weights("con", source, once)) @ field).reshape(once.shape)
    np.testing.assert_allclose(found[:, :-1], expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["bil", "bic", "con", "laf"])
@pytest.mark.parametrize("first", [0.0, -180.0])
def test_a_meridian_of_the_source_that_comes_again_at_the_end_counts_once(method, first):
    parallels = np.linspace(-85, 85, 18)
    once, again = (axes(parallels, first + np.arange(count) * 10.0) for count in (36, 37))
    for target in (axes(np.arange(-80, 81, 16.0), np.arange(-180, 180, 15.0)), target_of("hpz2")):
        expected, made = (make_weights(method, source, target) for source in (once, again))
        found = dense(made).reshape(-1, *again.shape)
        np.testing.assert_allclose(found[..., :-1].reshape(len(found), -1), dense(expected), atol=1e-12)
        np.testing.assert_allclose(made.share, expected.share, atol=1e-12)
        assert not found[..., -1].any()


def test_cells_that_overlap_where_the_globe_is_closed_make_no_conservative_weights():
    source = axes(np.linspace(-60, 60, 4), [0.0, 10, 100, 200, 330])
    for target in (regular(4, 6), target_of("hpz1")):
        with pytest.raises(ConfigError, match="cells overlap where the globe is closed"):
            make_weights("con", source, target)


OVERLAPPING = Mesh(
    (1, 2), np.zeros(2), np.array([45.0, 135]), edges=(np.array([[-9.0, 9]]), np.array([[0.0, 99], [90, 180]]))
)


@pytest.mark.parametrize(("mesh", "says"), [
    (axes([0.0, 40, 10, -30], np.arange(36) * 10.0), "have bounds, or rise or fall all the way"),
    (axes(np.linspace(-60, 60, 4), [0.0, 90, 30, 200]), "have bounds, or rise or fall all the way"),
    (OVERLAPPING, "the bounds of a longitude are wrong"),
    (axes([-30.0, 0, 30, 30, 30], np.arange(36) * 10.0), "a cell has no width"),
    (Mesh((4, 5), None, None), "the variable has no latitudes and longitudes"),
])  # fmt: skip
def test_cells_that_arent_known_by_their_points_make_no_conservative_weights(mesh, says):
    for pair in ((mesh, regular(4, 6)), (regular(4, 6), mesh)):
        if mesh.lat is not None or pair[0] is mesh:
            with pytest.raises(ConfigError, match=says):
                make_weights("con", *pair)


def test_points_without_a_place_are_nobodys_neighbours():
    lat, lon = np.array([np.nan, 10.0, 50, 0]), np.array([0.0, 0, 0, np.nan])
    target = Mesh((3,), np.array([8.0, np.nan, 60]), np.array([0.0, 0, 0]))
    found = dense(make_weights("nn", Mesh((4,), lat, lon), target))
    np.testing.assert_array_equal(found, [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]])
    with pytest.raises(ConfigError, match="all latitudes or longitudes of a grid are missing"):
        make_weights("nn", Mesh((4,), lat * np.nan, lon), target)


def test_cells_that_are_chosen_keep_their_places_and_numbers():
    cells = target_of("hpz2")
    known, attributes = {"lat": cells.lat, "lon": cells.lon}, {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}
    grid = (("lev", "ncol"), (3, cells.size), known, {}.__getitem__, attributes)
    chosen = place_space(parse_space({"isel": {"ncol": [7, 3]}}), *grid)
    assert chosen.coordinate_dims == {"lat": ("ncol",), "lon": ("ncol",)}
    np.testing.assert_array_equal(chosen.coordinates["lat"], cells.lat[[7, 3]])
    remapped = place_space(parse_space([{"healpix": 1}, {"isel": {"cell": [7, 3]}}]), *grid)
    np.testing.assert_array_equal(remapped.coordinates["cell_ids"], [7, 3])
    near = place_space(parse_space([{"isel": {"ncol": [7, 3]}}, {"remapnn": "hpz1"}]), *grid)
    assert near.weights.source.size == 2, "they can be remapped"


@needs_cdo
@pytest.mark.parametrize("method", ["bil", "nn", "dis"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("-random,r36x18,7", "r18x9"), ("-random,n8,7", "r72x36"), ("-random,r36x19,7", "r24x12"),
        ("-invertlat -random,r36x18,7", "r18x9"), ("-sellonlatbox,-180,180,-90,90 -random,r36x18,7", "r24x12"),
    ],
)  # fmt: skip
def test_a_remap_by_name_has_the_values_of_cdo_where_sources_are_missing(tmp_path, method, source, target):
    """Also where a point lies on a side, at a corner, equally near to several, or beyond the last parallel."""
    file, result = tmp_path / "field.nc", tmp_path / "result.nc"
    subprocess.run(["cdo", "-s", "-f", "nc", "-b", "F64", *source.split(), file], check=True)
    with xr.open_dataset(file, decode_times=False) as data:
        field = data["random"].squeeze().load()
    random = np.random.default_rng(7)
    field = field.where(random.random(field.shape) > 0.2)
    if field.lat.max() > 89.9:
        field[[0, -1]] = 1.5  # which of a pole's points counts is chance in CDO
    field.to_netcdf(file, encoding={"random": {"_FillValue": -9e33}})
    subprocess.run(["cdo", "-s", "-f", "nc", "-b", "F64", f"remap{method},{target}", file, result], check=True)
    known = {name: field[name].values for name in ("lat", "lon")}
    attributes = {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}
    space = parse_space({f"remap{method}": target})
    placement = place_space(space, ("lat", "lon"), field.shape, known, {}.__getitem__, attributes)
    (found,) = placement.local((0, 0), field.shape).values(Steps([field.values.reshape(-1)]))
    with xr.open_dataset(result, decode_times=False) as data:
        theirs = data["random"].squeeze().values
    found = found.reshape(placement.shape)
    # As above; and near the poles rounding says which are the four nearest.
    rows = np.abs(placement.coordinates["lat"]) < (80 if method == "dis" else 91)
    np.testing.assert_allclose(found[rows], theirs[rows], rtol=0, atol=1e-6 if method == "dis" else 1e-9)


@pytest.mark.parametrize("item", [{"area_min": 0}, {"area_min": 0.5}, {"fraction": "there"}])
def test_a_corner_without_weight_gives_no_value_to_a_point_that_is_missing(item):
    grid = target_of("r36x18", "")
    lat, lon = grid.axes()
    values = np.random.default_rng(6).normal(280, 10, grid.shape)
    values[5, 7], there = np.nan, np.ones(grid.shape)
    there[5, 7] = 0
    space = parse_space({"remapbil": {"grid": "r36x18", **item}})
    attributes = {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}
    placed = place_space(space, ("lat", "lon"), grid.shape, {"lat": lat, "lon": lon}, lambda _: there, attributes)
    local = placed.local((0, 0), grid.shape)
    found = local.values(Steps([values.reshape(-1)]))[0].reshape(grid.shape)
    np.testing.assert_allclose(found, values, rtol=1e-9)  # NaN where they have it


def with_corners(mesh):
    """The same cells as a list that tells its corners."""
    (south_north, west_east), (rows, columns) = mesh.edges, mesh.shape
    lat = np.repeat(south_north, columns, axis=0)[:, [0, 0, 1, 1]]
    lon = np.tile(west_east, (rows, 1))[:, [0, 1, 1, 0]]
    return Mesh((mesh.size,), mesh.lat, mesh.lon, np.clip(lat, -90, 90), lon)


@pytest.mark.parametrize(
    ("source", "target"), [("list", "r20x9"), ("list", "hpz2"), ("r36x18", "hpz2"), ("hpz2", "r20x9")]
)
def test_conservative_weights_of_any_cells_keep_a_constant_and_share_out_each_cell(source, target):
    """All but for what arcs of great circles leave between two lists that meet at parallels: none here, by one list."""
    pytest.importorskip("shapely")
    one, other = (with_corners(regular(12, 24)) if name == "list" else target_of(name) for name in (source, target))
    weights = make_weights("con", one, other)
    np.testing.assert_allclose(weights.cover, 1, rtol=1e-10)
    np.testing.assert_allclose(weights.share, 1, rtol=2e-3)
    shares = np.asarray(other.area @ dense(weights))
    own = one.area if one.area is not None else polygons(one.lat_corners, one.lon_corners)
    np.testing.assert_allclose(shares, own, rtol=5e-3)
    np.testing.assert_allclose(shares.sum(), 4 * np.pi, rtol=1e-10)


@needs_cdo
def test_conservative_weights_of_cells_with_corners_are_those_of_cdo(tmp_path):
    """Hexagons have great circles for sides in both; those of the target differ, as above."""
    pytest.importorskip("shapely")
    field, file = tmp_path / "field.nc", tmp_path / "weights.nc"
    subprocess.run(["cdo", "-s", "-f", "nc", "-setgridtype,unstructured", "-random,gme8,1", field], check=True)
    subprocess.run(["cdo", "-s", "gencon,r72x36", field, file], check=True)
    with xr.open_dataset(field, decode_times=False) as data:
        lat, lon = (data[data[name].attrs["bounds"]].values.astype("f8") for name in ("lat", "lon"))
        mesh = Mesh((len(lat),), data.lat.values.astype("f8"), data.lon.values.astype("f8"), lat, lon)
    theirs, ours = dense(read_weights(file)), dense(make_weights("con", mesh, target_of("r72x36")))
    np.testing.assert_allclose(ours, theirs, atol=1e-2)
    assert np.median(np.abs(ours - theirs)[theirs > 0]) < 1e-4


def turned(mesh, angle):
    """The cells of a grid with corners, turned towards Greenwich: its pole lies on that meridian."""

    def places(lat, lon):
        x, y, z = np.moveaxis(on_sphere(lat.reshape(-1), lon.reshape(-1)).reshape(*lat.shape, 3), -1, 0)
        x, z = np.cos(angle) * x + np.sin(angle) * z, np.cos(angle) * z - np.sin(angle) * x
        return np.rad2deg(np.arcsin(np.clip(z, -1, 1))), np.rad2deg(np.arctan2(y, x))

    centres, corners = places(*mesh.centres), places(mesh.lat_corners, mesh.lon_corners)
    return Mesh(mesh.shape, *centres, *corners)


@pytest.mark.parametrize("off", [0, 3e-15])
@pytest.mark.parametrize("angle", [0.3, 1.0, np.deg2rad(7.77)])
def test_cells_with_a_side_over_a_pole_share_out_the_globe_too(angle, off):
    pytest.importorskip("shapely")
    source = turned(with_corners(rectilinear(np.linspace(-90, 90, 19), np.linspace(off, 360 + off, 37))), angle)
    columns, rows, area, whole = overlaps(source, target_of("r36x18"))
    np.testing.assert_allclose(np.bincount(rows, area, len(whole)) / whole, 1, rtol=1e-6)
    assert len(np.unique(columns)) == source.size
    np.testing.assert_allclose(make_weights("con", target_of("r36x18"), source).share, 1, rtol=1e-6)


@needs_cdo
def test_a_curvilinear_grid_with_corners_is_remapped_conservatively_by_name(tmp_path):
    pytest.importorskip("shapely")
    field, result = tmp_path / "field.nc", tmp_path / "result.nc"
    chain = ["-setgridtype,curvilinear", "-sellonlatbox,-60,60,-40,80", "-random,r72x36,3"]
    subprocess.run(["cdo", "-s", "-f", "nc", "-b", "F64", *chain, field], check=True)
    subprocess.run(["cdo", "-s", "-b", "F64", "remapcon,r36x18", field, result], check=True)
    with xr.open_dataset(field, decode_times=False) as data:
        data = data.load()
    name = "random"
    values = data[name].squeeze()
    bounds = {axis: data[axis].attrs["bounds"] for axis in ("lat", "lon")}
    known = {own: data[own].values for own in ("lat", "lon", *bounds.values())}
    attributes = {own: dict(data[own].attrs) for own in known}
    placement = place_space(parse_space("remapcon,r36x18"), ("y", "x"), values.shape, known, {}.__getitem__, attributes)
    (found,) = placement.local((0, 0), values.shape).values(Steps([values.values.reshape(-1)]))
    with xr.open_dataset(result, decode_times=False) as data:
        theirs = data[name].squeeze().values
    found = found.reshape(placement.shape)
    whole = np.isfinite(found) & np.isfinite(theirs)
    assert whole.sum() > 100
    np.testing.assert_allclose(found[whole], theirs[whole], atol=2e-2)


def remapped(field, item, places):
    """A whole field on another grid, row by row."""
    placement = place_space(parse_space(item), ("lat", "lon"), field.shape, places, {}.__getitem__)
    local = placement.local((0, 0), field.shape)
    return placement.finish(placement.assemble(1, [(local, local.partial(Steps([field.reshape(-1)])))]))[0]


def test_of_equal_largest_parts_the_first_cell_s_counts_and_of_cdo_s_weights_the_one_that_cdo_takes(tmp_path):
    lat, lon = -87 + 6 * np.arange(30.0), 6 * np.arange(60.0)
    places, field = {"lat": lat, "lon": lon}, np.random.default_rng(4).random((30, 60))
    parts = dense(make_weights("con", mesh_of(Grid(("lat", "lon"), (30, 60), places, {}), (0, 1)), target_of("r20x15")))
    first = (parts > parts.max(axis=1, keepdims=True) - 1e-9).argmax(axis=1)
    assert ((parts > parts.max(axis=1, keepdims=True) - 1e-9).sum(axis=1) > 1).mean() > 0.5
    np.testing.assert_array_equal(remapped(field, {"remaplaf": "r20x15"}, places), field.reshape(-1)[first])
    if not shutil.which("cdo"):
        return
    told, weights, result = (tmp_path / f"{name}.nc" for name in ("field", "weights", "result"))
    known = {"lat": ("lat", lat, LAT_ATTRIBUTES), "lon": ("lon", lon, LON_ATTRIBUTES)}
    xr.Dataset({"x": (("lat", "lon"), field)}, known).to_netcdf(told)
    subprocess.run(["cdo", "-s", "genlaf,r20x15", told, weights], check=True)
    subprocess.run(["cdo", "-s", "remaplaf,r20x15", told, result], check=True)
    with xr.open_dataset(result) as theirs:
        np.testing.assert_array_equal(remapped(field, {"remap": str(weights)}, places), theirs["x"].values.reshape(-1))
