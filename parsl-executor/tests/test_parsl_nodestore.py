"""A node's room, as its processes share it by files and locks."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from bbflow_parsl.locks import one_of
from bbflow_parsl.nodestore import NodeFiles
from bbflow_parsl.sweeping import ALIVE, remove_if_dead
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.errors import CapacityError

SIZES = {f"f{n}": 7 * n for n in range(6)}
SETS = st.lists(st.sets(st.sampled_from(sorted(SIZES)), max_size=3), max_size=25)
LARGEST_SET_BYTES = sum(sorted(SIZES.values())[-3:])


def copy(entry, size_bytes):
    coming, whole = entry / "coming", entry / "whole"
    coming.write_bytes(bytes(size_bytes))
    whole.mkdir(exist_ok=True)
    coming.rename(whole / "file")


@settings(max_examples=25)
@given(SETS, st.integers(LARGEST_SET_BYTES, 150), st.integers(1, 4))
def test_any_sets_of_files_are_all_admitted_in_the_end_and_room_is_never_exceeded(sets, capacity_bytes, workers):
    with TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        # Each worker has a store object of its own, as processes have: they share nothing but the directory.
        def use(names):
            store = NodeFiles(Path(name), capacity_bytes)
            with store.holding({each: SIZES[each] for each in names}):
                assert store.used_bytes <= capacity_bytes
                for each in names:
                    with store.fetching(each):
                        if store.whole(each) is None:
                            copy(store.entry(each), SIZES[each])
                assert all(store.whole(each).stat().st_size == SIZES[each] for each in names)

        for done in [pool.submit(use, names) for names in sets]:
            done.result(300)


def test_a_set_above_the_capacity_is_an_error_with_the_sizes(tmp_path):
    store = NodeFiles(tmp_path, 10)
    with pytest.raises(CapacityError, match=r"need 12 B .* has 10 B"), store.holding({"a": 6, "b": 6}):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from bbflow.host.locks import lock
from bbflow_parsl.nodestore import NodeFiles
from bbflow_parsl.sweeping import mark
alive = lock(Path(sys.argv[1]) / "alive", shared=True)
mark(alive, sys.argv[1])
with NodeFiles(Path(sys.argv[1]), 10).holding({"a": 8}):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_killed_worker_holds_nothing_and_its_directory_goes_with_the_last_one(tmp_path):
    directory = tmp_path / "node"
    directory.mkdir()
    with subprocess.Popen([sys.executable, "-c", HOLDER, directory], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            remove_if_dead(str(directory), wait=False)
            assert (directory / ALIVE).exists(), "a living worker uses it"
        finally:
            process.kill()
    store = NodeFiles(directory, 10)
    with store.holding({"b": 5}):
        assert store.used_bytes == 5, "what the dead one held has gone"
    remove_if_dead(str(directory), wait=True)
    assert not directory.exists()


def test_an_output_that_is_larger_than_it_was_expected_drives_out_what_nobody_holds(tmp_path):
    store = NodeFiles(tmp_path, 10)
    with store.holding({"idle": 4}):
        pass
    with store.holding({"out": 5}):
        store.resize("out", 9)
        assert store.used_bytes == 9
        store.rename("out", "known")
    assert store.entry("known").exists()


def test_no_more_compute_than_there_are_slots(tmp_path):
    at_once, most = [], []

    def compute(_):
        with one_of(tmp_path / "slots", 2) as number:
            assert number in (0, 1)
            at_once.append(number)
            most.append(len(at_once))
            at_once.remove(number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(compute, range(60)))
    assert max(most) <= 2
