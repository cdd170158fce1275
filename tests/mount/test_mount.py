"""Files on BB nodes through the mount: two mounts are two clients."""

import ctypes
import errno
import mmap
import os
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from testsupport.mounts import errno_of, let_all_in, write_at


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


def test_programs_of_one_mount_that_begin_to_write_a_file_at_once_share_it(servers, mounts):
    servers.start(storage=False)
    where = mounts.start("m", contact=servers.contact)
    (where / "f").touch()
    master, opened = servers.processes["master"][0], []
    programs = [
        threading.Thread(target=lambda: opened.append(os.open(where / "f", os.O_WRONLY | os.O_APPEND)))
        for _ in range(3)
    ]
    master.send_signal(signal.SIGSTOP)
    for program in programs:
        program.start()
    time.sleep(0.5)  # all have looked it up, and ask
    master.send_signal(signal.SIGCONT)
    for program in programs:
        program.join(60)
    assert len(opened) == 3  # the first one keeps it
    for each in opened:
        os.write(each, b"line\n")
        os.close(each)
    assert (where / "f").read_bytes() == b"line\n" * 3


def append_lines(program_lines):
    """Append lines from shells, each by its own path; return what they say."""
    loop = "for i in $(seq {lines}); do echo {name}-$i >> {path} || echo lost; done"
    shells = [
        subprocess.Popen(
            ["sh", "-c", loop.format(lines=lines, name=name, path=path)], stdout=subprocess.PIPE, text=True
        )
        for name, (path, lines) in enumerate(program_lines)
    ]
    return "".join(shell.communicate(timeout=300)[0] for shell in shells)


def test_lines_that_programs_of_two_mounts_append_are_all_in_the_file(pair):
    one, two = pair
    assert append_lines([(where / "log", 40) for where in (one, two, one, two)]) == ""
    lines = (one / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{name}-{number}" for name in range(4) for number in range(1, 41))


def test_what_a_program_appends_after_another_mount_has_cut_the_file_follows_its_end(pair):
    one, two = pair
    (one / "f").write_bytes(b"long " * 10_000)
    with (one / "f").open("r+b", buffering=0) as cutting:
        appending = threading.Thread(target=append_lines, args=([(two / "f", 1)],))
        appending.start()
        cutting.truncate(0)
        cutting.write(b"short\n")
        time.sleep(0.5)  # the other has looked it up, and waits
    appending.join()
    assert (one / "f").read_bytes() == b"short\n0-1\n"
    assert (two / "f").read_bytes() == b"short\n0-1\n"


def test_who_reads_what_he_appends_sees_it_where_it_is(pair):
    one, two = pair
    (one / "f").write_bytes(b"a" * 5000)
    with (two / "f").open("a+b", buffering=0) as file:
        file.write(b"b" * 5000)
        assert os.pread(file.fileno(), 20_000, 0) == b"a" * 5000 + b"b" * 5000
        with mmap.mmap(file.fileno(), 0) as mapped:
            assert mapped[4999:5001] == b"ab"
            mapped[:1] = b"c"
    assert (one / "f").read_bytes() == b"c" + b"a" * 4999 + b"b" * 5000


def test_a_listing_does_not_take_back_what_was_written_since_its_directory_was_opened(pair):
    one, _ = pair
    log = os.open(one / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, b"1\n")
    directory = os.open(one, os.O_RDONLY)
    os.write(log, b"22\n")
    os.fsync(log)
    assert os.listdir(directory) == ["log"]
    os.write(log, b"333\n")
    for each in (log, directory):
        os.close(each)
    assert (one / "log").read_bytes() == b"1\n22\n333\n"


@pytest.mark.parametrize("remover", [0, 1])
def test_a_directory_that_is_removed_while_it_is_open_is_empty_and_has_no_name(pair, remover):
    where = pair[0] / "d"
    where.mkdir()
    directory = os.open(where, os.O_RDONLY)
    (pair[remover] / "d").rmdir()
    try:
        assert (os.fstat(directory).st_nlink, os.listdir(directory)) == (0, [])
        assert errno_of(os.stat, "f", dir_fd=directory) == errno.ENOENT
        assert errno_of(os.mkdir, "d", dir_fd=directory) == errno.ENOENT
        assert errno_of(os.open, "f", os.O_WRONLY | os.O_CREAT, dir_fd=directory) == errno.ENOENT
        assert errno_of(os.symlink, "to", "l", dir_fd=directory) == errno.ENOENT
        assert errno_of(os.unlink, "f", dir_fd=directory) == errno.ENOENT
        assert errno_of(os.rename, "f", "g", src_dir_fd=directory, dst_dir_fd=directory) == errno.ENOENT
        os.fsync(directory)
    finally:
        os.close(directory)


def test_a_file_without_a_name_is_refused_as_programs_expect_it(pair):
    one, _ = pair
    assert errno_of(os.open, one, os.O_WRONLY | os.O_TMPFILE) == errno.EOPNOTSUPP
    with tempfile.TemporaryFile(dir=one) as file:
        file.write(b"anything")
    assert os.listdir(one) == []
