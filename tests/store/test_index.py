import os
import struct
from bisect import bisect_right
from copy import deepcopy

import pytest

from bbflow.errors import CapacityError, ConfigError, ProtocolError
from bbflow.host.belongings import make
from bbflow.net.frames import encode
from bbflow.store.entries import DiscardRecord, DropRecord, FormatRecord
from bbflow.store.extents import ALIGNMENT_BYTES as PAGE
from bbflow.store.index import Index, replay
from bbflow.store.node import FILES, NodeStore
from testsupport.indexes import plant_index
from testsupport.peers import record_of

RECORDS = [
    FormatRecord(version=1, capacity=PAGE),
    DiscardRecord(stream="a", step=3),
    DropRecord(stream="a"),
]

FIRST = {"writers": 1, "local_writers": 1, "moved_from": "", "settled": -1, "loss_timeout_s": 1.0}
RANK = {"stream": "a", "rank": 0}
ROW = ["v", "int8_t", "LocalArray", [], [], [PAGE], 0, 0, 0, PAGE, False]
REST = {"layout": 0, "files": [], "values": [], "extremes": b"", "attributes": [], "began_s": 1.0, "committed_s": 2.0}


def at(place):
    """What a record says of one block of a page."""
    return {"forms": [ROW], "sources": struct.pack("<q", place)} | REST


LIFE = [
    {"record": "open"} | RANK | FIRST,
    {"record": "attach", "stream": "a", "consumers": ["fold"], "epoch": 1},
    {"record": "grant", "step": 0, "extents": [[0, 8192]]} | RANK,
    {"record": "commit", "step": 0} | at(0) | RANK,
    {"record": "grant", "step": 1, "extents": [[4096, 4096]]} | RANK,
    {"record": "done", "stream": "a", "consumer": "fold", "step": 0, "checkpoint": b"c"},
    {"record": "commit", "step": 1} | at(4096) | RANK,
    {"record": "close", "attributes": []} | RANK,
]
"""A stream of one writer from its begin to its end."""


def write_index(path, records):
    index = Index(path)
    for record in records:
        index.append(record)
    index.close()


def test_a_tail_torn_at_any_byte_is_cut_off_and_written_anew(tmp_path):
    path = tmp_path / "index"
    whole = b"".join(encode(record) for record in RECORDS)
    kept = len(whole) - len(encode(RECORDS[-1]))
    for torn in range(kept, len(whole)):
        path.write_bytes(whole[:torn])
        assert list(replay(path)) == RECORDS[:-1]
        assert path.stat().st_size == kept
        write_index(path, RECORDS[-1:])
        assert list(replay(path)) == RECORDS


