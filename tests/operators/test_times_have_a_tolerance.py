"""Times as programs round them, against whole seconds: every step is in the spans that exact arithmetic gives."""

import math
from datetime import timedelta
from fractions import Fraction

import cftime
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bbflow.operators.windows import parse_windows
from bbflow.operators.windows.calendars import CALENDARS, Clock
from bbflow.operators.windows.tolerance import MOMENTS_S, nearest_moment, spacing
from bbflow.transit.spans.timeline import Passed

WINDOWS = parse_windows(
    [
        "hour",
        "day",
        {"day": {"start": "12:00"}},
        "month",
        "year",
        "clim_hour",
        {"month": {"closed": "right", "name": "r"}},
    ]
)
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
TYPES = {"float": np.float32, "double": np.float64, "int64_t": np.int64}
STEPS = 30


def keys_of(dates):
    return [[window.key(date, 0) for window in WINDOWS] for date in dates]


def settled(clock, values, type_):
    """Return the dates for which steps stand that come one by one; None if the type is refused, or a step is late."""
    passed, found = Passed(), []
    for value in values:
        time, apart = float(value), spacing(float(value), type_)
        time, date = clock.settled(time, clock.date(time), passed.error_s(time, apart, clock.unit_s), passed.first)
        if passed.is_too_coarse(time, apart) or passed.is_late(time, apart):
            return None, passed
        passed = passed.after(time)
        found.append(date)
    return found, passed


axes = {
    "unit": st.sampled_from(sorted(SECONDS)),
    "calendar": st.sampled_from(CALENDARS),
    "reference": st.sampled_from([1, 347, 1850, 2000]),
    "year": st.integers(1, 2200),
    "interval_s": st.sampled_from([30, 60, 450, 600, 1200, 1800, 3600, 5400, 10800, 21600, 43200, 86400]),
    "phase": st.sampled_from([0, Fraction(1, 2)]),
}


@given(**axes, type_=st.sampled_from(sorted(TYPES)))
def test_every_span_has_the_steps_of_exact_arithmetic(unit, calendar, reference, year, interval_s, phase, type_):
    begin = cftime.datetime(reference, 1, 1, calendar=calendar)
    first = timedelta(days=year * 365, seconds=int(phase * interval_s))
    exact_s = [int(first.total_seconds()) + at * interval_s for at in range(STEPS)]
    numbers = [Fraction(second, SECONDS[unit]) for second in exact_s]
    assume(type_ != "int64_t" or all(number.denominator == 1 for number in numbers))
    values = [TYPES[type_](number.numerator) / TYPES[type_](number.denominator) for number in numbers]
    clock = Clock.of(f"{unit} since {reference}", calendar)
    dates, passed = settled(clock, values, type_)
    if dates is None:
        assert type_ == "float"
        return
    assert keys_of(dates) == keys_of([begin + timedelta(seconds=second) for second in exact_s])
    assert passed.missing == 0


@given(**axes)
def test_times_that_a_program_adds_up_are_those_that_it_means(unit, calendar, reference, year, interval_s, phase):
    begin = cftime.datetime(reference, 1, 1, calendar=calendar)
    first_s = year * 365 * 86400 + int(phase * interval_s)
    values = np.cumsum([first_s / SECONDS[unit], *[interval_s / SECONDS[unit]] * (3 * STEPS)])
    clock = Clock.of(f"{unit} since {reference}", calendar)
    dates, passed = settled(clock, values, "double")
    right = [begin + timedelta(seconds=first_s + at * interval_s) for at in range(3 * STEPS + 1)]
    assert keys_of(dates) == keys_of(right)
    assert (passed.missing, passed.is_uneven) == (0, False)


def test_days_have_all_their_steps_of_a_model_that_adds_up_minutes():
    clock = Clock.of("days since 0001-01-01", "noleap")
    values = np.cumsum(np.r_[730000.0, np.full(1440 * 40, 1 / 1440)])[::20]
    assert abs(timedelta(days=values[-1] - 730040.0)) > timedelta(milliseconds=100)
    dates, _ = settled(clock, values, "double")
    days = [date.toordinal() for date in dates[:-1]]
    assert {days.count(day) for day in days} == {72}


