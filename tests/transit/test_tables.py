"""What goes to the workers and comes back doesn't grow with the number of blocks."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import shards
from hypothesis import given
from hypothesis import strategies as st

from bbflow.configuring.config import parse_config
from bbflow.errors import DamagedError
from bbflow.transit.chain.taking_over import carried_on
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.patterns import LaidStep
from bbflow.transit.folding.task import fold_lane
from bbflow.transit.spans.slots import BASE, LEVELS, OUTER, StateSlot
from bbflow.transit.states.shards import ShardKey, ShardState, StatePlace
from bbflow.transit.states.tables import CountedStates, Roster, RosterFiles, States

ROWS = 32


def state(number, last_step=3, **more):
    key = ShardKey("a", "tas", (4 * number,), (4,))
    files = {BASE[OUTER]: StatePlace("/dev/shm/0a-1-a-0.outer.base..1f.0", 4096 * number)}
    return key, (key.start, key.count), ShardState(dtype="<f4", last_step=last_step, files=files, **more)


def roster_of(rows):
    return Roster.of(*zip(*((key, region, own.offsets) for key, region, own in rows), strict=True))


def table_of(rows):
    return States.in_roster(roster_of(rows), enumerate(own for _, _, own in rows))


def by_key(rows):
    return {key: (key, region, own) for key, region, own in rows}


@pytest.mark.parametrize(
    ("states", "records"),
    [
        ([state(0), state(1), state(2)], 1),
        ([state(0), state(1, last_step=2), state(2)], 2),
        ([state(0), state(1, rows=("/out/hot.a.npy",)), state(2)], 2),
    ],
    ids=["alike", "one behind", "rows"],
)
def test_states_come_back_as_they_were_packed(states, records):
    table = table_of(states)
    assert len(table.alike) == records
    assert sorted(table.rows(), key=lambda row: row[0].start) == states
    roster = Roster.unpacked(table.roster.packed, "roster")
    assert (roster.digest, roster.keys) == (table.roster.digest, table.roster.keys)


def test_a_shard_without_a_state_stays_without_one():
    table = States.in_roster(roster_of([state(0), state(1)]), [(1, state(1)[2])])
    assert list(table.rows()) == [state(1)]
    assert [table.get(state(number)[0]) for number in range(3)] == [None, state(1)[2], None]


def test_a_shard_that_changes_its_roster_counts_once():
    counted, all_of, some = CountedStates(), [state(0), state(1), state(2)], [state(1, last_step=7)]
    counted.put(table_of(all_of))
    counted.put(table_of(some))
    assert [counted.get(key).last_step for key, _, _ in all_of] == [3, 7, 3]
    assert len(counted) == 3


KEYS = [
    *(ShardKey("a", "tas", (4 * number,), (4,)) for number in range(3)),
    *(ShardKey("a", "pr", (number, 2), (1, 5)) for number in range(3)),
    ShardKey("a", "world", (), ()),
]
STEPS = st.fixed_dictionaries({key: st.integers(-1, 2) for key in KEYS})
"""Shard to the last step of its state, -1 for none."""
PLACES = st.permutations(range(len(KEYS)))


def state_of(key, last_step, place):
    """A state whose files lie where one roster has a shard's place, or where another had it."""
    files = {
        BASE[OUTER]: StatePlace(f"/dev/shm/{last_step}", 4096 * place),
        StateSlot(OUTER, "run"): StatePlace("/dev/shm/old", 8192 * place),
    }
    rows = (f"/out/hot.a.{key.label}.npy",) if last_step == 2 else ()
    region = key.start[-1:] or (0,), key.count[-1:] or (1,)
    held = frozenset({"/dev/shm/held"} if last_step == 1 else ())
    return key, region, ShardState(dtype="<f4", last_step=last_step, files=files, rows=rows, held=held)


