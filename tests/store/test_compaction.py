import struct

import pytest

from bbflow.net import frames
from bbflow.store.node import NodeStore
from testsupport.peers import PAGE, STREAM, Bench, block, content_of, record_of

STEPS = 400
FIRST = {"settled": -1, "moved_from": "", "loss_timeout_s": 1.0}
ROW = ["v", "int8_t", "LocalArray", [], [], [4096], 0, 0, 0, 4096, False]
REST = {"layout": 0, "files": [], "values": [], "extremes": b"", "began_s": 1.0, "committed_s": 2.0}
NUMBER = {"name": "a", "type": "double", "value": 1.5}


def write_steps(store, held):
    """Land steps of one page each; a consumer is past all but the last `held`."""
    store.record(record_of({"record": "open", "stream": "s", "rank": 0, "writers": 1, "local_writers": 1} | FIRST))
    store.record(record_of({"record": "attach", "stream": "s", "consumers": ["fold"], "epoch": 3}))
    for number in range(STEPS):
        extent = store.extents.take(4096)
        where = {"stream": "s", "rank": 0, "step": number}
        store.record(record_of({"record": "grant", "extents": [extent]} | where))
        content = {"forms": [ROW], "sources": struct.pack("<q", extent[0]), "attributes": [NUMBER]} | REST
        store.record(record_of({"record": "commit"} | where | content))
        done = {"consumer": "fold", "step": number - held, "checkpoint": b"x" * 100}
        store.record(record_of({"record": "done", "stream": "s"} | done))


@pytest.mark.parametrize("held", [1, 7])
def test_an_index_does_not_grow_with_the_number_of_steps(tmp_path, held):
    store = NodeStore(tmp_path / "n", 1 << 20, compact_bytes=4096)
    write_steps(store, held)
    assert (tmp_path / "n" / "index").stat().st_size < 3 * 4096
    store.close()


def test_a_compacted_index_gives_the_same_state_again(tmp_path):
    store = NodeStore(tmp_path / "n", 1 << 20, compact_bytes=4096)
    write_steps(store, held=5)
    store.record(record_of({"record": "close", "stream": "s", "rank": 0, "attributes": []}))
    before, free = store.streams["s"], store.extents.free_bytes
    store.close()
    again = NodeStore(tmp_path / "n", 1 << 20, compact_bytes=4096)
    assert again.streams["s"] == before
    assert again.extents.free_bytes == free
    assert list(again.streams["s"].steps) == list(range(STEPS - 5, STEPS))
    again.close()


def test_the_node_machine_s_stores_compact_too(tmp_path):
    store = NodeStore(tmp_path / "n", 1 << 20, compact_bytes=4096)
    write_steps(store, held=2)
    store.record(record_of({"record": "drop", "stream": "s"}))
    assert store.extents.free_bytes == store.extents.capacity
    store.close()


def test_layouts_that_an_index_written_anew_does_not_hold_are_told_again(tmp_path):
    """Two layouts in turn, of which only the last one is taken along; the index alone must give all steps."""
    bench = Bench(tmp_path / "n", compact_bytes=4096)
    bench.open()
    sizes = [PAGE, PAGE, PAGE // 2]
    for step in range(60):
        ((offset, _),) = bench.begin(0, step, 1)["extents"]
        content = content_of([block(offset, sizes[step % 3])], layout=step % 3 // 2)
        known = step > 3 and {key: value for key, value in content.items() if key != "forms"}
        bench.say(0, "commit", step=step, attributes=[NUMBER], open_s=0.0, waited_s=0.0, **(known or content))
        if step == 0:
            epoch = bench.attach("fold")["epoch"]
        bench.done(step - 2, epoch, checkpoint=bytes(200))
    before = bench.store.streams[STREAM]
    assert bench.store.index.size_bytes < 3 * 4096
    bench.reopen()
    assert bench.store.streams[STREAM] == before
    assert {number: step.bytes for number, step in before.steps.items()} == {58: PAGE, 59: PAGE // 2}
    bench.store.close()


def test_an_index_goes_on_where_what_counts_is_too_long_for_a_record(tmp_path, monkeypatch):
    """Two checkpoints of which each has its record, but not both together."""
    monkeypatch.setattr(frames, "MAX_PAYLOAD_BYTES", 3000)
    bench = Bench(tmp_path / "n", compact_bytes=4096)
    bench.open()
    epoch = bench.attach("fold", "drain")["epoch"]
    for step in range(8):
        bench.land(step)
        for consumer in ("fold", "drain"):
            assert bench.done(step, epoch, consumer, checkpoint=bytes(2000))["ok"]
    long = bench.store.index.size_bytes
    assert long > 8 * 4000
    bench.reopen()
    assert bench.watch()["last"] == 7
    assert {cursor.checkpoint for cursor in bench.store.streams[STREAM].consumers.values()} == {bytes(2000)}
    for step in range(8, 90):
        for consumer in ("fold", "drain"):
            bench.done(step, epoch, consumer, checkpoint=bytes(1000))
    assert bench.store.index.size_bytes < long
    assert not (tmp_path / "n" / "index.new").exists()
    bench.store.close()


def test_a_rank_that_was_first_to_commit_a_later_step_is_as_far_as_it_was(tmp_path):
    """Rank 2 came from another node, and is ahead of rank 0."""
    bench = Bench(tmp_path / "n", compact_bytes=4096)
    for rank in range(2):
        bench.open(rank, writers=3)
    bench.open(2, writers=3, moved_from="bb1", settled=0)
    for rank, step in ((2, 1), (0, 0), (0, 1)):
        bench.commit(rank, step)
    before = bench.store.streams[STREAM]
    assert list(before.parts) == [1, 0]
    bench.store.compact()
    bench.reopen()
    assert bench.store.streams[STREAM] == before
    assert bench.open(0, writers=3, resume=True, settled=1)["committed"] == 1
    bench.store.close()
