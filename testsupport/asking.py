"""Requests to a node by their names, as bytes of the format, with replies as the maps that they are there."""

import socket
import ssl
import struct

from bbflow.landing.client import NodeClient
from bbflow.net.frames import encode


class RawClient(NodeClient):
    """A client that also sends what no client would."""

    def frame(self, message):
        """Return the bytes of a message, sealed as the next one."""
        return encode(message, self._seal)

    def send(self, data):
        """Send bytes as they are."""
        self._socket.sendall(data)

    def send_raw(self, offset, raw, sent=None):
        """Send raw bytes for a place in the pool, or others than those that are told."""
        self.ask({"op": "data", "offset": offset, "bytes": len(raw), "check": self._seal.of_raw(memoryview(raw))})
        self.send(raw if sent is None else sent)

    @property
    def speaks_tls(self):
        """Whether what is sent is encrypted."""
        return isinstance(self._socket, ssl.SSLSocket)

    def break_off(self):
        """Reset the connection."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def ask(client, op, **keys):
    """Send any request on a connection, and return its reply."""
    client.ask({"op": op, **keys}, within_s=60)
    return answer(client)


def answer(client):
    """Wait for the reply to what was asked last, and return it."""
    reply = client.answer(dict)
    assert reply.pop("ok")
    return reply


def ask_once(node, op, **keys):
    """Connect, send one request, return its reply."""
    with NodeClient(node) as client:
        return ask(client, op, **keys)
