"""State files: how many there are is bounded, whatever dies and however long the run is."""

import os
import subprocess
import sys

import numpy as np
import pytest
import shards

from bbflow.transit.folding.states import forget, map_target, next_file, remove_shards

OTHER = """
import sys, time
from bbflow.transit.folding.states import map_target, next_file
current = None
for _ in range(2):
    current = next_file(sys.argv[1], "tas-1", "outer.base.", current)
    map_target(current, 100, None)
print(current, flush=True)
time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that has written a state twice; gives it, and its newest file."""
    with subprocess.Popen([sys.executable, "-c", OTHER, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def states(directory):
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".alive")


def write(directory, current):
    path = next_file(str(directory), "tas-1", "outer.base.", current)
    map_target(path, 100, current)
    return path


def test_states_of_a_dead_process_go_but_for_the_one_that_counts(tmp_path, other):
    process, theirs = other
    (tmp_path / "pr-2.outer.base..0123.0").touch()  # of another state
    process.kill()
    process.wait()
    ours = write(tmp_path, theirs)
    assert os.path.exists(theirs)
    write(tmp_path, write(tmp_path, ours))
    assert len(states(tmp_path)) == 3
    assert not os.path.exists(theirs)


def test_what_a_task_that_runs_again_has_written_before_stays_since_its_receipt_may_be_known(tmp_path, other):
    process, theirs = other
    before = theirs[:-1] + "0"  # both ran the task that followed this state, the other one first
    process.kill()
    process.wait()
    write(tmp_path, before)
    assert os.path.exists(theirs)
    assert os.path.exists(before)


def test_states_of_a_living_process_stay(tmp_path, other):
    _, theirs = other
    write(tmp_path, write(tmp_path, theirs))
    assert len(states(tmp_path)) == 4


def test_a_state_that_is_done_with_goes_with_all_its_files(tmp_path, other):
    _, theirs = other
    forget([write(tmp_path, theirs)])
    assert states(tmp_path) == []


def test_a_long_run_keeps_no_more_states_than_a_short_one(tmp_path):
    config = {"operators": {"x": ["mean"]}, "windows": ["month", "year", {"running": {"days": 90}}]}
    regions = [("a", (0, 0), (2, 3))]

    def left(years):
        folder, hours = tmp_path / str(years), np.arange(0, years * 8760, 240)
        folder.mkdir()
        shards.run(folder, config, np.zeros((len(hours), 2, 3), "f4"), hours, regions)
        return len(states(folder / "state"))

    assert left(6) <= left(3)


def test_nothing_is_left_where_all_states_were_removed(tmp_path, other):
    process, theirs = other
    write(tmp_path, theirs)
    remove_shards(str(tmp_path), ["tas-1"])
    assert [path.stem for path in tmp_path.iterdir()] == [theirs.rsplit(".", 2)[1]]  # it lives, and may go on
    process.kill()
    process.wait()
    remove_shards(str(tmp_path), [])
    assert not list(tmp_path.iterdir())
    assert write(tmp_path, None)
    remove_shards(str(tmp_path / "ended"), ["tas-1"])  # with its node
