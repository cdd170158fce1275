import numpy as np
import pytest
import xarray as xr
from cases import DTYPES, batches, cdo, merged_results, result_of, valid_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from laws import folded, layout_of

from bbflow.errors import BbflowError, ConfigError
from bbflow.operators import parse_operators
from bbflow.operators.steps import Steps

OPERATORS = parse_operators(
    [
        {"covariance": {"with": "psl"}},
        {"covariance": {"with": "psl", "ddof": 1, "name": "sample"}},
        {"correlation": {"with": "psl"}},
        {"trend": {"intercept": True}},
        "detrended_std",
        {"detrended_var": {"ddof": 2}},
    ]
)


def pairs(values, fill, other, other_fill):
    """The pairs of which both are valid, point by point, in float64."""
    valid = valid_of(values, fill) & valid_of(other, other_fill)
    for point in range(values.shape[1]):
        met = valid[:, point]
        yield values[met, point].astype("f8"), other[met, point].astype("f8")


def co_moments(x, y):
    """Centred sums by numpy in two passes."""
    dx, dy = x - (x.mean() if len(x) else 0), y - (y.mean() if len(y) else 0)
    return (dx * dy).sum(), (dx * dx).sum(), (dy * dy).sum()


def assert_covariances(results, values, fill, other, other_fill):
    for point, (x, y) in enumerate(pairs(values, fill, other, other_fill)):
        xy, xx, yy = co_moments(x, y)
        near = {"rtol": 1e-9, "atol": 1e-12 * max(np.abs(x).max(initial=0) * np.abs(y).max(initial=0), 1)}
        np.testing.assert_allclose(results["covariance"][point], xy / len(x) if len(x) else np.nan, **near)
        np.testing.assert_allclose(results["sample"][point], xy / (len(x) - 1) if len(x) > 1 else np.nan, **near)
        expected = xy / np.sqrt(xx * yy) if len(set(x)) > 1 and len(set(y)) > 1 else np.nan
        np.testing.assert_allclose(results["correlation"][point], expected, rtol=1e-9, atol=1e-9)


