import os
import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import cuts, folded, layout_of, merged

from bbflow.errors import ConfigError
from bbflow.operators import parse_operators
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.file_fields import AREA_SHARE
from bbflow.operators.space import parse_space
from bbflow.operators.space.chaining import made_of
from bbflow.operators.space.described import LAT_ATTRIBUTES, LON_ATTRIBUTES
from bbflow.operators.space.grid import Grid
from bbflow.operators.space.moves import Anomaly, Gather, Wavenumbers
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.resolve import resolve
from bbflow.operators.steps import Steps


def oscillating(steps, points, modes=4, noise=0.05, seed=0):
    """A field of a few patterns, each half as strong as the one before, and noise, far from zero."""
    random = np.random.default_rng(seed)
    patterns = np.linalg.qr(random.normal(size=(points, modes)))[0] * 2.0 ** -np.arange(modes)
    return (
        280
        + random.normal(size=(steps, modes)) @ patterns.T * np.sqrt(points)
        + random.normal(0, noise, (steps, points))
    )


def expected(values, shares, modes):
    """Variances, and patterns times the standard deviations of their series, by numpy's singular values."""
    root = np.sqrt(shares)
    _, sizes, directions = np.linalg.svd((values - values.mean(axis=0)) * root, full_matrices=False)
    patterns = directions[:modes] * sizes[:modes, None] / np.sqrt(len(values)) / root
    signs = np.sign(patterns[np.arange(modes), np.abs(patterns).argmax(axis=1)])
    return (sizes[:modes] ** 2) / len(values), patterns * signs[:, None]


def shares_of(points):
    areas = np.cos(np.linspace(-1.4, 1.4, points))
    return areas / areas.sum()


def others_of(values):
    return {AREA_SHARE: Steps([shares_of(values.shape[1])] * len(values))}


def result(operators, values, **more):
    layout = layout_of(operators, values)
    state = folded(layout, values, others=others_of(values), **more)
    return [operator.finalize(layout, state) for operator in operators]


