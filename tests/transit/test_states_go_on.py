"""A field that is folded in several runs, each of which goes on from the state of the one before."""

import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import shards
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.transit.chain.saved import read_state
from bbflow.transit.chain.taking_over import carried_on, take_over
from bbflow.transit.folding.regions import check_apart
from bbflow.transit.states.shards import ShardKey, overlapping
from bbflow.view.stream import News, StreamView

SHAPE = 4, 6
STEPS = 40
HOURS = [float(hour) for hour in np.cumsum(np.random.default_rng(3).integers(2, 9, STEPS))]
"""Over two months' bound, with gaps."""
WINDOWS = ["day", "month", {"season": "DJF"}, {"steps": 7}, {"running": {"days": 3}}, "clim_dayofyear", "run"]
LIMIT = {"above": 0.2}
CONFIG = {
    "windows": WINDOWS,
    "operators": {
        "x": ["mean", "std", "min", "argmax", "first", "last", {"percentiles": {"q": [50]}}],
        "spells": {
            "of": "x",
            "operators": [{"longest_spell": LIMIT}, {"spell_count": LIMIT | {"at_least": 2}}],
            "windows": ["month", "run"],
        },
        "each": {"of": "x", "each": {"day": "max"}, "operators": ["mean", "count"], "windows": ["month", "run"]},
        "moving": {
            "of": "x",
            "each": {"window": {"running": {"days": 3}}, "operator": "sum"},
            "then": "value * 2",
            "operators": ["max", "count"],
            "windows": ["month", "run"],
        },
        "added": {"of": "x", "transforms": ["deaccumulate", "cumsum"], "operators": ["last", "sum"]},
    },
}
ONE = [("a", (0, 0), SHAPE)]
ROWS = [("a", (0, 0), (1, 6)), ("b", (1, 0), (3, 6))]
COLUMNS = [("b", (0, 0), (4, 2)), ("a", (0, 2), (4, 1)), ("c", (0, 3), (4, 3))]
QUARTERS = [(node, (y, x), (2, 3)) for node, y, x in (("a", 0, 0), ("b", 0, 3), ("b", 2, 0), ("c", 2, 3))]


def values(seed=1):
    random = np.random.default_rng(seed)
    field = random.normal(size=(STEPS, *SHAPE))
    field[random.random(field.shape) < 0.1] = np.nan
    return field


def assert_same(saved, expected):
    left, right = shards.statistics(saved), shards.statistics(expected)
    assert left.keys() == right.keys()
    for place, result in right.items():
        np.testing.assert_allclose(left[place], result, rtol=1e-9, atol=1e-12, err_msg=str(place))
    assert saved.timeline == expected.timeline
    assert saved.number == expected.number


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return shards.run(tmp_path_factory.mktemp("whole"), CONFIG, values(), HOURS, ONE)


cuts = st.lists(st.integers(1, STEPS - 1), min_size=1, max_size=2, unique=True).map(sorted)
decompositions = st.lists(st.sampled_from([ONE, ROWS, COLUMNS, QUARTERS]), min_size=3, max_size=3)


@settings(max_examples=8, deadline=None)
@given(cuts, decompositions, st.sampled_from([1, 4]))
def test_any_cut_into_runs_of_any_decompositions_gives_what_one_run_gives(whole, cuts, decompositions, batch_steps):
    field, before = values(), None
    with tempfile.TemporaryDirectory() as folder:
        for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, STEPS], strict=True)):
            part, hours = field[first:end], HOURS[first:end]
            own = Path(folder) / str(number)
            saved = shards.run(own, CONFIG, part, hours, decompositions[number], before=before, batch_steps=batch_steps)
            before = own
        assert_same(saved, whole)


def test_an_analysis_that_crashes_in_a_later_run_is_carried_on_with(tmp_path, whole):
    shards.run(tmp_path / "first", CONFIG, values()[:13], HOURS[:13], ROWS)
    before = tmp_path / "first"
    saved = shards.run(tmp_path / "second", CONFIG, values()[13:], HOURS[13:], QUARTERS, before=before, crash_at=5)
    assert_same(saved, whole)


def test_after_a_crash_the_state_is_what_it_was_though_it_is_replaced_meanwhile(tmp_path):
    config = {"windows": ["run"], "operators": {"x": ["sum"]}}
    shards.run(tmp_path, config, values()[:10], HOURS[:10], ONE)
    parsed = parse_config({"stream": "fields", "output": str(tmp_path), "continue": str(tmp_path)} | config)
    number = take_over(parsed, {"a": (-1, b"")}).number
    shards.run(tmp_path, config, values(), HOURS, ONE)
    assert take_over(parsed, {"a": (3, b"checkpoint")}).number == number
    assert take_over(parsed, {"a": (-1, b"")}).number > number


def test_what_no_shard_writes_any_more_is_handed_on(tmp_path):
    expected = shards.run(tmp_path / "whole", CONFIG, values(), HOURS, ROWS, gone=(1,), gone_from=15)
    shards.run(tmp_path / "first", CONFIG, values()[:15], HOURS[:15], ROWS)
    saved = shards.run(tmp_path / "second", CONFIG, values()[15:], HOURS[15:], ROWS[:1], before=tmp_path / "first")
    assert_same(saved, expected)


def test_points_that_change_their_shard_are_handed_on_once(tmp_path):
    config = {"windows": ["run"], "operators": {"x": ["sum", "count"]}}
    moving = [*ROWS, *COLUMNS]  # the columns' first points were the rows' before
    shards.run(tmp_path / "first", config, values()[:10], HOURS[:10], ONE)
    saved = shards.run(tmp_path / "second", config, values()[10:20], HOURS[10:20], moving, before=tmp_path / "first")
    found = shards.statistics(saved)
    counted = (~np.isnan(values())).reshape(STEPS, -1)
    expected = counted[:10].sum(0) + 2 * counted[10:20].sum(0)
    np.testing.assert_array_equal(found["x", "run", (), "count"], expected)


