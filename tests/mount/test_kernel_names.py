"""Names that the kernel keeps: it asks the mount's program for none twice, until another mount changes one."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from testsupport.mounts import BOUND_S, errno_of, in_another_process
from testsupport.waiting import until

LEASE_S = 10
"""The master's: for so long it waits for a mount that doesn't answer."""
CHANGES = """
import os, sys, time
own, others, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
longest_s = 0.0
for number in range(count):
    begun_s = time.monotonic()
    open(own, "wb").close()
    os.rename(own, own + "x")
    os.path.exists(others), os.path.exists(others + "x")
    os.unlink(own + "x")
    longest_s = max(longest_s, time.monotonic() - begun_s)
print(longest_s)
"""


def kernel():
    return tuple(map(int, platform.release().split(".")[:2]))


@pytest.mark.skipif(kernel() < (6, 16), reason="Linux before 6.16 can't be made to forget names without a wait")
def test_a_path_is_walked_again_without_the_mounts_program(servers, mounts):
    servers.start(storage=False)
    where = mounts.start("m", contact=servers.contact)
    (where / "a/b").mkdir(parents=True)
    (where / "a/b/f").touch()

    def is_walked_without():
        before = mounts.read_bytes("m")
        for _ in range(20):
            (where / "a/b/f").stat()
        return mounts.read_bytes("m") == before

    # Some of it is asked each second: between two of those it must be walked without, on however slow a machine.
    until(is_walked_without, "the mount's program was asked in each of the rounds")


def replace_file(where):
    (where / "new").write_bytes(b"new")
    (where / "new").rename(where / "d/f")


def replace_directory(where):
    (where / "d").rename(where / "old")
    (where / "d").mkdir()
    (where / "d/f").write_bytes(b"new")


def make_anew(where):
    (where / "d/f").unlink()
    (where / "d/f").write_bytes(b"new")


def point_elsewhere(where):
    (where / "e").mkdir()
    (where / "e/f").write_bytes(b"new")
    os.replace(where / "d", where / "old")
    (where / "d").symlink_to("e")


@pytest.mark.parametrize("change", [replace_file, replace_directory, make_anew, point_elsewhere])
def test_another_mounts_change_of_a_path_counts_at_once(pair, change):
    one, two = pair
    (one / "d").mkdir()
    (one / "d/f").write_bytes(b"")
    for where in (one, two):
        assert (where / "d/f").stat().st_size == 0
        assert (where / "d/f").read_bytes() == b""
    change(two)
    assert (one / "d/f").stat().st_size == 3
    assert (one / "d/f").read_bytes() == b"new"


def test_what_another_mount_moves_away_is_there_no_more(pair):
    one, two = pair
    (one / "a/b").mkdir(parents=True)
    (one / "a/b/f").touch()
    for number in range(50):
        old, new = ("a", "c") if number % 2 == 0 else ("c", "a")
        assert (one / old / "b/f").exists()
        (two / old).rename(two / new)
        assert not (one / old / "b/f").exists()
        assert (one / new / "b/f").exists()


def test_a_change_of_bytes_elsewhere_lets_no_name_stay_that_is_removed_next(pair):
    one, two = pair
    (one / "f").write_bytes(b"1")
    for _ in range(20):
        assert (one / "f").exists()
        (two / "f").write_bytes(b"2")
        (two / "f").unlink()
        assert not (one / "f").exists()
        (two / "f").write_bytes(b"1")


def test_a_program_stays_in_its_directory_while_others_change_names_on_the_way_to_it(pair):
    one, two = pair
    (one / "a/b").mkdir(parents=True)
    (one / "a/x").touch()
    program = """
import os, sys
where, other = sys.argv[1:]
os.chdir(where + "/a/b")
for number in range(20):
    os.stat(where + "/a/x")
    os.rename(other + "/a/x", other + "/a/y")
    assert os.path.exists(where + "/a/y")
    assert os.getcwd() == where + "/a/b"
    open("f", "w").close()
    assert os.path.exists(where + "/a/b/f")
    os.rename(other + "/a/y", other + "/a/x")
    assert os.getcwd() == where + "/a/b"
"""
    in_another_process(program, one, two)


def test_mounts_that_change_names_of_one_directory_do_not_wait_for_each_other(pair):
    def begin(where: Path, own: str, others: str):
        words = [sys.executable, "-c", CHANGES, str(where / own), str(where / others), "150"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    running = [begin(where, *names) for where, names in zip(pair, (("a", "b"), ("b", "a")), strict=True)]
    longest_s = [float(process.communicate(timeout=BOUND_S)[0]) for process in running]
    assert max(longest_s) < LEASE_S / 2
    assert errno_of(os.stat, pair[0] / "a") == errno_of(os.stat, pair[1] / "b") != 0