@given(st.integers(0, 30), st.integers(1, 12), st.integers(0, 99), st.data())
@settings(deadline=None, max_examples=60)
def test_any_split_and_any_merge_is_within_its_bound_of_all_steps(steps, points, seed, data):
    values = np.random.default_rng(seed).integers(-9, 9, (steps, points)).astype("f8")
    operators = parse_operators([{"eof": {"modes": 2, "rank": 4, "bound": True}}])
    layout, shares = layout_of(operators, values), shares_of(points)
    states = [folded(layout, values[part], others=others_of(values[part])) for part in data.draw(cuts(steps))]
    state = merged(data, layout, states)
    eof, error = (operator.finalize(layout, state) for operator in operators)
    assert eof.shape == (2, points)
    if not steps:
        assert np.isnan(eof).all()
        return
    count = min(2, steps, points)
    variances, _ = expected(values, shares, count)
    found, missed = (eof[:count] ** 2 @ shares), error[0] + 1e-9 * (1 + variances[0])
    assert (found <= variances + missed * 1e-3 + 1e-9).all()
    assert (found >= variances - missed).all()
    total = ((values - values.mean(axis=0)) ** 2 @ shares).mean()
    assert error[0] <= total / 5 + 1e-9
    if steps < 8 or points <= 4:  # nothing was lost
        np.testing.assert_allclose(found, variances, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("parts", [1, 3])
def test_few_steps_have_the_patterns_of_numpy(parts):
    values = oscillating(90, 200)
    operators = parse_operators(["eof"])
    layout = layout_of(operators, values)
    state = None
    for part in np.array_split(np.arange(90), parts):
        own = folded(layout, values[part], others=others_of(values[part]))
        if state is not None:
            layout.combine(state, own, own)
        state = own
    variances, patterns = expected(values, shares_of(200), 4)
    found = operators[0].finalize(layout, state)[:4]
    np.testing.assert_allclose(found, patterns, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found**2 @ shares_of(200), variances, rtol=1e-9)


def test_many_steps_have_them_to_what_is_told():
    values = oscillating(2000, 300)
    (eof, error) = result(parse_operators([{"eof": {"modes": 4, "rank": 20, "bound": True}}]), values)
    variances, patterns = expected(values, shares_of(300), 4)
    found = eof**2 @ shares_of(300)
    assert (found <= variances * (1 + 1e-9)).all()
    assert (found >= variances - error[0] * (1 + 1e-9)).all()
    assert 0 < error[0] < 1e-3 * variances[0]
    np.testing.assert_allclose(eof, patterns, atol=0.02 * np.abs(patterns).max())


def test_points_that_miss_a_value_are_left_out_and_steps_without_any_are_none():
    values = oscillating(60, 40)
    values[5, 3], values[30:, 8], values[:, 9], values[7, 11] = np.nan, np.nan, np.nan, np.inf
    values[[9, 10], 12] = np.finfo("f8").max, np.finfo("f8").min
    values[20] = np.nan
    (eof,) = result(parse_operators([{"eof": {"modes": 3}}]), values)
    gone = [3, 8, 9, 11, 12]
    assert np.isnan(eof[:, gone]).all()
    kept = np.delete(np.delete(values, 20, axis=0), gone, axis=1)
    _, patterns = expected(kept, np.delete(shares_of(40), gone), 3)
    np.testing.assert_allclose(np.delete(eof, gone, axis=1), patterns, rtol=1e-6, atol=1e-7)


def test_a_constant_varies_in_no_mode_and_one_step_too():
    (eof,) = result(parse_operators([{"eof": {"modes": 2}}]), np.full((9, 5), 0.1))
    np.testing.assert_array_equal(eof, 0)
    (eof,) = result(parse_operators([{"eof": {"modes": 2}}]), np.arange(5.0)[None])
    np.testing.assert_array_equal(eof, 0)


@pytest.mark.parametrize("dims", [("lat", "lon"), ("lon", "lev", "lat")])
def test_areas_are_the_products_of_both_widths(dims):
    places = {"lat": np.array([-45.0, 45.0, 75.0]), "lon": np.array([0.0, 10.0, 30.0, 90.0])}
    attributes = {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}
    sizes = {"lat": 3, "lon": 4, "lev": 2}
    made = made_of(Gather("area"), Grid(dims, tuple(sizes[dim] for dim in dims), places, attributes))
    lat = np.diff(np.sin(np.deg2rad([-90, 0, 60, 90])))
    whole = xr.DataArray(lat, dims="lat") * xr.DataArray([10.0, 15.0, 40.0, 60.0], dims="lon")
    whole = (whole * xr.DataArray([1.0, 1.0], dims="lev") if "lev" in dims else whole).transpose(*dims)
    np.testing.assert_allclose(made.shares, whole / whole.sum(), rtol=1e-12)


def test_anomalies_are_from_the_mean_over_areas_that_a_space_has_too():
    places = {"lat": np.array([-45.0, 45.0, 75.0]), "lon": np.array([0.0, 10.0, 30.0, 90.0])}
    grid = Grid(("lat", "lon"), (3, 4), places, {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES})
    values = np.random.default_rng(5).normal(280, 9, (1, 3, 4))
    for over in (["lat", "lon"], ["lat"], ["lon"]):
        mean = resolve(parse_space({"mean": over}).moves, grid, {}.__getitem__)
        (found,) = mean.local((0, 0), (3, 4)).values(Steps([values.reshape(-1)]))
        shape = [1 if dim in over else size for dim, size in zip(grid.dims, grid.shape, strict=True)]
        made = made_of(Anomaly(tuple(over)), grid).make(values)
        np.testing.assert_allclose(made[0], values[0] - found.reshape(shape), rtol=1e-12, err_msg=str(over))


def placed(space, operators):
    (diagnostic,) = parse_diagnostics({"tas": {"space": space, "operators": operators}}, ["run"]).values()
    places = {"lat": np.linspace(-80, 80, 9), "lon": np.arange(12) * 30.0}
    attributes = {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}
    return place_space(diagnostic.space, ("lat", "lon"), (9, 12), places, places.__getitem__, attributes)


@pytest.mark.parametrize(
    ("space", "operators"),
    [
        ({"remapnn": "r8x4", "pyramid": True}, ["mean", "eof"]),
        ([{"remapnn": "r8x4", "pyramid": True}, {"anomaly": ["lon"]}], ["mean"]),
        ([{"anomaly": ["lon"]}, {"remapnn": "r8x4", "pyramid": True}], ["mean"]),
    ],
)
def test_pyramids_of_what_is_made_of_whole_fields_are_refused(space, operators):
    with pytest.raises(ConfigError, match="pyramid: levels are of a field that is remapped as it lies"):
        placed(space, operators)


def test_cells_of_healpix_have_equal_shares():
    np.testing.assert_array_equal(placed({"healpix": {"zoom": 1}}, ["eof"]).second.shares, np.full(48, 1 / 48))


@pytest.mark.parametrize(
    ("lon", "goes_around"),
    [
        (np.arange(1440) * 0.25, True),
        ((np.arange(36000) * 0.01).astype("f4"), True),  # rounded by more than a thousandth of their distance
        (np.r_[np.arange(0, 180, 30.0), np.arange(-180, 0, 30.0)], True),
        (np.arange(12)[::-1] * 30.0, True),
        (np.linspace(0, 360, 1441), False),  # the first point again
        (np.arange(1439) * 0.25, False),
        (np.array([0.0, 30.0] * 6), False),
    ],
)
def test_wavenumbers_need_longitudes_all_around_each_once(lon, goes_around):
    grid = Grid(("lon",), lon.shape, {"lon": lon}, {"lon": LON_ATTRIBUTES})
    if goes_around:
        assert made_of(Wavenumbers(("lon",), 3), grid).shape == (4,)
    else:
        with pytest.raises(ConfigError, match="don't go around"):
            made_of(Wavenumbers(("lon",), 3), grid)


def test_a_list_of_points_has_no_wavenumbers_but_longitudes_as_many_as_latitudes_have():
    lat, lon = np.linspace(-70, 70, 8), np.arange(8) * 45.0
    told = {"lat": LAT_ATTRIBUTES, "lon": LON_ATTRIBUTES}
    grid = Grid(("row", "lon"), (8, 8), {"lat": lat, "lon": lon}, told)
    assert made_of(Wavenumbers(("lon",), 3), grid).shape == (8, 4)
    with pytest.raises(ConfigError, match="'row' doesn't go around"):
        made_of(Wavenumbers(("row",), 3), grid)


def test_more_modes_than_the_rank_are_refused():
    with pytest.raises(ConfigError, match="6 modes need a rank"):
        parse_operators([{"eof": {"modes": 6, "rank": 5}}])


@pytest.mark.skipif(shutil.which("cdo") is None, reason="needs the program cdo (Debian's package of that name)")
def test_variances_and_patterns_are_those_of_cdo(tmp_path):
    values = oscillating(50, 36).reshape(50, 6, 6)
    lat, lon = np.linspace(-75, 75, 6), np.arange(6) * 60.0
    places = {"lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})}
    time = ("time", np.arange(50.0), {"units": "days since 2001-01-01"})
    data = xr.Dataset({"tas": (("time", "lat", "lon"), values - values.mean(axis=0))}, {"time": time, **places})
    data.to_netcdf(tmp_path / "in.nc", engine="scipy")
    run = {"cwd": tmp_path, "check": True, "timeout": 60}
    subprocess.run(["cdo", "-s", "-b", "F64", "gridweights", "in.nc", "weights.nc"], **run)  # sides are great circles
    with xr.open_dataset(tmp_path / "weights.nc", engine="scipy", decode_times=False) as weights_file:
        shares = {"none": np.full(36, 1 / 36), "area": weights_file.cell_weights.values.reshape(-1)}
    for weights, told in (("none", "off"), ("area", "on")):
        command = "cdo -s -O -b F64 eofspatial,3 in.nc values.nc patterns.nc"
        environment = os.environ | {"CDO_WEIGHT_MODE": told}
        subprocess.run(command.split(), env=environment, **run)
        with (
            xr.open_dataset(tmp_path / "values.nc", engine="scipy", decode_times=False) as values_file,
            xr.open_dataset(tmp_path / "patterns.nc", engine="scipy", decode_times=False) as patterns_file,
        ):
            variances, patterns = values_file.tas.values[:3].reshape(-1), patterns_file.tas.values.reshape(3, 36)
        operators = parse_operators([{"eof": {"modes": 3, "weights": weights}}])
        layout = layout_of(operators, values.reshape(50, 36))
        steps = {AREA_SHARE: Steps([shares[weights]] * 50)}
        (eof,) = (own.finalize(layout, folded(layout, values.reshape(50, 36), others=steps)) for own in operators)
        ours = eof**2 @ shares[weights]
        np.testing.assert_allclose(ours / ours[0], variances / variances[0], rtol=1e-5, err_msg=weights)
        for mode in range(3):
            assert abs(np.corrcoef(eof[mode], patterns[mode])[0, 1]) == pytest.approx(1, abs=1e-5)
