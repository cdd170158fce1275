"""The next phase, from the past ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.phases import Phase
from bbflow.phases.prediction import predict


def phases(begins, duration_s=2.0):
    return [Phase("ocean-model", "pfs", begin, begin + duration_s) for begin in begins]


@given(st.floats(1, 1e4), st.integers(4, 16), st.floats(0, 1e9))
def test_clockwork_is_predicted_with_confidence(period_s, count, start_s):
    begins = [start_s + n * period_s for n in range(count)]
    found = predict(phases(begins, period_s / 4), begins[-1] + period_s / 2)
    assert found.begins_s == pytest.approx(begins[-1] + period_s)
    assert found.duration_s == pytest.approx(period_s / 4)
    assert found.confidence > 0.6


def test_a_short_past_predicts_nothing():
    assert predict(phases([0, 10]), 12.0) is None
    assert predict([], 0.0) is None


def test_an_irregular_past_gives_little_confidence():
    assert predict(phases([0, 10, 15, 40, 43, 60]), 61.0).confidence < 0.3


def test_a_phase_that_did_not_come_lowers_the_confidence_in_the_next():
    past = phases([0, 10, 20, 30, 40])
    due, missed = predict(past, 45.0), predict(past, 56.0)
    assert missed.begins_s == 60.0
    assert missed.confidence == pytest.approx(due.confidence / 2)


def test_one_long_pause_does_not_spoil_the_period():
    found = predict(phases([0, 10, 20, 30, 75, 85, 95]), 97.0)
    assert found.begins_s == pytest.approx(105.0)
    assert found.confidence > 0.6


def test_phases_that_all_began_at_once_predict_nothing():
    assert predict(phases([5, 5, 5, 5]), 6.0) is None


def test_phases_that_others_made_longer_shift_the_next_by_as_much():
    durations, phases, begin_s = [1.0, 1.9, 1.2, 1.7, 1.4, 1.0, 1.1], [], 0.0
    for duration_s in durations:
        phases.append(Phase("model", "pfs", begin_s, begin_s + duration_s))
        begin_s += duration_s + 2.0
    prediction = predict(phases, phases[-1].ended_s + 0.5)
    assert prediction.begins_s == pytest.approx(begin_s)
    assert prediction.confidence > 0.8
    assert prediction.duration_s == pytest.approx(1.2)


def test_phases_that_begin_by_the_clock_are_not_shifted_by_a_long_one():
    durations = [1.0, 1.9, 1.2, 1.7, 1.4, 1.0, 1.8]
    phases = [Phase("model", "pfs", 4.0 * n, 4.0 * n + duration_s) for n, duration_s in enumerate(durations)]
    prediction = predict(phases, phases[-1].ended_s + 0.5)
    assert prediction.begins_s == pytest.approx(28.0)
    assert prediction.confidence > 0.8
