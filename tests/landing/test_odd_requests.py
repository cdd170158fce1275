"""Nothing that a peer asks, however typed, ends a node or fills it: not now, and not when it is started again."""

import socket
from contextlib import suppress
from dataclasses import replace
from threading import Thread

import pytest

from bbflow.errors import NodeError, StreamError
from bbflow.landing.client import NodeClient
from bbflow.lending.lender import LendingServer, Shelves
from bbflow.lending.whereabouts import ReadMessage
from bbflow.net.contact import NodeAddress, new_key
from bbflow.net.frames import MAX_PAYLOAD_BYTES, encode
from bbflow.net.link import CHOKED_BYTES
from bbflow.net.listen import split_address
from bbflow.net.peers import Endpoint
from bbflow.net.verdicts import DoneReply
from testsupport.asking import RawClient, answer, ask, ask_once
from testsupport.peers import OPEN, PAGE
from testsupport.processes import agent_of
from testsupport.waiting import until

CAPACITY = 64 * PAGE
LONGEST_S = 1e9
ODD_TIMES = (1e10, 1e300, 1.7e308, float("inf"), -float("inf"), float("nan"), 1 << 63, -(1 << 63))
WHO = {"rank": 0, "writers": 2, "local_writers": 2, "policy": "Block"}
FORGED = "a\x1b[31m\nbbflow node bb9: ready"


@pytest.fixture
def nodes(faulty_nodes, far):
    return faulty_nodes(1, CAPACITY)


def remote(nodes):
    return replace(nodes.nodes[0], host="elsewhere")


def opened(client, stream, **more):
    return ask(client, "open", **OPEN | WHO | {"stream": stream, "transport": "tcp"} | more)


def status(nodes):
    return ask_once(nodes.nodes[0], "status")["streams"]


def test_the_longest_documented_timeouts_are_waited_for_and_survive_the_agent(nodes):
    client = RawClient(remote(nodes))
    opened(client, "a", open_timeout_s=LONGEST_S, loss_timeout_s=LONGEST_S)
    assert status(nodes)["a"]["ranks"] == [[0, "tcp"]]
    client.break_off()
    until(lambda: status(nodes)["a"]["ranks"] == [[0, "away"]])
    nodes.kill("bb0")
    nodes.start("bb0")
    assert status(nodes)["a"]["ranks"] == [[0, "away"]]


@pytest.mark.parametrize("field", ["open_timeout_s", "loss_timeout_s"])
def test_a_time_that_nobody_can_wait_for_is_refused(nodes, field):
    for value in ODD_TIMES:
        with NodeClient(remote(nodes)) as client, pytest.raises(StreamError, match=field):
            opened(client, "a", **{field: value})
    assert status(nodes) == {}


def test_a_name_longer_than_a_file_may_have_is_refused(nodes):
    with NodeClient(remote(nodes)) as client, pytest.raises(StreamError, match="length <= 255"):
        opened(client, "x" * 256)
    with NodeClient(remote(nodes)) as client:
        opened(client, "x" * 255)
        assert list(status(nodes)) == ["x" * 255]


def test_more_bytes_than_one_tag_is_made_for_are_not_given_at_once(nodes):
    """AES-256-GMAC of Python's library takes less than 2 GiB at a time."""
    with NodeClient(remote(nodes)) as client:
        opened(client, "a")
        for size in (MAX_PAYLOAD_BYTES + 1, 1 << 31, (1 << 63) - 1):
            with NodeClient(remote(nodes)) as reader, pytest.raises(StreamError, match="bytes"):
                ask(reader, "get", step=0, offset=0, bytes=size)
        assert list(status(nodes)) == ["a"]


@pytest.mark.cold
def test_replies_that_a_peer_does_not_read_stay_few(nodes):
    agent = agent_of(nodes.nodes[0])
    with NodeClient(remote(nodes)) as client, NodeClient(nodes.nodes[0]) as busy:
        for number in range(200):
            with NodeClient(remote(nodes)) as writer:
                opened(writer, f"{number}{'x' * 250}")
                ask(writer, "close")
        before = agent.memory_info().rss
        with suppress(NodeError):
            for _ in range(3000):  # 300 MB of replies
                client.ask({"op": "status"}, within_s=0.5)
        for _ in range(5):
            assert len(ask(busy, "status")["streams"]) == 200
        assert agent.memory_info().rss - before < 40 * CHOKED_BYTES


def test_a_peer_that_reads_late_gets_all_its_replies(nodes):
    with NodeClient(remote(nodes)) as client:
        with NodeClient(remote(nodes)) as writer:
            opened(writer, "x" * 250)
            ask(writer, "close")
        for _ in range(20_000):
            client.ask({"op": "status"})
        for _ in range(20_000):
            assert answer(client)
        assert ask(client, "status")["name"] == "bb0"


class Mistaken(LendingServer):
    """A server with mistakes in it: nobody knows of a request that finds one in the others."""

    _is_over = False

    def _take(self, peer, link, item):
        if item.name == "stop":
            self._is_over = True
            self._send(peer, DoneReply())
        else:
            raise ValueError(FORGED)

    def _left(self, peer, *, by_itself):
        raise KeyError(FORGED)


def test_a_mistake_of_a_server_costs_one_peer_its_connection_and_nobody_else(tmp_path, capfd):
    key = new_key()
    server = Mistaken(Shelves(str(tmp_path), "alive", "{name}"), Endpoint(key))
    node = NodeAddress("bb0", socket.gethostname(), "", "", key, server.tcp)
    said = []

    def ask_twice():
        with NodeClient(node) as first, NodeClient(node) as second:
            with suppress(StreamError):
                first.request(ReadMessage(name="odd", offset=0, size=1), DoneReply)
            said.append("refused")
            said.append(second.request(ReadMessage(name="stop", offset=0, size=1), DoneReply))

    peer = Thread(target=ask_twice)
    peer.start()
    server.run()
    peer.join(300)
    assert said == ["refused", DoneReply()]
    log = capfd.readouterr().err
    assert "ValueError" in log
    assert "KeyError" in log
    assert "\x1b" not in log
    assert len([line for line in log.splitlines() if FORGED.splitlines()[1] in line]) == len(log.splitlines())


@pytest.mark.parametrize("first", [{"op": FORGED}, {"op": "hello", "versions": [FORGED, 3], "nonce": "0" * 32}])
def test_nobody_forges_lines_of_a_log(nodes, first):
    with socket.create_connection(split_address(nodes.nodes[0].tcp)) as peer:
        peer.settimeout(300)
        peer.sendall(encode(first))
        assert peer.recv(1) == b""
    with NodeClient(nodes.nodes[0]) as client, pytest.raises(StreamError):
        opened(client, "a", policy=FORGED)
    log = until(lambda: "cut off" in nodes.log("bb0") and nodes.log("bb0"))
    assert "\x1b" not in log
    assert not any(line.startswith("bbflow node bb9") for line in log.splitlines())
