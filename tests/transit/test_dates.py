"""Dates that are found for many steps at once are those that are found one by one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.operators.windows.calendars import CALENDARS, STEP_CLOCK, UNITS, Clock
from bbflow.transit.folding.dates import StepDates

CLOCKS = st.one_of(
    st.builds(
        Clock, st.sampled_from([f"{unit} since 1999-12-30 23:59:59.7" for unit in UNITS]), st.sampled_from(CALENDARS)
    ),
    st.just(STEP_CLOCK),
)
TIMES = st.lists(st.one_of(st.floats(-1e5, 1e6), st.integers(-1000, 100_000).map(lambda hour: hour / 24)), min_size=1)


@given(CLOCKS, TIMES)
def test_the_dates_of_many_steps_are_those_of_each(clock, times):
    assert clock.dates(times) == [clock.date(time) for time in times]


@given(TIMES, st.integers(0, 9))
def test_a_date_is_that_of_its_step_whatever_comes_next(times, count):
    clock, dates = Clock("hours since 2000-01-01", "noleap"), StepDates()
    for at, time in enumerate(times):
        ahead = [None, math.nan, math.inf, *times[at + 1 : at + 1 + count]]
        assert dates.of(time, clock, ahead) == clock.date(time)


def test_a_time_that_has_no_date_is_an_error_when_its_turn_comes():
    clock, dates = Clock("hours since 2000-01-01", "noleap"), StepDates()
    assert dates.of(1.0, clock, [2.0, 1e300]) == clock.date(1.0)
    assert dates.of(2.0, clock, [1e300]) == clock.date(2.0)
    with pytest.raises(ConfigError, match="is no date"):
        dates.of(1e300, clock, [])
