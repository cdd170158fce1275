"""A TCP network between writers or readers and nodes that damages and cuts what goes over it."""

import json
import socket
import struct
import threading
import time
from contextlib import suppress
from itertools import count

from bbflow.net.frames import CHECKSUM, LENGTH, decode_map
from bbflow.net.listen import split_address
from bbflow.net.seals import TAG_BYTES

HANDSHAKE_REQUESTS, HANDSHAKE_REPLIES = 2, 1
"""Frames without a seal: what lets a peer in has one."""


class BadNetwork:
    """Stands between writers and the nodes of a contact file.

    Parameters
    ----------
    nodes
        The real nodes.
    contact
        Where to write the contact file that leads through here.
    """

    def __init__(self, nodes, contact):
        self.contact = contact
        self.damage = lambda number: False
        """Whether a bit of these raw bytes, of a `data` or for a `get`, is flipped; they are counted from 0."""
        self.cut = lambda number: False
        """Whether the connection is cut in the middle of this one."""
        self.cut_after = None
        """A request: the connection is cut once behind its second, or its only one, before the reply."""
        self._seen, self._is_mute = 0, False
        self.flipped = self.cuts = self.data = 0
        self._nodes = nodes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = []
        content = json.loads(nodes.contact.read_text())
        content["nodes"][0]["tcp"] = "{}:{}".format(*self._listener.getsockname())
        contact.write_text(json.dumps(content))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self):
        """Cut off all connections, and refuse new ones."""
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._accepting.join()
        self._listener.close()
        for end in self._sockets:
            _reset(end)

    def _accept(self):
        with suppress(OSError):
            while True:
                writer, _ = self._listener.accept()
                self._sockets.append(writer)
                node = socket.create_connection(split_address(self._nodes.nodes[0].tcp))
                self._sockets.append(node)
                threading.Thread(target=self._carry_requests, args=(writer, node), daemon=True).start()
                threading.Thread(target=self._carry_replies, args=(node, writer), daemon=True).start()

    def _carry_requests(self, writer, node):
        with suppress(OSError):
            for message, frame in _frames(writer, HANDSHAKE_REQUESTS):
                is_last = self._cuts_after(message["op"])
                self._is_mute = is_last
                node.sendall(frame)
                if is_last:
                    time.sleep(0.1)  # the node takes the request in
                    _reset(writer)
                    _reset(node)
                if message["op"] == "data":
                    self._carry_raw(writer, node, message["bytes"])
        _end(node)

    def _cuts_after(self, op):
        self._seen += op == self.cut_after
        is_last = op == self.cut_after and self._seen == (2 if op in ("begin", "sync", "commit") else 1)
        self.cuts += is_last
        return is_last

    def _carry_raw(self, source, target, size):
        raw = bytearray(_receive(source, size))
        number, self.data = self.data, self.data + 1
        if self.damage(number):
            raw[len(raw) // 2] ^= 4
            self.flipped += 1
        if self.cut(number):
            self.cuts += 1
            target.sendall(raw[: len(raw) // 2])
            _reset(target)
            _reset(source)
        target.sendall(raw)

    def _carry_replies(self, node, writer):
        with suppress(OSError):
            for message, frame in _frames(node, HANDSHAKE_REPLIES):
                if self._is_mute:
                    break
                writer.sendall(frame)
                if "check" in message:
                    self._carry_raw(node, writer, message["bytes"])
        _end(writer)


def _frames(source, unsealed):
    """Give what is said, and its frame."""
    for number in count():
        header = _receive(source, LENGTH.size + (CHECKSUM.size if number < unsealed else TAG_BYTES))
        if not header:
            return
        payload = _receive(source, LENGTH.unpack_from(header)[0])
        yield decode_map(payload), header + payload


def _receive(end, size):
    received = bytearray()
    while len(received) < size and (data := end.recv(min(size - len(received), 1 << 20))):
        received += data
    return bytes(received)


def _end(end):
    with suppress(OSError):
        end.shutdown(socket.SHUT_WR)


def _reset(end):
    """Close a connection as a network does that broke: not with its end, but with a reset."""
    with end, suppress(OSError):  # the other side may have ended it before
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RD)
