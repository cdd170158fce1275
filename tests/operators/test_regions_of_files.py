"""Means and sums over regions of files: polygons as RFC 7946 has them, masks with numbers, and shares of cells."""

import itertools
import json
import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr

from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.described import LAT_ATTRIBUTES, LON_ATTRIBUTES
from bbflow.operators.space.grid import EARTH_RADIUS_M
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

pytest.importorskip("pyogrio")
LAT, LON = np.arange(-87.5, 90, 5), np.arange(0, 360, 5.0) + 2.5
SHAPE = (len(LAT), len(LON))
NORTH_SOUTH, WEST_EAST = (np.stack([own - 2.5, own + 2.5], axis=1) for own in (LAT, LON))
AREA = np.repeat(np.diff(np.sin(np.deg2rad(NORTH_SOUTH)))[:, 0] * np.deg2rad(5), len(LON)).reshape(SHAPE)
ATTRIBUTES = {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}
RINGS = {
    "kite": [(10, 10), (60, -5), (80, 40), (30, 55)],
    "over Greenwich": [(-40, -60), (20, -60), (20, -20), (-40, -28)],
    "cap": [(-180, -90), (180, -90), (180, -70), (-180, -65)],
}


def field():
    random = np.random.default_rng(0)
    values = random.normal(280, 10, SHAPE)
    values[random.random(SHAPE) < 0.1] = np.nan
    return values


def box(west, east, south, north):
    return [(west, south), (east, south), (east, north), (west, north)]


def polygons(path, rings, **more):
    features = [
        {
            "type": "Feature",
            "properties": {"name": name.partition("#")[0]},
            "geometry": {"type": "Polygon", "coordinates": [[*map(list, ring), list(ring[0])]]},
        }
        for name, ring in rings.items()
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **more}))
    return str(path)


def placed(item, coordinates=None, attributes=None, dims=("lat", "lon"), shape=SHAPE, **variables):
    known = {"lat": LAT, "lon": LON} if coordinates is None else coordinates
    return place_space(
        parse_space({"regions": item}), dims, shape, known, variables.__getitem__, attributes or ATTRIBUTES
    )


def values_of(placement, values):
    local = placement.local((0,) * values.ndim, values.shape)
    return local.values(Steps([values.reshape(-1)]))[0].reshape(placement.shape)


def test_regions_that_tile_the_globe_share_out_all_of_it(tmp_path):
    """Also where they cut cells, and lie across the meridian where longitudes begin anew."""
    lines, rows = [-30, 47.3, 100, 211.1, 330], [-90, -51.7, 0, 33, 90]
    rings = {
        f"{west} {south}": box(west, east, south, north)
        for west, east in itertools.pairwise(lines)
        for south, north in itertools.pairwise(rows)
    }
    values = np.random.default_rng(1).normal(size=SHAPE)
    file = polygons(tmp_path / "tiles.geojson", rings)
    sums = placed({"file": file, "how": "sum"})
    assert sums.own_units == "{units} m2"
    assert sums.cell_methods == "area: sum"
    whole = (values * AREA).sum() * EARTH_RADIUS_M**2
    np.testing.assert_allclose(values_of(sums, values).sum(), whole, rtol=1e-10)
    means = placed(file)
    np.testing.assert_allclose(values_of(means, values) @ means.coordinates["cell_area"], whole, rtol=1e-10)
    exact = [
        np.deg2rad(east - west) * np.diff(np.sin(np.deg2rad([south, north])))[0]
        for west, east in itertools.pairwise(lines)
        for south, north in itertools.pairwise(rows)
    ]
    np.testing.assert_allclose(means.coordinates["cell_area"], np.array(exact) * EARTH_RADIUS_M**2, rtol=1e-10)


def test_a_region_of_whole_cells_has_the_mean_and_sum_of_its_valid_cells(tmp_path):
    file, values = polygons(tmp_path / "one.geojson", {"box": box(10, 60, -20, 30)}), field()
    cells = np.ix_((LAT > -20) & (LAT < 30), (LON > 10) & (LON < 60))
    valid = np.isfinite(values[cells])
    whole = np.nansum(values[cells] * AREA[cells])
    np.testing.assert_allclose(values_of(placed(file), values), [whole / AREA[cells][valid].sum()], rtol=1e-12)
    sums = placed({"file": file, "how": "sum"})
    np.testing.assert_allclose(values_of(sums, values), [whole * EARTH_RADIUS_M**2], rtol=1e-12)
    plain = placed({"file": file, "how": "sum", "weights": "none"})
    np.testing.assert_allclose(values_of(plain, values), [np.nansum(values[cells])], rtol=1e-12)


