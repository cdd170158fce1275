"""When what ranks have folded lands: with the last step of each span, as the fold will know it."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bbflow.configuring.config import parse_config
from bbflow.configuring.settings import LandingLimit
from bbflow.errors import ConfigError
from bbflow.operators.windows.calendars import STEP_CLOCK, Clock
from bbflow.operators.windows.parse_windows import parse_windows
from bbflow.transit.driver.rank_plans import StepPace, StepsToCome, why_no_times
from bbflow.transit.spans.timeline import Passed

WINDOWS = ["day", "month", {"running": {"days": 2}}, {"hours": 6}, "run", "season"]


def passed_by(times, clock, configured=None):
    """Return what has passed by some steps, as the fold counts it."""
    passed = Passed(configured)
    for time in times:
        error_s = passed.error_s(time, math.ulp(time), clock.unit_s)
        passed = passed.after(time, error_s / clock.unit_s if clock.unit_s else 0.0, configured)
    return passed


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["hours since 2000-02-27", "days since 1850-01-01", "seconds since 1999-12-30 00:00:07"]),
    st.sampled_from(["standard", "noleap", "360_day"]),
    st.integers(1, 100_000),
    st.sampled_from([600, 1800, 3600, 10800, 21600, 86400, 5400]),
    st.lists(st.sampled_from(range(len(WINDOWS))), min_size=1, max_size=3, unique=True),
    st.sampled_from([1, 2, 7, 24, 60, 200]),
)
def test_no_step_lands_with_one_of_another_span(units, calendar, begin, interval_s, chosen, every):
    clock = Clock.of(units, calendar)
    interval = interval_s / clock.unit_s
    times = [(begin + number) * interval for number in range(900)]
    assume(times[-1] * clock.unit_s < 3e9)
    passed = passed_by(times[:3], clock)
    windows = parse_windows([WINDOWS[at] for at in chosen])
    steps = StepsToCome(2, 2, passed, clock, windows)
    ends = steps.ends(every)
    assert not why_no_times(passed)
    assert ends == sorted(set(ends))
    assert max(np.diff([2, *ends])) <= every
    keys = {}
    for number in range(3, ends[-1] + 1):
        _, date = clock.settled(
            times[number], clock.date(times[number]), passed.error * clock.unit_s, passed.first
        )  # fmt: skip
        keys[number] = tuple(window.key(date, number) for window in windows)
        assert abs(times[number] - steps.time(number - 2)) <= steps.error
    for number in range(3, ends[-1]):
        assert number in ends or keys[number] == keys[number + 1]
    assert len(ends) <= 2 * sum(keys[n] != keys[n + 1] for n in range(3, ends[-1])) + (ends[-1] - 2) // every + 2


def test_steps_that_are_counted_have_no_other_times():
    (window,) = parse_windows([{"steps": 24}])
    ends = StepsToCome(30, 30, passed_by([29.0, 30.0], STEP_CLOCK), STEP_CLOCK, [window]).ends(1000)
    assert ends[:3] == [47, 71, 95]


def test_a_span_has_no_more_landings_than_it_needs():
    """Wherever the ranks are told of it: they are counted from where it begins."""
    (window,) = parse_windows([{"steps": 24}])
    for number in (23, 29, 30, 40):
        passed, in_span = passed_by([number - 1.0, float(number)], STEP_CLOCK), (number + 1) % 24
        ends = StepsToCome(number, number, passed, STEP_CLOCK, [window], in_span).ends(9)
        assert ends[:6] == [end for end in (32, 41, 47, 56, 65, 71, 80) if end > number][:6]


@given(
    st.lists(st.tuples(st.integers(1, 3000), st.floats(0, 1e4)), min_size=1, max_size=9), st.floats(1e-3, 1e6)
)  # fmt: skip
def test_as_many_steps_land_together_as_the_program_writes_in_a_time(looks, seconds):
    asked, pace, number, now_s = LandingLimit(1024, seconds), StepPace().at(5, 1e9), 5, 1e9
    assert 1 <= pace.together(asked) <= 4
    for steps, passed_s in looks:
        number, before_s, now_s = number + steps, now_s, now_s + passed_s
        pace = pace.at(number, now_s)
        together = pace.together(asked)
        assert 1 <= together <= min(1024, 4 * steps)
        assert together == 1 or together * ((now_s - before_s) / steps) <= seconds * (1 + 1e-9)
        assert pace.together(LandingLimit(7)) == 7


@pytest.mark.parametrize(
    ("value", "read"), [(64, LandingLimit(64)), ("30 s", LandingLimit(1024, 30.0)), ("9", LandingLimit(9))]
)
def test_what_lands_together_is_said_in_steps_or_seconds(value, read):
    fold = {"on": "rank", "land_states_every": value}
    assert parse_config({"stream": "s", "operators": {"t": ["mean"]}, "fold": fold}).fold.land_states_every == read


@pytest.mark.parametrize("times", [[0.0, 1.0, 3.5], [0.0, 1.0, 2.0, 3.2]])
def test_uneven_steps_have_no_plan(times):
    assert why_no_times(passed_by(times, Clock.of("days since 2000-01-01", "standard")))


COUNTS, OTHERS = ({"histogram": {"bins": 4, "range": [0, most], "name": f"to_{most}"}} for most in (10, 20))


@pytest.mark.parametrize("on", ["rank", "device"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"raw": "all"}, "raw: keeps steps"),
        ({"operators": {"t": [{"percentiles": {"q": [50]}}]}}, "isn't made of moments, extremes and given bins"),
        ({"operators": {"t": [{"mean": {"skipna": False}}]}}, "variables as they are, without skipna: false"),
        ({"operators": {"t": ["mean", {"filter": {"above": 3.0, "name": "hot"}}]}}, "without filters"),
        ({"operators": {"speed": {"of": "u * u", "operators": ["mean"]}}}, "without an expression"),
        ({"operators": {"t": {"operators": ["mean"], "weights": "time"}}}, "without weights"),
        ({"time": {"attribute": "when"}}, "told by an attribute"),
        ({"fold": {"on": "ranks"}}, "rank"),
        ({"fold": {"on": "rank", "land_states_every": 0}}, "land_states_every"),
        ({"fold": {"on": "rank", "land_states_every": "0 s"}}, "no time above 0"),
        ({"fold": {"on": "rank", "land_states_every": "-1 s"}}, "seconds"),
        ({"fold": {"on": "rank", "land_states_every": 2000}}, "more than may land together"),
        ({"fold": {"on": "device", "device_memory": "much"}}, "device_memory"),
        ({"fold": {"on": "node", "land_states_every": 9}}, "land_states_every does nothing with on: node"),
        ({"fold": {"land_states_every": 9}}, "land_states_every does nothing with on: node: take it out, or set"),
        ({"fold": {"on": "rank", "device_memory": "1GiB"}}, "device_memory does nothing with on: rank: .* on: device"),
        ({"operators": {"t": {"space": "fldmean", "operators": ["count"], "weights": "time"}}}, "without weights"),
        ({"operators": {"t": [COUNTS, OTHERS]}}, "histograms of t with the same edges alone"),
        ({"operators": {"t": [COUNTS], "more": {"of": "t", "operators": [OTHERS]}}}, "with the same edges alone"),
    ],
)
def test_what_needs_the_steps_is_refused(changes, why, on):
    content = {"stream": "s", "operators": {"t": ["mean", "std"]}, "fold": {"on": on}}
    assert parse_config(content).fold.on == on
    with pytest.raises(ConfigError, match=why):
        parse_config(content | changes)
