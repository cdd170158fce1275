"""Statistics to which steps contribute by their length, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import cuts, layout_of, merged

from bbflow.errors import BbflowError, ConfigError
from bbflow.operators import fold_steps
from bbflow.operators.configured import parse_diagnostics

OPERATORS = ["mean", "var", "std", "sum", "min", "max", "range", "count", "first", "argmax"]


def operators_of(names, weights="time"):
    return parse_diagnostics({"x": {"operators": names, "weights": weights}}, ["run"])["x"].operators


def right(values, weights, fill):
    """What NumPy has of values of shape (steps, points)."""
    mask = (values != values) | (values == fill)
    own, held = np.ma.masked_array(values.astype("f8"), mask), np.where(mask, 0, weights[:, None])
    with np.errstate(all="ignore"):
        mean = (own.filled(0) * held).sum(axis=0) / held.sum(axis=0)
        var = (np.where(mask, 0, own.filled(0) - mean) ** 2 * held).sum(axis=0) / held.sum(axis=0)
    total = np.where(mask.all(axis=0), np.nan, (own.filled(0) * held).sum(axis=0))
    return {"mean": mean, "var": var, "std": np.sqrt(var), "sum": total}


@given(st.data(), st.sampled_from(["f4", "f8", "i4"]), st.integers(1, 12))
def test_any_cut_and_any_merge_give_what_numpy_has_of_the_whole(data, dtype, steps):
    values = np.reshape(data.draw(st.lists(st.integers(-50, 50), min_size=3 * steps, max_size=3 * steps)), (-1, 3))
    values = values.astype(dtype)
    if dtype != "i4":
        values[data.draw(st.lists(st.integers(0, steps - 1), max_size=4)), 1] = np.nan
    weights = np.array(data.draw(st.lists(st.floats(0.01, 100), min_size=steps, max_size=steps)))
    operators = operators_of(OPERATORS)
    layout, states = layout_of(operators, values), []
    for part in data.draw(cuts(steps)):
        state = bytearray(layout.nbytes)
        at = np.arange(steps)[part]
        fold_steps(layout, None, state, list(values[part]), 7, steps=at, weights=weights[part])
        states.append(state)
    whole, expected = merged(data, layout, states), right(values, weights, 7)
    for operator in operators:
        if operator.name in expected:
            found = operator.finalize(layout, whole)
            np.testing.assert_allclose(found, expected[operator.name], rtol=1e-9, atol=1e-7)


def test_counts_and_extremes_are_those_of_steps_that_count_alike():
    values, weights = np.arange(12.0).reshape(4, 3), np.array([1.0, 2.0, 3.0, 4.0])
    found = {}
    for by in ("time", "steps"):
        operators = operators_of(["min", "max", "range", "count", "mean"], by)
        layout = layout_of(operators, values)
        state = bytearray(layout.nbytes)
        fold_steps(layout, None, state, list(values), weights=weights)
        found[by] = {item.name: item.finalize(layout, state).tolist() for item in operators}
    alike = {name: own for name, own in found["steps"].items() if name != "mean"}
    assert alike == {name: own for name, own in found["time"].items() if name != "mean"}
    assert found["time"]["mean"] == [6.0, 7.0, 8.0]
    assert found["steps"]["mean"] == [4.5, 5.5, 6.5]


@pytest.mark.parametrize(
    ("operators", "more", "message"),
    [
        (["median"], {"weights": "time"}, "has no weighted form"),
        ([{"std": {"ddof": 1}}], {"weights": "time"}, "ddof"),
        (["sum"], {"weights": "month"}, "needs the steps' lengths"),
        (["mean"], {"weights": "tme"}, "did you mean 'time'"),
        (["mean"], {"weights": "time", "each": {"day": "max"}}, "has no length of its own"),
    ],
)
def test_what_cannot_be_weighted_is_refused(operators, more, message):
    with pytest.raises(ConfigError, match=message):
        parse_diagnostics({"x": {"operators": operators, **more}}, ["run"])


def test_steps_without_weights_are_refused_where_they_count():
    operators = operators_of(["mean"])
    layout = layout_of(operators, np.zeros((2, 3)))
    with pytest.raises(BbflowError, match="each needs one"):
        fold_steps(layout, None, bytearray(layout.nbytes), list(np.zeros((2, 3))))
