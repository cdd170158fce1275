"""The world: what two flows do to each other can be worked out by hand; what twenty do, SimGrid knows."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bbflow.simulate.world import Signal, StandstillError, World

ORACLE = Path(__file__).with_name("simgrid_oracle.py")
PYTHON = "/usr/bin/python3"


def ends_of(links, transfers):
    """Return when each transfer ended."""
    world = World()
    resources = [world.resource(rate) for rate in links]
    ends = [0.0] * len(transfers)

    def transfer(number, begins_s, size_bytes, through):
        yield begins_s
        yield world.flow(size_bytes, *(resources[each] for each in through))
        ends[number] = world.now_s

    for number, given in enumerate(transfers):
        world.start(transfer(number, *given))
    world.run()
    return ends


def test_two_flows_share_a_link_while_both_are_there():
    assert ends_of([100.0], [(0.0, 100.0, [0]), (0.5, 100.0, [0])]) == [1.5, 2.0]


def test_what_one_flow_cant_use_the_other_gets():
    assert ends_of([100.0, 20.0], [(0.0, 80.0, [0]), (0.0, 20.0, [0, 1])]) == [1.0, 1.0]


def test_a_flow_whose_limit_is_zero_stands_still_until_it_has_another():
    world = World()
    flow = world.flow(100.0, world.resource(100.0), limit=0.0)
    world.at(3.0, lambda: world.set_limit(flow, 50.0))
    world.run(flow)
    assert world.now_s == 5.0


def test_streams_that_cost_each_other_are_slower_together():
    world = World()
    disk = world.resource(100.0, loss=1.0)
    flow = world.flow(50.0, disk, count=2)
    world.run(flow)
    assert world.now_s == 2.0


def test_a_world_in_which_nothing_can_go_on_says_so():
    world = World()
    world.flow(1.0, world.resource(1.0), limit=0.0)
    with pytest.raises(StandstillError, match="nothing moves"):
        world.run()
    with pytest.raises(StandstillError):
        World().run(Signal())


def test_ten_thousand_processes_may_wait_one_after_the_other():
    world = World()

    def wait(signals):
        yield from signals

    world.run(world.start(wait([world.start(iter([0.0])) for _ in range(10_000)])))
    assert world.now_s == 0.0


def has_simgrid():
    command = [PYTHON, "-c", "import simgrid"]
    return Path(PYTHON).exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_simgrid(), reason="SimGrid isn't there: apt install python3-simgrid")
@pytest.mark.parametrize("seed", range(20))
def test_simgrid_ends_every_transfer_within_one_percent_of_the_same_time(seed):
    random = np.random.default_rng(seed)
    links = random.uniform(50, 500, random.integers(2, 9)).tolist()
    transfers = [
        (
            float(random.uniform(0, 20)),
            int(random.integers(500, 20_000)),
            random.permutation(len(links))[: random.integers(1, min(len(links), 4) + 1)].tolist(),
        )
        for _ in range(random.integers(5, 25))
    ]
    said = subprocess.run(
        [PYTHON, str(ORACLE)],
        input=json.dumps({"links": links, "transfers": transfers}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    np.testing.assert_allclose(ends_of(links, transfers), json.loads(said.splitlines()[-1]), rtol=0.01)
