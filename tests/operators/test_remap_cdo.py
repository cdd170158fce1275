"""What CDO's `remap` makes of a field with a file of weights; CDO isn't a dependency: without it these are skipped."""

import itertools
import os
import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr

from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

pytestmark = pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed")
SOURCES = {"regular": "r36x18", "gaussian": "n16", "unstructured": "icosphere"}
FILL = -9e33
TARGET = "gridtype=lonlat\nxsize=20\nysize=10\nxfirst=3.3\nxinc=18\nyfirst=-81.3\nyinc=18.1\n"
"""None of its points is one of a source, where CDO lets a missing corner of weight 0 count."""


def cdo(*words, **environment):
    command = ["cdo", "-s", "-O", "-f", "nc", "-b", "F64", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stderr


@pytest.fixture(scope="module", params=SOURCES)
def source(request, tmp_path_factory):
    """A file with a random field on three levels, with missing values, and its directory."""
    path = tmp_path_factory.mktemp("cdo") / "source.nc"
    grid = SOURCES[request.param]
    if grid == "icosphere":  # a list of cells, with corners
        cdo("-setgridtype,unstructured", "-random,r30x15,7", path)
    else:
        cdo(f"-random,{grid},7", path)
    with xr.open_dataset(path, decode_times=False) as data:
        data.load()
    (name,) = (name for name in data.data_vars if "bnds" not in name and "vertices" not in name)
    random = np.random.default_rng(4)
    values = random.normal(270, 20, (3, *data[name].squeeze().shape))
    values[:, random.random(values.shape[1:]) < 0.2] = np.nan
    field = data.drop_vars(name)
    dims = ("time", "plev", *data[name].squeeze().dims)
    field["ta"] = (dims, values[np.newaxis], {k: v for k, v in data[name].attrs.items() if k == "CDI_grid_type"})
    field = field.assign_coords(plev=("plev", [85000.0, 50000.0, 20000.0], {"units": "Pa"}), time=("time", [0.0]))
    field["time"].attrs.update(units="days since 2000-01-01")
    if "lat" in data.coords and data["lat"].dims != ("lat",):
        field["ta"].encoding["coordinates"] = "lat lon"
    file = path.with_name("ta.nc")
    field.to_netcdf(file, encoding={"ta": {"_FillValue": FILL}})
    return request.param, field, file


def ours(field, item):
    dims = field["ta"].dims[1:]
    names = [name for name in ("lat", "lon", "plev", "lat_bnds", "lon_bnds") if name in field.variables]
    known = {name: field[name].values for name in names}
    attributes = {name: field[name].attrs for name in names}
    placement = place_space(parse_space(item), dims, field["ta"].shape[1:], known, {}.__getitem__, attributes)
    values = np.where(np.isnan(field["ta"].values), FILL, field["ta"].values)
    steps = Steps([values.reshape(-1)], np.array(FILL))
    return placement, placement.local((0,) * len(dims), placement.source).values(steps)[0].reshape(placement.shape)


@pytest.mark.parametrize("least", [0.0, 0.4])
@pytest.mark.parametrize("method", ["con", "ycon", "bil", "nn", "dis"])
@pytest.mark.parametrize("masked", [False, True], ids=["as it lies", "for the mask"])
def test_the_product_is_that_of_cdo_with_the_same_weights(source, method, least, masked):
    """Weights of the grid meet missing values, or are made for those that are valid."""
    kind, field, file = source
    if (kind, method) == ("unstructured", "bil"):
        pytest.skip("CDO has no bilinear interpolation of lists of cells")
    weights, result = file.with_name("weights.nc"), file.with_name("result.nc")
    given = file if masked else file.with_name("source.nc")
    grid = file.with_name("target.txt")
    grid.write_text(TARGET)
    cdo(f"gen{method},{grid}", given, weights)
    cdo(f"remap,{grid},{weights}", file, result, REMAP_AREA_MIN=str(least))
    conservative = method.endswith("con")
    item = {"weights": str(weights), "area_min": least} if conservative else {"weights": str(weights)}
    placement, found = ours(field, {"remap": item})
    with xr.open_dataset(result, decode_times=False) as data:
        theirs = data["ta"].values.reshape(placement.shape)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(theirs))
        np.testing.assert_allclose(found, theirs, rtol=1e-12)
        np.testing.assert_allclose(placement.coordinates["lat"], data["lat"].values, atol=1e-9)


