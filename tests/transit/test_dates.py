"""Dates that are found for many steps at once are those that are found one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.operators.windows.calendars import CALENDARS, STEP_CLOCK, Clock, dated
from bbflow.operators.windows.time_units import UNITS
from bbflow.view.times import StepDates

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


def test_a_time_that_stands_for_no_date_has_none_and_the_others_have_theirs():
    clock, dates = Clock("hours since 2000-01-01", "noleap", (-999.0,)), StepDates()
    times = [1.0, 2.0, 1e300, -999.0, math.nan, 9.969209968386869e36, 3.0]
    found = [dates.of(time, clock, times[at + 1 :]) for at, time in enumerate(times)]
    assert found == [clock.date(1.0), clock.date(2.0), None, None, None, None, clock.date(3.0)]
    own = {"units": clock.units, "calendar": clock.calendar}
    assert np.isfinite(dated(times, own, (-999.0,))).tolist() == [date is not None for date in found]
    assert np.isfinite(dated([1.0, -999.0], own, (-999.0,))).tolist() == [True, False]
    assert dated([], own).size == 0
    assert dated([1e300], {}).tolist() == [1e300]


@pytest.mark.parametrize("units", ["Days Since 2000-01-01", "days  since 2000-01-01", " DAYS since 2000-01-01 "])
def test_units_may_be_spelt_in_any_case(units):
    assert Clock.of(units, "standard") == Clock("days since 2000-01-01")
