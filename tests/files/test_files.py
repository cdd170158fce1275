"""Files through a master and IOnodes of their own processes, with a directory as the shared storage."""

import errno
import os

import pytest

from bbflow.files.replies import FlushReply

PIECE = ("--piece", "64KiB")


def test_what_is_written_is_read_and_comes_into_the_storage_under_its_name(servers):
    client = servers.start(nodes=2, master=PIECE)
    content = os.urandom(300_000)
    client.mkdir("/a/b", parents=True)
    client.write("/a/b/c.dat", content)
    assert client.read("/a/b/c.dat") == content
    flushed = client.flush(wait_s=60)
    assert flushed == FlushReply(written=1, left=0, failed=()) or client.stat("/a/b/c.dat").state == "clean"
    assert (servers.storage / "a/b/c.dat").read_bytes() == content


def test_pieces_of_a_large_file_go_round_on_the_nodes(servers):
    client = servers.start(nodes=3, storage=False, master=PIECE)
    client.write("/large", bytes(9 * 65536))
    (status,) = client.status()
    assert [node.placed_bytes for node in status.nodes] == [3 * 65536] * 3


def test_a_version_that_is_not_closed_is_nobodys(servers):
    writer, reader = servers.start(storage=False), servers.client()
    writer.write("/f", b"old and long")
    with writer.open("/f", "r+") as file:
        file.pwrite(b"new", 0)
        assert reader.read("/f") == b"old and long"
        file.sync()
        assert reader.read("/f") == b"new and long"
        file.pwrite(b"!", 12)
        assert reader.read("/f") == b"new and long"
    assert reader.read("/f") == b"new and long!"


def test_a_reader_keeps_the_version_that_it_opened(servers):
    client = servers.start(storage=False)
    client.write("/f", b"first")
    with client.open("/f") as file:
        client.write("/f", b"second, longer")
        client.unlink("/f")
        assert file.pread(100, 0) == b"first"
    with pytest.raises(FileNotFoundError):
        client.stat("/f")


def test_one_session_writes_a_file_at_a_time(servers):
    one, two = servers.start(storage=False), servers.client()
    with one.open("/f", "w") as file:
        file.pwrite(b"x", 0)
        with pytest.raises(OSError, match="open for writing elsewhere") as caught:
            two.open("/f", "a", wait_s=0.01)
        assert caught.value.errno == errno.EBUSY
    with two.open("/f", "a") as file:
        file.pwrite(b"y", 0)
    assert one.read("/f") == b"xy"


def test_names_that_lead_out_are_refused(servers):
    client = servers.start(storage=False)
    for name in ("..", "a/../../b", "\0", "x" * 256, "\udcff"):
        with pytest.raises(OSError, match="name"):
            client.write(name, b"")


def test_the_namespace_is_built_again_from_the_storage(servers):
    (servers.storage / "deep/er").mkdir(parents=True)
    (servers.storage / "deep/er/file").write_bytes(b"from before")
    client = servers.start()
    assert [entry.path for entry in client.entries("/deep")] == ["/deep/er"]
    assert client.stat("/deep/er/file").state == "cold"
    assert client.read("/deep/er/file") == b"from before"


def test_a_client_of_another_host_reads_and_writes_through_the_ionode(servers, monkeypatch):
    client = servers.start(nodes=2, storage=False, master=("--piece", "1MiB"))
    monkeypatch.setattr("bbflow.files.client.own_pieces.is_here", lambda told: False)
    content = os.urandom(3_000_000)
    client.write("/f", content)
    with client.open("/f", "r+") as file:
        file.pwrite(b"new", 1_048_575)
    assert client.read("/f") == content[:1_048_575] + b"new" + content[1_048_578:]
