import numpy as np
import pytest
import xarray as xr
from cases import DTYPES, batches, masked, merged_results, result_of, valid_of
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import folded, layout_of

from bbflow.operators import parse_operators

NAMES = ["first", "last", "instant"]
OPERATORS = parse_operators(NAMES)


def expected(values, fill):
    """Column by column in Python."""
    valid = valid_of(values, fill)
    picked = {name: np.full(values.shape[1], np.nan) for name in NAMES}
    for point in range(values.shape[1]):
        (steps,) = np.nonzero(valid[:, point])
        if len(steps):
            picked["first"][point] = values[steps[0], point]
            picked["last"][point] = values[steps[-1], point]
            if steps[-1] == len(values) - 1:
                picked["instant"][point] = values[-1, point]
    return picked


@given(batches(), st.data())
@settings(deadline=None, max_examples=200)
def test_any_split_and_any_order_of_merges_gives_the_ends_of_the_whole(case, data):
    values, fill, times = case
    results = merged_results(data, OPERATORS, values, fill, times)
    for name, reference in expected(values, fill).items():
        np.testing.assert_array_equal(results[name], reference.astype(results[name].dtype), err_msg=name)


def test_first_and_last_are_those_of_xarray():
    values = np.random.default_rng(0).normal(size=(20, 300)).astype("f4")
    values[np.random.default_rng(1).random(values.shape) < 0.6] = np.nan
    groups = xr.DataArray(values, dims=("time", "point")).groupby(xr.DataArray(np.zeros(20), dims="time", name="one"))
    np.testing.assert_array_equal(result_of("first", values), groups.first(skipna=True).values[0])
    np.testing.assert_array_equal(result_of("last", values), groups.last(skipna=True).values[0])
    np.testing.assert_array_equal(result_of("instant", values), groups.last(skipna=False).values[0])


def test_a_late_batch_of_earlier_steps_changes_the_first_and_not_the_last():
    values = np.arange(12.0).reshape(4, 3)
    layout = layout_of(OPERATORS, values)
    later, earlier = folded(layout, values[2:], times=[2, 3]), folded(layout, values[:2], times=[0, 1])
    layout.combine(later, earlier, later)
    first, last, instant = (operator.finalize(layout, later) for operator in OPERATORS)
    assert layout.commutes
    np.testing.assert_array_equal(first, values[0])
    np.testing.assert_array_equal(last, values[-1])
    np.testing.assert_array_equal(instant, values[-1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_point_without_a_valid_value_is_missing(name, dtype):
    values = np.full((3, 4), 99, dtype)
    assert np.isnan(result_of(name, values, 99)).all()
    assert np.isnan(result_of(name, values[:0])).all()
    assert np.array_equal(result_of(name, values), np.full(4, 99))


def test_an_infinite_value_is_a_value():
    values = np.array([[np.inf, 1.0], [2.0, -np.inf]])
    np.testing.assert_array_equal(result_of("first", values), values[0])
    np.testing.assert_array_equal(result_of("last", values), values[1])


def test_the_last_value_is_not_the_instant_one_where_the_last_step_is_missing():
    values = np.array([[1.0, 2.0], [3.0, np.nan]], "f4")
    np.testing.assert_array_equal(result_of("last", values), [3, 2])
    np.testing.assert_array_equal(result_of("instant", values), [3, np.nan])
    assert np.array_equal(masked(values, None)[-1], result_of("instant", values), equal_nan=True)
