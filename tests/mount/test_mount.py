"""Files on BB nodes through the mount: two mounts are two clients."""

import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from bbflow.mount.mounting import DEAD
from testsupport.mounts import errno_of, let_all_in, write_at
from testsupport.waiting import until


def test_what_one_mount_closes_the_other_reads(pair):
    one, two = pair
    content = os.urandom(300_001)
    (one / "f").write_bytes(content)
    assert (two / "f").read_bytes() == content
    write_at(two / "f", b"new", 130_000)
    assert (one / "f").read_bytes() == content[:130_000] + b"new" + content[130_003:]


def test_metadata_count_at_once_on_all_mounts(pair):
    one, two = pair
    (one / "f").write_bytes(b"12345")
    assert (two / "f").stat().st_size == 5
    (one / "f").write_bytes(b"123")
    assert (two / "f").stat().st_size == 3
    (two / "f").chmod(0o600)
    assert (one / "f").stat().st_mode & 0o777 == 0o600
    (one / "f").rename(one / "g")
    assert not (two / "f").exists()
    assert os.listdir(two) == ["g"]
    (two / "g").unlink()
    assert not (one / "g").exists()
    (two / "d").mkdir()
    assert os.listdir(one) == ["d"]


def test_a_name_is_known_after_renames_to_and_fro_in_a_directory_that_was_listed(pair):
    one, _ = pair
    (one / "a").touch()
    assert os.listdir(one) == ["a"]
    (one / "a").rename(one / "b")
    (one / "b").rename(one / "c")
    assert (one / "c").exists()


def test_a_name_that_another_mount_made_is_found_in_a_directory_that_was_listed(pair):
    one, two = pair
    (one / "a").touch()
    assert os.listdir(two) == ["a"]
    assert not (two / "b").exists()
    (one / "b").touch()
    assert (two / "b").exists()


def test_what_is_not_closed_others_dont_see_and_the_writer_does(pair):
    one, two = pair
    (one / "f").write_bytes(b"old")
    with (one / "f").open("r+b", buffering=0) as file:
        file.write(b"newer")
        assert (two / "f").read_bytes() == b"old"
        assert (one / "f").read_bytes() == b"newer"
        assert (one / "f").stat().st_size == 5
        os.fsync(file.fileno())
        assert (two / "f").read_bytes() == b"newer"


def test_the_kernels_late_word_of_a_close_commits_nothing_of_the_next_writer(pair):
    one, two = pair
    for number in range(300):  # it comes too late for about one in a hundred
        (one / "f").write_bytes(b"old")
        with (one / "f").open("r+b", buffering=0) as file:
            file.write(b"newer")
            assert (two / "f").read_bytes() == b"old", number


def test_a_reader_keeps_what_it_opened_while_another_mount_writes_it_anew(pair):
    one, two = pair
    (one / "f").write_bytes(b"a" * 100_000)
    with (two / "f").open("rb", buffering=0) as file:
        (one / "f").write_bytes(b"b" * 100_000)
        (one / "f").unlink()
        assert file.read(100_000) == b"a" * 100_000


def test_one_mount_writes_while_its_own_readers_read(pair):
    _, two = pair
    (two / "f").write_bytes(b"a" * 1000)
    with (two / "f").open("rb", buffering=0) as reader, (two / "f").open("r+b", buffering=0) as writer:
        assert reader.read(3) == b"aaa"
        writer.write(b"bbbbbb")
        assert reader.read(5) == b"bbbaa"


def test_a_file_that_is_unlinked_while_open_goes_on(pair):
    one, _ = pair
    with (one / "f").open("w+b", buffering=0) as file:
        file.write(b"before ")
        (one / "f").unlink()
        file.write(b"after")
        file.seek(0)
        assert file.read(100) == b"before after"
    assert os.listdir(one) == []


def test_appending_goes_on_where_the_file_ends(pair):
    one, two = pair
    expected = b""
    for number in range(12):
        part = bytes([65 + number]) * 13_001
        with (pair[number % 2] / "f").open("ab") as file:
            file.write(part)
        expected += part
    assert (one / "f").read_bytes() == expected == (two / "f").read_bytes()


def test_a_second_writer_elsewhere_is_refused(pair):
    one, two = pair
    with (one / "f").open("wb", buffering=0) as file:
        file.write(b"x")
        assert errno_of(os.open, two / "f", os.O_WRONLY) == errno.EBUSY


