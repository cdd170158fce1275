"""Means over the cells of a curvilinear grid, whose corners are in the stream's first step."""

import numpy as np
import pytest
import xarray as xr
from streams import analyse, store

from bbflow.errors import ConfigError
from bbflow.operators.space.cells import polygons
from bbflow.operators.space.ugrid import mesh_places, topology_of
from bbflow.transit.output.cf_attributes import with_known_references


def test_a_curvilinear_grid_s_means_have_the_areas_of_its_cells(tmp_path):
    y, x, shifts = np.arange(5.0), np.arange(6.0), np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, 0.5], [0.5, -0.5]])
    rows, columns = np.meshgrid(y, x, indexing="ij")
    lat, lon = (50 + 4 * rows + columns, 5 * columns - rows)
    lat_corners = np.stack([50 + 4 * (rows + up) + columns + over for up, over in shifts], -1)
    lon_corners = np.stack([5 * (columns + over) - rows - up for up, over in shifts], -1)
    field = np.random.default_rng(1).normal(280, 10, (4, 5, 6))
    steady = {"nav_lat": lat, "nav_lon": lon, "lat_corners": lat_corners, "lon_corners": lon_corners}
    attributes = {
        "time/units": "days since 2000-01-01", "t/coordinates": "nav_lat nav_lon", "t/_ARRAY_DIMENSIONS": ["y", "x"],
        "nav_lat/bounds": "lat_corners", "nav_lon/bounds": "lon_corners",
        "nav_lat/units": "degrees_north", "nav_lon/units": "degrees_east",
        **{f"{name}/_ARRAY_DIMENSIONS": ["y", "x", "corner"][: values.ndim] for name, values in steady.items()},
    }  # fmt: skip
    folder = tmp_path / "s"
    store(folder, {"t": field} | steady, np.arange(4.0), attributes, steady=tuple(steady))
    operators = {
        "mean": {"of": "t", "space": "fldmean", "operators": ["mean"]},
        "north": {"of": "t", "space": [{"mask": "nav_lat > 60"}, "fldmean"], "operators": ["mean"]},
        "masked": {"of": "t", "space": {"mask": "nav_lat > 60"}, "operators": ["mean"]},
        "double": {"of": "t * 2", "operators": ["mean"]},
        "rows": {"of": "t", "space": {"isel": {"y": [0, 1]}}, "operators": ["mean"]},
    }
    results = analyse(folder, {"operators": operators, "windows": ["run"]}, ranks=2)
    areas = xr.DataArray(polygons(lat_corners, lon_corners), dims=("y", "x"))
    whole = xr.DataArray(field, dims=("time", "y", "x"))
    np.testing.assert_allclose(results.mean_run_mean, [whole.weighted(areas).mean(("y", "x")).mean()], rtol=1e-12)
    north = whole.weighted(areas.where(lat > 60, 0)).mean(("y", "x")).mean()
    np.testing.assert_allclose(results.north_run_mean, [north], rtol=1e-12)
    for name in ("masked", "double"):
        assert {"nav_lat", "nav_lon"} <= set(results[f"{name}_run_mean"].coords), "fields say where their points are"
    assert not {"nav_lat", "nav_lon"} & set(results.rows_run_mean.coords)


@pytest.mark.parametrize("location", ["face", "node"])
def test_a_mesh_of_ugrid_tells_where_its_parts_are(tmp_path, location):
    random = np.random.default_rng(2)
    lat, lon = np.rad2deg(np.arcsin(random.uniform(-1, 1, 300))), random.uniform(0, 360, 300)
    field = random.normal(280, 10, (4, 300))
    attributes = {
        "time/units": "days since 2000-01-01", "t/mesh": "mesh2d", "t/location": location,
        f"mesh2d/{location}_coordinates": "mesh2d_x mesh2d_y", "mesh2d/topology_dimension": 2,
        "mesh2d/cf_role": "mesh_topology", "mesh2d_y/standard_name": "latitude", "mesh2d_x/standard_name": "longitude",
        **{f"{name}/_ARRAY_DIMENSIONS": ["part"] for name in ("t", "mesh2d_x", "mesh2d_y")},
    }  # fmt: skip
    folder, steady = tmp_path / "s", {"mesh2d_x": lon, "mesh2d_y": lat}
    store(folder, {"t": field} | steady, np.arange(4.0), attributes, steady=tuple(steady))
    operators = {
        "north": {"of": "t", "space": [{"box": {"lat": [30, 90]}}, {"mean": ["part"]}], "operators": ["mean"]},
        "coarse": {"of": "t", "space": {"remapnn": "r4x3"}, "operators": ["mean"]},
    }
    results = analyse(folder, {"operators": operators, "windows": ["run"]}, ranks=2)
    np.testing.assert_allclose(results.north_run_mean, [field[:, lat >= 30].mean()], rtol=1e-12)
    lat_of_last = float(results.coarse_lat[-1])
    nearest = np.argmin(haversine(lat, lon, lat_of_last, 90.0))
    np.testing.assert_allclose(results.coarse_run_mean[0].sel(coarse_lon=90)[-1], field[:, nearest].mean(), rtol=1e-12)


