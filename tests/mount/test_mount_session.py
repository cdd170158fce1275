"""What FUSE itself must do, whatever files are behind it."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bbflow.cli import main
from bbflow.mount.mounting import PROGRAM, is_mounted
from testsupport.files_servers import Servers
from testsupport.mounts import in_another_process, let_all_in
from testsupport.waiting import until

LATENCY = Path("/dev/cpu_dma_latency")
"""How long a processor may take to wake, in us, as all programs together have asked the kernel for."""


@pytest.fixture(scope="module")
def contact(tmp_path_factory):
    """Files that all tests of this module mount: each has names of its own there."""
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        servers.start(storage=False)
        yield servers.contact


def test_a_directory_of_many_names_is_listed_whole(mounts, contact):
    where = mounts.start("m", contact=contact) / "many"
    where.mkdir()
    names = [f"a file with a name that is not short {number}" for number in range(3000)]
    for name in names:
        (where / name).touch()
    assert sorted(os.listdir(where)) == sorted(names)


def test_a_file_that_is_mapped_into_memory_is_written(mounts, contact):
    where = mounts.start("m", contact=contact)
    program = """
import mmap, sys
with open(sys.argv[1], "w+b") as file:
    file.truncate(8192)
    with mmap.mmap(file.fileno(), 8192) as memory:
        memory[5000:5003] = b"abc"
"""
    in_another_process(program, where / "mapped")
    assert (where / "mapped").read_bytes() == bytes(5000) + b"abc" + bytes(3189)


def test_many_calls_at_a_time_are_served(mounts, contact):
    where = mounts.start("m", contact=contact) / "calls"
    where.mkdir()
    program = "import sys; [open(f'{sys.argv[1]}/{sys.argv[2]}.{i}', 'w').write('x' * i) for i in range(200)]"
    running = [subprocess.Popen(["python3", "-c", program, where, str(n)]) for n in range(8)]
    assert [process.wait(120) for process in running] == [0] * 8
    assert {path.stat().st_size for path in where.glob("7.*")} == set(range(200))
    assert len(os.listdir(where)) == 1600


@pytest.mark.parametrize("name", ["m", "m #\t\n\\é"])
def test_an_unmount_ends_the_program_and_leaves_the_directory(mounts, contact, tmp_path, name):
    where = mounts.start(name, contact=contact)
    (where / "f").write_text("x")
    with (where / "f").open() as file:
        assert main(["mount", "--unmount", str(where)]) == 0
        assert not is_mounted(where)
        assert os.listdir(where) == []
        assert file.read() == "x"  # what is open stays so
    assert mounts.end(name) == 0


def test_a_directory_is_mounted_once(mounts, contact, tmp_path, capsys):
    where = mounts.start("m", contact=contact)
    assert main(["mount", str(contact), str(where)]) == os.EX_USAGE
    assert f"{where} is a mount of bbflow already" in capsys.readouterr().err
    (tmp_path / "link").symlink_to(where.parent)
    assert main(["mount", str(contact), str(tmp_path / "link" / "m")]) == os.EX_USAGE
    assert "link/m is a mount of bbflow already" in capsys.readouterr().err
    mounts.kill("m")
    subprocess.run([sys.executable, "-m", "bbflow", "mount", contact, where], check=True, timeout=120)
    assert main(["mount", "--unmount", str(where)]) == 0
    assert not is_mounted(where)


def test_a_dead_mount_makes_way_while_the_kernel_still_knows_what_its_directory_is(mounts, contact):
    where = mounts.start("m", contact=contact)
    where.stat()
    mounts.kill("m")
    mounts.start("m", contact=contact)
    assert mounts.end("m") == 0
    assert not is_mounted(where)


@pytest.mark.parametrize("name", ["gone", "file/m"])
def test_what_is_no_directory_is_no_mount(contact, tmp_path, capsys, name):
    (tmp_path / "file").touch()
    assert main(["mount", str(contact), str(tmp_path / name)]) == os.EX_USAGE
    assert "there is no directory" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_other_users_are_let_in_only_if_it_is_said_and_modes_count_for_them(mounts, contact, tmp_path):
    nobody = 65534
    let_all_in(tmp_path)
    where = mounts.start("m", "--allow-other", contact=contact)
    closed = mounts.start("closed", contact=contact)
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
def test_a_mount_ends_though_another_namespace_has_a_copy_but_not_while_a_file_is_open(mounts, contact, by_signal):
    where = mounts.start("m", contact=contact)
    (where / "f").write_text("kept")
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 600"]
    other = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        with (where / "f").open() as file:
            if by_signal:
                mounts.signal("m")
            else:
                subprocess.run(["umount", "--lazy", where], check=True)
            until(lambda: not is_mounted(where))
            assert file.read() == "kept"
        assert mounts.wait("m") == 0
    finally:
        other.kill()
        other.communicate()


@pytest.mark.skipif(not os.access(LATENCY, os.R_OK | os.W_OK), reason=f"this user may not write to {LATENCY}")
@pytest.mark.parametrize("is_killed", [False, True])
def test_processors_are_kept_awake_only_while_programs_make_calls(mounts, contact, is_killed):
    def may_sleep():
        return struct.unpack("i", LATENCY.read_bytes()) != (0,)

    def stays_awake_for_a_call():
        os.stat(where)
        return not may_sleep()

    if not may_sleep():
        pytest.skip("another program keeps them awake")
    where = mounts.start("m", "--keep-awake", contact=contact)
    until(stays_awake_for_a_call)
    if is_killed:
        mounts.kill("m")
    until(may_sleep)


@pytest.mark.skipif(not LATENCY.exists(), reason=f"there is no {LATENCY}")
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_who_may_not_keep_processors_awake_is_told_so(contact, tmp_path):
    (tmp_path / "f").touch()
    readonly = f"mount --bind {tmp_path}/f {LATENCY} && mount -o remount,bind,ro {LATENCY} && "
    command = f"{PROGRAM} --keep-awake --contact {contact} {tmp_path}; echo $?; grep {tmp_path} /proc/mounts"
    done = subprocess.run(["unshare", "-m", "sh", "-c", readonly + command], capture_output=True, text=True)
    assert f"--keep-awake needs to write to {LATENCY}: Read-only" in done.stderr
    assert done.stdout == "1\n"
