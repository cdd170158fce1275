"""Areas of cells that are told by their corners, against CDO's gridarea."""

import shutil
import subprocess

import netCDF4
import numpy as np
import pytest
from scipy.spatial import SphericalVoronoi

from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.cells import polygons
from bbflow.operators.space.grid import EARTH_RADIUS_M
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

needs_cdo = pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed (apt install cdo)")
RANDOM = np.random.default_rng(3)


def turned(lats, lons, by=35.0):
    """Latitudes and longitudes of a grid whose pole is elsewhere."""
    lat, lon, by = np.deg2rad(lats), np.deg2rad(lons), np.deg2rad(by)
    x, y, z = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)
    x, z = np.cos(by) * x - np.sin(by) * z, np.sin(by) * x + np.cos(by) * z
    return np.rad2deg(np.arcsin(np.clip(z, -1, 1))), np.rad2deg(np.arctan2(y, x)) % 360


def quadrilaterals(south_north, west_east):
    """Corners of all cells between parallels and meridians, of shape (y, x, 4), anticlockwise."""
    lats, lons = np.meshgrid(south_north, west_east, indexing="ij")
    places = ((slice(-1), slice(-1)), (slice(-1), slice(1, None)), (slice(1, None), slice(1, None)))
    return [np.stack([own[at] for at in (*places, (slice(1, None), slice(-1)))], -1) for own in (lats, lons)]


def voronoi(count):
    """Cells around random points: as many corners as each has, the last one again where others have more."""
    points = RANDOM.normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    cells = SphericalVoronoi(points)
    cells.sort_vertices_of_regions()
    most = max(map(len, cells.regions))
    corners = cells.vertices[[[*region, *[region[-1]] * (most - len(region))] for region in cells.regions]]
    return np.rad2deg(np.arcsin(corners[..., 2])), np.rad2deg(np.arctan2(corners[..., 1], corners[..., 0]))


GLOBE = quadrilaterals(np.linspace(-90, 90, 19), np.linspace(0, 360, 37))
GRIDS = {
    "of latitudes and longitudes": GLOBE,
    "turned": turned(*GLOBE),
    "a turned part": turned(*quadrilaterals(np.linspace(-20, 25, 12), np.linspace(-30, 30, 14))),
    "triangles": [np.concatenate([own[..., [0, 1, 2]], own[..., [0, 2, 3]]]).reshape(-1, 3) for own in GLOBE],
    "polygons": voronoi(300),
}
WHOLE = ("of latitudes and longitudes", "turned", "triangles", "polygons")


def middles(lats, lons):
    lat, lon = np.deg2rad(lats), np.deg2rad(lons)
    middle = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]).mean(-1)
    middle /= np.linalg.norm(middle, axis=0)
    return np.rad2deg(np.arcsin(middle[2])), np.rad2deg(np.arctan2(middle[1], middle[0]))