def quadrangles_and_halves():
    """A globe of quadrangles, every third one of which is cut in two: where nodes are, and which of them faces join."""
    lat, lon = (own.reshape(-1) for own in np.meshgrid(np.linspace(-80, 80, 9), np.arange(12) * 30.0, indexing="ij"))
    faces = []
    for row in range(8):
        for column in range(12):
            west, east = row * 12 + column, row * 12 + (column + 1) % 12
            around = [west, east, east + 12, west + 12]
            faces += [around] if (row + column) % 3 else [[*around[:3], -1], [around[0], *around[2:], -1]]
    return lat, lon, np.array(faces)


def of_mesh(folder, told, joined, coordinates, first=0):
    """Statistics of a field on the faces of a mesh."""
    lat, lon, faces = quadrangles_and_halves()
    corner_lat, corner_lon = (np.where(faces >= 0, own[faces], np.nan) for own in (lat, lon))
    field = np.random.default_rng(3).normal(280, 10, (4, len(faces)))
    numbers = np.where(faces >= 0, faces + first, -99).astype("i4")
    steady = {"node_x": lon, "node_y": lat, "joins": numbers if joined[0] == "nFace" else numbers.T.copy()}
    attributes = {
        "time/units": "days since 2000-01-01", "t/mesh": "mesh", "t/location": "face",
        "mesh/cf_role": "mesh_topology", "mesh/long_name": "where t is",
        "mesh/node_coordinates": "node_x node_y", "mesh/face_node_connectivity": "joins", "joins/_FillValue": -99,
        **{f"joins/{key}": value for key, value in told.items()}, "joins/_ARRAY_DIMENSIONS": joined,
        "t/_ARRAY_DIMENSIONS": ["nFace"], "node_x/units": "degrees_east", "node_y/units": "degrees_north",
        **{f"{name}/_ARRAY_DIMENSIONS": ["nNode"] for name in ("node_x", "node_y")},
    }  # fmt: skip
    if coordinates:
        steady |= {"face_x": np.nanmean(corner_lon, 1), "face_y": np.nanmean(corner_lat, 1)}
        attributes |= {"mesh/face_coordinates": "face_x face_y", "face_x/units": "degrees_east"}
        attributes |= {"face_y/units": "degrees_north"}
        attributes |= {f"{name}/_ARRAY_DIMENSIONS": ["nFace"] for name in ("face_x", "face_y")}
    store(folder, {"t": field} | steady, np.arange(4.0), attributes, steady=tuple(steady))
    operators = {
        "t": ["mean"],
        "double": {"of": "t * 2", "operators": ["mean"]},
        "mean": {"of": "t", "space": "fldmean", "operators": ["mean"]},
        "north": {"of": "t", "space": [{"box": {"lat": [25, 90]}}, "fldmean"], "operators": ["mean"]},
        "coarse": {"of": "t", "space": {"remapcon": "r8x4"}, "operators": ["mean"]},
    }
    return field, corner_lat, corner_lon, analyse(folder, {"operators": operators, "windows": ["run"]}, ranks=2)