def test_several_programs_on_one_mount_write_one_file_together(pair):
    one, two = pair
    with (one / "log").open("ab", buffering=0) as first, (one / "log").open("ab", buffering=0) as second:
        for number in range(20):
            (first, second)[number % 2].write(b"%2d " % number)
        first.close()
        assert (two / "log").read_bytes() == b"".join(b"%2d " % number for number in range(20))
        second.write(b"end")
        write_at(one / "log", b"0", 0)
    assert (two / "log").read_bytes() == b"00" + b"".join(b"%2d " % number for number in range(20))[2:] + b"end"
    write_at(two / "log", b"#", 0)  # the last close gave it free


def test_a_writer_elsewhere_that_is_just_closing_is_waited_for(servers, mounts):
    client = servers.start(storage=False)
    where = mounts.start("m", contact=servers.contact)
    file = client.open("/f", "w")
    file.pwrite(b"first", 0)
    file.sync()
    closing = threading.Timer(0.2, file.close)
    closing.start()
    with (where / "f").open("ab") as appended:
        appended.write(b" second")
    closing.join()
    assert client.read("/f") == b"first second"


def test_holes_and_cut_off_ends_read_as_zeros(pair):
    one, two = pair
    with (one / "f").open("wb") as file:
        file.seek(200_000)
        file.write(b"end")
    assert (two / "f").read_bytes() == bytes(200_000) + b"end"
    (one / "g").write_bytes(b"x" * 100_000)
    os.truncate(two / "g", 10)
    with (one / "g").open("ab") as file:
        file.truncate(70_000)
        file.write(b"y")
    assert (two / "g").read_bytes() == b"x" * 10 + bytes(69_990) + b"y"


def test_a_file_that_would_be_too_large_is_refused(pair):
    one, _ = pair
    with (one / "f").open("wb", buffering=0) as file:
        for grow in (lambda: os.pwrite(file.fileno(), b"x", 1 << 60), lambda: file.truncate(1 << 60)):
            with pytest.raises(OSError, match="File too large"):
                grow()
        file.write(b"y")
    assert (one / "f").read_bytes() == b"y"


def test_times_are_what_was_set(pair):
    one, two = pair
    with (one / "f").open("wb", buffering=0) as file:
        file.write(b"x")
        os.utime(file.fileno(), ns=(10**18 + 1, 10**18 + 2))
    assert (two / "f").stat().st_mtime_ns == 10**18 + 2


def test_what_objects_cant_have_is_refused_with_its_errno(pair):
    one, _ = pair
    (one / "f").touch()
    assert errno_of(os.link, one / "f", one / "g") == errno.EPERM
    assert errno_of(os.mkfifo, one / "p") == errno.EPERM
    assert errno_of(os.mknod, one / "n", 0o600 | 0o020000) == errno.EPERM
    assert errno_of(os.setxattr, one / "f", "user.a", b"x") == errno.EOPNOTSUPP
    assert errno_of(os.getxattr, one / "f", "user.a") == errno.EOPNOTSUPP
    assert errno_of(os.open, os.fsencode(one) + b"/\xff", os.O_CREAT | os.O_WRONLY) == errno.EILSEQ
    assert errno_of(os.open, one / ("x" * 256), os.O_CREAT | os.O_WRONLY) == errno.ENAMETOOLONG
    with (one / "f").open("r+b") as file:
        punch = ctypes.CDLL(None, use_errno=True).fallocate(file.fileno(), 3, ctypes.c_long(0), ctypes.c_long(9))
        assert (punch, ctypes.get_errno()) == (-1, errno.EOPNOTSUPP)


