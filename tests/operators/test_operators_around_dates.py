"""Spreads and percentiles of the days around each date, against CDO's ydrunstd and ydrunpctl."""

import cftime
import numpy as np
import pytest
from cases import cdo
from laws import layout_of

from bbflow.errors import ConfigError
from bbflow.operators import fold_steps
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.steps import Steps

DATES = [date for date in cftime.num2date(range(5 * 366), "days since 2001-01-01", "standard") if date.year < 2006]
POINTS = 4


def series():
    random = np.random.default_rng(2)
    season = 280 + 10 * np.sin(2 * np.pi * np.arange(len(DATES)) / 365)
    values = season[:, None] + random.normal(0, 3, (len(DATES), POINTS))
    values[:, 1] = np.where(random.random(len(DATES)) < 0.2, np.nan, values[:, 1])
    values[50:900, 2], values[:, 3] = np.nan, np.nan
    return values


def around(name, values):
    found = parse_diagnostics({"tas": [name]}, [])["tas"]
    layout = layout_of(found.operators, values)
    state = bytearray(layout.nbytes)
    numbers = {"year": [date.year for date in DATES], "dayofyear": [date.dayofyr for date in DATES]}
    others = {key: Steps([np.full(POINTS, own, "f4") for own in each]) for key, each in numbers.items()}
    fold_steps(layout, None, state, list(values), others=others)
    return found.operators[0].finalize(layout, state)


@pytest.mark.parametrize("q", [10, 50, 90])
def test_percentiles_are_cdos_with_missing_values_too(q, tmp_path):
    values = series()
    written = np.where(np.isnan(values), -999.0, values)
    file = tmp_path / "in0.nc"
    (theirs,) = cdo(tmp_path, f"ydrunpctl,{q},5 {file} -ydrunmin,5 {file} -ydrunmax,5", written)
    ours = around(f"ydrunpctl,{q},5,2001,2005", values)
    np.testing.assert_allclose(ours, theirs["pr"], rtol=1e-7)  # CDO has them in float32
    assert np.isnan(ours[:, 3]).all()
    assert np.isfinite(ours[:, :2]).all()


@pytest.mark.parametrize("name", ["std", "std1", "var", "var1"])
def test_spreads_are_cdos(name, tmp_path):
    values = series()[:, [0, 0]]
    (theirs,) = cdo(tmp_path, f"ydrun{name},5", values)
    ours = around(f"ydrun{name},5,2001,2005", series())
    np.testing.assert_allclose(ours[:, 0], theirs["pr"][:, 0], rtol=1e-9)
    # Where values are missing CDO 2.1 has spreads of 100 K and more; those of what is there are NumPy's.
    windows = np.lib.stride_tricks.sliding_window_view(series()[:, 1], 5)
    middles = [(date.month, date.day) == (3, 1) for date in DATES[2:-2]]
    expected = getattr(np, f"nan{name[:3]}")(windows[middles], ddof=len(name) - 3)
    np.testing.assert_allclose(ours[60, 1], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ("ydrunstd,4,2001,2005", "odd number"),
        ("ydrunpctl,90,5", "takes percentage, days, year, year"),
        ({"around_dates": {"what": "std", "years": [2001, 2005], "q": 5}}, "takes no q"),
        ({"around_dates": {"what": "std", "years": [2001, 2005]}}, "one value for each day"),
    ],
)
def test_what_is_lacking_is_said(item, why):
    with pytest.raises(ConfigError, match=why):
        parse_diagnostics({"tas": [item]}, ["run"])
