"""How the kernel's requests reach the mount: over io_uring where it is allowed, and to as many threads as wait."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from testsupport.mounts import errno_of
from testsupport.waiting import until

ALLOWED = Path("/sys/module/fuse/parameters/enable_uring")
WRITERS = 24
"""More than threads wait for requests on any processor before one comes."""


WRITE = "import sys; open(sys.argv[1], 'wb', 0).write(bytes(1 << 20))"


def _rings(pid):
    """Count the io_urings of a process."""
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(each) == "anon_inode:[io_uring]"
        except FileNotFoundError:
            continue  # it was just closed
    return found


def test_requests_come_over_io_uring_where_the_kernel_allows_it(servers, mounts):
    client = servers.start(storage=False)
    where = mounts.start("m", contact=servers.contact)
    (where / "f").write_bytes(b"x" * 3_000_000)
    assert client.read("/f") == (where / "f").read_bytes() == b"x" * 3_000_000
    is_allowed = ALLOWED.exists() and ALLOWED.read_text().strip() == "Y"
    assert (_rings(mounts.pid("m")) >= os.cpu_count()) is is_allowed


def test_calls_that_wait_leave_others_served(servers, mounts):
    servers.start(capacity="8MiB", storage=False, master=("--piece", "256KiB", "--room-timeout", "600"))
    where = mounts.start("m", contact=servers.contact)
    (where / "small").write_bytes(b"x")
    (where / "large").write_bytes(bytes((8 << 20) - (128 << 10)))
    ends = []

    def write(number):
        ends.append(errno_of((where / f"f{number}").write_bytes, bytes(256 << 10)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    until(lambda: len(os.listdir(where)) == WRITERS + 2)
    assert ends == []  # they all wait for room
    assert (where / "small").read_bytes() == b"x"
    assert sorted(os.listdir(where)) == sorted(["small", "large", *(f"f{number}" for number in range(WRITERS))])
    (where / "large").unlink()
    for thread in threads:
        thread.join()
    assert ends == [0] * WRITERS


def test_threads_that_cannot_be_made_cost_no_request(servers, mounts):
    servers.start(capacity="1MiB", storage=False, master=("--piece", "256KiB", "--room-timeout", "1"))
    where = mounts.start("m", contact=servers.contact)
    held = psutil.Process(mounts.pid("m")).memory_info().vms + (4 << 20)  # less than a thread's stack
    resource.prlimit(mounts.pid("m"), resource.RLIMIT_AS, (held, held))
    words = [sys.executable, "-c", WRITE]
    running = [subprocess.Popen([*words, where / f"f{n}"], stderr=subprocess.PIPE, text=True) for n in range(4)]
    said = [process.communicate(timeout=60)[1] for process in running]  # all wait for room, after each other
    assert sum("No space left on device" in each for each in said) >= 3, said
    assert "no thread can be made" in mounts.said("m")
    assert len(os.listdir(where)) == 4