@pytest.mark.parametrize(
    ("told", "joined", "coordinates"),
    [({}, ["nFace", "corner"], True), ({"start_index": 1}, ["corner", "nFace"], False)],
)
def test_the_faces_of_a_mesh_have_the_areas_and_places_that_its_nodes_tell(tmp_path, told, joined, coordinates):
    field, lat, lon, results = of_mesh(tmp_path / "s", told, joined, coordinates, told.get("start_index", 0))
    areas = polygons(lat, lon)
    np.testing.assert_allclose(results.mean_run_mean, [(field * areas).sum() / areas.sum() / 4], rtol=1e-12)
    north = np.nanmean(lat, 1) > 25
    expected = (field * areas)[:, north].sum() / areas[north].sum() / 4
    np.testing.assert_allclose(results.north_run_mean, [expected], rtol=1e-12)
    coarse = results.coarse_run_mean[0].weighted(np.cos(np.deg2rad(results.coarse_lat)))
    assert np.isfinite(results.coarse_run_mean).all()
    np.testing.assert_allclose(coarse.mean(), (field * areas).sum() / areas.sum() / 4, rtol=2e-3)
    for name in ("t_run_mean", "double_run_mean"):
        assert (results[name].attrs["mesh"], results[name].attrs["location"]) == ("mesh", "face")
    assert not {"mesh", "location"} & (results.coarse_run_mean.attrs.keys() | results.mean_run_mean.attrs.keys())
    mesh, faces = results["mesh"].attrs, quadrangles_and_halves()[2]
    assert (mesh["cf_role"], mesh["node_coordinates"]) == ("mesh_topology", "node_x node_y")
    assert results.joins.attrs.get("start_index", 0) == told.get("start_index", 0)
    joins = results[mesh["face_node_connectivity"]].transpose("nFace", "corner") - told.get("start_index", 0)
    np.testing.assert_array_equal(joins, np.where(faces >= 0, faces, np.nan))
    assert results.node_x.dims == ("nNode",)
    assert "t" not in results


def test_edges_of_a_mesh_are_in_the_middle_of_the_nodes_that_they_join(tmp_path):
    lat, lon, _ = quadrangles_and_halves()
    edges = np.array([[at, at + 12] for at in range(96)] + [[at, at + 1] for at in range(0, 108, 2)], "i4")
    flow, speed = np.random.default_rng(4).normal(0, 1, (2, 4, len(edges)))
    attributes = {
        "time/units": "days since 2000-01-01", "mesh/cf_role": "mesh_topology",
        "mesh/node_coordinates": "node_x node_y",
        "mesh/edge_node_connectivity": "joins", "joins/_ARRAY_DIMENSIONS": ["nEdge", "two"],
        "node_x/units": "degrees_east", "node_y/units": "degrees_north",
        **{f"{name}/_ARRAY_DIMENSIONS": ["nNode"] for name in ("node_x", "node_y")},
        **{f"{name}/{key}": value for name in ("u", "v") for key, value in
           (("mesh", "mesh"), ("location", "edge"), ("_ARRAY_DIMENSIONS", ["nEdge"]))},
    }  # fmt: skip
    steady = {"node_x": lon, "node_y": lat, "joins": edges}
    store(tmp_path, {"u": flow, "v": speed} | steady, np.arange(4.0), attributes, steady=tuple(steady))
    operators = {
        "product": {"of": "u * v", "operators": ["mean"]},
        "tropics": {"of": "u * v", "space": [{"box": {"lat": [-25, 25]}}, {"sum": ["nEdge"]}], "operators": ["mean"]},
        "coarse": {"of": "u", "space": {"remapnn": "r24x3"}, "operators": ["mean"]},
    }
    results = analyse(tmp_path, {"operators": operators, "windows": ["run"]}, ranks=2)
    assert (results.product_run_mean.attrs["mesh"], results.product_run_mean.attrs["location"]) == ("mesh", "edge")
    assert results["mesh"].attrs["edge_node_connectivity"] == "joins"
    inside = np.abs(lat[edges].mean(axis=1)) < 25
    np.testing.assert_allclose(results.tropics_run_mean, [(flow * speed)[:, inside].sum() / 4], rtol=1e-12)
    there = (lat[edges] == 0).all(axis=1) & (lon[edges].mean(axis=1) == 75)
    found = results.coarse_run_mean[0].sel(coarse_lat=0, coarse_lon=75)
    np.testing.assert_allclose(found, flow[:, there].mean(), rtol=1e-12)


