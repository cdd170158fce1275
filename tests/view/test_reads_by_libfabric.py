"""Views, drains and analyses of other hosts read a node's pool by libfabric: through its software providers."""

import mmap
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from bbflow.errors import NodeError, StreamError
from bbflow.landing.client import NodeClient
from bbflow.landing.fabric import OPENED, FabricError, FabricGates, FabricReads
from bbflow.landing.replies import JoinReply, PinReply
from bbflow.landing.requests import GetRequest, JoinRequest, PinRequest
from bbflow.net.connection import NodeConnection
from bbflow.net.verdicts import BytesReply
from bbflow.view.blocks import BlockReader
from bbflow.view.lease import Lease
from bbflow.view.returning import Returning
from testsupport.asking import ask_once
from testsupport.connections import break_connections
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER
from testsupport.waiting import until
from testsupport.writers import steps_of, watch, write, write_config

pytestmark = NEEDS_LIBFABRIC

PAGE = mmap.PAGESIZE
COUNT = 3 << 20  # 24 MiB: more than is asked for at once
STEPS = f"""
part = field({COUNT})
engine = io.open("out", Mode.Write)
for step in range(2):
    engine.begin_step()
    engine.put(part, np.arange({COUNT}) + 0.5 * step, Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.fixture(params=[PROVIDER, "shm"])
def provider(request, monkeypatch):
    """A provider that counts as better than TCP, as those of real networks do."""
    monkeypatch.setattr("bbflow.view.lease._providers", lambda: [request.param])
    return request.param


@pytest.fixture
def elsewhere(far, monkeypatch):
    """Put this process on another host than the nodes."""
    for module in ("bbflow.net.connection", "bbflow.view.source", "bbflow.view.blocks"):
        own = SimpleNamespace(**vars(socket) | {"gethostname": lambda: "elsewhere"})
        monkeypatch.setattr(f"{module}.socket", own)


@pytest.fixture
def no_tcp(monkeypatch):
    """Refuse bytes of the pool by the connection; why they do, an agent says in its log."""

    def refuse(connection, *_):
        log = Path(connection.node.directory).with_name(f"{connection.node.name}.log")
        raise AssertionError(f"bytes came by TCP: {log.read_text() if log.exists() else 'no log'}")

    monkeypatch.setattr(NodeConnection, "_receive_raw", refuse)


def written(nodes, tmp_path):
    write(nodes.contact, STEPS, write_config(tmp_path))
    return steps_of(watch(nodes))


def values_of(nodes, steps):
    reader = BlockReader(nodes.contact, "model")
    return [reader.read("bb0", step.number, step.blocks[0]) for step in steps]


def check(arrays):
    for step, found in enumerate(arrays):
        np.testing.assert_array_equal(found, np.arange(COUNT) + 0.5 * step)


def test_blocks_and_datasets_are_the_same_by_libfabric(big_node, tmp_path, provider, elsewhere, no_tcp):
    check(values_of(big_node, written(big_node, tmp_path)))
    with xr.open_dataset(big_node.contact, engine="bbflow", stream="model", timeout_s=60.0) as found:
        check(found.field.values)


@pytest.fixture
def gates():
    """Gates to two pages of memory, and both ends of a connection."""
    memory = memoryview(mmap.mmap(-1, 2 * PAGE))
    memory[:] = bytes(range(256)) * (2 * PAGE // 256)
    gates = FabricGates("127.0.0.1", lambda: memory)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    with near, other:
        yield gates, memory, near
    gates.close()


def read(gate, connection, shown, size=8, beyond=0):
    """Read as whoever knows a key, so far beyond the first byte that was shown."""
    base, key = OPENED.unpack(shown)
    target = bytearray(size)
    FabricReads(gate.way, connection).read(memoryview(target), OPENED.pack((base + beyond) % 2**64, key))
    return bytes(target)


@pytest.mark.parametrize("beyond", [-8, -1, PAGE - 7, PAGE, 1 << 40])
def test_nothing_is_read_outside_of_what_was_shown(gates, beyond):
    opener, memory, connection = gates
    gate = opener.open([PROVIDER])
    shown = gate.show(0, PAGE)
    with pytest.raises(FabricError):
        read(gate, connection, shown, beyond=beyond)
    assert read(gate, connection, shown, beyond=PAGE - 8) == bytes(memory[PAGE - 8 : PAGE])
    assert read(gate, connection, shown, PAGE) == bytes(memory[:PAGE])


def test_what_is_shown_counts_for_its_own_connection_and_until_it_is_revoked(gates):
    opener, memory, connection = gates
    own, other = opener.open([PROVIDER]), opener.open([PROVIDER])
    shown = own.show(PAGE, PAGE)
    with pytest.raises(FabricError):
        read(other, connection, shown)
    assert read(own, connection, shown) == bytes(memory[PAGE : PAGE + 8])
    own.revoke()
    with pytest.raises(FabricError):
        read(own, connection, shown)


def test_reading_ends_with_the_connection_or_after_a_failure(gates):
    opener, _, connection = gates
    gate = opener.open([PROVIDER])
    shown, target = gate.show(0, PAGE), memoryview(bytearray(8))
    reads = FabricReads(gate.way, connection)
    reads.read(target, shown)
    gate.revoke()
    for _ in range(2):
        with pytest.raises(FabricError):
            reads.read(target, shown)
    connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(FabricError):
        FabricReads(gate.way, connection)


def holding(nodes, provider):
    """Return a client that reads step 0 by libfabric."""
    client = NodeClient(nodes.nodes[0])
    client.request(JoinRequest(stream="model", after=-1, follow=False), JoinReply)
    client.request(PinRequest(steps=(0,)), PinReply)
    client.use_fabric([provider])
    return client


def shown_to(client, block, size):
    """Ask for bytes of step 0 and don't read them yet; give their key."""
    asked = GetRequest(step=0, offset=block.offset, bytes=size, by_key=True)
    return client.request(asked, BytesReply).key


