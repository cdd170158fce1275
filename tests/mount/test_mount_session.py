"""What FUSE itself must do, with a plain directory behind it."""

import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from bbflow.cli import main
from bbflow.mount.mounting import DEAD, PROGRAM, is_mounted
from testsupport.mounts import errno_of, in_another_process, let_all_in, write_at
from testsupport.waiting import until

PASSTHROUGH = pytest.mark.parametrize("words", [(), ("--no-passthrough",)], ids=["passthrough", "program"])
LATENCY = Path("/dev/cpu_dma_latency")
"""How long a processor may take to wake, in us, as all programs together have asked the kernel for."""


@pytest.fixture
def source(tmp_path):
    made = tmp_path / "source"
    made.mkdir()
    return made


@PASSTHROUGH
def test_a_directory_behind_the_mount_is_what_the_mount_shows(mounts, source, words):
    where = mounts.start("m", *words, "--directory", str(source))
    content = os.urandom(3_000_001)
    (where / "a").mkdir()
    (where / "a/b").write_bytes(content)
    assert (source / "a/b").read_bytes() == content == (where / "a/b").read_bytes()
    write_at(where / "a/b", b"new", 1_000_000)
    os.truncate(where / "a/b", 2_000_000)
    assert (source / "a/b").read_bytes() == content[:1_000_000] + b"new" + content[1_000_003:2_000_000]
    (where / "a/b").rename(where / "c")
    (where / "s").symlink_to("c")
    assert sorted(os.listdir(where)) == ["a", "c", "s"]
    assert (where / "s").stat().st_size == 2_000_000
    assert errno_of(os.rmdir, where / "c") == errno_of(os.rmdir, source / "c")
    (where / "c").unlink()
    assert sorted(os.listdir(source)) == ["a", "s"]


def test_a_directory_of_many_names_is_listed_whole(mounts, source):
    for number in range(3000):
        (source / f"a file with a name that is not short {number}").touch()
    where = mounts.start("m", "--directory", str(source))
    assert sorted(os.listdir(where)) == sorted(os.listdir(source))


def test_a_file_that_is_mapped_into_memory_is_written(mounts, source):
    where = mounts.start("m", "--directory", str(source))
    program = """
import mmap, sys
with open(sys.argv[1], "w+b") as file:
    file.truncate(8192)
    with mmap.mmap(file.fileno(), 8192) as memory:
        memory[5000:5003] = b"abc"
"""
    in_another_process(program, where / "f")
    assert (source / "f").read_bytes() == bytes(5000) + b"abc" + bytes(3189)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a tmpfs")
def test_files_of_different_file_systems_below_the_directory_are_told_apart(mounts, source):
    parts = [source / "a", source / "b"]
    try:
        for part in parts:
            part.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "none", part], check=True)
            (part / "f").write_text(part.name)  # with the same inode number in both
        where = mounts.start("m", "--directory", str(source))
        assert [(where / part.name / "f").read_text() for part in parts] == ["a", "b"]
    finally:
        for part in parts:
            subprocess.run(["umount", "--lazy", part], check=False)


def test_many_calls_at_a_time_are_served(mounts, source):
    where = mounts.start("m", "--directory", str(source))
    program = "import sys; [open(f'{sys.argv[1]}/{sys.argv[2]}.{i}', 'w').write('x' * i) for i in range(200)]"
    running = [subprocess.Popen(["python3", "-c", program, where, str(n)]) for n in range(8)]
    assert [process.wait(120) for process in running] == [0] * 8
    assert {path.stat().st_size for path in source.glob("7.*")} == set(range(200))
    assert len(os.listdir(where)) == 1600


def test_an_unmount_ends_the_program_and_leaves_the_directory(mounts, source, tmp_path):
    where = mounts.start("m", "--directory", str(source))
    (where / "f").write_text("x")
    with (where / "f").open() as file:
        assert main(["mount", "--unmount", str(where)]) == 0
        assert not is_mounted(where)
        assert os.listdir(where) == []
        assert file.read() == "x"  # what is open stays so
    assert mounts.end("m") == 0


