"""Days beyond percentiles of the run's own base period, against each replacement of a year by NumPy's quantiles."""

from functools import cache

import cftime
import numpy as np
import pytest
from cases import cuts
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import layout_of, merged

from bbflow.errors import ConfigError
from bbflow.operators import fold_steps, parse_operators
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.steps import Steps

FIRST, LAST, BASE = 2002, 2006, (2003, 2005)
POINTS = 4


@cache
def days_of(calendar):
    units, length = f"days since {FIRST}-01-01", len(range(FIRST, LAST + 1)) * 366
    dates = cftime.num2date(np.arange(length), units, calendar)
    return [date for date in dates if date.year <= LAST]


def series(dates):
    """Daily values: one point whole, one with gaps, one with ties, one without any value."""
    random = np.random.default_rng(8)
    season = 280 + 10 * np.sin(2 * np.pi * np.arange(len(dates)) / 365.25)
    values = season[:, None] + random.normal(0, 3, (len(dates), POINTS))
    values[:, 1] = np.where(random.random(len(dates)) < 0.1, np.nan, values[:, 1])
    values[100:700, 1] = np.nan
    values[:, 2] = np.round(values[:, 2])
    values[:, 3] = np.nan
    return values


def beside(dates, part=slice(None)):
    numbers = {"year": [date.year for date in dates], "dayofyear": [date.dayofyr for date in dates]}
    return {name: Steps([np.full(POINTS, own, "f4") for own in numbers[name][part]]) for name in numbers}


def result(operator, values, dates):
    layout = layout_of([operator], values)
    state = bytearray(layout.nbytes)
    fold_steps(layout, None, state, list(values), others=beside(dates))
    return operator.finalize(layout, state)


