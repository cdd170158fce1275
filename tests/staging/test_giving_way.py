"""What keeps an application within its limit before a phase, and what the busy time between phases means."""

import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.cli.stage import WaitTeller
from bbflow.configuring.settings import RawConfig
from bbflow.errors import ConfigError
from bbflow.files.giving_way import GivingWay
from bbflow.models.interference import PhaseSample, fit_interference
from bbflow.phases import BoardSource, Phase, Prediction
from bbflow.staging import Decision, Gate, Policy, Situation, parse_policy
from bbflow.staging.gate import CHUNK_S, PAUSE_S, next_chunk_bytes
from bbflow.staging.policies import checked_policy, has_time
from bbflow.staging.watching import Load, Watch, free_share
from bbflow.transit.driver.policy import writing

MB = 1e6
SOON = Prediction(begins_s=110.0, duration_s=5.0, confidence=0.9, tolerance_s=0.5)


def situation(**keys):
    return Situation(**({"now_s": 100.0} | keys))


def test_partial_delay_is_at_its_pace_already_when_a_predicted_phase_is_due():
    policy = parse_policy("partial-delay:limit=0.25")
    keys = {"predicted": SOON, "peak_bytes_per_s": 50 * MB}
    far = policy.decide(situation(**keys))
    assert (far.stop_s, far.bytes_per_s) == (109.5, None), "no chunk begins that would run into the phase"
    for now_s in (109.5 - PAUSE_S, 109.5, 110.4):
        assert policy.decide(situation(**keys, now_s=now_s)).bytes_per_s == pytest.approx(10 * MB)
    assert policy.decide(situation(**keys, now_s=110.6)) == Decision(), "it didn't come"


def test_partial_delay_takes_no_notice_of_a_guess():
    guess = Prediction(110.0, 5.0, confidence=0.3, tolerance_s=0.5)
    assert parse_policy("partial-delay").decide(situation(predicted=guess, now_s=110.0)) == Decision()


@given(st.floats(5e3 / CHUNK_S, 1e8), st.one_of(st.none(), st.floats(1e3, 1e11)))
def test_a_chunk_ends_in_time_for_a_pause_even_if_the_rate_was_taken_for_the_double(rate, pace):
    assert next_chunk_bytes(2 * rate, pace) / rate <= PAUSE_S


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8), st.lists(st.floats(0.1, 2.0), min_size=2, max_size=8))
def test_a_fitted_capacity_is_finite_and_above_zero_whatever_the_noise(alone_s, beside_s):
    samples = [PhaseSample(each_s, 0) for each_s in alone_s] + [PhaseSample(each_s, 10**8) for each_s in beside_s]
    assert 0 < fit_interference(samples).capacity_bytes_per_s < 1e12


def test_time_in_which_someone_is_in_a_phase_is_no_time_for_transfers():
    keys = {"phases": (Phase("a", "pfs", 100.0),), "phase_s": 2.0, "remaining_bytes": 100, "peak_bytes_per_s": 10.0}
    assert has_time(situation(**keys, deadline_s=112.0))
    assert not has_time(situation(**keys, deadline_s=112.0, free_share=0.5))
    assert has_time(situation(**keys, deadline_s=122.0, free_share=0.5))
    assert not has_time(situation(**keys, deadline_s=1e9, free_share=0.0))


def test_the_free_share_counts_what_overlaps_once():
    phases = [Phase("a", "pfs", 0.0, 2.0), Phase("b", "pfs", 1.0, 3.0), Phase("a", "pfs", 10.0, 12.0)]
    assert free_share(phases) == pytest.approx(0.7)
    assert free_share(phases[:1]) == free_share([]) == 1.0


class Broken(Policy):
    def choose(self, situation):
        raise ZeroDivisionError("no pace")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere:Pace", "can't load nowhere:Pace"),
        ("bbflow.staging:Gate", "isn't a delay policy"),
        (f"{__name__}:Broken", "must be a dataclass"),
        ("bbflow.staging:Share", "a default for each of its settings"),
        ("half-pace", "unknown delay policy 'half-pace'"),
        ("no-such:limit=3", "unknown delay policy 'no-such'"),
    ],
)
def test_what_is_no_policy_is_told_at_once(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_policy(text)


@dataclass(frozen=True)
class ByDay(Policy):
    """Goes by the clock: holds in the second half of each 24 hours."""

    needs_phases = False

    def choose(self, situation):
        return Decision(hold=situation.now_s % 86_400 >= 43_200, reason="at night")


def test_a_policy_that_goes_by_the_clock_needs_no_place_to_see_phases(tmp_path):
    policy = f"{__name__}:ByDay"
    assert checked_policy(policy, None) == ByDay()
    with pytest.raises(ConfigError, match="needs 'phases'"):
        checked_policy("full-delay", None)
    assert writing(RawConfig(policy=policy)).keywords["policy"] == ByDay()


@pytest.mark.parametrize("policy", ["full-dely", "full-delay"])
def test_ionodes_refuse_a_policy_that_is_unknown_or_could_never_see_a_phase(policy):
    with pytest.raises(ConfigError, match=policy):
        GivingWay(policy)


def test_transfers_that_are_held_for_long_say_why_once():
    said = []
    held = WaitTeller(said.append)
    for now_s in range(20):
        held.look(Decision(hold=now_s >= 3, reason="I/O phase of ocean-model"), float(now_s))
        assert len(said) == (now_s >= 8)
    assert said == ["I/O phase of ocean-model"]


def test_transfers_go_on_when_a_policy_of_ones_own_fails(tmp_path):
    gate = Gate(1)
    gate.apply(Decision(hold=True))
    watch = Watch(Broken(), gate, BoardSource(tmp_path), lambda: Load(1, None), time.time, print, print)
    with pytest.warns(UserWarning, match=r"Broken failed .*no pace"):
        watch.start()
    with gate.chunk(1):
        watch.close()