def test_a_damaged_byte_anywhere_in_the_last_record_drops_only_that_record(tmp_path):
    path = tmp_path / "index"
    whole = b"".join(encode(record) for record in RECORDS)
    kept = len(whole) - len(encode(RECORDS[-1]))
    for at in range(kept, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        assert list(replay(path)) == RECORDS[:-1]


def test_an_index_that_is_not_there_has_no_records(tmp_path):
    assert list(replay(tmp_path / "none")) == []


def test_an_index_is_private(tmp_path):
    write_index(tmp_path / "index", RECORDS)
    assert (tmp_path / "index").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_file_system_is_named(tmp_path):
    (tmp_path / "index").symlink_to("/dev/full")
    with pytest.raises(CapacityError, match="No space left"):
        Index(tmp_path / "index").append(RECORDS[0])


def test_a_store_of_another_version_is_refused(tmp_path):
    make(tmp_path, *FILES)
    write_index(tmp_path / "index", [FormatRecord(version=99, capacity=1), {"record": "of a later version"}])
    with pytest.raises(ConfigError, match="another version"):
        NodeStore(tmp_path, 1 << 16)


def test_an_index_whose_extents_overlap_is_refused(tmp_path):
    step = {"record": "step", "stream": "a", "ranks": 1} | at(0)
    first = {"record": "format", "version": 3, "capacity": 1 << 16}
    make(tmp_path, *FILES)
    write_index(tmp_path / "index", [first, step | {"step": 0}, step | {"step": 1}])
    with pytest.raises(ProtocolError, match="held twice"):
        NodeStore(tmp_path, 1 << 16)


def test_a_pool_without_an_index_is_made_anew(tmp_path):
    make(tmp_path, *FILES)
    (tmp_path / "pool").write_bytes(b"left by a start that was killed")
    store = NodeStore(tmp_path, 1 << 16)
    assert (tmp_path / "pool").stat().st_size == 1 << 16
    assert store.extents.free_bytes == 1 << 16
    store.close()


def test_a_carried_on_store_keeps_its_own_capacity(tmp_path):
    NodeStore(tmp_path, 1 << 16).close()
    store = NodeStore(tmp_path, 1 << 20)
    assert store.extents.capacity == 1 << 16
    store.close()


def test_too_large_a_pool_is_an_error_with_both_numbers_and_leaves_no_file(tmp_path):
    with pytest.raises(CapacityError, match=r"free, but the pool needs .*: give a smaller capacity"):
        NodeStore(tmp_path, 1 << 60)
    assert not (tmp_path / "pool").exists()
    assert not (tmp_path / "index").exists()


def test_a_node_carries_on_from_an_index_torn_at_any_byte_of_its_last_records(tmp_path):
    store = NodeStore(tmp_path / "n", 1 << 16)
    sizes, states = [store.index.size_bytes], [{}]
    for record in LIFE:
        store.record(record_of(record))
        sizes.append((tmp_path / "n" / "index").stat().st_size)
        states.append(deepcopy(dict(store.streams)))
    store.close()
    whole = (tmp_path / "n" / "index").read_bytes()
    for torn in range(sizes[0], len(whole) + 1):
        at = bisect_right(sizes, torn) - 1
        plant_index(tmp_path / "n", whole[:torn], sizes[at])
        again = NodeStore(tmp_path / "n", 1 << 16)
        assert again.streams == states[at]
        again.close()


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_node_whose_index_was_cut_or_damaged_below_what_was_acknowledged_is_refused(tmp_path, is_compacted):
    """Its last record says which states count: before it, files were named that hold others by now."""
    path, store = tmp_path / "n" / "index", NodeStore(tmp_path / "n", 1 << 16)
    for record in LIFE:
        store.record(record_of(record))
    if is_compacted:
        store.compact()
    store.close()
    whole = path.read_bytes()
    cut = rf"index is damaged \(\d+ of its {len(whole)} bytes are whole\): remove"
    for harmed in (whole[:-1], whole[: len(whole) // 2], b"", whole[:-9] + b"?" + whole[-8:]):
        path.write_bytes(harmed)
        with pytest.raises(ProtocolError, match=cut):
            NodeStore(tmp_path / "n", 1 << 16)
        assert path.read_bytes() == harmed
    path.write_bytes(whole)
    NodeStore(tmp_path / "n", 1 << 16).close()
    path.rename(path.with_name("away"))
    with pytest.raises(ProtocolError, match=r"index is damaged \(it was removed\): remove"):
        NodeStore(tmp_path / "n", 1 << 16)
    path.with_name("away").rename(path)
    path.with_name("index.length").unlink()
    with pytest.raises(ProtocolError, match=r"index\.length was removed or cut"):
        NodeStore(tmp_path / "n", 1 << 16)


@pytest.mark.parametrize(
    "record",
    [
        {"record": "open"} | RANK | FIRST | {"settled": None},
        {"record": "discard", "stream": "a"},
        {"record": "grant", "step": 0, "extents": [[0, 100]]} | RANK,
        {"record": "grant", "step": 0, "extents": [[0, 4096.0]]} | RANK,
        {"record": "feast", "stream": "a"},
        {"record": "commit", "step": 0} | at(100) | RANK,
        {"record": "commit", "step": 0} | at(-4096) | RANK,
        {"record": "commit", "step": 0} | at(0) | {"sources": b"\0" * 7} | RANK,
    ],
)
def test_a_record_with_a_wrong_content_is_one_clear_error(tmp_path, record):
    NodeStore(tmp_path / "n", 1 << 16).close()
    with (tmp_path / "n" / "index").open("ab") as file:
        file.write(encode(record))
    with pytest.raises(ProtocolError, match="index is damaged"):
        NodeStore(tmp_path / "n", 1 << 16)