def table(years, q, window=5):
    """Percentile of each day of the year, of a list of years' arrays that follow each other."""
    whole, numbers = np.concatenate(years), np.concatenate([np.arange(len(year)) for year in years])
    padded = np.pad(whole, ((window // 2, window // 2), (0, 0)), constant_values=np.nan)
    around = np.lib.stride_tricks.sliding_window_view(padded, window, axis=0)
    length = max(map(len, years))
    samples = np.full((min(length, 365), len(years), POINTS, window), np.nan)
    for day, sample in enumerate(samples):
        own = around[numbers == day]
        sample[: len(own)] = own
    samples = np.moveaxis(samples, 2, 1).reshape(len(samples), POINTS, -1)
    found = np.nanquantile(samples, q / 100, axis=-1, method="median_unbiased")
    if length < 366:
        return found
    places = np.linspace(1, 366, 365)
    return np.stack([np.interp(np.arange(1, 367), places, column) for column in found.T], axis=1)


def share(year, limits, sign):
    valid = ~np.isnan(year) & ~np.isnan(limits[: len(year)])
    return 100 * (sign * year > sign * limits[: len(year)]).sum(axis=0) / valid.sum(axis=0)


def in_place_of(year, other):
    """Another year's days at the dates of a year."""
    if len(other) == len(year):
        return other
    return np.delete(other, 59, axis=0) if len(other) > len(year) else np.insert(other, 59, np.nan, axis=0)


@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:invalid value")
@pytest.mark.parametrize(("calendar", "q", "side"), [("standard", 90, "above"), ("360_day", 10, "below")])
def test_each_year_of_the_base_period_is_judged_by_all_others_in_its_place(calendar, q, side):
    dates = days_of(calendar)
    values, sign = series(dates), 1 if side == "above" else -1
    years = [values[[date.year == year for date in dates]] for year in range(FIRST, LAST + 1)]
    base = years[BASE[0] - FIRST : BASE[1] - FIRST + 1]
    plain, expected = table(base, q), []
    for number, year in enumerate(years, FIRST):
        at = number - BASE[0]
        if 0 <= at < len(base):
            others = [other for own, other in enumerate(base) if own != at]
            tables = [table([*base[:at], in_place_of(year, other), *base[at + 1 :]], q) for other in others]
        else:
            tables = [plain]
        expected.append(np.mean([share(year, limits, sign) for limits in tables], axis=0))
    given = {"base": list(BASE), "years": [FIRST, LAST], "q": q, "side": side}
    (operator,) = parse_operators([{"beyond_base": given}])
    np.testing.assert_allclose(result(operator, values, dates), expected, rtol=1e-9)
    (percentile,) = parse_operators([{"base_percentile": {"base": list(BASE), "q": q, "length": len(plain)}}])
    np.testing.assert_allclose(result(percentile, values, dates), plain, rtol=1e-12)
    assert operator.axes
    assert operator.axes[0].values == tuple(range(FIRST, LAST + 1))
    spells = {"base": list(BASE), "years": [FIRST, LAST], "q": q, "side": side, "at_least": 2}
    (operator,) = parse_operators([{"base_spell_days": spells}])
    found = result(operator, values, dates)[:, 0]
    for year, days in zip(years, found, strict=True):
        met = sign * year[:, 0] > sign * plain[: len(year), 0]
        runs = np.split(met, np.flatnonzero(np.diff(met)) + 1)
        assert days == sum(len(run) for run in runs if run[0] and len(run) >= 2)
    assert found.sum() > 0


@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:invalid value")
def test_rain_of_days_above_the_wet_days_of_the_base_period():
    dates = days_of("standard")
    random = np.random.default_rng(3)
    values = np.where(random.random((len(dates), POINTS)) < 0.4, random.exponential(8, (len(dates), POINTS)), 0)
    values[5:90, 1], values[:, 3], values[:, 2] = np.nan, np.nan, 0.5
    of = np.array([date.year for date in dates])
    based = values[(of >= BASE[0]) & (of <= BASE[1])]
    limit = np.nanquantile(np.where(based >= 1, based, np.nan), 0.95, axis=0, method="median_unbiased")
    for what in ("total", "share", "days"):
        given = {"base": list(BASE), "years": [FIRST, LAST], "q": 95, "what": what}
        (operator,) = parse_operators([{"wet_beyond_base": given}])
        found = result(operator, values, dates)
        counted = np.where(values >= 1, 1 if what == "days" else values, 0)
        for year in range(FIRST, LAST + 1):
            own = of == year
            above = np.where(values[own] > limit, counted[own], 0).sum(axis=0)
            expected = above if what == "total" else 100 * above / counted[own].sum(axis=0)
            np.testing.assert_allclose(found[year - FIRST], np.where(np.isnan(limit), np.nan, expected), rtol=1e-12)


@given(st.data())
@settings(deadline=None, max_examples=8)
def test_any_split_and_any_tree_of_merges_gives_the_same_to_the_bit(data):
    dates = days_of("noleap")
    values = series(dates).astype(data.draw(st.sampled_from(["f4", "f8"])))
    (operator,) = parse_operators([{"base_spell_days": {"base": list(BASE), "years": [FIRST, LAST], "at_least": 2}}])
    layout, states = layout_of([operator], values), []
    for part in data.draw(cuts(len(values))):
        state = bytearray(layout.nbytes)
        layout.clear(state)
        fold_steps(layout, state, state, list(values[part]), others=beside(dates, part))
        states.append(state)
    whole = result(operator, values, dates)
    np.testing.assert_array_equal(operator.finalize(layout, merged(data, layout, states)), whole)
    assert np.nansum(whole) > 0


def test_a_base_period_that_is_not_all_there_has_no_percentiles():
    dates = days_of("standard")
    values = series(dates)
    (operator,) = parse_operators([{"beyond_base": {"base": list(BASE), "years": [FIRST, LAST]}}])
    short = len([date for date in dates if date.year < BASE[1]]) + 100
    assert np.isnan(result(operator, values[:short], dates[:short])).all()


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"TX90p": {"base": [2003, 2003]}}, "no others for the bootstrap"),
        ({"TX90p": {"base": [2003, 2005], "years": [2004, 2006]}}, "don't hold the base period"),
        ({"TX90p": {"base": 2003}}, "isn't a period"),
        ({"TX90p": {"base": [2003, 2005], "window": "month"}}, "window"),
        ({"TX90p": {"years": [2003, 2005]}}, "needs base"),
        ({"SU": {"base": [2003, 2005]}}, "no base period"),
        ({"beyond_base": {"base": [2003, 2005]}}, "one value for each day"),
        ({"WSDI": {"base": [2003, 2005], "days": 4}}, "odd number"),
    ],
)
def test_what_a_base_period_can_not_be_is_refused(item, why):
    with pytest.raises(ConfigError, match=why):
        parse_diagnostics({"tas": [item]}, ["run"])


@pytest.mark.parametrize("window", ["month", "year", {"steps": 360}])
def test_a_base_period_is_of_the_whole_run_and_of_no_other_window(window):
    parts = {"each": {"day": "max"}, "operators": [{"beyond_base": {"base": [2003, 2005]}}]}
    with pytest.raises(ConfigError, match=r"beyond_base takes all days of its years.*windows: \[run\]"):
        parse_diagnostics({"tas": parts}, [window])
    assert parse_diagnostics({"tas": parts}, ["run"])


def test_indices_of_a_base_period_are_said_by_their_names():
    found = parse_diagnostics(
        {"tas": [{"TN10p": {"base": [2003, 2005]}}], "pr": [{"R95pTOT": {"base": [2003, 2005], "units": "mm/day"}}]}, []
    )
    assert [item.windows[0].name for item in found.values()] == ["run", "run"]
    assert found["tas"].each is not None
    assert (found["tas"].each.operator.name, found["tas"].operators[0].name) == ("min", "TN10p")
    assert set(found["pr"].fields_after) == {"year", "dayofyear"}