def of_blocks(field, item, cuts):
    """What blocks that are cut along the first horizontal dimension make of whole fields."""
    dims, shape = field["ta"].dims[1:], field["ta"].shape[1:]
    names = [name for name in ("lat", "lon", "plev", "lat_bnds", "lon_bnds") if name in field.variables]
    known, attributes = {name: field[name].values for name in names}, {name: field[name].attrs for name in names}
    placement = place_space(parse_space(item), dims, shape, known, {}.__getitem__, attributes)
    parts = []
    for first, last in itertools.pairwise((0, *cuts, shape[1])):
        own = np.ascontiguousarray(field["ta"].values[0][:, first:last])
        local = placement.local((0, first, *(0 for _ in shape[2:])), own.shape)
        parts.append((local, local.partial(Steps([own.reshape(-1)] * 2))))
    found = placement.finish(placement.assemble(2, parts))
    np.testing.assert_array_equal(found[0], found[1])
    return placement, found[0].reshape(placement.shape)


@pytest.mark.parametrize("cuts", [(), (5, 11)], ids=["one block", "three blocks"])
@pytest.mark.parametrize("method", ["bic", "con2", "laf"])
def test_remaps_of_whole_fields_are_those_of_cdo_with_its_weights_and_with_ours(source, method, cuts):
    """Of gradients beside missing values, and of values that several cells have; CDO's weights are of valid ones."""
    kind, field, file = source
    if kind == "unstructured" and method != "laf":
        pytest.skip("lists of cells have no gradients")
    if method == "laf":
        field = field.assign(ta=(field["ta"] / 20).round())
    weights, result, valid, grid = (file.with_name(name) for name in ("w.nc", "result.nc", "valid.nc", "target.txt"))
    grid.write_text(TARGET)
    field.to_netcdf(valid, encoding={"ta": {"_FillValue": FILL}})
    cdo(f"gen{method},{grid}", file.with_name("source.nc"), weights)
    cdo(f"remap{method},{grid}", valid, result)
    with xr.open_dataset(result, decode_times=False) as data:
        theirs = data["ta"].values[0]
    target = file.with_name("target.nc")
    cdo(f"-const,1,{grid}", target)
    items = [{"remap": str(weights)}, {f"remap{method}": str(weights)}]
    if method != "con2" and (kind, method) not in (("gaussian", "laf"), ("unstructured", "laf")):  # other cells
        items.append({f"remap{method}": {"grid": str(target)}})
    for item in items:
        placement, found = of_blocks(field, item, cuts)
        assert placement.dims == ("plev", "lat", "lon")
        np.testing.assert_array_equal(np.isnan(found), np.isnan(theirs))
        np.testing.assert_allclose(found, theirs, rtol=1e-11)
        north, area = of_blocks(field, [item, {"box": {"lat": [0, 90]}}, "fldmean"], cuts)
        weight = np.broadcast_to(np.cos(np.deg2rad(placement.coordinates["lat"]))[:, np.newaxis], theirs.shape[1:])
        weight = np.where(np.isnan(theirs), 0, weight) * (placement.coordinates["lat"] >= 0)[:, np.newaxis]
        np.testing.assert_allclose(area, np.nansum(theirs * weight, axis=(1, 2)) / weight.sum(axis=(1, 2)), rtol=2e-3)
        assert north.dims == ("plev",)


def test_what_only_sums_of_weights_have_is_refused_for_whole_fields(source):
    kind, field, _ = source
    for item, told in (
        ({"remapbic": {"grid": "r20x10", "area_min": 0.5}}, "area_min is for other methods than remapbic"),
        ({"remaplaf": {"grid": "r20x10"}, "pyramid": True}, "pyramid is for other methods"),
        ({"remapcon2": "r20x10"}, "name a file, such as of 'cdo gencon2,GRID FIELD weights.nc'"),
        *([({"remapbic": "r20x10"}, "remapbic can be made here of grids of lat")] if kind == "unstructured" else []),
    ):
        with pytest.raises(ConfigError, match=told):
            of_blocks(field, item, ())
