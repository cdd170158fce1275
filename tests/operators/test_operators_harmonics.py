import numpy as np
import pytest
from cases import batches, masked, merged_results
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import folded, layout_of

from bbflow.errors import ConfigError
from bbflow.operators import parse_operators

PERIODS = (3.0, 7.3, 24.0)
BOTH = parse_operators([{"harmonics": {"periods": [*PERIODS]}}])


def columns_of(times, period):
    """What is fitted: the mean, cosine and sine."""
    angles = 2 * np.pi * times / period
    return np.stack([np.ones_like(times), np.cos(angles), np.sin(angles)], axis=1)


def fitted(column, times, period):
    """Amplitude and first crest of one point by numpy's least squares."""
    there = ~np.isnan(column)
    _, a, b = np.linalg.lstsq(columns_of(times, period)[there], column[there])[0]
    return np.hypot(a, b), np.arctan2(b, a) / (2 * np.pi) % 1 * period


@given(batches(), st.data())
@settings(deadline=None, max_examples=100)
def test_any_split_and_any_order_of_merges_gives_the_fit_of_the_whole(case, data):
    values, fill, times = case
    found = merged_results(data, BOTH, values, fill, times)["amplitude"]
    assert found.shape == (3, values.shape[1])
    for at, period in enumerate(PERIODS):
        for point, column in enumerate(masked(values, fill).T):
            columns = columns_of(times, period)[~np.isnan(column)]
            if len(columns) < 3:
                assert np.isnan(found[at, point])
            elif np.linalg.cond(columns) < 100:  # else neither is told by so few steps
                assert found[at, point] == pytest.approx(fitted(column, times, period)[0], rel=1e-6, abs=1e-6)


def amplitudes(periods, values, times):
    """What is found of steps that are folded at once."""
    operators = parse_operators([{"harmonics": {"periods": periods}}])
    layout = layout_of(operators, values)
    return operators[0].finalize(layout, folded(layout, values, times=times))


def tides(steps=24 * 60):
    """Hourly sea level of three points, of two tides each, around a large mean; times in days."""
    times = np.arange(steps) / 24
    crests = np.array([0.1, 0.2, 0.45])
    level = 2 * np.cos(2 * np.pi * (times[:, None] - crests) / 0.5175) + 0.3 * np.sin(2 * np.pi * times[:, None])
    return times, 1e5 + level, crests


def test_tides_are_found_with_gaps_and_a_large_mean():
    times, level, crests = tides()
    level[np.random.default_rng(0).random(level.shape) < 0.2] = np.nan
    (amplitude, crest) = parse_operators([{"harmonics": {"periods": [0.5175, 1]}}])
    layout = layout_of([amplitude, crest], level)
    state = folded(layout, level, times=times)
    np.testing.assert_allclose(amplitude.finalize(layout, state)[0], 2, rtol=0.02)
    np.testing.assert_allclose(crest.finalize(layout, state)[0], crests, atol=0.005)
    for at, period in enumerate((0.5175, 1.0)):
        expected = np.transpose([fitted(column, times, period) for column in level.T])
        np.testing.assert_allclose(amplitude.finalize(layout, state)[at], expected[0], rtol=1e-6)
        np.testing.assert_allclose(crest.finalize(layout, state)[at], expected[1], rtol=1e-6)


def test_whole_periods_without_gaps_are_those_of_the_fourier_transform():
    values = np.random.default_rng(1).normal(280, 5, (240, 7))
    transformed = 2 * np.abs(np.fft.rfft(values, axis=0)) / 240
    numbers = (1, 2, 10, 60, 119)
    found = amplitudes([240 / k for k in numbers], values, np.arange(240.0))
    np.testing.assert_allclose(found, transformed[[*numbers]], rtol=1e-9)


def test_the_amplitude_is_that_of_the_generalised_lomb_scargle_periodogram():
    signal = pytest.importorskip("scipy.signal")
    random = np.random.default_rng(2)
    times = np.sort(random.uniform(0, 100, 150))
    values = random.normal(0, 1, (150, 2)) + 3 * np.cos(times)[:, None]
    found = amplitudes([*PERIODS], values, times)
    variance = values.var(axis=0)
    for at, period in enumerate(PERIODS):
        for point in range(2):
            theirs = signal.lombscargle(
                times, values[:, point], [2 * np.pi / period], floating_mean=True, normalize=True
            )
            columns = columns_of(times, period)
            fit = columns @ np.linalg.lstsq(columns, values[:, point])[0]
            assert float(np.squeeze(theirs)) == pytest.approx(
                fit.var() / variance[point], rel=1e-6
            )  # what both minimise
            assert found[at, point] == pytest.approx(fitted(values[:, point], times, period)[0], rel=1e-9)


def test_what_steps_cannot_tell_is_missing():
    values = np.arange(12.0).reshape(6, 2)
    found = amplitudes([2, 3], values, np.arange(6.0))
    assert np.isnan(found[0]).all()  # the sine is 0 at all steps
    assert np.isfinite(found[1]).all()
    assert np.isnan(amplitudes(3, values[:2], np.arange(2.0))).all()
    assert np.isnan(amplitudes(3, values * np.nan, np.arange(6.0))).all()


@pytest.mark.parametrize("periods", [[], 0, -1, [1, 1], float("inf"), "day"])
def test_periods_are_numbers_above_zero(periods):
    with pytest.raises(ConfigError, match="periods"):
        parse_operators([{"harmonics": {"periods": periods}}])
