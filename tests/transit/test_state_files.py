"""State files: how many there are is bounded, whatever dies and however long the run is."""

import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import shards
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import BbflowError, NodeError, StreamError
from bbflow.operators.configured import parse_diagnostics
from bbflow.transit.folding.lanes import Lanes
from bbflow.transit.states.files import (
    LaneTurn,
    begun,
    forget,
    free_file,
    map_source,
    map_target,
    pages_of,
    remove_stale,
    remove_states,
)
from bbflow.transit.states.shards import ShardKey, StatePlace
from bbflow.transit.states.state_layouts import states_of, written_of
from testsupport.waiting import until

OTHER = """
import sys, time
from bbflow.transit.states.files import LaneTurn, begun, free_file, map_target
current = None
for batch in (0, 1):
    with begun(f"{sys.argv[1]}/0a-1-a-0", LaneTurn(batch, 0), [current]):
        current = free_file(f"{sys.argv[1]}/0a-1-a-0", "outer", [current])
        map_target(current, [(0, 4096)])
print(current, flush=True)
time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that has folded the batches 0 and 1; gives it, and its newest file."""
    with subprocess.Popen([sys.executable, "-c", OTHER, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def states(directory):
    return sorted(path.name for path in directory.iterdir() if path.suffix not in (".alive", ".begun"))


def write(directory, current):
    path = free_file(f"{directory}/0a-1-a-0", "outer", [current])
    map_target(path, [(0, 4096)])
    return path


def folded(directory, current, batch):
    """Fold a batch from the state that counts into the next one; None if a later batch has begun."""
    with begun(f"{directory}/0a-1-a-0", LaneTurn(batch, 0), [current]) as is_wanted:
        return write(directory, current) if is_wanted else None


def test_states_of_a_dead_process_go_but_for_the_one_that_counts(tmp_path, other):
    process, theirs = other
    (tmp_path / "0a-1-a-1.outer.0123.0").touch()  # of another lane
    process.kill()
    process.wait()
    ours = folded(tmp_path, theirs, batch=2)
    assert os.path.exists(theirs)
    folded(tmp_path, ours, batch=3)
    assert len(states(tmp_path)) == 3
    assert not os.path.exists(theirs)


def test_what_a_task_that_runs_again_has_written_before_stays_since_its_receipt_may_be_known(tmp_path, other):
    process, theirs = other
    before = theirs[:-1] + "0"  # both ran the task that followed this state, the other one first
    process.kill()
    process.wait()
    for _ in range(2):
        folded(tmp_path, before, batch=1)
        assert os.path.exists(theirs)
        assert os.path.exists(before)
    folded(tmp_path, theirs, batch=2)
    assert os.path.exists(theirs)
    assert not os.path.exists(before)


def test_what_a_dead_process_has_written_last_stays_though_an_earlier_task_of_it_runs_again_first(tmp_path, other):
    process, theirs = other
    before = theirs[:-1] + "0"
    process.kill()
    process.wait()
    assert folded(tmp_path, "nothing", batch=0) is None
    folded(tmp_path, before, batch=1)
    assert os.path.exists(theirs), "its receipt may count, though this task doesn't know it"


def test_a_task_that_runs_again_after_a_later_one_changes_nothing(tmp_path, other):
    _, theirs = other
    ours = folded(tmp_path, theirs, batch=2)
    map_target(ours, [(0, 4096)])[:3] = b"new"
    there = states(tmp_path)
    assert folded(tmp_path, theirs[:-1] + "0", batch=1) is None
    assert states(tmp_path) == there
    assert bytes(map_source(StatePlace(ours, 0))[:3]) == b"new"


def test_a_lane_is_folded_by_one_thread_at_a_time(tmp_path):
    order = []

    def late():
        order.append("waits")
        order.append(folded(tmp_path, None, batch=0))

    with begun(f"{tmp_path}/0a-1-a-0", LaneTurn(1, 0), []):
        thread = threading.Thread(target=late)
        thread.start()
        until(lambda: order == ["waits"])
        path = write(tmp_path, None)
    thread.join()
    assert order == ["waits", None]
    assert states(tmp_path) == [os.path.basename(path)]


def test_states_of_a_living_process_stay(tmp_path, other):
    _, theirs = other
    folded(tmp_path, folded(tmp_path, theirs, batch=2), batch=3)
    assert len(states(tmp_path)) == 4


def test_all_files_of_a_lane_go_together(tmp_path, other):
    _, theirs = other
    write(tmp_path, theirs)
    forget(f"{tmp_path}/0a-1-a-0")
    assert states(tmp_path) == []


def test_a_run_takes_no_more_files_however_long_it_is_than_was_said_beforehand(tmp_path):
    config = {"operators": {"x": ["mean"]}, "windows": ["month", "year", {"running": {"days": 90}}]}
    regions = [("a", (0, 0), (2, 3))]

    (diagnostic,) = parse_diagnostics(config["operators"], config["windows"]).values()
    said = states_of(diagnostic)["outer"] + written_of(diagnostic, "outer")
    assert said == 1 + 1 + 1 + 90 + 4
    hours = np.arange(0, 6 * 8760, 240)
    shards.run(tmp_path, config, np.zeros((len(hours), 2, 3), "f4"), hours, regions)
    assert len(states(tmp_path / "state")) <= said


def test_nothing_is_left_where_all_states_were_removed(tmp_path, other):
    process, theirs = other
    write(tmp_path, theirs)
    remove_states(str(tmp_path), "0a")
    assert [path.stem for path in tmp_path.iterdir()] == [theirs.rsplit(".", 2)[1]]  # it lives, and may go on
    process.kill()
    process.wait()
    remove_states(str(tmp_path), "0a")
    assert not list(tmp_path.iterdir())
    assert write(tmp_path, None)
    remove_states(str(tmp_path / "ended"), "0a")  # with its node


def test_states_of_a_lane_lie_side_by_side_in_one_file_that_grows(tmp_path):
    path = free_file(f"{tmp_path}/0a-1-a-0", "outer", ())
    first = map_target(path, [(0, 4096)])
    first[:2] = b"ab"
    map_target(path, [(4096, 8192)])[4096:4098] = b"cd"
    assert map_target(path, [(0, 12288)])[:2] == b"ab"
    assert bytes(map_source(StatePlace(path, 0))[:2]) == b"ab"
    assert bytes(map_source(StatePlace(path, 4096))[:2]) == b"cd"
    assert os.path.getsize(path) == 12288


@given(st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=6), max_size=6))
def test_pages_are_made_once_and_what_was_written_stays(tmp_path_factory, rounds):
    path = free_file(f"{tmp_path_factory.mktemp('states')}/0a-1-a-0", "outer", ())
    written = {}
    for turn, extents in enumerate(rounds):
        mapping = map_target(path, pages_of([(4096 * first, 4096 * size - 5) for first, size in extents]))
        for page, value in written.items():
            assert mapping[4096 * page] == value
        for page in {first + at for first, size in extents for at in range(size)}:
            assert mapping[4096 * page] == written.get(page, 0)
            mapping[4096 * page] = written[page] = turn + 1


