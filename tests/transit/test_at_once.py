"""Blocks that the kernel takes as they lie come to the same bits as those that are folded one by one."""

from functools import cache, partial

import numpy as np
import pytest
import shards
from test_states_go_on import COLUMNS, HOURS, QUARTERS, ROWS, values

from bbflow.operators import kernel
from bbflow.operators.library import TYPES
from bbflow.transit.folding import kernel_table
from bbflow.transit.folding.alike_fold import AlikeFold
from bbflow.transit.states import files

CONFIG = {
    "windows": ["day", "month", {"running": {"days": 3}}, "run"],
    "operators": {
        "x": ["mean", "std", "min", "max"],
        "sums": {"of": "x", "operators": ["sum", "count"], "windows": ["run"]},
        "median": {"of": "x", "operators": [{"percentiles": {"q": [50], "error": 20, "steps": 30}}]},
        "counts": {"of": "x", "operators": [{"histogram": {"edges": [-1, 0, 0.5]}}, "mean"]},
        "bins": {"of": "x", "operators": [{"histogram": {"range": "auto", "bins": 4}}]},
        "high": {"of": "x", "operators": [{"filter": {"above": 1.5, "name": "hot"}}, {"filter": {"below": -2}}, "max"]},
        "rows": {"of": "x", "operators": [{"filter": {"above": 0, "below": 0.01}}], "windows": ["run"]},
    },
}


def whole_run(folder, **how):
    return shards.run(folder, CONFIG, values(), HOURS, ROWS, **how)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What runs give with as many steps in a batch, each of them run once."""
    return cache(lambda steps: shards.statistics(whole_run(tmp_path_factory.mktemp("expected"), batch_steps=steps)))


def chain(folder, placed):
    """Two jobs, of which the second has other blocks."""
    before = shards.run(folder / "first", CONFIG, values()[:11], HOURS[:11], ROWS).path
    return shards.run(folder / "second", CONFIG, values()[11:], HOURS[11:], placed, before=before)


@pytest.mark.parametrize(
    "run",
    [
        partial(whole_run, batch_steps=4),
        partial(whole_run, batch_steps=1, gone=(1,), gone_from=9, crash_at=5),
        partial(whole_run, moves={7: COLUMNS, 20: QUARTERS}, crash_at=12),
        partial(chain, placed=ROWS),
        partial(chain, placed=QUARTERS),
    ],
    ids=["batches", "shards that stay behind, and a crash", "moves", "two jobs", "two jobs, and moves"],
)
def test_a_lane_at_once_is_bit_for_bit_what_shard_by_shard_is(tmp_path, monkeypatch, run):
    found = {"as they lie": (shards.statistics(run(tmp_path / "lie")), rows_below(tmp_path / "lie"))}
    monkeypatch.setattr(kernel_table, "is_plain", lambda diagnostic: False)
    found["prepared"] = shards.statistics(run(tmp_path / "prepared")), rows_below(tmp_path / "prepared")
    monkeypatch.setattr(kernel_table, "_in_kernel", lambda layout: None)
    monkeypatch.setattr(AlikeFold, "_call", None)
    one_by_one, rows = shards.statistics(run(tmp_path / "one_by_one")), rows_below(tmp_path / "one_by_one")
    assert len({name.partition(".")[0] for name in rows}) == 3
    for how, (results, own_rows) in found.items():
        assert results.keys() == one_by_one.keys()
        for place, result in one_by_one.items():
            np.testing.assert_array_equal(results[place], result, err_msg=f"{how} {place}")
        assert own_rows == rows


def rows_below(folder):
    """What passed filters, by the names of its files."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.npy")}


def test_a_worker_that_is_gone_for_a_while_leaves_each_state_in_its_place(tmp_path, expected):
    """Its threads don't count then: two lanes' states have the same places, in files of their own."""
    found = shards.statistics(whole_run(tmp_path, batch_steps=3, threads=lambda at: 1 if 10 < at < 20 else 3))
    for place, result in expected(3).items():
        np.testing.assert_array_equal(found[place], result, err_msg=str(place))


@pytest.mark.parametrize("crash_at", range(4, 12))
def test_states_of_another_process_stay_mapped_while_the_kernel_reads_them(tmp_path, monkeypatch, expected, crash_at):
    """The first batch of a new process may end a day, and merge what only others' files have."""
    restarted = shards.restarted

    def anew(folding, saved):
        monkeypatch.setattr(files, "PROCESS", f"{files.PROCESS[:-1]}x")
        files._mapped.clear()
        return restarted(folding, saved)

    wanted = expected(1)
    monkeypatch.setattr(shards, "restarted", anew)
    found = shards.statistics(whole_run(tmp_path, batch_steps=1, crash_at=crash_at))
    for place, result in wanted.items():
        np.testing.assert_array_equal(found[place], result, err_msg=str(place))


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1)])
def test_an_analysis_that_takes_over_has_other_places_for_states_and_finds_them_where_they_are(
    tmp_path, expected, first, then
):
    """They lie before or after the places that it has for them."""
    threads = {True: first, False: then}
    found = shards.statistics(whole_run(tmp_path, batch_steps=4, crash_at=11, threads=lambda at: threads[at < 11]))
    for place, result in expected(4).items():
        np.testing.assert_allclose(found[place], result, rtol=1e-9, err_msg=str(place))


def test_pieces_of_large_blocks_come_to_what_the_whole_comes_to_on_any_number_of_threads():
    points = (1 << 19) + 300
    blocks = np.random.default_rng(1).normal(size=(3, points)).astype("f4")
    fields = {"count": "i4", "shift": "f4", "first": "f8", "second": "f8", "min": "f4", "max": "f4"}

    def folded(threads):
        target = {name: np.zeros(points, dtype) for name, dtype in fields.items()}
        task = np.zeros(2, kernel.TASK)
        addresses = np.array([block.ctypes.data for block in blocks], "u8")
        task["target"] = [array.ctypes.data for array in target.values()]
        task["target"][1] = 0  # a task that keeps nothing
        task["blocks"], task["steps"], task["points"] = addresses.ctypes.data, len(blocks), points
        kernel.fold(np.full(2, TYPES[np.dtype("f4")]), task, threads=threads)
        return target

    one, three = folded(1), folded(3)
    for name in fields:
        np.testing.assert_array_equal(one[name], three[name], err_msg=name)
    assert (one["count"] == 3).all()
    np.testing.assert_array_equal(one["max"], blocks.max(axis=0))
