"""The index of an earlier agent is read by this one: version 3 stays version 3."""

from golden_run import GOLDEN, PAGES, live

from bbflow.host.belongings import make
from bbflow.net.frames import FrameReader
from bbflow.store.node import FILES, NodeStore
from bbflow.store.pool import create_pool
from testsupport.indexes import plant_index
from testsupport.peers import PAGE, STREAM

RECORDS = {"format", "open", "grant", "commit", "discard", "evict", "attach", "done", "close", "abort", "drop"}


def test_an_agent_writes_the_golden_index(tmp_path):
    assert live(tmp_path / "node") == GOLDEN.read_bytes()


def test_the_golden_index_has_every_record_that_is_not_of_an_index_written_anew():
    assert {message["record"] for message in FrameReader().feed(GOLDEN.read_bytes())} == RECORDS


def test_a_node_carries_on_from_the_golden_index(tmp_path):
    make(tmp_path, *FILES)
    create_pool(tmp_path / "pool", PAGES * PAGE)
    plant_index(tmp_path, GOLDEN.read_bytes())
    store = NodeStore(tmp_path, PAGES * PAGE)
    stream = store.streams[STREAM]
    assert (stream.status, stream.writers, stream.epoch) == ("open", 2, 1)
    assert (list(stream.steps), stream.discarded, stream.last) == ([1, 2], {3}, 3)
    assert [step.ranks for step in stream.steps.values()] == [2, 2]
    assert stream.attributes["v/units"].value == "K2"
    assert {name: (cursor.step, cursor.checkpoint) for name, cursor in stream.consumers.items()} == {
        "fold": (0, b"c"),
        "drain": (0, b"c"),
    }
    assert list(stream.parts) == [4]
    assert stream.ranks[1].granted_bytes == PAGE
    assert (store.streams["read"].status, list(store.streams["read"].steps)) == ("closed", [])
    assert "gone" not in store.streams
    assert PAGES * PAGE - store.extents.free_bytes == (2 * 4 + 2) * PAGE
    store.close()