@given(st.lists(st.tuples(st.sets(st.sampled_from(KEYS), min_size=1), STEPS, PLACES), max_size=5), st.data())
def test_whatever_tables_come_each_shard_has_its_last_state(batches, data):
    counted, known = CountedStates(), {}
    for keys, steps, places in batches:
        own = [key for key in KEYS if key in keys]
        rows = [state_of(key, steps[key], places[KEYS.index(key)]) for key in own]
        roster, rows = roster_of(rows), by_key(row for row in rows if row[2].last_step >= 0)
        states = [(roster.positions[key], own) for key, _, own in rows.values()]
        counted.put(pickle.loads(pickle.dumps(States.in_roster(roster, states))))
        known = {key: row for key, row in known.items() if key not in keys} | rows
        assert by_key(counted) == known
        assert len(counted) == len(known)
    asked = data.draw(st.lists(st.sampled_from(KEYS), min_size=1, unique=True))
    offsets = [(data.draw(st.integers(0, 5)), 0, 0) for _ in asked]
    roster = Roster.of(asked, [state_of(key, 0, 0)[1] for key in asked], offsets)
    found = States(roster, counted.of(roster))
    assert by_key(found.rows()) == {key: known[key] for key in asked if key in known}
    assert counted.get(asked[0]) == known.get(asked[0], (None,))[-1]
    fields = [row for table in counted.tables for own in table.fields for row in own.rows()]
    assert by_key(fields) == known
    assert by_key(counted.take_rows()) == {key: row for key, row in known.items() if row[2].last_step == 2}
    counted.let_go()
    assert by_key(counted) == {
        key: (key, region, replace(own, rows=(), held=frozenset())) for key, region, own in known.values()
    }
    assert set(counted.drop(["tas"])) == {key for key in known if key.diagnostic == "tas"}
    assert by_key(counted).keys() == {key for key in known if key.diagnostic != "tas"}


def test_rosters_are_united_with_each_shard_once():
    rosters = [roster_of([state(0), state(1)]), roster_of([state(1), state(2)])]
    world = Roster.of([KEYS[-1]], [((0,), (1,))], [(0, 0, 0)])
    united = Roster.united([*rosters, rosters[0], world])
    assert united.keys == (*(state(number)[0] for number in range(3)), KEYS[-1])
    assert united.find(rosters[1]).tolist() == [1, 2]
    assert rosters[0].find(united).tolist() == [0, 1, -1, -1]


def folded(folder, parts):
    """Fold two batches of a field in some blocks; gives bytes of the second one's work, its receipt and checkpoint."""
    config = {"stream": "fields", "output": str(folder), "windows": ["month", "run"], "operators": {"x": ["mean"]}}
    folding = carried_on(parse_config(config), {"a": (-1, b"")})
    landed = shards.Landed(folder, np.ones((4, ROWS, 3)))
    size = ROWS // parts
    blocks = tuple(("a", (size * number, 0), (size, 3)) for number in range(parts))
    pattern = landed.pattern(folding.config.diagnostics, blocks)
    for steps in ((0, 1), (2, 3)):
        batch, keys = Batch(steps[0] - 1, folding.common.timeline.numbers), shards.keys_of(folding, 0.0, 0)
        for step in steps:
            laid = LaidStep(step, float(step), pattern, landed.parts(step, pattern), {})
            batch.add(laid, batch.passed.after(float(step)), keys)
        ((work, plans),) = folding.works(batch, landed.site).values()
        receipt = fold_lane(work, *plans)
        folding.take(batch, [receipt])
    assert len(folding.states) == parts
    return [len(pickle.dumps(work)), len(pickle.dumps(receipt)), len(folding.checkpoints()("a"))]


def test_work_receipt_and_checkpoint_are_as_small_for_many_blocks_as_for_few(tmp_path):
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few, many = folded(tmp_path / "few", 2), folded(tmp_path / "many", ROWS)
    assert np.allclose(few, many, atol=8)  # the directories' names


def test_a_roster_whose_file_was_changed_is_refused(tmp_path):
    roster = Roster.of([ShardKey("bb0", "x", (0,), (4,))], [((0,), (4,))], (0,) * len(LEVELS))
    files = RosterFiles(tmp_path)
    files.keep([roster])
    assert files.read(roster.digest).digest == roster.digest
    (path,) = (tmp_path / ".rosters").iterdir()
    path.write_bytes(path.read_bytes().replace(b"bb0", b"bb1"))
    with pytest.raises(DamagedError, match="is damaged: it isn't what its name says"):
        files.read(roster.digest)
