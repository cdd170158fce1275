"""Levels that are made of columns, over real streams: the pressure at the ground is another variable of each step."""

import numpy as np
import pytest
import streams

from bbflow.errors import ConfigError

STEPS, LEVELS, LATS, LONS = 30, 6, 4, 10
A, B = np.linspace(2000.0, 0, LEVELS), np.linspace(0, 0.99, LEVELS)
AI, BI = np.linspace(1500.0, 0, LEVELS + 1), np.linspace(0, 1, LEVELS + 1)
TARGETS = [5000.0, 50000, 85000, 101000]
PRESSURE = {"a": "hyam", "b": "hybm", "surface": "ps"}
CONFIG = {
    "windows": ["month"],
    "operators": {
        "ta": {"space": {"levels": {"to": TARGETS, "pressure": PRESSURE}}, "operators": ["mean", "count"]},
        "ta500": {
            "of": "ta - 273.15",
            "space": {"levels": {"to": [50000], "pressure": PRESSURE}, "mean": ["lat", "lon"], "weights": "none"},
            "operators": ["mean", "max"],
        },
        "heat": {
            "of": "ta",
            "space": {"levels": {"make": "integral", "pressure": {"a": "hyai", "b": "hybi", "surface": "ps"}}},
            "operators": ["mean"],
        },
        "low": {
            "of": "ta",
            "space": {"levels": {"to": [1000.0], "height": {"field": "z", "fixed": True}}},
            "operators": ["mean"],
        },
        "ps": ["max"],
    },
}
ATTRIBUTES = {
    "time/units": "hours since 2001-01-01",
    "ta/units": "K",
    "ps/units": "Pa",
    "z/units": "m",
    "lev/positive": "down",
    **{f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon", "lev")},
    **{f"{name}/_ARRAY_DIMENSIONS": ["lev", "lat", "lon"] for name in ("ta", "z")},
    "ps/_ARRAY_DIMENSIONS": ["lat", "lon"],
}
STEADY = ("z", "lat", "lon", "lev", "hyam", "hybm", "hyai", "hybi")


def fields():
    random = np.random.default_rng(3)
    shape = LEVELS, LATS, LONS
    return {
        "ta": random.normal(270, 20, (STEPS, *shape)),
        "ps": random.uniform(80000, 103000, (STEPS, LATS, LONS)),
        "z": np.cumsum(random.uniform(300, 900, shape), axis=0)[::-1].copy(),
        "lat": np.linspace(-60, 60, LATS),
        "lon": np.arange(LONS) * 36.0,
        "lev": np.arange(1.0, LEVELS + 1),
        "hyam": A,
        "hybm": B,
        "hyai": AI,
        "hybi": BI,
    }


def columns(coordinate, values, targets):
    """Interpolate along axis 1 of (steps, levels, …); coordinates ascend."""
    result = np.full((len(values), len(targets), *values.shape[2:]), np.nan)
    for step, *at in np.ndindex(len(values), *values.shape[2:]):
        place = (step, slice(None), *at)
        result[place] = np.interp(targets, coordinate[place], values[place], np.nan, np.nan)
    return result


@pytest.mark.parametrize("nodes", [1, 2])
def test_levels_are_made_where_the_columns_lie_and_folded_over_time(tmp_path, nodes):
    values = fields()
    streams.store(tmp_path, values, 12.0 * np.arange(STEPS), ATTRIBUTES, steady=STEADY, axis=-1)
    results = streams.analyse(tmp_path, CONFIG, ranks=2, nodes=nodes)
    ta, ps = values["ta"], values["ps"][:, np.newaxis]
    pressure = A[:, np.newaxis, np.newaxis] + B[:, np.newaxis, np.newaxis] * ps
    level = columns(pressure, ta, TARGETS)
    expected = level.copy()
    for at, target in enumerate(TARGETS):
        between = (pressure[:, -1] < target) & (target <= ps[:, 0])
        expected[:, at] = np.where(between, ta[:, -1], expected[:, at])
    count = (~np.isnan(expected)).sum(axis=0)
    assert 0 < count[-1].sum() < STEPS * LATS * LONS
    mean = np.where(count > 0, np.nansum(expected, axis=0) / np.maximum(count, 1), np.nan)
    np.testing.assert_allclose(results["ta_month_mean"].values[0], mean, rtol=1e-12)
    np.testing.assert_array_equal(results["ta_month_count"].values[0], count)
    assert results["ta_month_mean"].dims == ("time_month", "ta_plev", "lat", "lon")
    np.testing.assert_array_equal(results["ta_plev"].values, TARGETS)
    assert results["ta_plev"].attrs["standard_name"] == "air_pressure"
    assert results["ta_plev"].attrs["units"] == "Pa"
    means = (expected[:, 1] - 273.15).mean(axis=(1, 2))
    assert float(results["ta500_month_mean"].values.item()) == pytest.approx(means.mean(), rel=1e-12)
    assert float(results["ta500_month_max"].values.item()) == pytest.approx(means.max(), rel=1e-12)
    thick = np.diff(AI)[:, np.newaxis, np.newaxis] + np.diff(BI)[:, np.newaxis, np.newaxis] * ps
    heat = results["heat_month_mean"]
    np.testing.assert_allclose(heat.values[0], (ta * thick).sum(axis=1).mean(axis=0), rtol=1e-12)
    assert heat.attrs["units"] == "K Pa"
    heights = np.broadcast_to(values["z"], ta.shape)
    low = columns(heights[:, ::-1], ta[:, ::-1], [1000.0]).mean(axis=0)
    np.testing.assert_allclose(results["low_month_mean"].values[0], low, rtol=1e-12)


def test_a_cut_column_ends_the_analysis_with_the_dimension(tmp_path):
    streams.store(tmp_path, fields(), 12.0 * np.arange(STEPS), ATTRIBUTES, steady=STEADY, axis=0)
    with pytest.raises(Exception, match="levels of 'lev'"):
        streams.analyse(tmp_path, {"windows": ["month"], "operators": {"low": CONFIG["operators"]["low"]}}, ranks=2)


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        (
            {"to": [850, 500], "pressure": PRESSURE},
            r"reaches 850, 500: by 'ps' they go from 2\S+ to 10\S+ .* units \(Pa\)",
        ),
        ({"to": [20000.0], "height": {"field": "z", "fixed": True}}, "reaches 20000: by 'z' .* units \\(m\\)"),
        ({"to": [850, 50000], "pressure": PRESSURE}, None),
    ],
)
def test_levels_of_which_no_column_reaches_any_are_told_with_units(tmp_path, levels, says):
    values = {name: value[:2] if name in ("ta", "ps") else value for name, value in fields().items()}
    streams.store(tmp_path, values, np.arange(2.0), ATTRIBUTES, steady=STEADY, axis=-1)
    config = {"operators": {"a": {"of": "ta", "space": {"levels": levels}, "operators": ["count"]}}, "windows": ["run"]}
    if says is None:
        streams.analyse(tmp_path, config, ranks=2)
    else:
        with pytest.raises(ConfigError, match=says):
            streams.analyse(tmp_path, config, ranks=2)
