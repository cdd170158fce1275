"""Covariances and correlations of two fields over space, such as eddy fluxes, in blocks and as CDO has them."""

import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.space import parse_space
from bbflow.operators.space.described import LAT_ATTRIBUTES, LON_ATTRIBUTES
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

LAT, LON = np.linspace(-80, 80, 9), np.arange(12) * 30.0
SHAPE = (9, 12)
ATTRIBUTES = {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}


def fields(seed=0):
    random = np.random.default_rng(seed)
    u = random.normal(10, 3, SHAPE)
    v = 0.5 * u + random.normal(-2, 3, SHAPE)
    for own in (u, v):
        own[random.random(SHAPE) < 0.1] = np.nan
    return u, v


def of_blocks(item, u, v, cuts=(0, 9), **variables):
    """What blocks between some rows make of the pair."""
    (diagnostic,) = parse_diagnostics({"u": {"space": item, "operators": ["mean"]}}, ["run"]).values()
    placement = place_space(
        diagnostic.space, ("lat", "lon"), SHAPE, {"lat": LAT, "lon": LON}, variables.__getitem__, ATTRIBUTES
    )
    parts = []
    for first, last in zip(cuts, cuts[1:], strict=False):  # noqa: RUF007
        own = {name: Steps([field[first:last].reshape(-1)]) for name, field in (("u", u), ("v", v))}
        local = placement.local((first, 0), (last - first, 12))
        parts.append((local, local.partial(Steps(diagnostic.of.evaluate(own)))))
    return placement, placement.finish(placement.assemble(1, parts))[0].reshape(placement.shape)


def wanted(how, u, v, weights, axis):
    valid = np.isfinite(u) & np.isfinite(v)
    weights = np.where(valid, np.broadcast_to(weights, SHAPE), 0)
    u, v = np.where(valid, u, 0), np.where(valid, v, 0)
    whole = weights.sum(axis=axis, keepdims=True)
    u, v = (np.where(valid, own - (own * weights).sum(axis=axis, keepdims=True) / whole, 0) for own in (u, v))
    both, first, second = ((weights * own).sum(axis=axis) for own in (u * v, u * u, v * v))
    return both / whole.squeeze(axis) if how == "covariance" else both / np.sqrt(first * second)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["covariance", "correlation"]),
    st.sets(st.integers(1, 8)),
    st.sampled_from([("lon", 1), ("lat", 0)]),
    st.integers(0, 5),
)
def test_blocks_make_the_covariance_of_the_whole(how, cuts, over, seed):
    u, v = fields(seed)
    weights = np.abs(np.diff(np.sin(np.deg2rad([-90, *np.arange(-70, 80, 20), 90]))))[:, np.newaxis]
    item = {how: {"with": "v", "over": over[0]}}
    placement, found = of_blocks(item, u, v, (0, *sorted(cuts), 9))
    np.testing.assert_allclose(found, wanted(how, u, v, weights if over[0] == "lat" else 1, over[1]), rtol=1e-9)
    assert placement.own_units == ("1" if how == "correlation" else "")


def test_a_field_that_is_the_same_everywhere_has_no_correlation_however_its_mean_is_rounded():
    u, v = fields()
    for value in np.random.default_rng(3).normal(280, 30, 40):
        _, found = of_blocks({"correlation": {"with": "v", "over": ["lat", "lon"]}}, np.full_like(u, value), v)
        assert np.isnan(found).all()


def test_selections_come_before_a_covariance():
    u, v = fields()
    placement, found = of_blocks({"box": {"lat": [0, 90]}, "covariance": {"with": "2 * v", "over": ["lon"]}}, u, v)
    assert placement.dims == ("lat",)
    np.testing.assert_allclose(found, wanted("covariance", u, 2 * v, 1, 1)[4:], rtol=1e-9)


@pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed")
@pytest.mark.parametrize(("how", "name"), [("covariance", "fldcovar"), ("correlation", "fldcor")])
def test_of_the_whole_field_they_are_those_of_cdo(tmp_path, how, name):
    u, v = fields()
    for file, own in (("u.nc", u), ("v.nc", v)):
        data = xr.Dataset({"x": (("lat", "lon"), own)}, {"lat": LAT, "lon": LON})
        for dim, attributes in ATTRIBUTES.items():
            data[dim].attrs.update(attributes)
        data.to_netcdf(tmp_path / file, encoding={"x": {"_FillValue": -9e33}})
    command = ["cdo", "-s", "-b", "F64", "outputf,%.15g", f"-{name}", tmp_path / "u.nc", tmp_path / "v.nc"]
    theirs = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    area = tmp_path / "area.nc"
    subprocess.run(["cdo", "-s", "-f", "nc", "-b", "F64", "gridarea", tmp_path / "u.nc", area], check=True)
    with xr.open_dataset(area) as data:
        areas = data["cell_area"].values
    item = {how: {"with": "v", "over": ["lat", "lon"]}, "weights": "areacella"}
    _, found = of_blocks(item, u, v, areacella=areas)
    np.testing.assert_allclose(found, theirs, rtol=1e-9)


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ([{"mean": ["lat"]}, {"covariance": {"with": "v", "over": "lon"}}], "only selections come before"),
        ({"covariance": {"with": "v"}}, "write it like"),
        ({"covariance": {"with": "v", "over": "lon", "how": 1}}, "how"),
        ({"covariance": {"with": "v +", "over": "lon"}}, "v +"),
    ],
)
def test_what_is_no_pair_is_refused(item, told):
    with pytest.raises(ConfigError, match=told.replace("+", r"\+")):
        parse_space(item)


def test_no_second_pair_goes_with_one_over_space():
    content = {
        "u": {"space": {"covariance": {"with": "v", "over": "lon"}}, "operators": [{"covariance": {"with": "w"}}]}
    }
    with pytest.raises(ConfigError, match="the space takes two fields already"):
        parse_diagnostics(content, ["run"])
