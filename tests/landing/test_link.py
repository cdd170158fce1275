"""How a node takes in what a peer sends, and learns that it is gone, and whether it may come back."""

import select
import socket
import struct

import pytest

from bbflow.landing.requests import DataRequest, SyncRequest, parse_request
from bbflow.net.frames import encode
from bbflow.net.handshake import NodeHandshake, WelcomeReply
from bbflow.net.link import GoneError, Link
from bbflow.net.verdicts import DoneReply


def link_to(own, pool=bytearray, **limits):
    return Link(own, NodeHandshake(b"k" * 32, WelcomeReply(name="bb0", host="here")), pool, **limits)


def over_tcp():
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        return server.accept()[0], peer


@pytest.mark.parametrize(
    ("connected", "leaves_unread", "by_itself"),
    [
        (socket.socketpair, False, True),
        (socket.socketpair, True, True),
        (over_tcp, False, True),
        (over_tcp, True, False),
    ],
    ids=["host", "host, something unread", "network", "network, reset"],
)
def test_a_peer_of_the_host_has_ended_whatever_it_left_unread(connected, leaves_unread, by_itself):
    own, peer = connected()
    with own, peer:
        link = link_to(own)
        if leaves_unread:
            own.send(b"a reply")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        with pytest.raises(GoneError) as gone:
            list(link.receive())
    assert gone.value.by_itself == by_itself


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_connection_that_broke_when_something_was_sent_has_broken(is_reset):
    """The error is told to who sends: who reads then sees an end, as of a peer that has closed it."""
    own, peer = over_tcp()
    with own, peer:
        link = link_to(own)
        if is_reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        reset = select.POLLHUP if is_reset else select.POLLRDHUP
        waiting = select.poll()
        waiting.register(own, reset)
        waiting.poll(10_000)
        link.send(DoneReply())
        with pytest.raises(GoneError) as gone:
            list(link.receive())
    assert gone.value.by_itself == (not is_reset)


def test_what_is_left_when_a_turn_ends_is_not_forgotten():
    pool, got = memoryview(bytearray(1000)), []
    own, peer = socket.socketpair()
    with own, peer:
        link = link_to(own, lambda: pool, turn_bytes=1500)
        link.trust(parse_request)
        data = encode({"op": "data", "offset": 0, "bytes": 1000, "check": b""}) + bytes(1000)
        peer.sendall(3 * data + encode({"op": "sync"}))
        while link.has_unread or select.select([own], [], [], 0)[0]:
            for item in link.receive():
                got.append(type(item))
                if isinstance(item, DataRequest):
                    link.expect(item.offset, item.bytes, item.check)
    assert got[-1] == SyncRequest
