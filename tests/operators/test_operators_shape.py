import numpy as np
import pytest
import scipy  # its statistics, which take a second, come with the first use
from cases import batches, masked, merged_results, result_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.operators import parse_operators

OPERATORS = parse_operators(["skewness", "kurtosis", "rms"])


@given(batches(), st.data())
@settings(deadline=None, max_examples=150)
def test_any_split_and_any_order_of_merges_gives_scipys_moments_of_the_whole(case, data):
    values, fill, _ = case
    results = merged_results(data, OPERATORS, values, fill)
    for point, column in enumerate(masked(values, fill).T):
        valid = column[~np.isnan(column)]
        varies = len(set(valid)) > 1
        expected = {
            "skewness": scipy.stats.skew(valid) if varies else np.nan,
            "kurtosis": scipy.stats.kurtosis(valid) if varies else np.nan,
            "rms": np.sqrt((valid**2).mean()) if len(valid) else np.nan,
        }
        for name, value in expected.items():
            np.testing.assert_allclose(results[name][point], value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_a_small_spread_around_a_large_value_keeps_its_digits():
    values = 1e8 + np.random.default_rng(2).gamma(2.0, 1.0, (4000, 3))
    exact = values - 1e8
    for item, oracle in (("skewness", scipy.stats.skew), ("kurtosis", scipy.stats.kurtosis)):
        np.testing.assert_allclose(result_of(item, values), oracle(exact, axis=0), rtol=1e-6)


def test_values_that_are_all_the_same_have_no_skewness_however_they_are_rounded():
    values = np.full((7, 500), np.random.default_rng(3).normal(280, 30, 500))
    assert np.isnan(result_of("skewness", values)).all()
    assert np.isnan(result_of("kurtosis", values)).all()


@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_types_that_are_narrow_are_folded_in_float64(dtype):
    values = np.array([[30000], [30001], [30005]], dtype)
    np.testing.assert_allclose(result_of("rms", values), np.sqrt((values.astype("f8") ** 2).mean()))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_root_mean_square_with_an_infinite_value_is_infinite(dtype):
    values = np.array([[1.0, np.inf, 2, np.nan], [np.inf, -np.inf, 3, np.nan], [3, 4, 4, np.nan]], dtype)
    squares = np.sqrt(np.nanmean(values[:, :3].astype("f8") ** 2, axis=0))
    np.testing.assert_allclose(result_of("rms", values), [*squares, np.nan])
