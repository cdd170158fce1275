"""Spaces give what CDO's operators give; CDO isn't a dependency, and its tests are skipped where it is missing."""

import shutil
import subprocess
from contextlib import nullcontext

import numpy as np
import pytest
import xarray as xr

from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

pytestmark = pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed")
LATS = np.linspace(-89.5, 89.5, 180)
LONS = np.arange(0, 360, 1.0)
PLEV = np.array([85000.0, 50000.0, 20000.0])
DIMS = ("plev", "lat", "lon")
COORDINATES = {"plev": PLEV, "lat": LATS, "lon": LONS}
UNITS = {"plev": "Pa", "lat": "degrees_north", "lon": "degrees_east"}


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """Temperature on levels with missing values, and the file that holds it."""
    random = np.random.default_rng(4)
    values = random.normal(270, 20, (3, 180, 360)) + 30 * np.cos(np.deg2rad(LATS))[:, np.newaxis]
    values[random.random(values.shape) < 0.1] = np.nan
    values[0, :7] = np.nan
    data = xr.DataArray(values, dims=DIMS, coords=COORDINATES, name="ta").expand_dims(time=[0.0])
    for name, units in UNITS.items():
        data[name].attrs["units"] = units
    data["time"].attrs.update(units="days since 2000-01-01", calendar="standard")
    path = tmp_path_factory.mktemp("cdo") / "ta.nc"
    encoding = {"ta": {"_FillValue": -9e33}, **{name: {"_FillValue": None} for name in (*DIMS, "time")}}
    data.to_netcdf(path, engine="scipy", encoding=encoding)
    return values, path


def of_cdo(path, *operators):
    """What CDO makes of the file; its dimensions of length 1 are dropped."""
    result = path.with_name("result.nc")
    chain = [f"-{operator}" for operator in operators]
    subprocess.run(["cdo", "-s", "-O", "-b", "F64", *chain, path, result], check=True, capture_output=True)
    with xr.open_dataset(result, engine="scipy") as data:
        return data["ta"].load().isel(time=0, missing_dims="ignore")


def of_ours(space, values):
    placement = place_space(parse_space(space), DIMS, values.shape, COORDINATES, {}.__getitem__)
    local = placement.local((0, 0, 0), values.shape)
    (result,) = local.values(Steps([values.reshape(-1)]))
    return placement, result.reshape(placement.shape)


@pytest.mark.parametrize("name", ["fldsum", "fldmin", "fldmax", "zonmean", "zonsum", "zonmin", "zonmax", "mermin",
                                  "mermax", "mersum", "fldrange", "zonrange", "merrange", "vertrange", "fldcount",
                                  "zonstd", "zonstd1", "zonvar", "zonvar1"])  # fmt: skip
def test_reductions_without_areas_are_those_of_cdo(field, name):
    values, path = field
    _, ours = of_ours(name, values)
    np.testing.assert_allclose(ours, of_cdo(path, name).values.reshape(ours.shape), rtol=1e-12)


def whole_of_ours(space, values):
    placement = place_space(parse_space(space), DIMS, values.shape, COORDINATES, {}.__getitem__)
    local = placement.local((0, 0, 0), values.shape)
    joined = placement.assemble(1, [(local, local.partial(Steps([values.reshape(-1)])))])
    return placement.finish(joined).reshape(placement.shape)


@pytest.mark.parametrize("name", ["fldpctl,30", "zonpctl,90", "merpctl,50", "fldpctl,100", "vertcum"])
def test_ranks_and_sums_over_space_are_those_of_cdo(field, name):
    values, path = field
    theirs = of_cdo(path, name).values
    ours = whole_of_ours(name, values)
    np.testing.assert_allclose(ours, theirs.reshape(ours.shape), rtol=1e-12)


@pytest.mark.parametrize(("name", "axes"), [("fldmedian", (1, 2)), ("zonmedian", 2), ("mermedian", 1)])
def test_medians_are_those_of_the_valid_values_which_cdo_gives_up_where_any_is_missing(field, name, axes):
    values, _ = field
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning) if name == "zonmedian" else nullcontext():
        expected = np.nanmedian(values, axis=axes)
    np.testing.assert_allclose(whole_of_ours(name, values), expected, rtol=1e-12)


def test_one_reduction_after_the_other_is_cdos_chain(field):
    values, path = field
    ours = whole_of_ours(["vertmean", "zonmax", "mermin"], values)
    np.testing.assert_allclose(ours, of_cdo(path, "mermin", "zonmax", "vertmean").values.reshape(()), rtol=1e-12)


