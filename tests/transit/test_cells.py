"""Means over the cells of a curvilinear grid, whose corners are in the stream's first step."""

import numpy as np
import pytest
import xarray as xr
from streams import analyse, store

from bbflow.errors import ConfigError
from bbflow.operators.space.cells import polygons


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
