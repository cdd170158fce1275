"""What the kernel reads without the mount's program: by passthrough, and from its own cache."""

import mmap
import os
import sqlite3
import threading
import time
from contextlib import closing, suppress

import pytest

from testsupport.waiting import until


def test_bytes_that_are_read_again_come_from_the_kernel_until_another_mount_changes_them(servers, mounts):
    servers.start(storage=False)
    where = mounts.start("m", "--no-passthrough", contact=servers.contact)
    other = mounts.start("other", contact=servers.contact)
    content = os.urandom(5_000_000)
    (where / "f").write_bytes(content)  # into memory of this host: the kernel keeps no copy
    before = mounts.read_bytes("m")
    assert (where / "f").read_bytes() == content
    assert mounts.read_bytes("m") - before >= len(content)
    before = mounts.read_bytes("m")
    for _ in range(3):
        assert (where / "f").read_bytes() == content
    assert mounts.read_bytes("m") - before < len(content) // 10
    (other / "f").write_bytes(content[::-1])  # as long
    assert (where / "f").read_bytes() == content[::-1]
    assert mounts.read_bytes("m") - before >= len(content)


@pytest.mark.parametrize("flags", [0, os.O_APPEND, os.O_TRUNC])
def test_what_the_kernel_reads_by_itself_stays_while_the_same_mount_writes_a_new_version(pair, flags):
    one, two = pair
    (one / "f").write_bytes(b"a" * 60_000)
    start = 60_000 if flags == os.O_APPEND else 0
    new = (b"" if flags == os.O_TRUNC else b"a" * start) + b"b" * 70_000
    with (one / "f").open("rb", buffering=0) as reader:
        assert reader.read(3) == b"aaa"
        descriptor = os.open(one / "f", os.O_WRONLY | flags)
        for offset in range(start, len(new), 10_000):
            os.pwrite(descriptor, b"b" * 10_000, offset)
        assert os.pread(reader.fileno(), 60_000, 0) == b"a" * 60_000
        assert (one / "f").stat().st_size == len(new)
        with (one / "f").open("rb", buffering=0) as later:  # of the same mount: it sees what isn't closed
            assert later.read(200_000) == new
        if flags != os.O_TRUNC:
            assert (two / "f").read_bytes() == b"a" * 60_000
        os.close(descriptor)
        assert (one / "f").read_bytes() == new == (two / "f").read_bytes()
    assert (one / "f").read_bytes() == new


def test_a_later_reader_gets_the_new_version_though_the_kernel_still_reads_the_older_one(pair):
    one, two = pair
    (one / "f").write_bytes(b"a" * 50_000)
    with (one / "f").open("rb", buffering=0) as reader:
        assert reader.read(3) == b"aaa"
        (two / "f").write_bytes(b"b" * 50_000)
        assert (one / "f").read_bytes() == b"b" * 50_000
        assert reader.read(50_000) == b"a" * 49_997


def test_an_idle_reader_keeps_nobody_from_reading_and_writing_a_file(pair):
    one, two = pair
    (one / "f").write_bytes(b"a" * 50_000)
    readers = []
    for turn in range(20):  # more than the kernel's numbers of one file
        readers.append((one / "f").open("rb", buffering=0))
        assert readers[-1].read(1) in b"ab"
        with (one / "f").open("r+b", buffering=0) as writer, mmap.mmap(writer.fileno(), 0) as mapped:
            writer.write(b"b" * turn)
            mapped[40_000 + turn] = ord("c")
            mapped.flush()
        with (one / "f").open("rb", buffering=0) as later:
            assert later.read(50_001) == (two / "f").read_bytes()
            assert os.pread(later.fileno(), turn + 1, 40_000) == b"c" * (turn + 1)
        assert (one / "f").stat().st_ino == os.fstat(readers[0].fileno()).st_ino
    assert os.pread(readers[0].fileno(), 50_000, 0) == b"a" * 50_000
    for reader in readers:
        reader.close()


