"""What waits: opens for a writer or a file that is expected, closes for the storage, locks for each other."""

import errno
import threading

import pytest

from bbflow.files.replies import FileReply
from bbflow.files.requests import LockRequest


def test_an_open_that_waits_gets_what_its_writer_closes(servers):
    client, writer = servers.start(storage=False), servers.client()
    writer.write("/f", b"old")
    file = writer.open("/f", "w")
    file.pwrite(b"newer", 0)
    assert client.read("/f") == b"old"  # by default what is closed
    with pytest.raises(OSError, match="still being written") as caught:
        client.open("/f", wait_s=0.2)
    assert caught.value.errno == errno.EBUSY
    closing = threading.Timer(0.3, file.close)
    closing.start()
    with client.open("/f", wait_s=60) as opened:
        assert opened.pread(10, 0) == b"newer"
    closing.join()


def test_a_file_that_is_expected_is_waited_for(servers):
    client, writer = servers.start(storage=False), servers.client()
    with pytest.raises(FileNotFoundError):
        client.open("/later", wait_s=0.2)
    writing = threading.Timer(0.3, writer.write, ["/later", b"here"])
    writing.start()
    with client.open("/later", wait_s=60) as opened:
        assert opened.pread(10, 0) == b"here"
    writing.join()


@pytest.mark.parametrize("policy", ["close", "fsync"])
def test_close_or_fsync_returns_when_the_storage_has_the_file(servers, policy):
    client = servers.start(master=("--write-back", policy))
    with client.open("/f", "w") as file:
        file.pwrite(b"synced", 0)
        file.sync()
        assert (servers.storage / "f").read_bytes() == b"synced"
        file.pwrite(b"closed", 0)
    if policy == "close":
        assert (servers.storage / "f").read_bytes() == b"closed"
    assert client.flush(wait_s=60).left == 0
    assert (servers.storage / "f").read_bytes() == b"closed"


def test_any_storage_that_fsspec_knows_is_written_to_and_read_from(servers):
    client = servers.start(url="memory://bucket")
    client.mkdir("/d")
    client.write("/d/f", bytes(100_000))
    assert client.flush(wait_s=60).left == 0
    client.evict("/")
    assert client.stat("/d/f").state == "cold"
    assert client.read("/d/f") == bytes(100_000)
    client.rename("/d/f", "/d/g")
    client.refresh("/")
    assert [entry.path for entry in client.entries("/d")] == ["/d/g"]


def lock(client, ino, kind, **keys):
    """Ask for a lock of a whole file; return the errno of a refusal, or 0."""
    (session,) = client.masters()
    try:
        session.call(LockRequest(ino=ino, owner="1", kind=kind, start=0, end=-1, **keys), FileReply)
    except OSError as error:
        return error.errno
    return 0


def test_locks_hold_against_other_clients_and_go_with_their_own(servers):
    one, two = servers.start(storage=False), servers.client()
    with one.open("/f", "w") as file:
        ino = file.ino
    assert lock(one, ino, "r") == lock(two, ino, "r") == 0
    assert lock(one, ino, "w") == errno.EAGAIN
    assert lock(two, ino, "u") == lock(one, ino, "w") == 0
    assert lock(two, ino, "r", wait_s=0.2) == errno.EAGAIN
    ending = threading.Timer(0.3, one.close)
    ending.start()
    assert lock(two, ino, "r", wait_s=60) == 0
    ending.join()
