import pickle

import cftime
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.windows import parse_window, parse_windows
from bbflow.operators.windows.calendars import CALENDARS, Clock
from bbflow.operators.windows.kinds import KINDS

MONTH, RUN = parse_window("month"), parse_window("run")


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
        ("days since yesterday", "standard", "'yesterday' isn't a reference date"),
        ("days since 2000-02-30", "noleap", "can't be read"),
        ("days since 2000-01-01", "none", "has no dates: set time: calendar"),
        ("months since 2000-01-01", "standard", "months differ in length there; let the program write days or hours"),
    ],
)
def test_a_wrong_time_axis_is_named(units, calendar, message):
    with pytest.raises(ConfigError, match=message):
        Clock(units, calendar)


def test_windows_come_finest_first():
    windows = parse_windows(["run", "month"])
    assert windows == parse_windows(["month", "run"]) == (MONTH, RUN)
    assert pickle.loads(pickle.dumps(windows)) == windows


@pytest.mark.parametrize(
    ("names", "message"),
    [(["mnth"], "did you mean 'month'"), ([], "valid are .*month,.* run"), (["run", "run"], "twice"), ([3], "3")],
)
def test_wrong_windows_are_named(names, message):
    with pytest.raises(ConfigError, match=message):
        parse_windows(names)


@pytest.mark.parametrize(
    ("item", "own"),
    [
        ("MS", "month"), ("M", "month"), ("D", "day"), ("h", "hour"), ("6h", {"hours": 6}), ("6H", {"hours": 6}),
        ("W", "week"), ("W-SAT", {"week": "sunday"}), ("QS-DEC", "season"), ("QE-FEB", "season"),
        ("QS", {"months": 3}), ("QS-FEB", {"months": {"count": 3, "start": 2}}), ("YS", "year"), ("A", "year"),
        ("YS-OCT", {"year": 10}), ("YE-SEP", {"year": "october"}), ("10YS", {"years": 10}), ("2MS", {"months": 2}),
        ("time.month", "clim_month"), ("time.season", "clim_season"), ("time.hour", "clim_hour"),
        ({"groupby": "time.dayofyear"}, {"clim_dayofyear": {"by": "number"}}), ({"groupby": "time.year"}, "year"),
        ({"resample": "MS"}, "month"), ({"resample": {"time": "D"}}, "day"),
        ({"running": 5}, {"running": {"steps": 5}}),
        ({"season": "JJAS"}, {"season": {"months": [6, 7, 8, 9]}}), ({"day": 720}, {"day": {"start": "12:00"}}),
        ({"season": ["JJA", "DJF"]}, {"season": [[12, 1, 2], ["jun", "jul", "aug"]]}),
        ({"season": ["DJF", "MAM", "JJA", "SON"]}, "season"),
    ],
)  # fmt: skip
def test_one_window_has_several_names(item, own):
    assert parse_window(item) == parse_window(own)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_window_has_an_example_that_is_one(kind):
    window = parse_window(yaml.safe_load(kind.example or kind.name))
    assert window.name.startswith(kind.name)
    assert kind.main is None or kind.main in kind.parameters


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("mont", "did you mean 'month'"),
        ({"groupby": "time.moth"}, "did you mean 'time.month'"),
        ({"resample": "QS-DEZ"}, "did you mean 'QS-DEC'"),
        ({"month": {"start": 3}}, "unknown parameter 'start'"),
        ({"month": 3}, "takes no value, but it is 3"),
        ("years", "needs 'count': how many"),
        ({"years": 0}, "not a whole number from 1"),
        ({"year": "okt"}, "'okt' isn't a month; did you mean 'oct'"),
        ({"year": 13}, "13 isn't a month"),
        ({"week": "son"}, "isn't a weekday"),
        ({"day": "25:00"}, "no time of day"),
        ({"days": {"count": 5, "since": "2000-02-30"}}, "isn't a date"),
        ({"season": "JAS2"}, "first letters"),
        ({"season": "J"}, "first letters"),
        ({"season": [1, 3]}, "not consecutive"),
        ({"season": ["DJF", "JFM"]}, "two seasons"),
        ({"running": {"days": 5, "hours": 3}}, "got 2 of them"),
        ({"running": {"days": 1}}, "isn't a running window"),
        ({"clim_dayofyear": "day"}, "neither date nor number"),
        ({"month": {"closed": "both"}}, "unknown choice 'both'"),
        ({"run": {"closed": "right"}}, "take it out"),
        ({"month": {"name": "a b"}}, "must be a word"),
        ({"month": None, "day": None}, "a map of one name"),
    ],
)
def test_a_wrong_window_is_named(item, message):
    with pytest.raises(ConfigError, match=message):
        parse_window(item)


def test_an_instant_at_midnight_belongs_to_the_day_that_it_ends_if_the_window_is_closed_right():
    date = cftime.datetime(2000, 3, 1, calendar="noleap")
    left, right = parse_window("month"), parse_window({"month": {"closed": "right", "name": "month_right"}})
    assert (left.key(date), right.key(date)) == ((2000, 3), (2000, 2))
    assert right.bounds((2000, 2), date, date)[1] == date
    assert [window.name for window in parse_windows(["month", {"month": {"closed": "right", "name": "ended"}}])]


@pytest.mark.parametrize(("day", "month"), [("left", "right"), ("right", "left")])
def test_days_that_end_otherwise_than_their_months_are_refused(day, month):
    every, ends = {"window": {"day": {"closed": day}}, "operator": "max"}, {"month": {"closed": month}}
    wanted = {"left": "day" if day == "left" else "month", "right": "day" if day == "right" else "month"}
    with pytest.raises(
        ConfigError, match=f"{wanted['left']} is closed on the left, but {wanted['right']} on the right"
    ):
        parse_diagnostics({"tas": {"each": every, "operators": ["mean"], "windows": [ends]}}, [])
    parse_diagnostics({"tas": {"each": every, "operators": ["mean"], "windows": ["run", {"steps": 3}]}}, [])


def test_a_step_on_a_boundary_has_one_date():
    ended = {"month": {"closed": "right"}}
    wanted = {"of": "where(m >= 6, tas, nan)", "fields": {"m": {"calendar": "month"}}, "operators": ["mean"]}
    with pytest.raises(ConfigError, match=r"year is closed on the left, but month on the right.*two dates"):
        parse_diagnostics({"tas": wanted}, [ended, "year"])
    parse_diagnostics({"tas": wanted}, [ended, "run"])


@pytest.mark.parametrize(
    ("item", "method", "told"),
    [
        ("month", "mean", "time: mean"),
        ("clim_month", "mean", "time: mean within years time: mean over years"),
        ("clim_hour", "maximum", "time: maximum within days time: maximum over days"),
        ("clim_month", "sum (of 1)", "time: sum within years time: sum over years (of 1)"),
        ("clim_season", "variance",
         "time: variance within years time: variance over years (of all values at once)"),
    ],
)  # fmt: skip
def test_cell_methods_say_what_was_done(item, method, told):
    assert parse_window(item).cell_methods(method) == told
