import numpy as np
import pytest
from cases import DTYPES, batches, merged_results, result_of, valid_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.operators import parse_operators

LIMITS = st.none() | st.integers(-9, 9) | st.sampled_from([0.1, -0.5, 1e300, -1e300, 2**63, 127])


@st.composite
def limits(draw):
    """Limits of any of the three kinds, with and without themselves."""
    above, below, inclusive = draw(LIMITS), draw(LIMITS), draw(st.booleans())
    if above is not None and below is not None and above >= below:
        below = None
    if above is None and below is None:
        above = 1.5
    return {"above": above, "below": below, "inclusive": inclusive}


def within(value, above, below, inclusive):
    """Compare in Python, whose numbers compare exactly whatever their types are."""
    over = above is None or value > above or (inclusive and value == above)
    under = below is None or value < below or (inclusive and value == below)
    return over and under


def given_as(limits):
    return {name: value for name, value in limits.items() if value is not None}


def count(values, fill, **limits):
    met = [[within(value, **limits) for value in row] for row in values.tolist()]
    return (np.array(met, bool).reshape(values.shape) & valid_of(values, fill)).sum(0)


@given(batches(), limits(), st.data())
@settings(deadline=None, max_examples=300)
def test_any_split_and_any_order_of_merges_counts_exactly_what_is_within(case, chosen, data):
    values, fill, times = case
    items = [{"exceedance": given_as(chosen)}, {"exceedance": given_as(chosen) | {"fraction": True, "name": "share"}}]
    results = merged_results(data, parse_operators(items), values, fill, times)
    counts, valid = count(values, fill, **chosen), valid_of(values, fill).sum(0)
    np.testing.assert_array_equal(results["exceedance"], counts)
    assert results["exceedance"].dtype == "i4"
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(results["share"], counts / valid)


@pytest.mark.parametrize("limit", [0.1, 16777217, 1 / 3])
def test_a_float32_is_compared_with_the_limit_as_it_is_written(limit):
    near = np.nextafter(np.float32(limit), np.array([-np.inf, np.inf], "f4"))
    values = np.sort(np.append(near, np.float32(limit)))[:, None]
    for inclusive in (False, True):
        for side in ("above", "below"):
            chosen = {side: limit, "inclusive": inclusive}
            expected = count(values, None, **({"above": None, "below": None} | chosen))
            np.testing.assert_array_equal(result_of({"exceedance": chosen}, values), expected)


@pytest.mark.parametrize("steps", [255, 256, 700])
@pytest.mark.parametrize("points", [1, 300])
def test_long_batches_do_not_overflow(steps, points):
    values = np.ones((steps, points), "f4")
    assert (result_of({"exceedance": {"above": 0}}, values) == steps).all()
    assert (result_of({"exceedance": {"above": 0, "fraction": True}}, values) == 1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_point_without_a_valid_value_counts_zero_and_has_no_fraction(dtype):
    for values in (np.full((3, 4), 99, dtype), np.empty((0, 4), dtype)):
        assert not result_of({"exceedance": {"above": 1}}, values, 99).any()
        assert np.isnan(result_of({"exceedance": {"above": 1, "fraction": True}}, values, 99)).all()


def test_infinite_values_are_beyond_every_limit():
    values = np.array([[np.inf, -np.inf, np.nan]], "f4")
    np.testing.assert_array_equal(result_of({"exceedance": {"above": 1e300}}, values), [1, 0, 0])
    np.testing.assert_array_equal(result_of({"exceedance": {"below": -1e300}}, values), [0, 1, 0])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("exceedance", "operator 'exceedance': every value would count: give it 'above', 'below' or both"),
        ({"exceedance": {"above": 2, "below": 2}}, "no value is above 2 and below 2"),
        ({"exceedance": {"above": 2, "below": 1, "inclusive": True}}, "no value is at or above 2"),
        ({"exceedance": {"above": 2, "inclsive": True}}, "did you mean 'inclusive'"),
        ({"exceedance": {"above": 2, "fraction": 1}}, "neither true nor false"),
        ({"excedance": {"above": 2}}, "did you mean 'exceedance'"),
    ],
)
def test_wrong_limits_are_named(item, message):
    with pytest.raises(ConfigError, match=message):
        parse_operators([item])


def test_the_limits_are_in_the_cf_words():
    (number,) = parse_operators([{"exceedance": {"above": 298.15}}])
    (share,) = parse_operators([{"exceedance": {"above": 1, "below": 2, "inclusive": True, "fraction": True}}])
    assert number.cell_method == "sum (of 1 for each value above 298.15)"
    assert share.long_name == "fraction of values at or above 1 and at or below 2"
    assert number.units("K") == share.units("K") == "1"