def test_a_key_ends_with_the_reader_s_next_request(big_node, tmp_path, elsewhere):
    block = written(big_node, tmp_path)[0].blocks[0]
    with holding(big_node, PROVIDER) as client:
        target = memoryview(bytearray(16))
        key = shown_to(client, block, 16)
        client._reads.read(target, key)
        assert np.frombuffer(target).tolist() == [0.0, 1.0]
        client.request(PinRequest(steps=(0,)), PinReply)
        with pytest.raises(FabricError):
            client._reads.read(target, key)
    with holding(big_node, PROVIDER) as client, pytest.raises(StreamError, match="are in no block"):
        shown_to(client, block, block.bytes + 8)


def readers(nodes):
    return ask_once(nodes.nodes[0], "status")["streams"]["model"]["readers"]


def test_a_reader_that_dies_before_it_has_read_holds_nothing(big_node, tmp_path, provider, elsewhere, no_tcp):
    steps = written(big_node, tmp_path)
    with holding(big_node, provider) as client:
        assert shown_to(client, steps[0].blocks[0], 1 << 20)
        assert readers(big_node) == 1
        client._socket.shutdown(socket.SHUT_RDWR)
        until(lambda: readers(big_node) == 0)
    check(values_of(big_node, steps))


def test_an_agent_that_dies_ends_the_reading_and_another_one_goes_on(
    faulty_nodes, tmp_path, provider, elsewhere, no_tcp
):
    nodes = faulty_nodes(1, 64 << 20)
    steps = written(nodes, tmp_path)
    reader, block = BlockReader(nodes.contact, "model"), steps[0].blocks[0]
    with holding(nodes, provider) as client:
        key = shown_to(client, block, 8)
        check([reader.read("bb0", 0, block)])
        nodes.kill("bb0")
        with pytest.raises(NodeError):
            client._reads.read(memoryview(bytearray(8)), key)
    with pytest.raises(NodeError):
        reader.read("bb0", 0, block)
    nodes.start("bb0")
    check([reader.read("bb0", 0, block)])


@pytest.mark.parametrize("providers", [[], [PROVIDER]], ids=["tcp", "fabric"])
def test_a_read_in_whose_middle_the_agent_is_killed_is_tried_again_when_it_is_back(
    faulty_nodes, tmp_path, elsewhere, monkeypatch, providers
):
    monkeypatch.setattr("bbflow.view.lease._providers", lambda: providers)
    nodes, killed = faulty_nodes(1, 64 << 20), []
    steps, get = written(nodes, tmp_path), NodeClient.get

    def get_and_kill(client, step, offset, target):
        if offset > steps[0].blocks[0].offset and not killed:
            nodes.kill("bb0")
            killed.append(threading.Thread(target=nodes.start, args=["bb0"]))
            killed[0].start()
        get(client, step, offset, target)

    monkeypatch.setattr(NodeClient, "get", get_and_kill)
    returning = Returning(nodes.contact, 300, is_silent=True)
    check([BlockReader(nodes.contact, "model", returning).read("bb0", 0, steps[0].blocks[0])])
    killed[0].join()


@pytest.mark.parametrize("provider", [PROVIDER], indirect=True)
def test_bytes_are_right_when_the_connections_of_libfabric_break(big_node, tmp_path, provider, elsewhere):
    steps = written(big_node, tmp_path)
    reader, port = BlockReader(big_node.contact, "model"), int(big_node.nodes[0].tcp.rpartition(":")[2])
    check([reader.read("bb0", 0, steps[0].blocks[0])])
    assert break_connections(SimpleNamespace(pid=os.getpid()), port) > 0
    check(reader.read("bb0", step.number, step.blocks[0]) for step in steps)


def test_what_libfabric_fails_at_comes_by_tcp_and_one_line_says_so(big_node, tmp_path, provider, elsewhere, capfd):
    block = written(big_node, tmp_path)[0].blocks[0]
    lease, found = Lease(big_node.contact, "model"), np.empty(COUNT)
    for _ in range(2):
        lease.get("bb0", 0, block.offset, found.view("u1").data)
        check([found])
        if reads := lease._clients["bb0"]._reads:
            reads.close()
            found[:] = 0
    assert lease._clients["bb0"]._reads is None
    assert capfd.readouterr().err.count("is read by TCP, since libfabric doesn't work") == 1


def test_few_bytes_come_by_tcp(big_node, tmp_path, elsewhere, monkeypatch):
    monkeypatch.setattr("bbflow.view.lease._providers", lambda: pytest.fail("libfabric is asked for"))
    written(big_node, tmp_path)
    with xr.open_dataset(big_node.contact, engine="bbflow", stream="model", timeout_s=60.0) as found:
        assert found.field[1, 5:9].values.tolist() == [5.5, 6.5, 7.5, 8.5]


def test_a_node_without_the_provider_is_read_by_tcp(big_node, tmp_path, elsewhere, monkeypatch):
    monkeypatch.setattr("bbflow.view.lease._providers", lambda: ["psmx9"])
    check(values_of(big_node, written(big_node, tmp_path)))