def test_a_mesh_of_which_the_stream_lacks_parts_is_not_named():
    told = {"cf_role": "mesh_topology", "node_coordinates": "x y", "face_node_connectivity": "joins",
            "face_face_connectivity": "beside", "topology_dimension": 2}  # fmt: skip
    whole = {key: value for key, value in told.items() if key != "face_face_connectivity"}
    assert topology_of(told, {"x", "y", "joins", "beside"}) == whole
    assert topology_of(told, {"x", "y"}) == topology_of(told, {"joins"}) == topology_of({}, {"x"}) == {}
    field = {"mesh": "m", "location": "face", "coordinates": "lat lon"}
    assert with_known_references(field, {"lat"}) == {"coordinates": "lat"}
    assert with_known_references({"location": "Bremen"}, ()) == {"location": "Bremen"}
    assert with_known_references({"mesh": "fine"}, ()) == {"mesh": "fine"}


def test_a_face_that_joins_no_nodes_is_nowhere():
    told = {
        "mesh": {"node_coordinates": "lon lat", "face_node_connectivity": "joins"},
        "joins": {"start_index": 1},
        "lon": {"units": "radians"},
    }
    values = {
        "lon": np.deg2rad([170.0, -170.0, 180.0]),
        "lat": np.array([0.0, 0.0, 10.0]),
        "joins": np.array([[1.0, 2, 3], [np.nan] * 3]),
    }
    found, _ = mesh_places(lambda name: told.get(name, {}), {"mesh": "mesh", "location": "face"}, values.get)
    np.testing.assert_allclose(np.abs(found["mesh_face_lon"]), [180, np.nan])
    assert 3 < found["mesh_face_lat"][0] < 4
    assert np.isnan(found["mesh_face_lat"][1])


def test_a_mesh_that_joins_nodes_which_are_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="'joins' joins nodes 0 to 107, but the mesh 'mesh' has 108 from 1 on"):
        of_mesh(tmp_path / "s", {"start_index": 1}, ["nFace", "corner"], True)


def haversine(lat, lon, north, east):
    """What grows with the distance from a point."""
    one, other = np.deg2rad(lat), np.deg2rad(north)
    across = np.sin(np.deg2rad(lon - east) / 2) ** 2
    return np.sin((one - other) / 2) ** 2 + np.cos(one) * np.cos(other) * across


def test_a_square_field_in_another_order_than_its_coordinates_and_mask_is_the_same_field(tmp_path):
    rows, columns = np.meshgrid(np.arange(6.0), np.arange(6.0), indexing="ij")
    lat, lon = 5 * rows + columns / 5, 12 * columns + rows
    around = np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, 0.5], [0.5, -0.5]]).T[..., np.newaxis, np.newaxis]
    steady = {"lat": lat, "lon": lon, "land": (rows + 2 * columns) % 3}
    steady |= {"lat_b": np.moveaxis(lat + 4 * around[0], 0, -1), "lon_b": np.moveaxis(lon + 9 * around[1], 0, -1)}
    field = np.random.default_rng(2).normal(280, 10, (2, 6, 6))
    operators = {
        "masked": {"of": "t", "space": [{"mask": "land > 0"}, "fldmean"], "operators": ["mean"]},
        "near": {"of": "t", "space": {"remapnn": "r12x6"}, "operators": ["mean"]},
    }
    found = {}
    for order in (["y", "x"], ["x", "y"]):
        attributes = {
            "time/units": "days since 2000-01-01", "t/coordinates": "lat lon", "t/_ARRAY_DIMENSIONS": order,
            "lat/bounds": "lat_b", "lon/bounds": "lon_b", "lat/units": "degrees_north", "lon/units": "degrees_east",
            **{f"{name}/_ARRAY_DIMENSIONS": ["y", "x", "corner"][: values.ndim] for name, values in steady.items()},
        }  # fmt: skip
        folder = tmp_path / "".join(order)
        written = field if order == ["y", "x"] else field.swapaxes(1, 2).copy()
        store(folder, {"t": written} | steady, np.arange(2.0), attributes, steady=tuple(steady))
        found["".join(order)] = analyse(folder, {"operators": operators, "windows": ["run"]}, ranks=2)
    for name in ("masked_run_mean", "near_run_mean"):
        np.testing.assert_allclose(found["xy"][name], found["yx"][name], rtol=1e-12)