def test_blocks_that_overlap_in_one_step_are_an_error():
    keys = [ShardKey(node, "x", start, count) for node, start, count in (*ROWS, *COLUMNS[1:2])]
    check_apart(7, keys[:2])
    with pytest.raises(ConfigError, match=r"of x: in step 7 the block at \(0, 0\) of shape \(1, 6\) on BB node a and"):
        check_apart(7, keys)


@given(st.lists(st.sampled_from([*ROWS, *COLUMNS, *QUARTERS]), min_size=2, max_size=6, unique=True))
def test_all_blocks_that_overlap_are_found(placed):
    keys = [ShardKey(node, "x", start, count) for node, start, count in placed]
    parts = [tuple(slice(at, at + size) for at, size in zip(key.start, key.count, strict=True)) for key in keys]
    covered = np.zeros(SHAPE, int)
    for part in parts:
        covered[part] += 1
    shared = {at for pair in overlapping([(key.start, key.count) for key in keys]) for at in pair}
    assert shared == {at for at, part in enumerate(parts) if covered[part].max() > 1}
    with nullcontext() if covered.max() < 2 else pytest.raises(ConfigError):
        check_apart(0, keys)


moves = st.dictionaries(st.integers(1, STEPS - 1), st.sampled_from([ONE, ROWS, COLUMNS, QUARTERS]), max_size=4)


@settings(max_examples=10, deadline=None)
@given(moves, st.booleans(), st.sampled_from([1, 4]))
@example({1: ONE, 3: ROWS}, False, 1)
def test_wherever_blocks_move_and_the_analysis_dies_in_between_nothing_changes(whole, moves, torn, batch_steps):
    with tempfile.TemporaryDirectory() as folder:
        saved = shards.run(Path(folder), CONFIG, values(), HOURS, ROWS, batch_steps=batch_steps, moves=moves, torn=torn)
        assert_same(saved, whole)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1), moves, st.sampled_from([1, 3]), st.integers(0, STEPS))
@example([2], {}, 1, STEPS)
@example([5, 1], {}, 1, 11)
@example([3], {9: COLUMNS}, 1, STEPS)
def test_what_is_published_stays_as_it_is_while_batches_are_folded(batches, moves, batch_steps, gone_from):
    """Days end in every fourth step; a shard that is gone for some time has its state in an older file."""
    with tempfile.TemporaryDirectory() as folder:
        gone = {"gone": (1,), "gone_from": gone_from, "moves": {**moves, min(gone_from + 9, STEPS): ROWS}}
        known = shards.run(Path(folder) / "known", CONFIG, values(), HOURS, ROWS, **gone)
        ahead = iter([*batches, *[3] * STEPS]).__next__
        more = {"ahead": ahead, "batch_steps": batch_steps}
        assert_same(shards.run(Path(folder) / "ahead", CONFIG, values(), HOURS, ROWS, **gone, **more), known)


def test_blocks_that_move_in_a_later_run_go_on_from_what_the_first_one_left(tmp_path, whole):
    shards.run(tmp_path / "first", CONFIG, values()[:13], HOURS[:13], ROWS, moves={7: COLUMNS})
    later = {"before": tmp_path / "first", "moves": {2: QUARTERS, 9: ONE}, "torn": True, "crash_at": 5}
    saved = shards.run(tmp_path / "second", CONFIG, values()[13:], HOURS[13:], COLUMNS, **later)
    assert_same(saved, whole)


def arrived(hours):
    """A node's stream in which a step has landed at each of these hours."""
    view = StreamView(["a"], {"a": -1})
    time = Layout.of((BlockForm("time", "double", "GlobalValue", (), (), (), rank=0),))
    steps = tuple(Step(number, time, values=(hour,)) for number, hour in enumerate(hours))
    view.update("a", News("open", 1, 1, steps, len(hours) - 1))
    return view


def test_numbers_go_on_after_steps_that_are_written_again(tmp_path):
    config = {"windows": [{"steps": 7}], "operators": {"x": ["sum"]}, "workers": {"batch_steps": 5}}
    shards.run(tmp_path, config, values()[:10], HOURS[:10], ONE)
    parsed, saved = parse_config({"stream": "fields"} | config), read_state(tmp_path)
    folding, view = carried_on(parsed, {"a": (-1, b"")}, saved), arrived(HOURS[7:30])
    batch = folding.next_batch(view, shards.CLOCK)
    assert (batch.passed.late, batch.steps, batch.numbers) == (3, (3, 4), (10, 11))
    folding.take(batch, [])
    folding = carried_on(parsed, {"a": (folding.cursor, folding.checkpoints()("a"))}, saved)
    batch = folding.next_batch(view, shards.CLOCK)
    assert (batch.numbers, batch.spans[0].keys) == ((12, 13), {"steps7": (1,)})
    assert (folding.late, folding.number, folding.common.last_number) == (3, 11, 11)


def test_steps_that_the_run_before_has_are_late(tmp_path):
    config = {"windows": ["run"], "operators": {"x": ["sum"]}}
    shards.run(tmp_path, config, values()[:10], HOURS[:10], ONE)
    parsed = parse_config({"stream": "fields"} | config)
    folding = carried_on(parsed, {"a": (-1, b"")}, read_state(tmp_path))
    assert folding.common.timeline.numbers.is_late(HOURS[9], 0.0)
    assert not folding.common.timeline.numbers.is_late(HOURS[10], 0.0)
