"""How the kernel's requests reach the mount: over io_uring where it is allowed, and to as many threads as wait."""

import errno
import os
import threading
from pathlib import Path

from testsupport.mounts import errno_of

ALLOWED = Path("/sys/module/fuse/parameters/enable_uring")
WRITERS = 24
"""More than threads wait for requests on any processor before one comes."""


def _rings(pid):
    """Count the io_urings of a process."""
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(each) == "anon_inode:[io_uring]"
        except FileNotFoundError:
            continue  # it was just closed
    return found


def test_requests_come_over_io_uring_where_the_kernel_allows_it(mounts, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    where = mounts.start("m", "--directory", str(source))
    (where / "f").write_bytes(b"x" * 3_000_000)
    assert (source / "f").read_bytes() == (where / "f").read_bytes() == b"x" * 3_000_000
    is_allowed = ALLOWED.exists() and ALLOWED.read_text().strip() == "Y"
    assert (_rings(mounts.pid("m")) >= os.cpu_count()) is is_allowed


def test_calls_that_wait_leave_others_served(servers, mounts):
    servers.start(capacity="1MiB", storage=False, master=("--piece", "256KiB", "--room-timeout", "5"))
    where = mounts.start("m", contact=servers.contact)
    (where / "small").write_bytes(b"x")
    ends = []

    def write(number):
        ends.append(errno_of((where / f"f{number}").write_bytes, bytes(2_000_000)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    while len(os.listdir(where)) <= WRITERS:
        assert any(thread.is_alive() for thread in threads)
    assert ends == []  # they all wait for room
    assert (where / "small").read_bytes() == b"x"
    assert sorted(os.listdir(where)) == sorted(["small", *(f"f{number}" for number in range(WRITERS))])
    for thread in threads:
        thread.join()
    assert ends == [errno.ENOSPC] * WRITERS
