"""What the kernel reads without the mount's program: by passthrough, and from its own cache."""

import errno
import os

import pytest

from testsupport.mounts import errno_of


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


def test_who_could_map_a_file_for_writing_waits_until_the_kernel_reads_it_no_more(pair):
    one, _ = pair
    (one / "f").write_bytes(b"a" * 50_000)
    with (one / "f").open("rb", buffering=0) as reader:
        assert reader.read(3) == b"aaa"
        assert errno_of(os.open, one / "f", os.O_RDWR) == errno.EBUSY
    with (one / "f").open("r+b", buffering=0) as writer, (one / "f").open("rb", buffering=0) as reader:
        writer.write(b"bbbbbb")
        assert reader.read(8) == b"bbbbbbaa"