def test_names_are_exchanged_or_kept(pair):
    one, two = pair
    (one / "a").write_text("a")
    (one / "b").write_text("b")
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    a, b = (os.fsencode(one / name) for name in "ab")
    assert rename(-100, a, -100, b, 1) == -1
    assert ctypes.get_errno() == errno.EEXIST
    assert rename(-100, a, -100, b, 2) == 0
    assert [(two / name).read_text() for name in "ab"] == ["b", "a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_master_too_goes_by_the_callers_rights(servers, mounts, tmp_path):
    let_all_in(tmp_path)
    client = servers.start(storage=False)
    client.write("/f", b"x")
    where = mounts.start("m", "--allow-other", contact=servers.contact)
    (where / "f").chmod(0o640)
    assert (where / "f").stat().st_uid == 0
    child = os.fork()
    if child == 0:
        os.setgroups([4242])
        os.setgid(65534)
        os.setuid(65534)
        got = [errno_of(os.open, where / "f", os.O_RDONLY), errno_of(os.unlink, where / "f")]
        os._exit(0 if got == [errno.EACCES] * 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    os.chown(where / "f", 0, 4242)
    child = os.fork()
    if child == 0:
        os.setgroups([4242])
        os.setgid(65534)
        os.setuid(65534)
        os._exit(errno_of(os.open, where / "f", os.O_RDONLY))
    assert os.waitpid(child, 0)[1] == 0


def test_a_mount_that_is_read_only_changes_nothing(servers, mounts):
    servers.start(storage=False).write("/f", b"x")
    where = mounts.start("m", "--read-only", contact=servers.contact)
    assert (where / "f").read_bytes() == b"x"
    assert errno_of((where / "g").write_bytes, b"x") == errno.EROFS


def test_files_of_the_storage_are_read_and_written_under_their_names(servers, mounts):
    (servers.storage / "in").mkdir(parents=True)
    content = os.urandom(9_000_000)
    (servers.storage / "in/tile").write_bytes(content)
    client = servers.start(nodes=2, master=("--piece", "1MiB"))
    where = mounts.start("m", contact=servers.contact)
    assert (where / "in/tile").read_bytes() == content
    (where / "out").mkdir()
    (where / "out/mosaic").write_bytes(content[::-1])
    assert client.flush(wait_s=60).left == 0
    assert (servers.storage / "out/mosaic").read_bytes() == content[::-1]


def test_a_full_node_makes_writers_wait_for_what_can_go(servers, mounts):
    servers.start(capacity="4MiB", master=("--piece", "256KiB"))
    where = mounts.start("m", contact=servers.contact)
    contents = [os.urandom(1_000_000) for _ in range(12)]
    for number, content in enumerate(contents):
        (where / str(number)).write_bytes(content)
    assert [(where / str(number)).read_bytes() for number in range(12)] == contents


def test_a_node_that_stays_full_refuses_with_enospc(servers, mounts):
    servers.start(capacity="1MiB", storage=False, master=("--piece", "256KiB", "--room-timeout", "0.2"))
    where = mounts.start("m", contact=servers.contact)
    assert errno_of((where / "f").write_bytes, bytes(3_000_000)) == errno.ENOSPC
    (where / "f").unlink()
    (where / "g").write_bytes(bytes(500_000))
    assert (where / "g").stat().st_size == 500_000


def test_writes_that_still_fit_on_a_nearly_full_node_wait_for_no_more(servers, mounts):
    servers.start(capacity="8MiB", storage=False, master=("--piece", "1MiB", "--room-timeout", "600"))
    where = mounts.start("m", contact=servers.contact)
    with (where / "f").open("wb", buffering=0) as file:
        for size in [7 << 20] + 16 * [4096]:
            file.write(bytes(size))
    assert (where / "f").stat().st_size == (7 << 20) + 16 * 4096


WRITER = """
import sys
with open(sys.argv[1], "w+b", buffering=0) as file:
    file.write(b"before ")
    print("written", flush=True)
    input()
    file.write(b"after")
"""


def test_calls_wait_for_a_master_that_was_killed(servers, mounts):
    servers.start(storage=False).close()
    where = mounts.start("m", contact=servers.contact)
    (where / "closed").write_bytes(b"closed")
    # Not this process: what it starts would first close the file, and wait for the master.
    words = [sys.executable, "-c", WRITER, str(where / "open")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "written\n"
        servers.restart("master")
        writer.communicate("go on\n", timeout=120)
        assert writer.returncode == 0
    assert (where / "closed").read_bytes() == b"closed"
    assert (where / "open").read_bytes() == b"before after"


ONCE = """
import os, sys
for number in range(int(sys.argv[2])):
    os.close(os.open(f"{sys.argv[1]}/{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.mkdir(f"{sys.argv[1]}/d")
    os.rename(f"{sys.argv[1]}/{number}", f"{sys.argv[1]}/d/f")
    os.unlink(f"{sys.argv[1]}/d/f")
    os.rmdir(f"{sys.argv[1]}/d")
"""


def test_no_call_is_done_twice_when_its_master_is_killed_again_and_again(servers, mounts):
    servers.start(storage=False).close()
    where = mounts.start("m", contact=servers.contact)
    words = [sys.executable, "-c", ONCE, str(where), "300"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        for _ in range(3):
            time.sleep(0.2)
            servers.restart("master")
        said = running.communicate(timeout=120)[1]
        assert running.returncode == 0, said
    assert os.listdir(where) == []


def test_a_master_that_stays_away_is_an_error(servers, mounts):
    servers.start(storage=False)
    where = mounts.start("m", "--patience", "0.5", contact=servers.contact)
    (where / "f").write_bytes(b"x")
    servers.kill("master")
    assert errno_of(os.mkdir, where / "d") == errno.EIO


@pytest.mark.parametrize("is_read", [False, True])
def test_a_file_whose_last_close_failed_is_what_it_was_and_can_be_written_again(servers, mounts, is_read):
    servers.start(storage=False).close()
    where = mounts.start("m", "--no-passthrough", "--patience", "0.5", contact=servers.contact)
    other = mounts.start("other", contact=servers.contact)
    (where / "f").write_bytes(b"old")
    with ExitStack() as reading:
        if is_read:
            reader = os.open(where / "f", os.O_RDONLY | os.O_DIRECT)
            reading.callback(os.close, reader)
        writer = (where / "f").open("r+b", buffering=0)
        writer.write(b"lost")
        servers.kill("master")
        assert errno_of(writer.close) == errno.EIO
        until(lambda: "after its last close is lost" in mounts.said("m"))
        servers.restart("master")
        until(lambda: not errno_of(os.stat, where / "f"))
        if is_read:
            assert os.pread(reader, 100, 0) == b"old"
        assert (where / "f").read_bytes() == b"old" == (other / "f").read_bytes()
        assert (where / "f").stat().st_size == 3
        (other / "f").write_bytes(b"others'")
        (where / "f").write_bytes(b"its own")
        assert (other / "f").read_bytes() == b"its own"


LIAR = """
import sys
from bbflow.cli import main
from bbflow.files.opening import FileOpening
opened = FileOpening._opened
FileOpening._opened = lambda *known: {**opened(*known), "LIE": LIE}
sys.exit(main())
"""


@pytest.mark.parametrize(("key", "lie"), [("piece_bytes", 0), ("piece_bytes", 1 << 63), ("replicas", 0), ("ring", ())])
def test_a_file_that_can_not_lie_as_its_master_says_is_refused(servers, mounts, key, lie):
    servers.start(storage=False).close()
    where = mounts.start("m", contact=servers.contact)
    (where / "f").write_bytes(b"old")
    servers.kill("master")
    name, kind, *words = servers.processes["master"][1]
    servers.spawn(name, kind, *words, program=("-c", LIAR.replace('"LIE"', repr(key)).replace("LIE", repr(lie))))
    assert errno_of((where / "f").write_bytes, b"new") == errno.EIO
    assert errno_of((where / "f").read_bytes) == errno.EIO
    assert "no file can lie so" in mounts.said("m")
    servers.restart("master")
    assert (where / "f").read_bytes() == b"old"
    (where / "f").write_bytes(b"new")  # it isn't open any more
    assert (where / "f").read_bytes() == b"new"


def test_a_write_that_failed_keeps_no_room(servers, mounts):
    servers.start(capacity="8MiB", storage=False, master=("--piece", "1MiB", "--room-timeout", "1"))
    where = mounts.start("m", contact=servers.contact)
    pieces = servers.directory / "master-io0/pieces"
    with (where / "f").open("wb", buffering=0) as file:
        for _ in range(20):
            pieces.rename(pieces.with_name("away"))
            assert errno_of(file.write, bytes(1 << 20)) == errno.ENOENT
            pieces.with_name("away").rename(pieces)
            assert (where / "f").read_bytes() == b""
        file.write(b"at last")
    assert (where / "f").read_bytes() == b"at last"


def test_files_are_there_when_an_ionode_that_was_killed_is_back(servers, mounts):
    client = servers.start(storage=False)
    where = mounts.start("m", contact=servers.contact)
    content = os.urandom(500_000)
    (where / "f").write_bytes(content)
    servers.restart("master-io0")
    (where / "g").write_bytes(content)
    assert (where / "f").read_bytes() == content == client.read("/g")


def test_a_mount_that_was_killed_loses_nothing_that_was_closed(servers, mounts):
    servers.start(storage=False, master=("--lease", "1"))
    where = mounts.start("m", contact=servers.contact)
    (where / "closed").write_bytes(b"closed")
    file = (where / "closed").open("r+b", buffering=0)
    file.write(b"half")
    mounts.kill("m")
    assert errno_of(file.close) in {0, *DEAD}
    where = mounts.start("m", contact=servers.contact)
    end_s = time.monotonic() + 60
    assert (where / "closed").read_bytes() == b"closed"
    while errno_of((where / "closed").write_bytes, b"again"):  # until the dead mount's lease is over
        assert time.monotonic() < end_s
        time.sleep(0.1)
    assert (where / "closed").read_bytes() == b"again"