def cdo(path, *operators):
    command = ["cdo", "-s", "-L", "-outputf,%.12g,1", *operators, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return np.array([float(word) for word in done.stdout.split()])


def write(path, lats, lons, field):
    dims = ("y", "x")[: lats.ndim - 1] if lats.ndim > 2 else ("cell",)
    with netCDF4.Dataset(path, "w") as file:
        for dim, size in zip((*dims, "corner"), lats.shape, strict=True):
            file.createDimension(dim, size)
        for name, corners, points in zip(("lat", "lon"), (lats, lons), middles(lats, lons), strict=True):
            file.createVariable(f"{name}_corners", "f8", (*dims, "corner"))[:] = corners
            file.createVariable(name, "f8", dims)[:] = points
            whole, units = {"lat": ("latitude", "degrees_north"), "lon": ("longitude", "degrees_east")}[name]
            file[name].setncatts({"standard_name": whole, "units": units, "bounds": f"{name}_corners"})
        file.createVariable("x", "f8", dims)[:] = field
        file["x"].coordinates = "lat lon"
        if dims == ("cell",):
            file["x"].CDI_grid_type = "unstructured"


@needs_cdo
@pytest.mark.parametrize("name", GRIDS)
def test_areas_are_those_of_cdo(name, tmp_path):
    lats, lons = GRIDS[name]
    field = RANDOM.normal(280, 10, lats.shape[:-1])
    write(tmp_path / "in.nc", lats, lons, field)
    theirs = cdo(tmp_path / "in.nc", "-gridarea")
    ours = EARTH_RADIUS_M**2 * polygons(lats, lons).ravel()
    np.testing.assert_allclose(
        ours, theirs, rtol=1e-9, atol=1e-3, err_msg="triangles of two corners at a pole have none"
    )
    for operator in ("fldmean", "fldint", "fldmax"):
        values, _ = reduced(operator, lats, lons, field)
        np.testing.assert_allclose(values, cdo(tmp_path / "in.nc", f"-{operator}"), rtol=1e-9, err_msg=operator)


def reduced(space, lats, lons, field, variables=None, **attributes):
    """What comes of a field whose cells have these corners."""
    placement = placed(space, lats, lons, field.shape, variables, **attributes)
    (values,) = placement.local((0,) * field.ndim, field.shape).values(Steps([field.reshape(-1)]))
    return values, placement


def placed(space, lats, lons, shape, variables=None, **attributes):
    dims = ("y", "x") if lats.ndim > 2 else ("cell",)
    points = middles(lats, lons)
    coordinates = {"nav_lat": points[0], "nav_lon": points[1], "lat_corners": lats, "nav_lon_bnds": lons}
    described = {"nav_lat": {"bounds": "lat_corners"} | attributes, "nav_lon": attributes}
    return place_space(parse_space(space), dims, shape, coordinates, (variables or {}).__getitem__, described)


@pytest.mark.parametrize("name", WHOLE)
def test_the_cells_of_a_globe_have_its_area(name):
    assert polygons(*GRIDS[name]).sum() == pytest.approx(4 * np.pi, rel=1e-12)


def test_four_corners_may_come_in_any_order():
    lats, lons = GRIDS["a turned part"]
    expected = polygons(lats, lons)
    for order in ([3, 2, 1, 0], [1, 2, 3, 0], [0, 2, 1, 3], [0, 1, 3, 2], [2, 0, 1, 3]):
        np.testing.assert_allclose(polygons(lats[..., order], lons[..., order]), expected, rtol=1e-12)


def test_small_cells_keep_their_digits():
    edges = np.linspace(10, 10.001, 3)
    lats, lons = quadrilaterals(edges, edges)
    flat = np.deg2rad(np.diff(edges)[0]) * np.diff(np.sin(np.deg2rad(edges)))
    np.testing.assert_allclose(polygons(lats, lons), np.stack([flat, flat], 1), rtol=1e-8)


def test_missing_corners_are_left_out_and_cells_without_any_weigh_nothing():
    lats, lons = (own.copy() for own in GRIDS["polygons"])
    expected = polygons(lats, lons)
    again = (lats == lats[:, -1:]) & (lons == lons[:, -1:])
    again[np.arange(len(again)), again.argmax(axis=1)] = False
    lats[again] = np.nan
    lats[7], lons[9] = np.nan, np.nan
    expected[[7, 9]] = 0
    np.testing.assert_allclose(polygons(lats, lons), expected, rtol=1e-12)


def test_means_over_some_dimensions_and_selected_points_have_the_cells_areas():
    lats, lons = GRIDS["a turned part"]
    field, areas = RANDOM.normal(size=lats.shape[:-1]), polygons(lats, lons)
    values, placement = reduced({"mean": ["y"], "weights": "area"}, lats, lons, field)
    np.testing.assert_allclose(values, (field * areas).sum(0) / areas.sum(0))
    space = {"isel": {"x": [1, 4]}, "sum": ["y", "x"], "weights": "area"}
    values, placement = reduced(space, lats, lons, field)
    np.testing.assert_allclose(values, EARTH_RADIUS_M**2 * (field * areas)[:, [1, 4]].sum())
    assert (placement.cell_methods, placement.own_units) == ("area: sum", "{units} m2")
    values, _ = reduced({"mean": ["y", "x"]}, lats, lons, field)
    np.testing.assert_allclose(values, field.mean())
    values, _ = reduced({"coarsen": {"y": 11, "x": 13}, "weights": "area"}, lats, lons, field)
    np.testing.assert_allclose(values, (field * areas).sum() / areas.sum())


@pytest.mark.parametrize("name", ["a turned part", "polygons"])
def test_ranks_and_departures_over_latitude_and_longitude_are_those_of_all_cells(name):
    lats, lons = GRIDS[name]
    field, areas = RANDOM.normal(size=lats.shape[:-1]), polygons(lats, lons)
    for space, expected in (
        ("fldpctl,90", np.quantile(field, 0.9, method="inverted_cdf")),
        ("fldmedian", np.median(field)),
        ({"anomaly": ["lat", "lon"]}, field - (field * areas).sum() / areas.sum()),
    ):
        placement = placed(space, lats, lons, field.shape)
        local = placement.local((0,) * field.ndim, field.shape)
        parts = [(local, local.partial(Steps([field.reshape(-1)])))]
        found = placement.finish(placement.assemble(1, parts))[0]
        np.testing.assert_allclose(found, np.ravel(expected), rtol=1e-12)


def test_corners_may_be_in_radians_and_must_be_on_the_globe():
    lats, lons = GRIDS["turned"]
    field = RANDOM.normal(size=lats.shape[:-1])
    expected, _ = reduced("fldmean", lats, lons, field)
    found, _ = reduced("fldmean", np.deg2rad(lats), np.deg2rad(lons), field, units="radian")
    np.testing.assert_allclose(found, expected)
    with pytest.raises(ConfigError, match=r"'nav_lat' has a latitude of .* beyond a pole"):
        reduced("fldmean", 2 * lats, lons, field)
    with pytest.raises(ConfigError, match="'nav_lat' is in 'km', neither degrees nor radians"):
        reduced("fldmean", lats, lons, field, units="km")
    with pytest.raises(ConfigError, match="and is none of its dimensions, y, x: name these"):
        reduced("zonmean", lats, lons, field)


def test_a_variable_of_areas_that_is_named_area_can_be_meant():
    lats, lons = GRIDS["a turned part"]
    field, area = RANDOM.normal(size=lats.shape[:-1]), RANDOM.random(lats.shape[:-1])
    expected = (field * area).sum() / area.sum()
    space = {"mean": ["y", "x"], "weights": "area"}
    with pytest.raises(
        ConfigError, match="may mean the areas of the cells or the stream's variable 'area': write '`area`'"
    ):
        reduced(space, lats, lons, field, {"area": area})
    values, placement = reduced(space | {"weights": "`area`"}, lats, lons, field, {"area": area})
    np.testing.assert_allclose(values, expected)
    assert placement.cell_methods == "area: mean (weighted by area)"
    values, _ = reduced("fldmean", lats, lons, field, {"area": area})
    cells = polygons(lats, lons)
    np.testing.assert_allclose(values, (field * cells).sum() / cells.sum())
    # Without corners it is the only thing that can be meant.
    values, _ = reduced(space, lats[..., :2], lons[..., :2], field, {"area": area})
    np.testing.assert_allclose(values, expected)
