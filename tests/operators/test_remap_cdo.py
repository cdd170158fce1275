"""What CDO's `remap` makes of a field with a file of weights; CDO is no dependency: without it these are skipped."""

import os
import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr

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
