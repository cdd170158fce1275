"""Small shards that lie alike are taken together, and come to the same as each by itself."""

import numpy as np
import pytest

from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.fold import fold_steps
from bbflow.transit.chain import saving
from bbflow.transit.publication import reduce
from bbflow.transit.publication.finish import Finishing
from bbflow.transit.publication.reduce import partial_of, partials_of, together
from bbflow.transit.spans.slots import BASE, OUTER, StateSlot
from bbflow.transit.spans.timeline import Closing, Span
from bbflow.transit.states.inherited import Inherited
from bbflow.transit.states.shards import ShardKey, ShardState, StatePlace
from bbflow.transit.states.state_layouts import state_layout_of
from bbflow.transit.states.tables import States

ROWS = [(first, 2) for first in range(0, 12, 2)]
MIXED = [(0, 2), (2, 2), (4, 1), (5, 1), (6, 2), (10, 2)]
STATISTICS = ["mean", "std", "max", {"histogram": {"edges": [0, 3, 6, 9]}}]


@pytest.fixture
def shards(tmp_path):
    """Makes shards of rows that are divided along two dimensions, in one file for each slot."""

    def make(diagnostic, rows, gap_at=None):
        random, offset, made, files = np.random.default_rng(4), 0, [], {"run": b"", "base": b""}
        slots = {"run": StateSlot(OUTER, "run", ()), "base": BASE[OUTER]}
        for number, (first, count) in enumerate(rows):
            for column in (0, 5):
                region = ((first, column), (count, 5))
                state_layout = state_layout_of(diagnostic, OUTER, np.dtype("f4"), region[1])
                for name in files:
                    state = np.zeros(state_layout.nbytes, np.uint8)
                    state_layout.clear(state)
                    values = random.integers(0, 9, (3, count * 5)).astype("f4")
                    fold_steps(state_layout, state, state, list(values))
                    files[name] += bytes(64) * (number == gap_at) + state.tobytes()
                own_offset = offset + 64 * (number == gap_at)
                places = {slot: StatePlace(str(tmp_path / name), own_offset) for name, slot in slots.items()}
                key = ShardKey("a", "v", *region)
                own = ShardState(dtype="<f4", last_step=5, last_time=5.0, keys={"run": ()}, files=places)
                made.append((key, region, own))
                offset = own_offset + state_layout.nbytes
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return made

    return make


def hold(states):
    return tuple(own for table in States.of(states) for own in table.fields)


def results_of(diagnostic, parts):
    return Finishing(diagnostic, (12, 10), list(parts)).whole()


@pytest.mark.parametrize(
    ("rows", "gap_at", "parts"),
    [(ROWS, None, 2), (ROWS, 3, None), (MIXED, None, None), (ROWS[:1], None, 2)],
    ids=["all alike", "a gap in the file", "some alike", "none beside another"],
)
def test_neighbours_come_to_the_same_as_each_by_itself(shards, rows, gap_at, parts):
    diagnostic = parse_diagnostics({"v": STATISTICS}, ["run"])["v"]
    span = Closing(diagnostic.windows[0], (Span((), 0.0, 5.0, 6),), frozenset())
    made = shards(diagnostic, rows, gap_at)
    together = list(partials_of(diagnostic, span, hold(made[::-1])))
    assert len(together) == parts or parts is None
    assert len(together) <= len(made)
    alone = results_of(diagnostic, [partial_of(diagnostic, span, region, state) for _, region, state in made])
    for name, values in results_of(diagnostic, together).items():
        np.testing.assert_array_equal(values, alone[name], name)


def test_large_ones_stay_where_they_lie_and_no_run_is_longer_than_is_copied(shards, monkeypatch):
    diagnostic = parse_diagnostics({"v": STATISTICS}, ["run"])["v"]
    span = Closing(diagnostic.windows[0], (Span((), 0.0, 5.0, 6),), frozenset())
    made = shards(diagnostic, ROWS)
    size = state_layout_of(diagnostic, OUTER, np.dtype("f4"), (2, 5)).nbytes
    monkeypatch.setattr(reduce, "GATHERED_BYTES", 2 * size)
    assert len(list(partials_of(diagnostic, span, hold(made)))) == len(made) // 2
    monkeypatch.setattr(reduce, "SMALL_BYTES", size - 1)
    assert len(list(partials_of(diagnostic, span, hold(made)))) == len(made)


def test_what_must_be_merged_in_its_order_stays_alone(shards):
    diagnostic = parse_diagnostics({"v": [{"longest_spell": {"above": 1}}]}, ["run"])["v"]
    span = Closing(diagnostic.windows[0], (Span((), 0.0, 5.0, 6),), frozenset())
    state_layout = state_layout_of(diagnostic, OUTER, np.dtype("f4"), (2, 5))
    assert not state_layout.commutes
    made = shards(diagnostic, ROWS)
    parts = list(partials_of(diagnostic, span, hold(made[::-1])))
    assert [part.region for part in parts] == [region for _, region, _ in made]


def test_neighbours_are_saved_as_each_by_itself(tmp_path, shards, monkeypatch):
    diagnostic = parse_diagnostics({"v": STATISTICS}, ["run"])["v"]
    slot = StateSlot(OUTER, "run", ())
    state_layout = state_layout_of(diagnostic, OUTER, np.dtype("f4"), (12, 10))
    made, runs = shards(diagnostic, ROWS), []

    def spied(*given):
        parts = list(together(*given))
        runs.extend(part.count[0] // ROWS[0][1] for part in parts)
        return parts

    monkeypatch.setattr(saving, "together", spied)

    def saved(shared):
        """Save them; of some it is said that others have points of them too."""
        rest = hold(shard for shard in made if shard not in shared)
        path = tmp_path / f"{len(shared)} shared"
        path.write_bytes(bytes(state_layout.nbytes))
        target = Inherited(str(path), (12, 10), "<f4", {slot: 0}, {"run": ()}, 5, 5.0)
        assert saving.add_shards(saving.SaveWork(diagnostic, target, "", {}, rest, tuple(shared), clears=True)) == {}
        return state_layout.views(path.read_bytes())

    with_neighbours = saved(made[3:4])
    assert sum(runs) == len(made) - 1
    assert max(runs) > 1
    # Who shares points with others is added by itself, to what is there.
    for family, fields in saved(made).items():
        for name, values in fields.items():
            np.testing.assert_array_equal(with_neighbours[family][name], values, f"{family} {name}")
    assert sum(runs) == len(made) - 1
