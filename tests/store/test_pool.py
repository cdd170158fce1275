"""The pool's pages: there before the first step, and cheap to map."""

import mmap
import resource
import tempfile
from pathlib import Path

import pytest

from bbflow.store.pool import back_pool, create_pool, keep_backed

CAPACITY = 64 << 20


@pytest.fixture
def path():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder) / "pool"


def test_a_new_pools_pages_are_mapped_many_with_one_fault(path):
    create_pool(path, CAPACITY)
    assert path.stat().st_blocks * 512 == CAPACITY
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pool:
        assert not any(pool[at] for at in range(0, CAPACITY, mmap.PAGESIZE))
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < CAPACITY // mmap.PAGESIZE // 2


def test_a_pool_that_may_have_steps_keeps_them(path):
    create_pool(path, CAPACITY)
    with path.open("r+b") as file:
        file.seek(CAPACITY // 2)
        file.write(b"a step")
    keep_backed(path, CAPACITY)
    assert path.read_bytes()[CAPACITY // 2 :].startswith(b"a step")


def test_on_a_disk_nothing_is_written_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr("bbflow.store.pool._is_in_memory", lambda descriptor: False)
    monkeypatch.setattr("bbflow.store.pool.os.pwrite", lambda *_: pytest.fail("it was"))
    create_pool(tmp_path / "pool", 1 << 20)
    back_pool(tmp_path / "pool", 0, 1 << 20)
    assert (tmp_path / "pool").stat().st_size == 1 << 20
