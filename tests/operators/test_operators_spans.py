"""Every window on every calendar: a step is in one span, spans touch, and their keys ascend."""

import pickle
from dataclasses import replace
from datetime import timedelta

import cftime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.operators.windows import parse_window
from bbflow.operators.windows.calendars import CALENDARS, Clock

PARTITIONS = (
    "hour", {"hours": 6}, {"hours": 5}, {"hours": {"count": 36, "since": "1950-03-01"}}, "day", {"day": "12:00"},
    {"days": 5}, {"days": {"count": 10, "start": "06:30"}}, "week", {"week": "sunday"}, "month", {"months": 2},
    {"months": {"count": 5, "start": "feb"}}, "season", "year", {"year": "oct"}, {"years": 10},
    {"years": {"count": 30, "since": 1981, "start": "dec"}},
)  # fmt: skip
"""Those whose spans have no gap between them."""
GAPPED = ({"season": "JJAS"}, {"season": ["DJF", "JJA"]}, {"season": [11, 12, 1, 2, 3]})
CLIMATOLOGIES = ("clim_hour", "clim_hourofyear", "clim_dayofyear", {"clim_dayofyear": "number"}, "clim_month",
                 "clim_season", {"clim_season": "JJAS"})  # fmt: skip
RUNNING = ({"running": 5}, {"running": {"hours": 24}}, {"running": {"days": 5}}, {"running": {"months": 3}},
           {"running": {"years": 30}})  # fmt: skip
SECONDS = st.integers(-86400 * 600_000, 86400 * 600_000)
"""From before 1582 to beyond 3000."""


def closed(item, side):
    return replace(parse_window(item), closed=side)


def date_of(calendar, seconds):
    return Clock("seconds since 1850-01-01", calendar).date(seconds)


@pytest.mark.parametrize("item", PARTITIONS + GAPPED, ids=str)
@settings(deadline=None, max_examples=40)
@given(calendar=st.sampled_from(CALENDARS), seconds=SECONDS, side=st.sampled_from(["left", "right"]))
def test_a_span_holds_its_dates_and_meets_the_next_one(item, calendar, seconds, side):
    window, date = closed(item, side), date_of(calendar, seconds)
    key = window.key(date)
    if key is None:
        assert item in GAPPED
        return
    begin, end = window.bounds(key, date, date)
    instant = timedelta(microseconds=1)
    inside = (begin, end - instant) if side == "left" else (begin + instant, end)
    outside = (begin - instant, end) if side == "left" else (begin, end + instant)
    assert begin.calendar == date.calendar
    assert inside[0] <= date <= inside[1]
    assert [window.key(edge) for edge in inside] == [key, key]
    before, after = (window.key(edge) for edge in outside)
    assert before is None or (before < key and window.follows(before, key))
    assert after is None or (key < after and window.follows(key, after) and not window.follows(key, key))
    assert item in GAPPED or None not in (before, after)
    assert before is None or window.bounds(before, outside[0], outside[0])[1] == begin
    assert after is None or window.bounds(after, outside[1], outside[1])[0] == end


@pytest.mark.parametrize("item", PARTITIONS + GAPPED, ids=str)
@settings(deadline=None, max_examples=40)
@given(calendar=st.sampled_from(CALENDARS), pair=st.tuples(SECONDS, SECONDS))
def test_keys_ascend_with_dates(item, calendar, pair):
    window = parse_window(item)
    keys = [window.key(date_of(calendar, seconds)) for seconds in sorted(pair)]
    assert None in keys or keys[0] <= keys[1]


@pytest.mark.parametrize("item", CLIMATOLOGIES, ids=str)
@settings(deadline=None, max_examples=40)
@given(calendar=st.sampled_from(CALENDARS), pair=st.tuples(SECONDS, SECONDS))
def test_a_climatology_lasts_from_the_begin_of_its_first_span_to_the_end_of_its_last(item, calendar, pair):
    window = parse_window(item)
    first, last = (date_of(calendar, seconds) for seconds in sorted(pair))
    key = window.key(first)
    if key is None or window.key(last) != key:
        last = first
    if key is not None:
        begin, end = window.bounds(key, first, last)
        assert begin <= first <= last < end
        assert window.key(begin) == window.key(end - timedelta(microseconds=1)) == key
        assert not window.follows(key, key)


@pytest.mark.parametrize("item", CLIMATOLOGIES[:-1], ids=str)
@pytest.mark.parametrize("calendar", CALENDARS)
def test_a_climatology_key_comes_again(item, calendar):
    window = parse_window(item)
    times = [(year, 3, 4, 18) for year in (1999, 2000, 2001)]
    keys = {window.key(cftime.datetime(*time, calendar=calendar)) for time in times}
    shifts = item == {"clim_dayofyear": "number"} and calendar in (
        "standard",
        "gregorian",
        "proleptic_gregorian",
        "julian",
    )
    assert len(keys) == (2 if shifts else 1)
    assert window.keeps is None


@pytest.mark.parametrize("item", RUNNING, ids=str)
@settings(deadline=None, max_examples=40)
@given(calendar=st.sampled_from(CALENDARS), seconds=SECONDS)
def test_a_running_window_lasts_from_its_first_to_its_last_unit(item, calendar, seconds):
    window, date = parse_window(item), date_of(calendar, seconds)
    keys, dates = [window.key(date, 0)], [date]
    while len(keys) < window.keeps:
        dates.append(window.bounds(keys[-1], dates[-1], dates[-1])[1])
        keys.append(window.key(dates[-1], len(keys)))
        assert window.follows(*keys[-2:])
    begin, end = window.bounds(keys[-1], dates[0], dates[-1])
    assert begin == window.bounds(keys[0], date, date)[0]
    assert end == window.bounds(keys[-1], dates[-1], dates[-1])[1]


def test_steps_are_counted_from_0():
    window, date = parse_window({"steps": 10}), date_of("360_day", 0)
    keys = [window.key(date, step) for step in range(25)]
    assert keys == [(0,)] * 10 + [(1,)] * 10 + [(2,)] * 5
    assert window.follows((0,), (1,))
    assert not window.follows((0,), (2,))
    assert window.bounds((0,), date, date) == (date, date)


@pytest.mark.parametrize("item", [*PARTITIONS, *GAPPED, *CLIMATOLOGIES, *RUNNING, "run", {"steps": 3}], ids=str)
def test_windows_are_values(item):
    window = parse_window(item)
    again = pickle.loads(pickle.dumps(window))
    assert again == window == parse_window(item)
    assert hash(again) == hash(window)
    assert again.name.replace("_", "").isalnum()


def test_the_days_that_1582_left_out_are_in_no_span():
    day, last = parse_window("day"), cftime.datetime(1582, 10, 4, 20, calendar="standard")
    begin, end = day.bounds(day.key(last), last, last)
    assert (end - begin, end) == (timedelta(days=1), cftime.datetime(1582, 10, 15, calendar="standard"))
    assert day.follows(day.key(last), day.key(end))


def test_a_year_before_1_is_followed_by_the_year_1_where_there_is_no_year_0():
    year = parse_window("year")
    with pytest.warns(cftime._cftime.CFWarning):
        last = cftime.datetime(-1, 12, 31, 20, calendar="standard")
    with pytest.warns(cftime._cftime.CFWarning):
        end = year.bounds(year.key(last), last, last)[1]
    assert end == cftime.datetime(1, 1, 1, calendar="standard")
    assert year.follows(year.key(last), year.key(end))
