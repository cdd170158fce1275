"""What goes to the workers and comes back doesn't grow with the number of blocks."""

import pickle

import numpy as np
import pytest
import shards

from bbflow.config import parse_config
from bbflow.transit.chain.taking_over import carried_on
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.counted import CountedStates
from bbflow.transit.folding.packing import Roster, pack, unpack
from bbflow.transit.folding.shards import ShardKey, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, OUTER
from bbflow.transit.folding.sources import fold_lane

ROWS = 32


def state(number, last_step=3, **more):
    key = ShardKey("a", "tas", (4 * number,), (4,))
    files = {BASE[OUTER]: StatePlace("/dev/shm/0a-1-a-0.outer.base..1f.0", 4096 * number)}
    return ShardState(key, (4 * number,), (4,), "<f4", last_step, files=files, **more)


def roster_of(states):
    return Roster((item.key, item.region, (item.files[BASE[OUTER]].offset, 0, 0)) for item in states)


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
    roster = roster_of(states)
    packed = pack(roster, {item.key: item for item in states})
    assert len(packed) == records
    assert unpack(roster, packed) == {item.key: item for item in states}
    assert Roster.unpacked(roster.packed, "roster").members == roster.members


def test_a_shard_without_a_state_stays_without_one():
    roster = roster_of([state(0), state(1)])
    only = {state(1).key: state(1)}
    assert unpack(roster, pack(roster, only)) == only


def test_a_shard_that_changes_its_roster_counts_once():
    counted, all_of, some = CountedStates(), [state(0), state(1), state(2)], [state(1, last_step=7)]
    counted.put(roster_of(all_of), pack(roster_of(all_of), {item.key: item for item in all_of}))
    counted.put(roster_of(some), pack(roster_of(some), {item.key: item for item in some}))
    assert [counted[item.key].last_step for item in all_of] == [3, 7, 3]
    assert len(counted) == 3


def folded(folder, parts):
    """Fold two batches of a field in some blocks; gives bytes of the second one's work, its receipt and checkpoint."""
    config = {"stream": "fields", "output": str(folder), "windows": ["month", "run"], "operators": {"x": ["mean"]}}
    folding = carried_on(parse_config(config), {"a": (-1, b"")})
    landed = shards.Landed(folder, np.ones((4, ROWS, 3)))
    size = ROWS // parts
    blocks = tuple(("a", (size * number, 0), (size, 3)) for number in range(parts))
    pattern = landed.pattern(folding.config.diagnostics, blocks)
    for steps in ((0, 1), (2, 3)):
        laid = tuple((pattern, landed.parts(step, pattern)) for step in steps)
        keys = shards.keys_of(folding, 0.0, 0)
        batch = Batch(steps, tuple(map(float, steps)), keys, steps[-1], laid=laid)
        ((work, plans),) = folding.works(batch, landed.site).values()
        receipt = fold_lane(work, *plans)
        folding.take(batch, [receipt])
    assert len(folding.states) == parts
    return [len(pickle.dumps(work)), len(pickle.dumps(receipt)), len(folding.checkpoint("a"))]


def test_work_receipt_and_checkpoint_are_as_small_for_many_blocks_as_for_few(tmp_path):
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few, many = folded(tmp_path / "few", 2), folded(tmp_path / "many", ROWS)
    assert np.allclose(few, many, atol=8)  # the directories' names