def test_areas_may_be_a_variable_of_the_stream(tmp_path):
    file, values = polygons(tmp_path / "one.geojson", {"box": box(10, 60, -20, 30)}), field()
    own = np.random.default_rng(2).uniform(1, 2, SHAPE)
    cells = np.ix_((LAT > -20) & (LAT < 30), (LON > 10) & (LON < 60))
    weights = np.where(np.isnan(values), 0, own)[cells]
    found = values_of(placed({"file": file, "weights": "areacella"}, areacella=own), values)
    np.testing.assert_allclose(found, [np.nansum(values[cells] * weights) / weights.sum()], rtol=1e-12)


def test_areas_by_their_name_are_those_by_default(tmp_path):
    file = polygons(tmp_path / "one.geojson", {"box": box(10, 60, -20, 30)})
    named, plain = (placed({"file": file, "how": "sum", **item}) for item in ({"weights": "area"}, {}))
    np.testing.assert_array_equal(values_of(named, field()), values_of(plain, field()))
    assert named.own_units == plain.own_units == "{units} m2"


@pytest.mark.parametrize("how", ["mean", "sum"])
@pytest.mark.parametrize("weights", ["area", "none", "areacella"])
def test_area_min_is_the_share_of_a_region_whatever_cells_weigh(tmp_path, how, weights):
    file, values = polygons(tmp_path / "one.geojson", {"box": box(10, 60, -20, 30)}), np.ones(SHAPE)
    values[:, (LON > 10) & (LON < 40)] = np.nan
    item = {"file": file, "how": how, "weights": weights}
    for least, is_missing in ((0.39, False), (0.41, True)):
        found = values_of(placed({**item, "area_min": least}, areacella=np.full(SHAPE, 1e10)), values)
        assert np.isnan(found).tolist() == [is_missing]


def test_all_of_a_region_of_many_cells_is_valid_though_sums_are_rounded(tmp_path):
    lat, lon = np.arange(-89.75, 90, 0.5), np.arange(0.25, 360, 0.5)
    values = np.ones((len(lat), len(lon)))
    file = polygons(tmp_path / "globe.geojson", {"globe": box(-180, 180, -90, 90), "kite": RINGS["kite"]})
    placement = placed({"file": file, "area_min": 1}, {"lat": lat, "lon": lon}, shape=values.shape)
    np.testing.assert_allclose(values_of(placement, values), [1, 1])
    values[200, 100] = np.nan
    assert np.isnan(values_of(placement, values)).all()


def test_centres_at_the_poles_lie_in_what_goes_up_to_them(tmp_path):
    rings = {"south": box(-180, 180, -90, -72), "north": box(-180, 180, 72, 90)}
    item = {"file": polygons(tmp_path / "caps.geojson", rings), "cells": "centre", "how": "sum", "weights": "none"}
    lat = np.linspace(-90, 90, 37)
    placement = placed(item, {"lat": lat, "lon": LON}, shape=(37, len(LON)))
    np.testing.assert_array_equal(values_of(placement, np.ones((37, len(LON)))), [4 * len(LON), 4 * len(LON)])


def test_a_mask_may_be_of_a_list_of_cells(tmp_path):
    lat, lon, numbers = np.linspace(-60, 60, 30), np.linspace(0, 300, 30), np.arange(30) % 3
    own = {"lat": ("cell", lat, ATTRIBUTES["lat"]), "lon": ("cell", lon, ATTRIBUTES["lon"])}
    xr.Dataset({"basin": ("cell", numbers)}, own).to_netcdf(tmp_path / "cells.nc")
    item = {"file": str(tmp_path / "cells.nc"), "weights": "none"}
    placement = placed(item, {"lat": lat, "lon": lon}, dims=("cell",), shape=(30,))
    values = np.arange(30.0)
    np.testing.assert_allclose(values_of(placement, values), [values[numbers == own].mean() for own in (1, 2)])


@pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed")
def test_by_centres_means_are_those_of_cdos_maskregion(tmp_path):
    values, file = field(), tmp_path / "field.nc"
    data = xr.Dataset({"x": (("lat", "lon"), values)}, {"lat": LAT, "lon": LON})
    for name, attributes in ATTRIBUTES.items():
        data[name].attrs.update(attributes)
    data.to_netcdf(file, encoding={"x": {"_FillValue": -9e33}})
    theirs = []
    for ring in RINGS.values():
        corners = tmp_path / "corners.txt"
        corners.write_text("".join(f"{lon} {lat}\n" for lon, lat in ring))
        command = ["cdo", "-s", "-b", "F64", "outputf,%.15g", "-fldmean", f"-maskregion,{corners}", file]
        theirs.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    regions = placed({"file": polygons(tmp_path / "three.geojson", RINGS), "cells": "centre"})
    assert list(regions.coordinates["region"]) == list(RINGS)
    np.testing.assert_allclose(values_of(regions, values), theirs, rtol=1e-6)


def test_another_begin_of_longitudes_changes_nothing(tmp_path):
    file, values = polygons(tmp_path / "three.geojson", RINGS), field()
    turned = (LON + 180) % 360 - 180
    order = np.argsort(turned)
    other = placed(file, {"lat": LAT, "lon": turned[order]})
    np.testing.assert_allclose(values_of(other, values[:, order]), values_of(placed(file), values), rtol=1e-12)


def test_cells_with_corners_have_the_shares_that_they_have_between_parallels(tmp_path):
    """But for cells at a pole, of which all or nothing counts; their sides are as straight as those of polygons."""
    rings = {name: RINGS[name] for name in ("kite", "over Greenwich")}
    file, values = polygons(tmp_path / "two.geojson", rings), field()
    lat, lon = np.meshgrid(LAT, LON, indexing="ij")
    north = np.stack([lat - 2.5, lat - 2.5, lat + 2.5, lat + 2.5], axis=-1)
    east = np.stack([lon - 2.5, lon + 2.5, lon + 2.5, lon - 2.5], axis=-1) % 360
    known = {"nav_lat": lat, "nav_lon": lon, "lat_vertices": north, "lon_vertices": east}
    attributes = {
        "nav_lat": {**LAT_ATTRIBUTES, "bounds": "lat_vertices"},
        "nav_lon": {**LON_ATTRIBUTES, "bounds": "lon_vertices"},
    }
    weighted = {"file": file, "weights": "areacello"}
    found = placed(weighted, known, attributes, ("y", "x"), areacello=AREA)
    np.testing.assert_allclose(values_of(found, values), values_of(placed(file), values), rtol=1e-9)
    own = placed(file, known, attributes, ("y", "x"))  # with the areas of spherical polygons
    np.testing.assert_allclose(values_of(own, values), values_of(placed(file), values), rtol=1e-4)


def test_blocks_have_parts_of_a_region(tmp_path):
    file, values = polygons(tmp_path / "three.geojson", RINGS), field()
    placement = placed(file)
    parts = []
    for start, count in (((0, 0), (20, 30)), ((20, 0), (16, 30)), ((0, 30), (36, 42))):
        local = placement.local(start, count)
        own = values[start[0] : start[0] + count[0], start[1] : start[1] + count[1]]
        parts.append((local, local.partial(Steps([np.ascontiguousarray(own).reshape(-1)]))))
    joined = placement.finish(placement.assemble(1, parts))
    np.testing.assert_allclose(joined[0], values_of(placement, values), rtol=1e-12)


def mask_file(path, values, names=("lat", "lon"), **more):
    data = xr.Dataset({"basin": (names, values)}, {"lat": LAT, "lon": LON, **more})
    for name, attributes in ATTRIBUTES.items():
        data[name].attrs.update(attributes)
    return data, path


@pytest.mark.parametrize("named", [True, False])
def test_a_mask_has_a_region_for_each_of_its_numbers(tmp_path, named):
    values, numbers = field(), np.random.default_rng(3).integers(0, 4, SHAPE)
    data, path = mask_file(tmp_path / "basins.nc", numbers.astype("i4"))
    if named:
        data["basin"].attrs.update(flag_values=np.array([2, 0], "i4"), flag_meanings="atlantic land")
    data.to_netcdf(path)
    wanted = [(2, "atlantic"), (0, "land")] if named else [(1, "1"), (2, "2"), (3, "3")]
    regions = placed(str(path))
    assert list(regions.coordinates["region"]) == [name for _, name in wanted]
    weights = [np.where((numbers == number) & np.isfinite(values), AREA, 0) for number, _ in wanted]
    means = [np.nansum(values * own) / own.sum() for own in weights]
    np.testing.assert_allclose(values_of(regions, values), means, rtol=1e-12)


