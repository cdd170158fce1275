"""How a node learns that a peer is gone, and whether it may come back."""

import socket
import struct

import pytest

from bbflow.landing.handshake import NodeHandshake, WelcomeReply
from bbflow.landing.link import GoneError, Link


def link_to(own):
    return Link(own, NodeHandshake(b"k" * 32, WelcomeReply(name="bb0", host="here")), bytearray)


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