@pytest.mark.parametrize("interval", [600.25, math.pi, 0.1])
def test_times_that_are_no_whole_seconds_stay_as_they_are(interval):
    clock = Clock.of("seconds since 2000-01-01", "standard")
    dates, _ = settled(clock, [at * interval for at in range(300)], "double")
    begin = cftime.datetime(2000, 1, 1, calendar="standard")
    off = [date - begin - timedelta(microseconds=round(at * interval * 1e6)) for at, date in enumerate(dates)]
    assert max(map(abs, off)) <= timedelta(microseconds=1)


@pytest.mark.parametrize("unit", sorted(SECONDS))
@pytest.mark.parametrize("beside_s", [-0.5, -0.4, -0.02, 0.3, 0.5])
def test_steps_that_begin_beside_a_whole_second_stay_there(beside_s, unit):
    begin = cftime.datetime(2000, 1, 1, calendar="standard")
    exact_s = [at * 3600 + beside_s for at in range(1, 100)]
    clock = Clock.of(f"{unit} since 2000-01-01", "standard")
    for values in (np.array(exact_s) / SECONDS[unit], np.cumsum(np.diff(exact_s, prepend=0.0) / SECONDS[unit])):
        dates, passed = settled(clock, values, "double")
        assert keys_of(dates) == keys_of([begin + timedelta(seconds=second) for second in exact_s])
        assert (passed.missing, passed.is_uneven, passed.differ) == (0, False, False)


def test_microseconds_in_whole_numbers_are_not_rounded():
    clock = Clock.of("microseconds since 2000-01-01", "standard")
    dates, _ = settled(clock, [3_599_999_999, 3_600_000_000, 3_600_000_001], "int64_t")
    assert [date.microsecond for date in dates] == [999_999, 0, 1]


@pytest.mark.parametrize("again", [2.900000000000001, 2.9, float(np.float32(2.9)), 2.8999])
def test_a_step_that_comes_again_after_a_restart_is_the_same(again):
    passed = Passed()
    for time in (2.7, 2.8, 2.9):
        passed = passed.after(time)
    passed = passed.without(2.0, spacing(2.0, "double"))
    assert passed.is_late(again, spacing(again, "double"))
    assert not passed.is_late(3.0, spacing(3.0, "double"))


def test_a_tiny_step_is_one_and_makes_no_gaps():
    passed = Passed()
    for time in (0.0, 1.0, 2.0, 2.0 + 1e-12, 3.0, 4.0):
        assert not passed.is_late(time, spacing(time, "double"))
        passed = passed.after(time)
    assert (passed.steps, passed.missing, passed.is_uneven) == (6, 0, True)


@pytest.mark.parametrize(
    ("lengths", "missing", "uneven"),
    [
        ([1, 1, 3, 1], 2, False),
        ([2, 1, 1, 1], 0, False),
        ([31, 28, 31, 61, 31], 1, False),
        ([0.25] * 4 + [0.0625] * 16 + [0.5] * 4, 0, True),
        ([1] * 5 + [0.75] * 5, 0, True),
        ([1, 1, 1.5, 1, 4], 0, True),
    ],
)
def test_gaps_are_told_from_steps_of_other_lengths(lengths, missing, uneven):
    passed = Passed()
    for time in np.cumsum([0, *lengths]):
        passed = passed.after(float(time))
    assert (passed.missing, passed.is_uneven) == (missing, uneven)


def test_float32_that_cannot_tell_the_steps_apart_is_refused():
    clock = Clock.of("seconds since 1970-01-01", "standard")
    assert settled(clock, np.float32(1.6e9) + np.arange(5, dtype="f4") * 60, "float")[0] is None


@given(st.sampled_from(MOMENTS_S), st.floats(-0.49, 0.49))
def test_a_moment_is_found_from_anywhere_within_the_error(moment_s, off):
    moment = cftime.datetime(2001, 1, 1, calendar="noleap") + timedelta(seconds=moment_s)
    date = moment + timedelta(seconds=off * moment_s)
    assert nearest_moment(date, moment_s / 2) == moment