def test_a_mount_whose_program_was_killed_makes_way_for_a_new_one(mounts, source):
    where = mounts.start("m", "--directory", str(source))
    (where / "f").write_text("x")
    mounts.kill("m")
    assert errno_of(os.listdir, where) in DEAD
    assert (mounts.start("m", "--directory", str(source)) / "f").read_text() == "x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_needs_no_rights_of_root(mounts, source, tmp_path):
    if errno_of(os.stat, "/usr/bin/fusermount3"):
        pytest.skip("fusermount3 is missing: apt install fuse3")
    if os.stat("/dev/fuse").st_mode & 0o006 != 0o006:
        pytest.skip("/dev/fuse is root's alone here")
    nobody = 65534
    os.chown(source, nobody, nobody)
    let_all_in(tmp_path)
    where = mounts.start("m", "--directory", str(source), user=nobody)
    program = "import sys; open(sys.argv[1], 'w').write('x' * 100000); print(len(open(sys.argv[1]).read()))"
    assert in_another_process(program, where / "f", user=nobody, group=nobody, extra_groups=[]) == "100000"
    assert errno_of(os.listdir, where) == 13  # not even root may look into another user's mount


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_other_users_are_let_in_only_if_it_is_said_and_modes_count_for_them(mounts, source, tmp_path):
    nobody = 65534
    let_all_in(tmp_path)
    where = mounts.start("m", "--allow-other", "--directory", str(source))
    closed = mounts.start("closed", "--directory", str(source))
    (where / "secret").write_text("x")
    (where / "secret").chmod(0o600)
    program = """
import sys
for path in sys.argv[1:]:
    try:
        print(open(path).read(), end=" ")
    except OSError as error:
        print(error.errno, end=" ")
"""
    (where / "public").write_text("y")
    paths = [where / "secret", where / "public", closed / "public"]
    said = in_another_process(program, *paths, user=nobody, group=nobody, extra_groups=[])
    assert said == "13 y 13"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
@pytest.mark.parametrize("by_signal", [True, False])
def test_a_mount_ends_though_another_namespace_has_a_copy_but_not_while_a_file_is_open(mounts, source, by_signal):
    (source / "f").write_text("kept")
    where = mounts.start("m", "--directory", str(source))
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 600"]
    other = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        with (where / "f").open() as file:
            if by_signal:
                mounts.signal("m")
            else:
                subprocess.run(["umount", "--lazy", where], check=True)
            while is_mounted(where):
                time.sleep(0.01)
            assert file.read() == "kept"
        assert mounts.wait("m") == 0
    finally:
        other.kill()
        other.communicate()


@pytest.mark.skipif(not os.access(LATENCY, os.R_OK | os.W_OK), reason=f"this user may not write to {LATENCY}")
@pytest.mark.parametrize("is_killed", [False, True])
def test_processors_are_kept_awake_only_while_programs_make_calls(mounts, source, is_killed):
    def may_sleep():
        return struct.unpack("i", LATENCY.read_bytes()) != (0,)

    def stays_awake_for_a_call():
        os.stat(where)
        return not may_sleep()

    if not may_sleep():
        pytest.skip("another program keeps them awake")
    where = mounts.start("m", "--keep-awake", "--directory", str(source))
    until(stays_awake_for_a_call)
    if is_killed:
        mounts.kill("m")
    until(may_sleep)


@pytest.mark.skipif(not LATENCY.exists(), reason=f"there is no {LATENCY}")
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_who_may_not_keep_processors_awake_is_told_so(source, tmp_path):
    readonly = f"touch {source}/f && mount --bind {source}/f {LATENCY} && "
    readonly += f"mount -o remount,bind,ro {LATENCY} && "
    command = f"{PROGRAM} --keep-awake --directory {source} {tmp_path}; echo $?; grep {tmp_path} /proc/mounts"
    done = subprocess.run(["unshare", "-m", "sh", "-c", readonly + command], capture_output=True, text=True)
    assert f"--keep-awake needs to write to {LATENCY}: Read-only" in done.stderr
    assert done.stdout == "1\n"
