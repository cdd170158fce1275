"""Whether BB nodes keep up: the model's answer is the simulator's, which knows nothing of it."""

import math
from dataclasses import replace

import pytest

from bbflow.errors import ConfigError
from bbflow.models import NodeRates, StreamLoad, buffered_bytes, stream_balance
from bbflow.simulate.scenario_sections import AnalysisSection, BurstBufferSection, FileSystem, Simulation
from bbflow.simulate.transit import TransitScenario, run_transit

STEP = 1 << 30


def simulated_interval_s(drain_bytes_per_s, compute_s, capacity_steps):
    """Return the mean interval of a simulation's second half of steps."""

    def until_s(steps):
        scenario = TransitScenario(
            FileSystem(1, drain_bytes_per_s),
            BurstBufferSection(capacity_steps * STEP, 1e12, nodes=1, fold_bytes_per_s=2e9),
            Simulation(1, steps, STEP, compute_s, 1e9),
            AnalysisSection(1e9),
        )
        return run_transit(scenario, "bbflow").simulation_s

    return (until_s(80) - until_s(40)) / 40


@pytest.mark.parametrize("drain_bytes_per_s", [0.3e9, 0.6e9, 5e9])
def test_the_slowest_stage_sets_the_pace(drain_bytes_per_s):
    balance = stream_balance(StreamLoad(STEP, 1.0), NodeRates(1e9, 2e9, drain_bytes_per_s))
    simulated = simulated_interval_s(drain_bytes_per_s, 1.0, 4)
    assert simulated == pytest.approx(balance.steady_interval_s, rel=0.05)
    assert balance.keeps_up == (drain_bytes_per_s > 0.55e9)


def test_what_must_be_held_grows_with_how_long_the_file_system_is_closed():
    load = StreamLoad(STEP, 1.0)
    balance = stream_balance(load, NodeRates(4e9, 4e9, 4e9))
    short, long = buffered_bytes(load, balance, 0), buffered_bytes(load, balance, 60)
    assert short < 3 * STEP
    assert long - short == pytest.approx(60 / (1 + balance.landing_s) * STEP)


def simulated_s(steps, buffer=None, **analysis):
    """Return when all is where it belongs, of a simulation that computes nothing."""
    rates = {"fold_bytes_per_s": 2e9} | (buffer or {})
    scenario = TransitScenario(
        FileSystem(1, 1e12),
        BurstBufferSection(4 * STEP, 1e12, nodes=1, landing_bytes_per_s=1e12, storage_bytes_per_s=1e12, **rates),
        Simulation(1, steps, STEP, 0.0, 1e12),
        AnalysisSection(1e9, **analysis),
    )
    return run_transit(scenario, "bbflow").total_s


def test_a_nodes_cores_fold_one_step_after_the_other():
    """Steps that came while another one was folded took no time of their own."""
    assert simulated_s(20) == pytest.approx(20 * STEP / 2e9, rel=0.02)


def test_windows_ends_and_the_first_touch_of_states_cost_what_the_model_says():
    kept = {"states_share": 8.0, "results_share": 0.5, "window_steps": 10}
    buffer = {"page_s": 4e-6, "publish_bytes_per_s": 1e9}
    load = StreamLoad(STEP, 0.0, 1.0, 8.0 * STEP, 0.5 * STEP, 10)
    balance = stream_balance(load, NodeRates(1e12, 2e9, 1e12, page_s=4e-6, publish_bytes_per_s=1e9))
    assert balance.first_touch_s == pytest.approx(8 * STEP / 4096 * 4e-6)
    assert balance.publish_s == pytest.approx(STEP / 2 / 1e9)
    assert balance.steady_interval_s == pytest.approx(STEP / 2e9 + balance.publish_s / 10)
    longer, shorter = simulated_s(60, buffer, **kept), simulated_s(40, buffer, **kept)
    assert (longer - shorter) / 20 == pytest.approx(balance.steady_interval_s, rel=0.02)
    assert shorter - simulated_s(40, None) == pytest.approx(balance.first_touch_s + 4 * balance.publish_s, rel=0.02)


def test_a_pool_must_hold_what_comes_while_a_window_is_published():
    load, rates = StreamLoad(STEP, 1.0, result_bytes=30e9), NodeRates(4e9, 4e9, 4e9, publish_bytes_per_s=1e9)
    balance = stream_balance(load, rates)
    with_window, without = buffered_bytes(load, balance, 0), buffered_bytes(load, replace(balance, publish_s=0.0), 0)
    assert with_window - without == pytest.approx(30 / balance.own_interval_s * STEP)
    assert buffered_bytes(load, balance, 30) == pytest.approx(with_window)  # the file system is closed meanwhile


def test_nothing_is_enough_for_nodes_that_cant_keep_up():
    load = StreamLoad(STEP, 0.1)
    assert math.isinf(buffered_bytes(load, stream_balance(load, NodeRates(4e9, 4e9, 1e9)), 0))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: StreamLoad(-1, 1.0), "step_bytes is -1: it can't be negative"),
        (lambda: StreamLoad(STEP, math.nan), "interval_s is nan"),
        (lambda: StreamLoad(STEP, 1.0, 2), "drained_share is 2: it must lie between 0 and 1"),
        (lambda: StreamLoad(1, 1.0, window_steps=0), "window_steps is 0: it must be above 0"),
        (lambda: NodeRates(1, 1, 1, page_s=-1), "page_s is -1: it can't be negative"),
        (lambda: NodeRates(0, 1e9, 1e9), "landing_bytes_per_s is 0: it must be above 0"),
        (lambda: NodeRates(1e9, 1e9, 1e9, 0), "pfs_free_share is 0: it must be above 0"),
        (
            lambda: buffered_bytes(StreamLoad(1, 1.0), stream_balance(StreamLoad(1, 1.0), NodeRates(1, 1, 1)), -1),
            "closed_s",
        ),
    ],
)
def test_a_number_that_can_not_be_is_told(wrong, told):
    with pytest.raises(ConfigError, match=told):
        wrong()