def test_a_database_that_someone_looks_at_can_be_written(pair):
    one, _ = pair
    with closing(sqlite3.connect(one / "db")) as first:
        first.execute("create table t (a)")
        first.commit()
    time.sleep(1.2)  # a mount keeps a file open for a second
    with (
        closing(sqlite3.connect(f"file:{one / 'db'}?mode=ro", uri=True)) as reader,
        closing(sqlite3.connect(one / "db")) as writer,
    ):
        assert reader.execute("select * from t").fetchall() == []
        writer.execute("insert into t values (1)")
        writer.commit()
        with closing(sqlite3.connect(one / "db")) as later:
            assert later.execute("select * from t").fetchall() == [(1,)]


@pytest.mark.parametrize("size", [0, 3, 1_000_000])
def test_an_object_that_someone_has_made_shorter_is_never_read_with_zeros(servers, mounts, size):
    servers.start()
    servers.storage.mkdir(exist_ok=True)
    (servers.storage / "f").write_bytes(b"x" * 5_000_000)
    where = mounts.start("m", contact=servers.contact)
    assert (where / "f").stat().st_size == 5_000_000
    (servers.storage / "f").write_bytes(b"y" * size)
    with (where / "f").open("rb", buffering=0) as file:
        assert os.read(file.fileno(), 5_000_000) == b"y" * size  # no fstat before, which would tell the kernel
    assert (where / "f").stat().st_size == size


def test_what_another_mount_appends_is_read_without_zeros_by_who_has_the_file_open(pair):
    one, two = pair  # the second one's kernel has pages of it
    (one / "f").write_bytes(b"abc")
    with (two / "f").open("rb", buffering=0) as reader:
        assert os.pread(reader.fileno(), 10, 0) == b"abc"
        with (one / "f").open("ab") as writer:
            writer.write(b"d" * 100_000)
        assert os.fstat(reader.fileno()).st_size == 100_003
        assert os.pread(reader.fileno(), 100_004, 0) == b"abc" + b"d" * 100_000


def test_a_file_that_gets_shorter_while_it_is_open_ends_there_or_is_refused(pair):
    one, two = pair
    (one / "f").write_bytes(b"a" * 500_000)
    with (two / "f").open("rb", buffering=0) as reader:
        assert os.pread(reader.fileno(), 10, 0) == b"a" * 10
        for size in (300_000, 3, 0, 100_000):
            (one / "f").write_bytes(b"b" * size)
            with (two / "f").open("rb", buffering=0) as later:
                assert os.pread(later.fileno(), 500_000, 0) == b"b" * size
            with suppress(OSError):
                assert not os.pread(reader.fileno(), 500_000, 0).strip(b"ab")
            assert os.fstat(reader.fileno()).st_size == size
            with suppress(OSError):
                assert not os.pread(reader.fileno(), 500_000, 0).strip(b"ab")


def test_readers_of_an_object_that_others_replace_get_what_someone_wrote(servers, mounts):
    client = servers.start()
    servers.storage.mkdir(exist_ok=True)
    part, target = servers.directory / "part", servers.storage / "f"
    where, found, is_over = mounts.start("m", "--no-passthrough", contact=servers.contact), [], threading.Event()
    sizes = [3, 5_000_000, 10, 100_000, 0, 1_000_000] * 4

    def read():
        while not is_over.is_set():
            with suppress(OSError), (where / "f").open("rb", buffering=0) as file:
                content = os.read(file.fileno(), 5_000_000)
                found.append(content if content.strip(content[:1]) else b"")

    readers = [threading.Thread(target=read) for _ in range(4)]
    try:
        for number, size in enumerate(sizes):
            part.write_bytes(bytes([ord("a") + number % 26]) * size)
            part.rename(target)
            client.refresh("/")
            if not number:
                for reader in readers:
                    reader.start()
            before = len(found)
            until(lambda before=before: len(found) > before + 8, "more reads")
    finally:
        is_over.set()
    for reader in readers:
        reader.join()
    assert not any(found)
