"""Who is on the way of a TCP connection and lets its handshake pass can say, change or leave out nothing behind it."""

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from bbflow.errors import NodeError
from bbflow.landing.client import NodeClient
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.frames import CHECKSUM, LENGTH, decode_map, encode
from bbflow.net.listen import split_address
from bbflow.net.seals import TAG_BYTES
from bbflow.reading.wire_types import VERSION
from testsupport.asking import RawClient, answer, ask, ask_once
from testsupport.peers import OPEN, PAGE

STREAM = "weather"
STATUS, STOP = {"op": "status"}, {"op": "stop", "force": True}
DROP = {"op": "drop", "stream": STREAM, "left": True}
PATIENCE_S = 300
pytestmark = pytest.mark.usefixtures("far")


@pytest.fixture(scope="module")
def node():
    with EmbeddedNodes(1, 64 * PAGE) as nodes:
        yield nodes.nodes[0]


def read(end, size):
    received = b""
    while len(received) < size:
        data = end.recv(size - len(received))
        if not data:
            raise EOFError
        received += data
    return received


def frame_from(end, seal_bytes):
    header = read(end, LENGTH.size + seal_bytes)
    return header + read(end, LENGTH.unpack_from(header)[0])


@contextmanager
def on_the_way(node, does, welcome=bytes):
    """Pass the handshake of a client on; what comes then is what `does` makes of both sockets.

    What lets the client in is passed on as `welcome` makes it.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def carry(lets_in=bytes):
            peer, _ = listener.accept()
            with peer, socket.create_connection(split_address(node.tcp)) as inner:
                for end in (peer, inner):
                    end.settimeout(PATIENCE_S)
                with suppress(EOFError, OSError):
                    for seal_bytes in (CHECKSUM.size, TAG_BYTES):
                        inner.sendall(frame_from(peer, CHECKSUM.size))
                        peer.sendall(lets_in(frame_from(inner, seal_bytes)))
                        lets_in = welcome
                    does(peer, inner)

        thread = threading.Thread(target=carry, daemon=True)
        thread.start()
        host, port = listener.getsockname()
        yield replace(node, host="elsewhere", tcp=f"{host}:{port}")
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def opened(client):
    keys = {"stream": STREAM, "rank": 0, "writers": 1, "local_writers": 1, "policy": "Block", "transport": "tcp"}
    return ask(client, "open", **OPEN | keys)


@pytest.fixture
def stream(node):
    with NodeClient(node) as writer:
        opened(writer)
        yield
        with suppress(Exception):
            ask(writer, "close", steps=0)
    ask_once(node, "drop", stream=STREAM, left=True)


def streams(node):
    return ask_once(node, "status")["streams"]


def heard(inner):
    """What the node answers, which is nothing: it hangs up."""
    with suppress(ConnectionError):
        return inner.recv(4096)
    return b""


@pytest.mark.parametrize("said", [STATUS, DROP, STOP], ids=["status", "drop", "stop"])
def test_who_relays_a_handshake_can_say_nothing_of_their_own(node, stream, said):
    answers = []

    def say(_, inner):
        inner.sendall(encode(said))  # as before the handshake
        inner.sendall(bytes(64))
        answers.append(heard(inner))

    def say_sealed(_, inner):
        payload = encode(said)[LENGTH.size + CHECKSUM.size :]
        inner.sendall(LENGTH.pack(len(payload)) + bytes(TAG_BYTES) + payload)
        answers.append(heard(inner))

    for does in (say, say_sealed):
        with on_the_way(node, does) as way:
            NodeClient(way).close()
    assert answers == [b"", b""]
    assert list(streams(node)) == [STREAM]


def repeated(frames):
    return [frames[0], frames[0]]


def swapped(frames):
    return [frames[1], frames[0]]


def left_out(frames):
    return [frames[1]]


def flipped(at):
    def flip(frames):
        changed = bytearray(frames[0])
        changed[at] ^= 1
        return [bytes(changed)]

    return flip


def cut(frames):
    """A frame that says that it is shorter."""
    payload = frames[0][LENGTH.size + TAG_BYTES : -1]
    return [LENGTH.pack(len(payload)) + frames[0][LENGTH.size : LENGTH.size + TAG_BYTES] + payload]


CHANGES = {
    "repeated": repeated,
    "swapped": swapped,
    "left out": left_out,
    "a bit of the tag": flipped(LENGTH.size),
    "a bit of the payload": flipped(-1),
    "shorter": cut,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_requests_that_were_changed_on_the_way_are_not_taken(node, stream, change):
    answers = []

    def carry(peer, inner):
        frames = [frame_from(peer, TAG_BYTES) for _ in range(2)]
        for frame in change(frames):
            inner.sendall(frame)
        if change is repeated:
            frame_from(inner, TAG_BYTES)  # the first one was as it was said
        answers.append(heard(inner))

    with on_the_way(node, carry) as way, NodeClient(way) as client:
        client.ask({"op": "status"})
        client.ask({"op": "status"})
        with pytest.raises(NodeError):
            answer(client)
    assert answers == [b""]
    assert list(streams(node)) == [STREAM]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_replies_that_were_changed_on_the_way_are_not_taken(node, change):
    def carry(peer, inner):
        for _ in range(2):
            inner.sendall(frame_from(peer, TAG_BYTES))
        for frame in change([frame_from(inner, TAG_BYTES) for _ in range(2)]):
            peer.sendall(frame)

    with on_the_way(node, carry) as way, NodeClient(way) as client:
        client.ask({"op": "status"})
        client.ask({"op": "status"})
        if change is repeated:
            assert answer(client)
        with pytest.raises(Exception, match="isn't the next one that the other side sent"):
            answer(client)


@pytest.mark.parametrize("said", [{"ok": True, "name": "other", "host": "elsewhere"}, {"ok": False, "error": "go"}])
def test_nobody_else_lets_a_client_in_or_refuses_it(node, said):
    with (
        on_the_way(node, lambda *_: None, lambda _: encode(said) + bytes(TAG_BYTES)) as way,
        pytest.raises(NodeError, match="isn't the next one that the other side sent"),
    ):
        NodeClient(way)


def test_what_a_side_has_said_is_nothing_that_the_other_says(node):
    def reflect(peer, _):
        peer.sendall(frame_from(peer, TAG_BYTES))

    with on_the_way(node, reflect) as way, NodeClient(way) as client:
        client.ask({"op": "status"})
        with pytest.raises(Exception, match="isn't the next one that the other side sent"):
            answer(client)


def test_bytes_changed_on_the_way_are_asked_for_again_even_if_their_checksum_is_right(node):
    raw, others = b"a" * PAGE, b"b" * PAGE

    def carry(peer, inner):
        for number in range(4):  # open, begin, data, sync
            inner.sendall(frame_from(peer, TAG_BYTES))
            if number == 2:
                read(peer, PAGE)
                inner.sendall(others)
            else:
                peer.sendall(frame_from(inner, TAG_BYTES))

    with on_the_way(node, carry) as way, RawClient(way) as client:
        opened(client)
        ((offset, _),) = ask(client, "begin", step=0, bytes=PAGE)["extents"]
        client.send_raw(offset, raw)
        assert ask(client, "sync") == {"bad": [offset]}
    ask_once(node, "drop", stream=STREAM, left=True)


def test_two_connections_have_no_key_in_common(node):
    """What was said on one is nothing on another, though both begin to count at the same number."""
    said = []

    def keep(peer, inner):
        said.append(frame_from(peer, TAG_BYTES))
        inner.sendall(said[0])
        peer.sendall(frame_from(inner, TAG_BYTES))

    def repeat(_, inner):
        inner.sendall(said[0])
        said.append(heard(inner))

    with on_the_way(node, keep) as way, NodeClient(way) as client:
        ask(client, "status")
    with on_the_way(node, repeat) as way:
        NodeClient(way).close()
    assert said[1] == b""


def test_a_peer_of_another_version_is_refused_by_its_number(node):
    for versions, number in (([3, 3], "3 to 3"), ([VERSION + 1, VERSION + 2], f"{VERSION + 1} to {VERSION + 2}")):
        with socket.create_connection(split_address(node.tcp)) as peer:
            peer.settimeout(PATIENCE_S)
            peer.sendall(encode({"op": "hello", "versions": versions, "nonce": "0" * 32}))
            reply = decode_map(frame_from(peer, CHECKSUM.size)[LENGTH.size + CHECKSUM.size :])
        assert not reply["ok"]
        assert f"speaks versions {number} of the format, the node {VERSION}" in reply["error"]


def test_a_node_of_another_version_is_refused_by_its_number(node):
    refusal = {"ok": False, "error": f"the peer speaks versions {VERSION} to {VERSION} of the format, the node 3"}
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            peer, _ = listener.accept()
            with peer:
                frame_from(peer, CHECKSUM.size)
                peer.sendall(encode(refusal))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        host, port = listener.getsockname()
        with pytest.raises(NodeError, match="the node 3"):
            NodeClient(replace(node, host="elsewhere", tcp=f"{host}:{port}"))
        thread.join(PATIENCE_S)