@pytest.mark.parametrize("order", [["lev", "y", "x"], ["y", "x", "lev"], ["x", "lev", "y"]])
def test_where_all_dimensions_are_as_long_masks_and_coordinates_are_placed_by_their_names(tmp_path, order):
    rows, columns = np.meshgrid(np.arange(4.0), np.arange(4.0), indexing="ij")
    around = np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, 0.5], [0.5, -0.5]]).T[..., np.newaxis, np.newaxis]
    steady = {"lat": 5 * rows + columns / 5, "lon": 12 * columns + rows, "land": (rows + 2 * columns) % 3 / 2}
    steady |= {name + "_b": np.moveaxis(steady[name] + 4 * around[at], 0, -1) for at, name in enumerate(("lat", "lon"))}
    field, names = np.random.default_rng(2).normal(280, 10, (2, 4, 4, 4)), ["lev", "y", "x"]
    attributes = {
        "time/units": "days since 2000-01-01", "t/coordinates": "lat lon", "t/_ARRAY_DIMENSIONS": order,
        "lat/bounds": "lat_b", "lon/bounds": "lon_b", "lat/units": "degrees_north", "lon/units": "degrees_east",
        **{f"{name}/_ARRAY_DIMENSIONS": ["y", "x", "corner"][: values.ndim] for name, values in steady.items()},
    }  # fmt: skip
    written = field.transpose(0, *(names.index(name) + 1 for name in order)).copy()
    store(tmp_path, {"t": written} | steady, np.arange(2.0), attributes, steady=tuple(steady), axis=order.index("y"))
    operators = {
        "masked": {"of": "t", "space": {"mask": "land > 0.4"}, "operators": ["mean"]},
        "mean": {"of": "t", "space": [{"mask": "land > 0.4"}, "fldmean"], "operators": ["mean"]},
        "by_land": {"of": "t", "space": {"mean": ["y", "x"], "weights": "land"}, "operators": ["mean"]},
        "north": {"of": "t", "space": [{"box": {"lat": [5, 90]}}, "fldmean"], "operators": ["mean"]},
        "near": {"of": "t", "space": {"remapnn": "r8x4"}, "operators": ["mean"]},
    }
    results = analyse(tmp_path, {"operators": operators, "windows": ["run"]}, ranks=2)
    areas, land, whole = polygons(steady["lat_b"], steady["lon_b"]), steady["land"], field.mean(axis=0)
    masked = results.masked_run_mean[0].transpose(*names)
    np.testing.assert_allclose(masked, np.where(land > 0.4, whole, np.nan), rtol=1e-12)
    for name, weights in (("mean", areas * (land > 0.4)), ("by_land", land), ("north", areas * (steady["lat"] >= 5))):
        expected = (whole * weights).sum(axis=(1, 2)) / weights.sum()
        np.testing.assert_allclose(results[f"{name}_run_mean"][0], expected, rtol=1e-12)
    assert set(np.unique(results.near_run_mean)) <= set(np.unique(whole))
    near = results.near_run_mean[0].transpose("lev", "near_lat", "near_lon")
    assert all((values == level).any() for values, level in zip(whole, near.values[:, 0, 0], strict=True))


def test_fields_in_two_orders_are_not_taken_together(tmp_path):
    attributes = {
        "time/units": "days since 2000-01-01",
        "a/_ARRAY_DIMENSIONS": ["y", "x"],
        "b/_ARRAY_DIMENSIONS": ["x", "y"],
    }
    store(tmp_path, {"a": np.ones((2, 4, 4)), "b": np.ones((2, 4, 4))}, np.arange(2.0), attributes)
    for item in ({"of": "a + b", "operators": ["mean"]}, {"of": "a", "operators": [{"covariance": {"with": "b"}}]}):
        with pytest.raises(ConfigError, match=r"b is along \(x, y\), but a along \(y, x\)"):
            analyse(tmp_path, {"operators": {"sum": item}, "windows": ["run"]})
