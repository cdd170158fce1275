"""Delay policies and what they look at: all of it pure."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.models.interference import LEAST_LOSS, Interference, PhaseSample, fit_interference
from bbflow.phases import Phase, Prediction
from bbflow.staging import Decision, Situation, parse_policy
from bbflow.staging.diary import SlotGuess, kind_of, starving_s
from bbflow.staging.policies import LEAST_PACE_BYTES_PER_S, POLICIES, has_time
from bbflow.staging.watching import Load, Memory, PeakRate, Watch

PHASE = Phase("ocean-model", "pfs", 90.0)
SOON = Prediction(begins_s=110.0, duration_s=5.0, confidence=0.9, tolerance_s=0.5)
MB = 1e6


def situation(**keys):
    return Situation(**({"now_s": 100.0} | keys))


@pytest.mark.parametrize("name", POLICIES)
def test_without_a_phase_every_policy_lets_transfers_pass(name):
    decision = parse_policy(name).decide(situation())
    assert not decision.hold
    assert decision.bytes_per_s is None
    assert decision.fetchers in (None, 16)
    assert kind_of(decision) is None


@pytest.mark.parametrize("name", POLICIES)
def test_after_the_longest_delay_every_policy_lets_transfers_pass(name):
    policy = parse_policy(f"{name}:max_delay_s=30")
    decision = policy.decide(situation(phases=(PHASE,), delayed_s=30.0))
    assert (decision.hold, decision.bytes_per_s, decision.fetchers) == (False, None, None)
    assert "30 s, the most that is allowed" in decision.reason


def test_no_action_takes_no_notice_of_a_phase():
    assert parse_policy("no-action").decide(situation(phases=(PHASE,))) == Decision()


def test_full_delay_holds_in_a_phase_and_stops_before_the_next():
    policy = parse_policy("full-delay")
    held = policy.decide(situation(phases=(PHASE,)))
    assert held.hold
    assert held.reason == "I/O phase of ocean-model"
    assert policy.decide(situation(predicted=SOON)).stop_s == 109.5


def test_no_longer_than_the_longest_delay_is_waited_for_a_phase_that_is_only_expected():
    daily = Prediction(begins_s=50_000.0, duration_s=60.0, confidence=0.9, tolerance_s=10_000.0)
    policy = parse_policy("full-delay")
    assert policy.decide(situation(now_s=45_000.0, predicted=daily)).stop_s == 49_700.0
    assert policy.decide(situation(now_s=50_299.0, predicted=daily)).stop_s == 49_700.0
    assert policy.decide(situation(now_s=50_301.0, predicted=daily)) == Decision()


def test_full_delay_takes_no_notice_of_a_prediction_that_did_not_come_true_or_is_a_guess():
    policy = parse_policy("full-delay")
    assert policy.decide(situation(now_s=110.4, predicted=SOON)).stop_s == 109.5
    assert policy.decide(situation(now_s=110.6, predicted=SOON)) == Decision()
    guess = Prediction(110.0, 5.0, confidence=0.3, tolerance_s=0.5)
    assert policy.decide(situation(predicted=guess)) == Decision()


def test_partial_delay_paces_by_the_model_then_by_the_own_rate_then_least():
    policy = parse_policy("partial-delay:limit=0.25")
    phase = {"phases": (PHASE,)}
    model = Interference(100 * MB)
    assert policy.decide(situation(**phase, model=model, peak_bytes_per_s=1.0)).bytes_per_s == pytest.approx(20 * MB)
    assert policy.decide(situation(**phase, peak_bytes_per_s=50 * MB)).bytes_per_s == pytest.approx(10 * MB)
    assert policy.decide(situation(**phase)).bytes_per_s == LEAST_PACE_BYTES_PER_S


def test_scaling_changes_the_number_of_fetchers_only():
    down, up = parse_policy("scale-down:fetchers=2"), parse_policy("scale-up:fetchers=32,in_phase=3")
    assert down.decide(situation(phases=(PHASE,))).fetchers == 2
    assert up.decide(situation(phases=(PHASE,))).fetchers == 3
    assert up.decide(situation()).fetchers == 32
    assert (down.most_fetchers(8), up.most_fetchers(8)) == (8, 32)


AUTO = {"phases": (PHASE,), "phase_s": 20.0, "remaining_bytes": 100 * MB, "peak_bytes_per_s": 50 * MB}


def test_auto_waits_if_the_wave_keeps_its_deadline_all_the_same():
    assert parse_policy("auto").decide(situation(**AUTO, deadline_s=113.0)).hold


def test_auto_goes_on_at_a_pace_within_the_limit_if_it_would_not():
    for late in ({"deadline_s": 111.0}, {}, {"deadline_s": 113.0, "phase_s": None}):
        decision = parse_policy("auto:limit=0.25").decide(situation(**(AUTO | late)))
        assert not decision.hold
        assert decision.bytes_per_s == pytest.approx(10 * MB)


def test_auto_takes_no_action_if_the_model_says_that_nobody_feels_it():
    decision = parse_policy("auto").decide(situation(**AUTO, model=Interference(2000 * MB)))
    assert (decision.hold, decision.bytes_per_s) == (False, None)


def test_auto_stops_before_a_predicted_phase_if_there_is_time_and_else_goes_on_at_a_pace():
    keys = {"predicted": SOON, "remaining_bytes": 100 * MB, "peak_bytes_per_s": 50 * MB}
    assert parse_policy("auto").decide(situation(**keys, deadline_s=118.0)).stop_s == 109.5
    assert parse_policy("auto").decide(situation(**keys, now_s=109.4, deadline_s=118.0)).stop_s == 109.5
    late = parse_policy("auto:limit=0.25").decide(situation(**keys, now_s=109.47, deadline_s=116.0))
    assert late.bytes_per_s == pytest.approx(10 * MB)
    assert parse_policy("auto").decide(situation(**keys, now_s=110.6, deadline_s=116.0)) == Decision()


@given(
    st.floats(0.01, 1.0),
    st.booleans(),
    st.one_of(st.none(), st.floats(1e6, 1e10)),
    st.one_of(st.none(), st.floats(0, 1000)),
    st.one_of(st.none(), st.floats(0.1, 100)),
)
def test_auto_keeps_the_limit_of_its_model_in_every_phase(limit, fitted, peak, deadline_s, phase_s):
    model = Interference(1e9) if fitted else None
    keys = {"remaining_bytes": 10**9, "peak_bytes_per_s": peak, "deadline_s": deadline_s, "phase_s": phase_s}
    decision = parse_policy(f"auto:limit={limit}").decide(situation(phases=(PHASE,), model=model, **keys))
    if not decision.hold:
        believed = model or Interference(peak or 0.0)
        rate = decision.bytes_per_s if decision.bytes_per_s is not None else peak
        assert believed.slowdown(rate) <= limit * (1 + 1e-9) or rate == LEAST_PACE_BYTES_PER_S


def test_there_is_time_if_nothing_is_to_be_transferred():
    assert has_time(situation(phases=(PHASE,)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("full-dely", "did you mean 'full-delay'"),
        ("partial-delay:limitt=1", "did you mean 'limit'"),
        ("scale-down:fetchers=0", "must be 1 or more"),
        ("scale-down:fetchers=1.5", "isn't a whole number"),
        ("auto:limit=nan", "out of range"),
        ("auto:limit=x", "'x' isn't a number"),
    ],
)
def test_an_unknown_policy_or_setting_is_an_error_that_names_it(text, words):
    with pytest.raises(ConfigError, match=words):
        parse_policy(text)


def disturbed(capacity, rate, alone_s):
    duration_s = alone_s * capacity / (capacity - rate)
    return PhaseSample(duration_s, int(rate * duration_s))


@given(st.floats(1e7, 1e10), st.lists(st.floats(0.05, 0.9), min_size=2, max_size=10), st.floats(0.5, 60))
def test_the_model_finds_the_capacity_behind_the_phases(capacity, shares, alone_s):
    samples = [disturbed(capacity, share * capacity, alone_s) for share in shares] + [PhaseSample(alone_s, 0)] * 3
    model = fit_interference(samples)
    assert model.capacity_bytes_per_s == pytest.approx(capacity, rel=1e-3)
    assert model.slowdown(model.pace(0.05)) == pytest.approx(0.05)


def test_the_model_needs_phases_of_both_kinds_and_sees_when_there_is_no_slowdown():
    alone, beside = PhaseSample(1.0, 0), PhaseSample(2.0, 10**8)
    assert fit_interference([alone] * 5) is None
    assert fit_interference([beside] * 5) is None
    assert fit_interference([alone, alone, beside]) is None
    assert fit_interference([alone, alone, beside, beside]).capacity_bytes_per_s == pytest.approx(1e8)
    unhurt = [alone, alone, PhaseSample(1.0, 10**8), PhaseSample(0.9, 9 * 10**7)]
    assert fit_interference(unhurt).capacity_bytes_per_s == pytest.approx(1e8 / LEAST_LOSS)
    assert Interference(1e8).slowdown(1e8) == math.inf


def test_slots_tell_when_the_next_wave_is_needed():
    slots = SlotGuess(2)
    for key in "abcd":
        slots.ready(key, 0.0)
    assert slots.deadline_s is None, "nothing has ended yet"
    assert slots.final("a", 10.0) == 0.0
    assert slots.deadline_s == 20.0, "c began at 10, b ends soon, d takes its slot until then"
    assert slots.final("d", 11.0) is None
    assert slots.deadline_s == 10.0


def test_a_slot_starves_when_all_ready_tasks_have_run():
    assert starving_s([0.0, 4.0], 0, 10.0) == 10.0
    assert starving_s([0.0, 4.0], 1, 10.0) == 14.0
    assert starving_s([0.0, 4.0], 2, 10.0) == 20.0


def test_the_peak_rate_is_that_of_busy_time_without_phases():
    peak = PeakRate()
    for n in range(11):
        peak.look(n * 0.1, n * 100, busy=True, free=True)
    for n in range(11, 30):
        peak.look(n * 0.1, 1000, busy=True, free=False)
    for n in range(30, 50):
        peak.look(n * 0.1, 1000, busy=False, free=True)
    assert peak.bytes_per_s == pytest.approx(1000, rel=0.01)


def test_memory_turns_looks_into_phases_samples_and_a_prediction():
    memory = Memory()
    for n in range(6):
        begin_s = 100.0 + 10 * n
        phase = Phase("ocean-model", "pfs", begin_s)
        memory.look([phase], begin_s + 0.01, 1000 * n)
        memory.look([], begin_s + 2, 1000 * n + 500)
    assert [phase.duration_s for phase in memory.ended] == [2.0]
    assert memory.phase_s == 2.0
    assert memory.samples[0] == PhaseSample(2.0, 500)
    prediction = memory.predicted(155.0)
    assert prediction.begins_s == 160.0
    assert prediction.confidence > 0.6


class Gatelike:
    fetchers, passed_bytes, decision = 8, 0, Decision()

    def apply(self, decision):
        self.decision = decision


def test_the_delay_counts_from_when_transfers_had_to_wait_over_phases_without_a_break():
    class Places:
        phases = ()

        def now(self, own_bytes=0):
            return self.phases

        def past(self):
            return []

    clock, gate, load = [100.0], Gatelike(), [Load(0, None)]
    decided = []
    policy = parse_policy("full-delay:max_delay_s=10")
    places = Places()
    watch = Watch(policy, gate, places, lambda: load[0], lambda: clock[0], decided.append, lambda _: None)
    places.phases = [PHASE]
    watch.step()
    clock[0] = 120.0
    watch.step()
    assert gate.decision.hold, "nothing had to wait yet"
    load[0] = Load(1, None)
    watch.step()
    clock[0], places.phases = 129.0, [Phase("ice-model", "pfs", 125.0)]
    watch.step()
    assert gate.decision.hold
    clock[0] = 130.0
    watch.step()
    assert not gate.decision.hold
    places.phases = []
    watch.step()
    places.phases = [PHASE]
    watch.step()
    assert gate.decision.hold
    assert [decision.hold for decision in decided] == [True, True, False, False, True]
