"""A pool that somebody takes from its node is missed by the agent, by who reads it, and by the next agent."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from bbflow.errors import NodeError, StreamError
from bbflow.store.entries import AbortRecord
from bbflow.store.node import NodeStore, check_held
from bbflow.store.pool import forget_pools, map_pool
from bbflow.store.shared_room import NodeRoom

CAPACITY = 1 << 16


def remove(pool):
    pool.unlink()


def cut(pool):
    os.truncate(pool, CAPACITY // 2)


def empty(pool):
    os.truncate(pool, 0)
    os.truncate(pool, CAPACITY)


def replace(pool):
    pool.unlink()
    pool.write_bytes(bytes(CAPACITY))


def replace_by_a_copy(pool):
    shutil.copy2(pool, pool.with_name("copy"))
    pool.with_name("copy").replace(pool)


@pytest.fixture
def memory():
    with tempfile.TemporaryDirectory(prefix="bbflow-test-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("harm", [remove, cut, empty, replace, replace_by_a_copy])
def test_nobody_takes_a_pool_that_was_taken_away_for_the_nodes(memory, harm, is_mapped):
    store, pool = NodeStore(memory, CAPACITY), memory / "pool"
    store.check_pool()
    if is_mapped:
        assert len(map_pool(str(pool))) == CAPACITY
    harm(pool)
    lost = "was removed, cut or replaced: what the BB node held is lost"
    with pytest.raises(NodeError, match=lost):
        store.check_pool()
    with pytest.raises(StreamError, match=lost):
        store.record(AbortRecord(stream="s", rank=0))
    with pytest.raises(NodeError, match=lost):
        map_pool(str(pool))
    store.close()
    with pytest.raises(NodeError, match=lost):
        NodeStore(memory, CAPACITY)
    forget_pools()


def test_a_pool_whose_pages_files_have_since_it_holds_nothing_is_not_lost(memory):
    NodeStore(memory / "node", CAPACITY, NodeRoom(memory / "room", 2 * CAPACITY)).close()
    assert (memory / "node" / "pool").stat().st_blocks == 0
    check_held(memory / "node")


def test_a_file_system_without_hard_links_is_named(memory, monkeypatch):
    def link(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(NodeError, match="has no hard links: give another directory"):
        NodeStore(memory / "node", CAPACITY)
