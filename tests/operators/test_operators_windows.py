import pickle

import cftime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.operators.calendars import CALENDARS, Clock
from bbflow.operators.windows import WINDOWS, finest, parse_windows

MONTH, RUN = WINDOWS["month"], WINDOWS["run"]


@given(st.sampled_from(CALENDARS), st.floats(-600_000, 600_000))
def test_a_month_holds_its_dates_and_meets_the_next_one(calendar, value):
    clock = Clock("days since 1850-01-01", calendar)
    date = clock.date(value)
    start, end = MONTH.bounds(MONTH.key(date), date, date)
    assert start <= date < end
    assert MONTH.key(start) == MONTH.key(date) < MONTH.key(end)
    assert (start.day, start.hour, start.second, start.microsecond) == (1, 0, 0, 0)
    assert (end.day, end.hour, end.second, end.microsecond) == (1, 0, 0, 0)
    before = clock.date(clock.number(start) - 1e-3)
    assert MONTH.bounds(MONTH.key(before), before, before)[1] == start


@pytest.mark.parametrize(
    ("calendar", "days"),
    [("standard", 29), ("noleap", 28), ("all_leap", 29), ("360_day", 30), ("julian", 29)],
)
def test_february_2000_is_as_long_as_the_calendar_says(calendar, days):
    clock = Clock("hours since 2000-02-01", calendar)
    date = clock.date(30.0)
    start, end = MONTH.bounds(MONTH.key(date), date, date)
    assert clock.number(end) - clock.number(start) == 24 * days


def test_october_1582_has_21_days():
    date = cftime.datetime(1582, 10, 20, calendar="standard")
    start, end = MONTH.bounds((1582, 10), date, date)
    assert (end - start).days == 21


def test_the_run_lasts_from_its_first_to_its_last_step():
    first, last = (cftime.datetime(year, 1, 1, calendar="noleap") for year in (2000, 2003))
    assert RUN.key(first) == RUN.key(last) == ()
    assert RUN.bounds((), first, last) == (first, last)


@pytest.mark.parametrize("calendar", CALENDARS)
def test_every_calendar_gives_numbers_back(calendar):
    clock = Clock("seconds since 2000-01-01 00:00:00", calendar)
    assert [clock.number(clock.date(value)) for value in (-3.5, 0.0, 2.6e6)] == [-3.5, 0.0, 2.6e6]


@pytest.mark.parametrize(
    ("units", "calendar", "message"),
    [
        ("days since 2000-01-01", "nolaep", "unknown calendar 'nolaep'; did you mean 'noleap'"),
        ("dais since 2000-01-01", "standard", "did you mean 'days'"),
        ("days", "standard", "no reference date"),
        ("days since yesterday", "standard", "can't be read"),
        ("days since 2000-02-30", "noleap", "can't be read"),
    ],
)
def test_a_wrong_time_axis_is_named(units, calendar, message):
    with pytest.raises(ConfigError, match=message):
        Clock(units, calendar)


def test_windows_come_finest_first():
    windows = parse_windows(["run", "month"])
    assert windows == (MONTH, RUN)
    assert finest(windows) == finest(windows[::-1]) == MONTH
    assert pickle.loads(pickle.dumps(windows)) == windows


@pytest.mark.parametrize(
    ("names", "message"),
    [(["mnth"], "did you mean 'month'"), ([], "valid are .*month,.* run"), (["run", "run"], "twice"), ([3], "3")],
)
def test_wrong_windows_are_named(names, message):
    with pytest.raises(ConfigError, match=message):
        parse_windows(names)