def test_shares_of_cells_are_those_of_the_file_and_may_lie_with_longitude_first(tmp_path):
    values, shares = field(), np.random.default_rng(4).uniform(0, 1, (2, *SHAPE))
    data, path = mask_file(tmp_path / "shares.nc", shares.transpose(2, 0, 1), ("lon", "region", "lat"))
    data.assign_coords(names=("region", ["a b", "c"])).to_netcdf(path)
    regions = placed(str(path))
    assert list(regions.coordinates["region"]) == ["a b", "c"]
    weights = np.where(np.isfinite(values), AREA * shares, 0)
    np.testing.assert_allclose(
        values_of(regions, values), np.nansum(values * weights, axis=(1, 2)) / weights.sum((1, 2)), rtol=1e-12
    )


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_a_mask_may_have_the_points_of_the_grid_in_another_order(tmp_path, kind):
    values, shares = field(), np.random.default_rng(5).uniform(0, 1, (2, *SHAPE))
    whole, path = mask_file(tmp_path / "whole.nc", shares, ("region", "lat", "lon"))
    whole.to_netcdf(path)
    turned = whole.assign_coords(lon=("lon", (LON + 180) % 360 - 180, LON_ATTRIBUTES)).sortby("lon")
    turned = turned.sortby("lat", ascending=False).assign_coords(lat=lambda own: own.lat.astype(kind))
    turned.to_netcdf(tmp_path / "turned.nc")
    found = placed(str(tmp_path / "turned.nc"))
    np.testing.assert_allclose(values_of(found, values), values_of(placed(str(path)), values), rtol=1e-12)


def test_polygons_of_one_name_are_one_region_in_shapefiles_too(tmp_path):
    import pyogrio
    import shapely

    rings = {"land#1": box(10, 40, 0, 30), "sea": box(100, 140, 0, 30), "land#2": box(30, 60, 0, 30)}
    shapes = shapely.to_wkb(shapely.polygons([np.array([*ring, ring[0]]) for ring in rings.values()]))
    names = np.array([name.partition("#")[0] for name in rings], object)
    file = tmp_path / "land.shp"
    pyogrio.raw.write(file, shapes, [names], ["NAME"], geometry_type="Polygon", crs="EPSG:4326")
    regions = placed(str(file))
    assert list(regions.coordinates["region"]) == ["land", "sea"]
    united = placed(polygons(tmp_path / "united.json", {"land": box(10, 60, 0, 30)}))
    np.testing.assert_allclose(values_of(regions, field())[0], values_of(united, field())[0], rtol=1e-12)


def in_system(path, system, ring=((10, 0), (40, 0), (40, 30), (10, 30))):
    import pyogrio
    import shapely

    pytest.importorskip("pyproj")
    shapes, names = shapely.to_wkb(shapely.polygons([[*ring, ring[0]]])), np.array(["land"], object)
    pyogrio.raw.write(path, shapes, [names], ["name"], geometry_type="Polygon", crs=system)
    return str(path)


@pytest.mark.parametrize("name", ["land.shp", "land.gpkg"])
@pytest.mark.parametrize("system", ["EPSG:4269", "EPSG:4267", "OGC:CRS83", "+proj=longlat +R=6371229", "EPSG:9518"])
def test_degrees_on_any_datum_are_degrees(tmp_path, name, system):
    regions = placed(in_system(tmp_path / name, system))
    plain = placed(polygons(tmp_path / "plain.json", {"land": box(10, 40, 0, 30)}))
    np.testing.assert_array_equal(values_of(regions, field()), values_of(plain, field()))


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ("EPSG:4807", r"Greenwich, but in NTF \(Paris\): bring it there"),
        ("EPSG:3857", "but in WGS 84 / Pseudo-Mercator"),
        ("+proj=longlat +datum=WGS84 +pm=paris", "isn't in degrees of latitude and of longitude from Greenwich"),
        ("+proj=ob_tran +o_proj=longlat +o_lon_p=-162 +o_lat_p=39.25 +lon_0=180", "isn't in degrees of latitude"),
    ],
)
def test_degrees_from_other_meridians_or_poles_and_metres_are_none(tmp_path, system, told):
    with pytest.raises(ConfigError, match=told):
        placed(in_system(tmp_path / "land.gpkg", system))


