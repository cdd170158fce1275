"""Which spans are alive and which end, against a plain look at all steps."""

import math
from datetime import timedelta

import cftime
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.operators.windows import parse_windows
from bbflow.transit.spans.slots import OUTER, StateSlot, living, plan_roll
from bbflow.transit.spans.timeline import Timeline, Windows

WINDOWS = parse_windows(["day", "month", {"season": "DJF"}, {"running": {"days": 3}}, "clim_month", "run"])
ALL = Windows(tuple(WINDOWS), ())
BY_NAME = {window.name: window for window in WINDOWS}
RUN = Windows(tuple(parse_windows(["run"])), ())
START = cftime.datetime(2000, 11, 20, calendar="noleap")


def date_of(hours):
    return START + timedelta(hours=hours)


def keys_of(hours, step=0):
    return {window.name: window.key(date_of(hours), step) for window in WINDOWS}


times = st.lists(st.integers(1, 90), min_size=1, max_size=60).map(
    lambda gaps: [float(sum(gaps[: at + 1])) for at in range(len(gaps))]
)


def taken(timeline, windows, times, keys, late=0, interval=None):
    """A timeline after steps that come one by one."""
    passed = timeline.numbers._replace(late=timeline.numbers.late + late)
    for time in times:
        passed = passed.after(time, configured=interval)
    return timeline.after(windows, times, keys, passed)


def restarted(timeline):
    """What an analysis that carries on reads of it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(timeline), type=Timeline)


def closings(hours):
    """All that ends, in order, of steps that come one by one."""
    timeline, found = Timeline().of(ALL), []
    for at, hour in enumerate(hours):
        found += timeline.closing(ALL, keys_of(hour, at))
        timeline = restarted(taken(timeline, ALL, [hour], keys_of(hour, at))).of(ALL)
    return found + timeline.closing(ALL, None)


@given(times)
def test_every_step_is_in_one_closing_of_each_window_that_has_it(hours):
    ended = closings(hours)
    for name in ("day", "month", "season_djf", "clim_month", "run"):
        window = BY_NAME[name]
        counts = {}
        for hour in hours:
            key = window.key(date_of(hour), 0)
            if key is not None:
                counts[key] = counts.get(key, 0) + 1
        own = [closing for closing in ended if closing.window == window]
        assert [closing.whole.key for closing in own] == sorted(counts)
        assert {closing.whole.key: closing.whole.steps for closing in own} == counts


@given(times)
def test_a_running_window_ends_only_with_all_its_units(hours):
    days = sorted({(date_of(hour) - START).days for hour in hours})
    whole = [day for day in days if {day - 1, day - 2} <= set(days)]
    own = [closing for closing in closings(hours) if closing.window.name == "running3day"]
    assert [(date_of(closing.spans[-1].first) - START).days for closing in own] == whole
    for closing, day in zip(own, whole, strict=True):
        inside = [hour for hour in hours if day - 2 <= (date_of(hour) - START).days <= day]
        assert closing.whole.steps == len(inside)
        assert (closing.whole.first, closing.whole.last) == (inside[0], inside[-1])


@given(times)
def test_the_states_that_are_kept_are_those_of_living_spans(hours):
    """Plays the fold with lists of steps for states: what is merged at the end of a span is what is in it."""
    states, base, old = {}, [], None
    for at, hour in enumerate(hours):
        new = keys_of(hour, at)
        if old is not None and old != new:
            merged, dropped = plan_roll(OUTER, WINDOWS, old, new, states)
            for slot in merged:
                states[slot] = states.get(slot, []) + base
            for slot in dropped:
                states.pop(slot, None)
            base = []
        base = [*base, hour]
        old = new
        for window in WINDOWS:
            own = {slot.key for slot in states if slot.window == window.name}
            assert own <= living(window, own, new[window.name])
            if new[window.name] is not None:
                kept = states.get(StateSlot(OUTER, window.name, new[window.name]), [])
                inside = [before for before in hours[: at + 1] if window.key(date_of(before), 0) == new[window.name]]
                assert kept + base == inside or window.name == "running3day"


def test_gaps_are_counted_by_the_interval_and_late_steps_are_told():
    timeline = Timeline().of(RUN)
    assert not timeline.numbers.is_late(0.0, 0.0)
    for times, late in (([0.0, 6.0, 12.0], 0), ([30.0], 2)):
        timeline = taken(timeline, RUN, times, {"run": ()}, late)
    late = [timeline.numbers.is_late(time, math.ulp(30.0)) for time in (30.0, 29.0, 31.0, math.nan, math.inf)]
    assert late == [True, True, False, True, True]
    assert (timeline.numbers.late, timeline.numbers.missing) == (2, 2)
    (closing,) = timeline.closing(RUN, None)
    assert (closing.whole.steps, closing.whole.missing) == (4, 2)


@pytest.mark.parametrize(("interval", "missing"), [(None, 0), (1.0, 5)])
def test_an_interval_that_is_given_counts_gaps_from_the_first_step_on(interval, missing):
    timeline = taken(Timeline().of(RUN), RUN, [0.0, 3.0, 7.0], {"run": ()}, interval=interval)
    assert timeline.numbers.missing == missing


def test_a_rescue_without_windows_takes_a_timeline_over():
    none = Windows((), ())
    rescue = restarted(taken(Timeline().of(ALL), ALL, [0.0], keys_of(0))).of(none)
    assert rescue.closing(none, {}) == []
    assert taken(rescue, none, [6.0], {}).numbers.last == 6.0
