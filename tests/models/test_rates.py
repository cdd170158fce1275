"""Whether BB nodes keep up: the model's answer is the simulator's, which knows nothing of it."""

import math

import pytest

from bbflow.errors import ConfigError
from bbflow.models import NodeRates, StreamLoad, buffered_bytes, stream_balance
from bbflow.simulate.sections import AnalysisSection, BurstBufferSection, FileSystem, Simulation
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


def test_nothing_is_enough_for_nodes_that_cant_keep_up():
    load = StreamLoad(STEP, 0.1)
    assert math.isinf(buffered_bytes(load, stream_balance(load, NodeRates(4e9, 4e9, 1e9)), 0))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: StreamLoad(-1, 1.0), "step_bytes is -1: it can't be negative"),
        (lambda: StreamLoad(STEP, math.nan), "interval_s is nan"),
        (lambda: StreamLoad(STEP, 1.0, 2), "drained_share is 2: it must lie between 0 and 1"),
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
