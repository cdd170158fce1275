import numpy as np
import pytest
import xarray as xr
from cases import DTYPES, batches, cdo, masked, merged_results, result_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.operators import parse_operators

OPERATORS = parse_operators(["argmin", "argmax"])


def expected(values, fill, times):
    """By numpy, which gives the first of equal values too."""
    known = masked(values, fill)
    picked = {}
    for name, neutral in (("argmin", np.inf), ("argmax", -np.inf)):
        filled = np.where(np.isnan(known), neutral, known)
        found = np.zeros(values.shape[1], int) if not len(values) else getattr(np, name)(filled, axis=0)
        none = np.isnan(known).all(axis=0)
        picked[name] = np.where(none, np.nan, np.append(times, 0.0)[found])
    return picked


@given(batches(), st.data())
@settings(deadline=None, max_examples=200)
def test_any_split_and_any_order_of_merges_gives_the_time_of_the_first_extreme(case, data):
    values, fill, times = case
    results = merged_results(data, OPERATORS, values, fill, times)
    for name, reference in expected(values, fill, times).items():
        np.testing.assert_array_equal(results[name], reference, err_msg=name)


def test_times_are_those_of_xarray_idxmin_and_idxmax():
    random = np.random.default_rng(0)
    values = random.integers(0, 9, (30, 200)).astype("f4")
    values[random.random(values.shape) < 0.3] = np.nan
    values[:, 7] = np.nan
    times = np.cumsum(random.integers(1, 9, 30)) / 8
    data = xr.DataArray(values, {"time": times}, dims=("time", "point"))
    np.testing.assert_array_equal(result_of("argmin", values, times=times), data.idxmin("time"))
    np.testing.assert_array_equal(result_of("argmax", values, times=times), data.idxmax("time"))


@pytest.mark.parametrize(("name", "command"), [("argmin", "timminidx"), ("argmax", "timmaxidx")])
def test_step_numbers_are_those_of_cdo(tmp_path, name, command):
    random = np.random.default_rng(2)
    values = random.normal(size=(25, 40)).astype("f4")
    values[random.random(values.shape) < 0.3] = np.nan
    values[:, 3] = np.nan
    (indices,) = cdo(tmp_path, command, values)
    np.testing.assert_array_equal(result_of(name, values), indices["pr"][0])


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_worst_value_of_a_type_has_a_time_too(name, dtype):
    ends = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = np.full((3, 2), ends[name == "argmin"], dtype)
    np.testing.assert_array_equal(result_of(name, values, times=[4, 5, 6]), [4, 4])
    assert np.isnan(result_of(name, values[:0])).all()
    assert np.isnan(result_of(name, np.full((2, 2), 99, dtype), 99)).all()


def test_the_result_is_a_time_on_the_streams_axis():
    for operator in OPERATORS:
        assert operator.dated
        assert operator.units("K", "days", time_units="days since 2000-01-01") == "days since 2000-01-01"
    assert not parse_operators(["min"])[0].dated
