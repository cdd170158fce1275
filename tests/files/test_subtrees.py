"""Several masters, each of one subtree: one namespace for all clients."""

import errno

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
