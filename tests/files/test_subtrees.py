"""Several masters, each of one subtree: one namespace for all clients."""

import errno
import os
import signal

import pytest

from testsupport.waiting import until


def test_clients_see_all_subtrees_and_each_has_its_own_nodes_and_storage(servers):
    servers.start(nodes=1)
    client = servers.start(nodes=1, subtree="/sub")
    client.write("/of-root", b"1")
    client.write("/sub/of-sub", b"2")
    until(lambda: [entry.path for entry in client.entries("/")] == ["/of-root", "/sub"], "the subtree's directory")
    assert [entry.path for entry in client.entries("/sub")] == ["/sub/of-sub"]
    assert client.read("/sub/of-sub") == b"2"
    with pytest.raises(OSError, match="different masters") as caught:
        client.rename("/of-root", "/sub/x")
    assert caught.value.errno == errno.EXDEV
    with pytest.raises(OSError, match="root"):
        client.rmdir("/sub")
    assert client.flush(wait_s=60).left == 0
    assert (servers.storage / "sub/of-sub").read_bytes() == b"2"
    one, two = client.status()
    assert [node.name for node in one.nodes + two.nodes] == ["master-io0", "sub-io0"]


def test_masters_that_were_ended_have_all_their_files_when_they_are_back(servers):
    servers.start(nodes=1, storage=False)
    for tree in ("/a", "/b"):
        servers.start(nodes=1, storage=False, subtree=tree).write(f"{tree}/f", tree.encode())
    for name in ("a", "b"):
        servers.kill(name, signal.SIGTERM)
    for name in ("b", "a"):  # in another order than the first time
        servers.spawn(*servers.processes[name][1])
    until(lambda: all(f'"subtree": "/{name}"' in servers.contact.read_text() for name in "ab"), "both masters")
    client = servers.client(nodes=3)
    assert [client.read(f"{tree}/f") for tree in ("/a", "/b")] == [b"/a", b"/b"]
    assert [entry.path for entry in client.entries("/a")] == ["/a/f"]


def test_an_only_master_that_was_ended_finds_its_ionodes_when_it_is_back(servers):
    client = servers.start(storage=False)
    client.write("/f", b"1")
    servers.kill("master", signal.SIGTERM)
    servers.spawn(*servers.processes["master"][1])
    assert client.read("/f") == b"1"  # by the key of before


def test_a_master_serves_no_other_subtrees_files(servers):
    servers.start(storage=False)
    servers.kill("master", signal.SIGTERM)
    servers.spawn("master", "master", "--subtree", "/b")
    assert servers.processes["master"][0].wait(60) == os.EX_USAGE
    assert "has the files of /, not of /b: give another directory" in (servers.directory / "master.log").read_text()
