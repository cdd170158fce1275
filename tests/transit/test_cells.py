"""Means over the cells of a curvilinear grid, whose corners are in the stream's first step."""

import numpy as np
import xarray as xr
from streams import analyse, store

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
