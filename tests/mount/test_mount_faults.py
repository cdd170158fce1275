"""What becomes of calls on a mount whose nodes are full, or whose master or IOnode is away, or wrong."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import psutil
import pytest

from bbflow.mount.mounting import DEAD
from testsupport.connections import a_port
from testsupport.mounts import errno_of, files_of_at_most
from testsupport.processes import stop
from testsupport.relays import Relay
from testsupport.waiting import until


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
    until(lambda: not errno_of((where / "g").write_bytes, bytes(500_000)), "the room of what was removed")
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


WAITER = """
import sys
print("begins", flush=True)
open(sys.argv[1], sys.argv[2]).close()
"""


def waiting(words):
    """Return a program that waits in a call: one that came before what it is to wait for has ended, and is no more."""
    for _ in range(60):
        process = subprocess.Popen([sys.executable, "-c", WAITER, *words], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"begins\n"
        process.stdout.close()
        time.sleep(1)  # what doesn't wait ends sooner, or it is tried again
        if process.poll() is None:
            return process
    pytest.fail(f"nothing waits in {words}")


@pytest.mark.parametrize("mode", ["rb", "r+b"])
def test_a_signal_ends_the_wait_for_a_file_whose_close_waits_for_its_ionode(servers, mounts, mode):
    servers.start(storage=False, master=("--node-loss", "60")).close()
    where = mounts.start("m", contact=servers.contact)
    words = [sys.executable, "-c", WRITER, str(where / "f")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "written\n"
        servers.kill("master-io0")
        writer.stdin.write("go on\n")
        writer.stdin.flush()
        other = waiting([str(where / "f"), mode])
        other.kill()
        assert other.wait(120) == -signal.SIGKILL
        assert writer.poll() is None  # which the killed one hasn't waited for
        servers.spawn(*servers.processes["master-io0"][1])
        assert writer.wait(120) == 0
    assert (where / "f").read_bytes() == b"before after"


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


def test_calls_wait_for_a_master_that_is_stopped_no_longer_than_for_one_that_was_killed(servers, mounts):
    servers.start(storage=False)
    where = mounts.start("m", "--patience", "0.5", contact=servers.contact)
    os.mkdir(where / "c")  # by a connection that the next call takes
    master, _ = servers.processes["master"]
    stop(master)
    try:
        assert errno_of(os.mkdir, where / "d") == errno.EIO
    finally:
        master.send_signal(signal.SIGCONT)
    assert "master/master.sock" in mounts.said("m")
    until(lambda: not errno_of(os.mkdir, where / "e"))


@pytest.mark.parametrize("is_told", [True, False], ids=["", "the contact file removed"])
def test_a_master_that_is_slow_is_waited_for_and_asked_again_when_its_connection_breaks_then(servers, mounts, is_told):
    servers.start(storage=False, master=("--lease", "600")).close()  # no ping meanwhile
    relay = Relay(servers.directory / "master" / "master.sock")
    with closing(relay), ThreadPoolExecutor() as beside:
        where = mounts.start("m", "--patience", "0.5", contact=servers.contact)
        os.mkdir(where / "c")  # by a connection that the next call takes
        if not is_told:
            servers.contact.unlink()
        with relay.losing_replies_to(b"lookup", times=1):
            with relay.slow():
                came, asked = relay.came(), beside.submit(os.mkdir, where / "d")
                until(lambda: relay.came() > came, "a look")
            asked.result(120)  # its patience begins only when the connection breaks
        assert sorted(os.listdir(where)) == ["c", "d"]
        assert mounts.end("m") == 0


def test_a_master_to_which_this_host_has_no_way_is_waited_for_as_one_that_is_away(servers, mounts):
    servers.start(storage=False, master=("--lease", "0.5")).close()
    where = mounts.start("m", "--patience", "0.5", contact=servers.contact)
    os.mkdir(where / "c")
    told = servers.contact.read_text()
    servers.contact.write_text(re.sub('"tcp": ".*"', '"tcp": ""', re.sub('"host": ".*"', '"host": "elsewhere"', told)))
    servers.kill("master")
    until(lambda: "doesn't listen for TCP" in mounts.said("m"))
    assert errno_of(os.mkdir, where / "d") == errno.EIO
    servers.contact.write_text(told)
    servers.restart("master")
    until(lambda: not errno_of(os.mkdir, where / "e"))


def test_a_call_that_waits_for_others_outlasts_connections_that_break_again_later(servers, mounts):
    client = servers.start(storage=False, master=("--lease", "600", "--wait", "600"))  # no ping meanwhile
    relay = Relay(servers.directory / "master" / "master.sock")
    with closing(relay), ThreadPoolExecutor() as beside:
        where = mounts.start("m", "--patience", "0.5", contact=servers.contact)
        with client.open("/f", "w") as file:
            file.pwrite(b"there", 0)
            came, asked = relay.came(), beside.submit((where / "f").read_bytes)
            for _ in range(3):
                time.sleep(2)  # longer than its patience, which each of them has anew
                relay.cut()
                came = until(lambda came=came: relay.came() > came and relay.came(), "the mount's return")
            assert not asked.done()
        assert asked.result(120) == b"there"
        mounts.end("m")


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
from bbflow.files.master.opening import FileOpening
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


@contextmanager
def closed(directory):
    """Keep everyone, root included, from making files in a directory, whoever holds its descriptor."""
    if os.geteuid() != 0:
        directory.chmod(0o500)
        yield
        directory.chmod(0o700)
        return
    if shutil.which("chattr") is None:
        pytest.skip("chattr isn't installed: apt install e2fsprogs")
    if subprocess.run(["chattr", "+i", directory], capture_output=True, check=False).returncode:
        pytest.skip("this file system has no immutable directories")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", directory], check=True)


def test_a_write_that_failed_keeps_no_room(servers, mounts):
    servers.start(capacity="8MiB", storage=False, master=("--piece", "1MiB", "--room-timeout", "60"))
    where = mounts.start("m", contact=servers.contact)
    pieces = servers.directory / "master-io0/pieces"
    with (where / "f").open("wb", buffering=0) as file:
        for _ in range(20):
            with closed(pieces):
                assert errno_of(file.write, bytes(1 << 20)) in (errno.EPERM, errno.EACCES)
            assert (where / "f").read_bytes() == b""
        file.write(b"at last")
    assert (where / "f").read_bytes() == b"at last"


def test_who_reads_a_file_keeps_what_was_there_when_a_write_failed(servers, mounts):
    servers.start(storage=False).close()
    where = mounts.start("m", "--no-passthrough", contact=servers.contact, restore_signals=False)
    content = os.urandom(1 << 16)
    (where / "f").write_bytes(content)
    with open(os.open(where / "f", os.O_RDONLY | os.O_DIRECT), "rb", buffering=0) as reader:
        with (where / "f").open("r+b", buffering=0) as file, files_of_at_most(psutil.Process(mounts.pid("m")), 8192):
            assert errno_of(file.write, bytes(1 << 16)) == errno.EFBIG
        assert os.pread(reader.fileno(), 1 << 16, 0) == content == (where / "f").read_bytes()


def test_a_copy_keeps_its_room_when_the_write_into_it_failed(servers, mounts):
    servers.start(capacity="8MiB", storage=False, master=("--piece", "4MiB"))
    where = mounts.start("m", contact=servers.contact, restore_signals=False)
    mount = psutil.Process(mounts.pid("m"))
    content = os.urandom(1 << 20)
    (where / "f").write_bytes(content)
    for _ in range(10):
        with (where / "f").open("r+b", buffering=0) as file:
            with files_of_at_most(mount, 1 << 20):
                assert errno_of(os.pwrite, file.fileno(), bytes(8192), (1 << 20) - 4096) == errno.EFBIG
            os.pwrite(file.fileno(), b"x", 0)
    assert (where / "f").read_bytes()[: (1 << 20) - 4096] == b"x" + content[1 : (1 << 20) - 4096]
    (where / "g").write_bytes(bytes(4 << 20))
    assert (where / "g").stat().st_size == 4 << 20


def test_files_are_there_when_an_ionode_that_was_killed_is_back(servers, mounts):
    client = servers.start(storage=False)
    where = mounts.start("m", contact=servers.contact)
    content = os.urandom(500_000)
    (where / "f").write_bytes(content)
    servers.restart("master-io0")
    (where / "g").write_bytes(content)
    assert (where / "f").read_bytes() == content == client.read("/g")


def test_calls_wait_for_an_ionode_that_is_stopped_no_longer_than_for_one_that_was_killed(servers, mounts):
    servers.start(storage=False)
    (servers.directory / "master-io0").chmod(0o777)  # where others may write, the mount opens no pieces by itself
    where = mounts.start("m", "--patience", "0.5", contact=servers.contact)
    node, _ = servers.processes["master-io0"]
    with (where / "f").open("wb", buffering=0) as file:
        file.write(b"before ")
        stop(node)
        try:
            assert errno_of(file.write, b"never") == errno.EIO
        finally:
            node.send_signal(signal.SIGCONT)
        assert "master-io0/ionode.sock" in mounts.said("m")
        until(lambda: not errno_of(file.write, b"after"), "the IOnode again")
    assert (where / "f").read_bytes() == b"before after"


def test_a_call_that_has_waited_at_an_ionode_waits_for_it_anew_when_it_goes_away(servers, mounts):
    servers.start(storage=False)
    (servers.directory / "master-io0").chmod(0o777)  # where others may write, the mount opens no pieces by itself
    path = servers.directory / "master-io0" / "ionode.sock"
    relay = Relay(path)
    with closing(relay), ThreadPoolExecutor() as beside:
        where = mounts.start("m", "--patience", "5", contact=servers.contact)
        (where / "f").write_bytes(b"there")
        with relay.slow():
            came, asked = relay.came(), beside.submit((where / "f").read_bytes)
            until(lambda: relay.came() > came + 1, "the second look: its patience would be over")
            path.rename(path.with_name("away.sock"))
            relay.cut()
            until(lambda: "ionode.sock (No such file" in mounts.said("m"))
            path.with_name("away.sock").rename(path)
        assert asked.result(120) == b"there"
        assert mounts.end("m") == 0


def test_a_close_that_waits_too_long_for_its_ionode_fails_and_the_log_says_for_which(servers, mounts):
    servers.start(storage=False, master=("--node-loss", "0.5"))
    where = mounts.start("m", "--patience", "0.5", contact=servers.contact)
    file = (where / "f").open("wb", buffering=0)
    file.write(b"never")
    servers.kill("master-io0")
    assert errno_of(file.close) == errno.EIO
    assert "IOnode master-io0, which has bytes of 'f', is away" in mounts.said("m")


@pytest.fixture
def port():
    with a_port() as port:
        yield port


def test_files_are_made_where_an_ionode_was_started_again_in_another_directory_of_its_name(port, servers, mounts):
    client = servers.start(storage=False, node=("--listen", f"127.0.0.1:{port}"))
    where = mounts.start("m", contact=servers.contact)
    (where / "f").write_bytes(b"gone")
    shutil.rmtree(servers.directory / "master-io0")
    node, command = servers.processes["master-io0"]
    assert node.wait(60) == os.EX_NOHOST
    servers.spawn(*command)
    until(lambda: servers.up(client), "the node")
    (where / "g").write_bytes(b"there")
    assert (where / "g").read_bytes() == b"there"
    assert errno_of((where / "f").read_bytes) == errno.EIO


def test_a_mount_that_was_killed_loses_nothing_that_was_closed(servers, mounts):
    servers.start(storage=False, master=("--lease", "1"))
    where = mounts.start("m", contact=servers.contact)
    (where / "closed").write_bytes(b"closed")
    file = (where / "closed").open("r+b", buffering=0)
    file.write(b"half")
    mounts.kill("m")
    assert errno_of(file.close) in {0, *DEAD}
    where = mounts.start("m", contact=servers.contact)
    assert (where / "closed").read_bytes() == b"closed"
    until(lambda: not errno_of((where / "closed").write_bytes, b"again"), "its lease's end", poll_s=0.1)
    assert (where / "closed").read_bytes() == b"again"


def test_a_piece_that_somebody_removes_while_it_is_written_does_not_count_and_is_written_again(servers, mounts):
    servers.start(storage=False).close()
    where = mounts.start("m", contact=servers.contact)
    with (where / "f").open("wb", buffering=0) as file:
        file.write(b"lost")
        (piece,) = (servers.directory / "master-io0/pieces").iterdir()
        piece.unlink()
        assert errno_of(os.fsync, file.fileno()) == errno.EIO
        assert "has gone from its node" in mounts.said("m")
        file.truncate(0)
        os.pwrite(file.fileno(), b"there", 0)
    assert (where / "f").read_bytes() == b"there"


@pytest.mark.parametrize("left", [None, 2], ids=["gone", "shorter"])
@pytest.mark.parametrize(("mode", "at"), [("ab", 0), ("r+b", 3)], ids=["append", "overwrite"])
def test_what_a_node_has_lost_of_a_file_is_not_made_up_with_zeros_by_the_next_write(servers, mounts, left, mode, at):
    servers.start(storage=False).write("/f", b"kept")
    where = mounts.start("m", contact=servers.contact)
    (piece,) = (servers.directory / "master-io0/pieces").iterdir()
    piece.unlink() if left is None else os.truncate(piece, left)
    with (where / "f").open(mode, buffering=0) as file:
        file.seek(at)
        assert errno_of(file.write, b"more") == errno.EIO
    assert errno_of((where / "f").read_bytes) == errno.EIO