def assert_trends(results, values, fill, times):
    everywhere = np.broadcast_to(times[:, None], values.shape)
    for point, (x, t) in enumerate(pairs(values, fill, everywhere, None)):
        expected = np.polyfit(t, x, 1) if len(t) > 1 else (np.nan, np.nan)
        np.testing.assert_allclose(results["trend"][point], expected[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(results["intercept"][point], expected[1], rtol=1e-9, atol=1e-9)
        left = x - np.polyval(expected, t)
        near = {"rtol": 1e-9, "atol": 1e-7 * max(np.abs(x).max(initial=0), 1)}
        np.testing.assert_allclose(results["detrended_std"][point], np.std(left) if len(t) > 1 else np.nan, **near)
        variance = (left**2).sum() / (len(t) - 2) if len(t) > 2 else np.nan
        np.testing.assert_allclose(results["detrended_var"][point], variance, rtol=1e-9, atol=near["atol"] ** 2 * 1e3)


@given(batches(), st.sampled_from(DTYPES), st.sampled_from([None, 3]), st.data())
@settings(deadline=None, max_examples=200)
def test_any_split_and_any_order_of_merges_gives_the_co_moments_of_the_whole(case, other_type, other_fill, data):
    values, fill, times = case
    other = data.draw(arrays(other_type, values.shape, elements=st.integers(0, 9)))
    if other_type.kind == "f":
        other[other == 5] = np.nan

    def others_of(part):
        filled = None if other_fill is None else np.asarray(other_fill, other_type)
        return {"psl": Steps(list(other[part]), filled)}

    results = merged_results(data, OPERATORS, values, fill, times, others_of)
    assert_covariances(results, values, fill, other, other_fill)
    assert_trends(results, values, fill, times)


@pytest.fixture
def fields():
    """Two correlated fields of shape (days, points), of which some values are missing."""
    random = np.random.default_rng(0)
    first = random.normal(280, 10, (60, 300))
    second = 1e5 + 3 * first + random.normal(0, 20, first.shape)
    for values in (first, second):
        values[random.random(values.shape) < 0.1] = np.nan
    first[:, 7] = np.nan
    return first.astype("f4"), second.astype("f4")


def arrays_of(fields):
    return [xr.DataArray(values.astype("f8"), {"time": np.arange(60.0)}, ("time", "point")) for values in fields]


def test_covariance_and_correlation_are_those_of_xarray(fields):
    others = {"psl": Steps(list(fields[1]))}
    first, second = arrays_of(fields)
    for ddof in (0, 1):
        result = result_of({"covariance": {"with": "psl", "ddof": ddof}}, fields[0], others=others)
        np.testing.assert_allclose(result, xr.cov(first, second, "time", ddof), rtol=1e-9)
    result = result_of({"correlation": {"with": "psl"}}, fields[0], others=others)
    np.testing.assert_allclose(result, xr.corr(first, second, "time"), rtol=1e-9)


def test_the_trend_is_that_of_xarray_polyfit(fields):
    (first, _), times = arrays_of(fields), np.arange(60.0)
    fit = first.drop_isel(point=7).polyfit("time", 1, skipna=True).polyfit_coefficients
    result = np.delete(result_of("trend", fields[0], times=times), 7)
    np.testing.assert_allclose(result, fit.sel(degree=1), rtol=1e-8)


def test_covariance_and_correlation_are_those_of_cdo(tmp_path, fields):
    others = {"psl": Steps(list(fields[1]))}
    (covariance,) = cdo(tmp_path, "timcovar", *fields)
    (correlation,) = cdo(tmp_path, "timcor", *fields)
    result = result_of({"covariance": {"with": "psl"}}, fields[0], others=others)
    np.testing.assert_allclose(result, covariance["pr"][0], rtol=1e-6)
    result = result_of({"correlation": {"with": "psl"}}, fields[0], others=others)
    np.testing.assert_allclose(result, correlation["pr"][0], rtol=1e-6)


def test_the_trend_is_that_of_cdo(tmp_path, fields):
    intercept, slope = cdo(tmp_path, "trend", fields[0], outputs=2)
    chosen = parse_operators([{"trend": {"intercept": True}}])
    layout = layout_of(chosen, fields[0])
    state = folded(layout, fields[0], times=np.arange(60))
    results = [operator.finalize(layout, state) for operator in chosen]
    np.testing.assert_allclose(results[0], slope["pr"][0], rtol=1e-6)
    np.testing.assert_allclose(results[1], intercept["pr"][0], rtol=1e-9)


def test_the_spread_about_the_trend_is_that_of_cdos_detrend(tmp_path, fields):
    for ddof, name in ((0, "timstd"), (1, "timstd1")):
        (theirs,) = cdo(tmp_path, f"{name} -detrend", fields[0])
        ours = result_of({"detrended_std": {"ddof": ddof}}, fields[0], times=np.arange(60.0))
        np.testing.assert_allclose(ours, theirs["pr"][0], rtol=1e-5)


@pytest.mark.parametrize("steps_at_once", [1, 50, 500])
def test_a_small_spread_around_large_offsets_keeps_its_digits(steps_at_once):
    random = np.random.default_rng(1)
    x = 1e7 + random.normal(0, 1, (500, 200))
    y = -1e8 + x - 1e7 + random.normal(0, 1, x.shape)
    layout = layout_of(OPERATORS, x)
    state = None
    for start in range(0, 500, steps_at_once):
        part = slice(start, start + steps_at_once)
        times = 1e6 + np.arange(500.0)[part]
        right = folded(layout, x[part], times=times, others={"psl": Steps(list(y[part]))})
        if state is not None:
            layout.combine(state, right, right)
        state = right
    results = {operator.name: operator.finalize(layout, state) for operator in OPERATORS}
    expected = ((x - x.mean(0)) * (y - y.mean(0))).mean(0)
    np.testing.assert_allclose(results["covariance"], expected, rtol=1e-9)
    np.testing.assert_allclose(results["correlation"], expected / x.std(0) / y.std(0), rtol=1e-9)
    t = np.arange(500.0) - 249.5
    np.testing.assert_allclose(results["trend"], t @ (x - x.mean(0)) / (t @ t), rtol=1e-9, atol=1e-13)


def test_a_constant_has_no_correlation_and_no_trend_away_from_zero():
    values = np.full((7, 3), 0.1)
    others = {"psl": Steps(list(np.arange(21.0).reshape(7, 3)))}
    assert np.isnan(result_of({"correlation": {"with": "psl"}}, values, others=others)).all()
    assert not result_of("trend", values).any()


def test_a_perfect_correlation_is_not_beyond_one():
    values = np.random.default_rng(3).normal(size=(9, 5000))
    others = {"psl": Steps(list(0.1 * values))}
    result = result_of({"correlation": {"with": "psl"}}, values, others=others)
    assert (result <= 1).all()
    np.testing.assert_allclose(result, 1, rtol=1e-12)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_no_pairs_are_missing(operator):
    values = np.full((3, 4), 99, "i4")
    layout = layout_of([operator], values)
    others = {"psl": Steps(list(values))}
    for state in (folded(layout, values, fill=99, others=others), folded(layout, values[:0])):
        assert np.isnan(operator.finalize(layout, state)).all()


def test_large_numbers_merged_with_nothing_do_not_overflow():
    layout = layout_of(OPERATORS, np.zeros((1, 1)))
    values = np.array([[1e200], [-1e200]])
    full = folded(layout, values, others={"psl": Steps([np.ones(1), np.zeros(1)])})
    layout.combine(folded(layout, values[:0]), full, full)
    np.testing.assert_allclose(OPERATORS[0].finalize(layout, full), 5e199)


def test_the_other_input_and_its_units_are_told():
    covariance, _, correlation, trend, intercept, *_ = OPERATORS
    assert covariance.inputs == correlation.inputs == ("psl",)
    assert trend.inputs == ()
    assert covariance.units("K", other="Pa") == "(K) (Pa)"
    assert correlation.units("K", other="Pa") == "1"
    assert trend.units("K", "days") == "(K)/(days)"
    assert intercept.units("K", "days") == "K"


@pytest.mark.parametrize(("parameters", "points"), [({"min_count": 3}, 2), ({"skipna": False}, 1), ({}, 3)])
def test_min_count_and_skipna_are_about_pairs(parameters, points):
    values = np.arange(12.0).reshape(4, 3)
    other = np.array([[1, 1, 1], [2, 2, np.nan], [4, np.nan, np.nan], [5, 5, 5]])
    result = result_of({"covariance": {"with": "psl"} | parameters}, values, others={"psl": Steps(list(other))})
    assert np.isfinite(result).sum() == points


def test_operators_of_one_other_input_share_a_state():
    families = layout_of(OPERATORS, np.zeros((1, 1))).families
    assert [family.name for family in families] == ["comoments(time)", "comoments(with psl)"]


def test_steps_without_the_other_input_are_refused():
    with pytest.raises(BbflowError, match="without their other input 'psl'"):
        result_of({"covariance": {"with": "psl"}}, np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("covariance", "operator 'covariance' needs 'with': expression of the other variable"),
        ({"correlation": {"with_": "psl"}}, "did you mean 'with'"),
        ({"correlation": {"with": 3}}, "with: 3 is not a text"),
        ({"trend": {"intercept": "perhaps"}}, "neither true nor false"),
    ],
)
def test_wrong_parameters_are_named(item, message):
    with pytest.raises(ConfigError, match=message):
        parse_operators([item])