@pytest.mark.parametrize("name", ["vertstd", "vertstd1", "vertvar", "vertvar1", "gridboxstd,4,4", "gridboxvar1,5,3"])
def test_spreads_of_few_values_are_those_of_cdo_to_the_digits_that_its_one_pass_leaves(field, name):
    values, path = field
    _, ours = of_ours(name, values)
    np.testing.assert_allclose(ours, of_cdo(path, name).values.reshape(ours.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["fldmean", "mermean", "fldint", "fldstd", "fldstd1", "fldvar", "fldvar1", "merstd", "mervar1"]
)
def test_area_weights_are_those_of_cdo_but_for_the_edges_that_cdo_takes_for_great_circles(field, name):
    """Cells are bounded by parallels here, by great circles in CDO, which at the poles is another area."""
    values, path = field
    _, ours = of_ours(name, values)
    np.testing.assert_allclose(ours, of_cdo(path, name).values.reshape(ours.shape), rtol=1e-5)


@pytest.mark.parametrize("box", ["-30,30,-20,20", "350,20,-30,30.5", "120,-90,-90,20", "10.5,11.4,0,1", "0,359,-90,90"])
def test_boxes_have_the_points_and_the_values_of_cdo_also_across_the_date_line(field, box):
    values, path = field
    placement, ours = of_ours(f"sellonlatbox,{box}", values)
    theirs = of_cdo(path, f"sellonlatbox,{box}")
    np.testing.assert_array_equal(ours, theirs.values)
    for name in ("lat", "lon"):
        own = placement.coordinates.get(name, COORDINATES[name])
        np.testing.assert_allclose((own - theirs[name].values) % 360, 0, atol=1e-9)
        assert (np.diff(own) > 0).all()


def test_levels_are_those_of_cdo(field):
    values, path = field
    placement, ours = of_ours("sellevel,20000,85000", values)
    np.testing.assert_array_equal(placement.coordinates["plev"], [20000, 85000])
    theirs = of_cdo(path, "sellevel,20000,85000").sel(plev=[20000, 85000])
    np.testing.assert_array_equal(ours, theirs.values)


@pytest.mark.parametrize(
    ("name", "rtol"), [("gridboxmean,4,3", 1e-5), ("gridboxmax,7,11", 0), ("gridboxsum,7,11", 1e-12)]
)
def test_grid_boxes_are_those_of_cdo_also_where_the_last_ones_are_smaller(field, name, rtol):
    values, path = field
    _, ours = of_ours(name, values)
    np.testing.assert_allclose(ours, of_cdo(path, name).values, rtol=rtol)


def test_a_region_is_cut_out_before_it_is_averaged(field):
    values, path = field
    _, ours = of_ours({"box": {"lat": [20, 60], "lon": [350, 40]}, "mean": ["lat", "lon"]}, values)
    np.testing.assert_allclose(ours, of_cdo(path, "fldmean", "sellonlatbox,350,40,20,60").values.reshape(-1), rtol=1e-5)


@pytest.mark.parametrize("place", [(52.52, 13.41), (-33.9, 151.2), (64.1, -21.9), (0.1, 359.8), (89.9, 100.4)])
def test_the_nearest_point_is_that_of_cdo(field, place):
    values, path = field
    _, ours = of_ours({"points": [list(place)]}, values)
    theirs = of_cdo(path, f"remapnn,lon={place[1]}_lat={place[0]}", "setmisstoc,0")
    np.testing.assert_array_equal(np.nan_to_num(ours).reshape(-1), theirs.values.reshape(-1))


def test_the_cells_of_a_gaussian_grid_reach_to_the_poles_as_in_cdo(tmp_path):
    random = tmp_path / "random.nc"
    subprocess.run(["cdo", "-s", "-f", "nc", "-b", "F64", "-setname,ta", "-random,n32,7", random], check=True)
    with xr.open_dataset(random, engine="scipy") as data:
        field = data["ta"].load().squeeze()
    coordinates = {"lat": field["lat"].values, "lon": field["lon"].values}
    placement = place_space(parse_space("fldmean"), ("lat", "lon"), field.shape, coordinates, dict)
    local = placement.local((0, 0), field.shape)
    (ours,) = local.values(Steps([field.values.reshape(-1)]))
    np.testing.assert_allclose(ours, of_cdo(random, "fldmean").values.reshape(-1), rtol=1e-3)