def test_polygons_without_a_name_are_regions_of_their_own_and_broken_ones_count_by_their_area(tmp_path):
    spike = [(0, 0), (20, 0), (20, 20), (0, 20), (0, 0), (-20, 0)]
    path = polygons(tmp_path / "f.geojson", {"a": spike, "b": box(40, 80, 0, 10), "c": box(90, 100, 0, 10)})
    told = json.loads((tmp_path / "f.geojson").read_text())
    for feature in told["features"][1:]:
        feature["properties"]["name"] = None
    (tmp_path / "f.geojson").write_text(json.dumps(told))
    regions = placed({"file": path, "how": "sum", "weights": "none"})
    assert list(regions.coordinates["region"]) == ["a", "1", "2"]
    np.testing.assert_allclose(values_of(regions, np.ones(SHAPE)), [16, 16, 4])


def test_variables_of_one_grid_share_the_weights_of_a_file_as_long_as_it_stays_the_same(tmp_path):
    file = polygons(tmp_path / "f.json", {"a": box(0, 50, 0, 50)})
    first, second = placed(file), placed(file)
    assert first.remapping_weights is second.remapping_weights
    polygons(tmp_path / "f.json", {"a": box(0, 50, 0, 50), "b": box(50, 90, 0, 50)})
    assert placed(file).shape == (2,)


def test_what_lies_outside_of_the_grid_is_missing(tmp_path):
    rings = {"in": box(0, 10, 0, 10), "out": box(0, 10, -80, -70)}
    north = LAT > 0
    regions = placed(polygons(tmp_path / "f.json", rings), {"lat": LAT[north], "lon": LON}, shape=(18, 72))
    found = values_of(regions, np.ones((18, 72)))
    np.testing.assert_array_equal(found, [1, np.nan])


def test_wrong_files_are_refused_with_what_to_do(tmp_path):
    file = polygons(tmp_path / "three.geojson", RINGS)
    crs = {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3035"}}}
    metres = polygons(tmp_path / "metres.geojson", {"a": [(4e6, 3e6), (5e6, 3e6), (5e6, 4e6)]}, **crs)
    data, path = mask_file(tmp_path / "other.nc", np.ones(SHAPE))
    data.assign_coords(lat=data.lat + 2.4).to_netcdf(path)
    flags, told_flags = mask_file(tmp_path / "flags.nc", np.ones(SHAPE, "i4"))
    flags.basin.attrs["flag_values"] = "1, 2"
    flags.assign_coords(names=("region", ["a", "b"])).to_netcdf(told_flags)
    shares, told_shares = mask_file(tmp_path / "several.nc", np.ones((2, *SHAPE)), ("region", "lat", "lon"))
    shares.assign_coords(names=("kind", ["a", "b"])).to_netcdf(told_shares)
    for item, told in (
        ({"file": metres}, "ogr2ogr"),
        ({"file": file, "names": "nme"}, "no property 'nme'"),
        ({"file": str(path)}, "points lie elsewhere"),
        ({"file": str(told_flags)}, "must be numbers"),
        ({"file": str(told_flags), "names": "names"}, "'flag_meanings' name the numbers"),
        ({"file": str(told_shares), "names": "names"}, "isn't along region, but kind"),
        (
            {"file": polygons(tmp_path / "line.json", {"thin": [(0, 0), (10, 0), (5, 0)]})},
            "'thin' is a polygon without",
        ),
        ({"file": str(tmp_path / "none.shp")}, "No such file"),
        ({"file": polygons(tmp_path / "low.json", {"a": box(0, 9, -80, -70)})}, "no cell of the variable's grid"),
    ):
        with pytest.raises(ConfigError, match=told):
            placed(item, {"lat": LAT[LAT > 0], "lon": LON} if "low" in str(item) else None,
                   shape=(18, 72) if "low" in str(item) else SHAPE)  # fmt: skip
    with pytest.raises(ConfigError, match="unknown choice 'median'"):
        parse_space({"regions": {"file": file, "how": "median"}})
