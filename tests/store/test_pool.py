"""The pool's pages: there before the first step, and cheap to map."""

import mmap
import re
import resource
import subprocess
import tempfile
from pathlib import Path

import pytest

from bbflow.errors import CapacityError
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


def written_bytes():
    """What this process has handed to write(2) so far."""
    return int(re.search(r"wchar: (\d+)", Path("/proc/self/io").read_text())[1])


def test_on_a_disk_nothing_is_written_ahead(tmp_path):
    if subprocess.run(["stat", "-f", "-c", "%T", tmp_path], check=True, capture_output=True).stdout == b"tmpfs\n":
        pytest.skip("temporary files lie in memory here")
    before = written_bytes()
    create_pool(tmp_path / "pool", CAPACITY)
    back_pool(tmp_path / "pool", 0, CAPACITY)
    assert written_bytes() - before < CAPACITY // 2
    assert (tmp_path / "pool").stat().st_size == CAPACITY


def test_a_limit_of_files_sizes_is_named(path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(CapacityError, match="needs 2 MiB, but files may have 1 MiB: raise ulimit -f"):
            create_pool(path, 2 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
