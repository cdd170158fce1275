"""Areas of cells, however the stream tells their edges, against CDO."""

import shutil
import subprocess

import netCDF4
import numpy as np
import pytest

from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

LATS, LONS = np.arange(-88.75, 90, 2.5), np.arange(0, 360, 5.0)
NORTH, EAST = "degrees_north", "degrees_east"


def bounds(points, half):
    return np.stack([points - half, points + half], axis=1)


def wrapped(edges):
    return np.where(edges < 0, edges + 360, edges)


def to_360(edges):
    return edges % 360


SOUTH_NORTH, WEST_EAST = bounds(LATS, 1.25), bounds(LONS, 2.5)
GRIDS = {
    "no bounds": (LATS, LONS, None, None, NORTH, EAST),
    "plain": (LATS, LONS, SOUTH_NORTH, WEST_EAST, NORTH, EAST),
    "wrapped": (LATS, LONS, SOUTH_NORTH, wrapped(WEST_EAST), NORTH, EAST),
    "wrapped, to the west": (LATS, LONS, SOUTH_NORTH, wrapped(WEST_EAST)[:, ::-1], NORTH, EAST),
    "to the south": (LATS, LONS, SOUTH_NORTH[:, ::-1], WEST_EAST, NORTH, EAST),
    "from the north": (LATS[::-1], LONS, SOUTH_NORTH[::-1], WEST_EAST, "degree_N", "degreesE"),
    "from the east": (LATS, LONS[::-1], None, wrapped(WEST_EAST)[::-1], NORTH, EAST),
    "of -180 to 180": (LATS, LONS - 180, SOUTH_NORTH, WEST_EAST - 180, NORTH, EAST),
    "points in another range than edges": (LATS, LONS - 180, SOUTH_NORTH, to_360(WEST_EAST - 180), NORTH, EAST),
    "edge at 360": (LATS, LONS + 2.5, SOUTH_NORTH, to_360(WEST_EAST + 2.5), NORTH, EAST),
    "points on edges": (LATS, LONS, SOUTH_NORTH, to_360(np.stack([LONS, LONS + 5], axis=1)), NORTH, EAST),
    "in radians": (np.deg2rad(LATS), np.deg2rad(LONS), None, None, "radian", "radians"),
    "in radians with bounds": (*map(np.deg2rad, (LATS, LONS, SOUTH_NORTH, wrapped(WEST_EAST))), "rad", "rad"),
    "past the poles": (LATS, LONS, np.where(abs(SOUTH_NORTH) > 89, SOUTH_NORTH * 1.05, SOUTH_NORTH), None, NORTH, EAST),
    "in capitals": (LATS, LONS, None, None, "Degrees_North", "DEGREES_EAST"),
}  # fmt: skip
"""Coordinates, bounds and units; all are the same cells."""
FIELD = np.random.default_rng(0).normal(280, 10, (len(LATS), len(LONS))) + np.cos(np.deg2rad(LATS))[:, np.newaxis] * 20


def result(space, field, coordinates, attributes, dims=("lat", "lon"), variables=None):
    placement = place_space(
        parse_space(space), dims, field.shape, coordinates, (variables or {}).__getitem__, attributes
    )
    (values,) = placement.local((0, 0), field.shape).values(Steps([field.reshape(-1)]))
    return placement, values.reshape(placement.shape)


def told(grid):
    lat, lon, south_north, west_east, north, east = grid
    found = {"lat": lat, "lon": lon, "lat_edges": south_north, "lon_edges": west_east}
    attributes = {
        "lat": {"units": north, "standard_name": "latitude"},
        "lon": {"units": east, "standard_name": "longitude"},
    }
    for name in ("lat", "lon"):
        if found[f"{name}_edges"] is not None:
            attributes[name]["bounds"] = f"{name}_edges"
    return {name: values for name, values in found.items() if values is not None}, attributes


def mirrored(name):
    """The field on the grid: rows and columns go with their coordinates."""
    rows = FIELD[::-1] if name == "from the north" else FIELD
    columns = rows[:, ::-1] if name == "from the east" else rows
    return np.roll(columns, 36, axis=1) if name in ("of -180 to 180", "points in another range than edges") else columns


@pytest.mark.parametrize("name", GRIDS)
def test_areas_are_the_same_however_the_cells_are_told(name):
    coordinates, attributes = told(GRIDS[name])
    weights = np.diff(np.sin(np.deg2rad(SOUTH_NORTH)), axis=1)
    expected = (FIELD * weights).sum() / weights.sum() / len(LONS)
    _, mean = result("fldmean", mirrored(name), coordinates, attributes)
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    _, integral = result("fldint", mirrored(name), coordinates, attributes)
    np.testing.assert_allclose(integral, expected * 4 * np.pi * 6371000.0**2, rtol=1e-12)
    _, north = result({"box": {"lat": [0, 90]}, "mean": ["lat", "lon"]}, mirrored(name), coordinates, attributes)
    half = weights[36:]
    np.testing.assert_allclose(north, (FIELD[36:] * half).sum() / half.sum() / len(LONS), rtol=1e-12)


@pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed (apt install cdo)")
@pytest.mark.parametrize("name", ["plain", "wrapped", "wrapped, to the west", "from the north"])
def test_areas_of_wrapped_cells_are_those_of_cdo(name, tmp_path):
    coordinates, attributes = told(GRIDS[name])
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        for dim, size in (("lat", len(LATS)), ("lon", len(LONS)), ("bnds", 2)):
            file.createDimension(dim, size)
        for own, values in coordinates.items():
            dims = (own[:3], "bnds") if "edges" in own else (own,)
            file.createVariable(own, "f8", dims)[:] = values
            file[own].setncatts(attributes.get(own, {}))
        file["lat"].units, file["lon"].units = NORTH, EAST
        file.createVariable("x", "f8", ("lat", "lon"))[:] = mirrored(name)
    for operator in ("fldmean", "fldint"):
        command = ["cdo", "-s", "-outputf,%.12g,1", f"-{operator}", tmp_path / "in.nc"]
        theirs = float(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
        _, ours = result(operator, mirrored(name), coordinates, attributes)
        # CDO's cells end in great circles, not in parallels: 5 degrees wide, that is 2e-4 of the whole.
        np.testing.assert_allclose(ours, theirs, rtol=3e-4, err_msg=operator)


def test_a_box_of_radians_is_told_in_degrees_and_written_in_radians():
    coordinates, attributes = told(GRIDS["in radians"])
    placement, _ = result({"box": {"lat": [0, 5]}}, FIELD, coordinates, attributes)
    np.testing.assert_allclose(placement.coordinates["lat"], np.deg2rad([1.25, 3.75]))
    placement, _ = result({"coarsen": {"lat": 2}}, FIELD, coordinates, attributes)
    np.testing.assert_allclose(placement.coordinates["lat"][0], np.deg2rad(-87.5))


def test_cells_without_areas_are_refused_and_say_what_to_give():
    coordinates, attributes = told(GRIDS["no bounds"])
    with pytest.raises(ConfigError, match="'lat' is in 'km', neither degrees nor radians"):
        result("fldmean", FIELD, coordinates, attributes | {"lat": {"units": "km", "standard_name": "latitude"}})
    with pytest.raises(ConfigError, match=r"latitude of 177\.5 degrees, beyond a pole"):
        result("fldmean", FIELD, coordinates | {"lat": 2 * LATS}, attributes)
    with pytest.raises(ConfigError, match="'lat' has a missing value, so the cells' areas aren't known"):
        result("fldmean", FIELD, coordinates | {"lat": np.where(LATS > 80, np.nan, LATS)}, attributes)
    with pytest.raises(ConfigError, match="'lat' neither rises nor falls all the way"):
        result("fldmean", FIELD, coordinates | {"lat": np.roll(LATS, 3)}, attributes)
    result("zonmean", FIELD, coordinates | {"lat": np.roll(LATS, 3)}, attributes)
    plain, named = told(GRIDS["plain"])
    with pytest.raises(ConfigError, match=r"'lat_edges', the bounds of 'lat', has the shape \(2, 72\), not \(72, 2\)"):
        result("fldmean", FIELD, plain | {"lat_edges": plain["lat_edges"].T}, named)
    curvilinear = {"nav_lat": np.ones((72, 72)), "nav_lon": np.ones((72, 72))}
    with pytest.raises(
        ConfigError, match=r"'nav_lat' has the shape \(72, 72\) .* mean: \[y, x\] and weights: areacella"
    ):
        result("fldmean", FIELD, curvilinear, {}, dims=("y", "x"))


def test_weights_that_may_be_a_variable_or_the_areas_of_the_cells_are_refused():
    coordinates, attributes = told(GRIDS["no bounds"])
    area = np.random.default_rng(2).random(FIELD.shape)
    space = {"mean": ["lat", "lon"], "weights": "area"}
    with pytest.raises(ConfigError, match="may mean the areas of the cells or the stream's variable 'area'"):
        result(space, FIELD, coordinates, attributes, variables={"area": area})
    _, ours = result(space, FIELD, coordinates, attributes)
    _, mean = result("fldmean", FIELD, coordinates, attributes)
    assert ours == mean


ROWS, COLUMNS = np.meshgrid(np.arange(8.0), np.arange(10.0), indexing="ij")
TURNED = {"nav_lat": 8 * ROWS + COLUMNS - 30, "nav_lon": (36 * COLUMNS + 3 * ROWS + 340) % 360}
PLACES = {"nav_lat": {"units": NORTH}, "nav_lon": {"units": EAST}}
BOX = {"lat": [-10, 20], "lon": [330, 60]}
INSIDE = (TURNED["nav_lat"] >= -10) & (TURNED["nav_lat"] <= 20) & ((TURNED["nav_lon"] - 330) % 360 <= 90)


def test_a_box_of_a_curvilinear_grid_leaves_the_others_out():
    field = np.random.default_rng(7).normal(size=INSIDE.shape)
    _, found = result({"box": BOX}, field, TURNED, PLACES, ("y", "x"))
    np.testing.assert_array_equal(found, np.where(INSIDE, field, np.nan))
    _, mean = result({"box": BOX, "mean": ["y", "x"]}, field, TURNED, PLACES, ("y", "x"))
    np.testing.assert_allclose(mean, field[INSIDE].mean())


def test_a_box_of_a_list_of_cells_chooses_them(tmp_path):
    cells = {name: values.reshape(-1) for name, values in TURNED.items()}
    field = np.random.default_rng(7).normal(size=INSIDE.size)
    placement, found = result("sellonlatbox,330,60,-10,20", field, cells, PLACES, ("cell",))
    np.testing.assert_array_equal(found, field[INSIDE.reshape(-1)])
    np.testing.assert_array_equal(placement.coordinates["nav_lat"], TURNED["nav_lat"][INSIDE])


@pytest.mark.parametrize("ravel", [True, False])
def test_a_box_without_cells_is_refused(ravel):
    places = {name: values.reshape(-1) if ravel else values for name, values in TURNED.items()}
    shape = places["nav_lat"].shape
    with pytest.raises(ConfigError, match=r"has no point: they go from -30 to"):
        result({"box": {"lat": [70, 80]}}, np.zeros(shape), places, PLACES, ("y", "x")[: len(shape)])