def test_a_file_that_does_not_grow_stays_mapped(tmp_path):
    path = free_file(f"{tmp_path}/0a-1-a-0", "outer", ())
    mapping = map_target(path, [(40960, 4096)])
    assert map_target(path, [(0, 8192)]) is mapping


def test_an_analysis_that_takes_over_removes_what_does_not_count_of_earlier_ones_only(tmp_path):
    names = ("0a-1-a-0.x.P.0", "0a-1-a-0.x.P.1", "0a-2-a-0.x.P.0", "0a-3-a-0.x.P.0", "0b-1-a-0.x.P.0")
    for name in names:
        (tmp_path / name).touch()
    remove_stale(str(tmp_path), "0a", "2", [str(tmp_path / names[1])])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_shards_keep_their_places_until_they_are_let_go_of(tmp_path):
    lanes, keys = Lanes("s", tmp_path, epoch_ns=1), [ShardKey("a", "tas", (at,), (1,)) for at in range(3)]
    places = [lanes.places(key, 0, {"outer": 5000, "each": 10}) for key in keys[:2]]
    assert places == [(0, 0, 0), (8192, 4096, 0)]
    assert lanes.places(keys[0], 7, {"outer": 1}) == places[0]
    with pytest.raises(BbflowError, match="a state of 8193 bytes has a place of 8192 bytes"):
        lanes.places(keys[0], 0, {"outer": 8193})
    lanes.let_go(keys[:1])
    assert lanes.places(keys[2], 0, {"outer": 4096, "each": 1}) == (0, 0, 0)
    assert Lanes("s", tmp_path, epoch_ns=2).label(("a", 0)) > lanes.label(("a", 0))


def test_a_fork_takes_no_file_of_its_parent_for_its_own(tmp_path):
    path = free_file(f"{tmp_path}/lane", "outer", ())
    map_target(path, [(0, 4096)])
    heard, told = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12, where there are threads
        child = os.fork()
    if child == 0:
        os.write(told, free_file(f"{tmp_path}/lane", "outer", ()).encode())
        os._exit(0)
    os.close(told)
    with open(heard) as file:
        assert file.read() not in ("", path)
    assert os.waitpid(child, 0)[1] == 0


def test_a_state_file_that_somebody_has_removed_is_not_waited_for(tmp_path):
    path = free_file(str(tmp_path / "lane"), "outer", ())
    map_target(path, [(0, 4096)])
    os.unlink(path)
    with pytest.raises(StreamError, match="was removed: what it held of the statistics"):
        map_source(StatePlace(path, 0))


def test_a_note_of_what_was_begun_that_somebody_has_cut_is_named(tmp_path):
    lane = str(tmp_path / "lane")
    with begun(lane, LaneTurn(0, 0), ()) as is_wanted:
        assert is_wanted
    os.truncate(f"{lane}.begun", 10)
    with pytest.raises(NodeError, match=r"lane\.begun was cut or changed"), begun(lane, LaneTurn(1, 1), ()):
        pass
