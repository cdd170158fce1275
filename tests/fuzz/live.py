"""Requests through the loops of real servers, over real sockets: peers that have proved themselves say odd things."""

import contextlib
import io
import socket
import tempfile
from pathlib import Path

from agents import ATTRIBUTE, MEMORY, OPEN, PAGE, PAGES, SPENT, content_of
from dice import ODD
from master import CLIENTS, NODES, SESSION

from bbflow.errors import ProtocolError
from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.master.serving import MasterServer
from bbflow.files.options import Options
from bbflow.landing.server import Server
from bbflow.net.frames import CHECKSUM, FrameReader, decode_map, encode
from bbflow.net.handshake import shake_hands
from bbflow.net.listen import split_address
from bbflow.net.peers import Endpoint
from bbflow.store.node import NodeStore

KEY = "ab" * 32
TURNS = 3
"""A server that has done nothing in so many has nothing to say."""
NUMBERS = (1e9, -1e9, 1e300, -1e300, float("inf"), float("nan"), 1 << 31, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1)
TEXTS = ("a\0b", "a\x1b[31m\nb", "/" * 300, "\U0001f600" * 255, "../x", "%n{}")
AGENTS = [
    OPEN | {"rank": 0, "writers": 1, "local_writers": 1},
    OPEN | {"rank": 0, "writers": 2, "resume": True},
    {"op": "begin", "step": 0, "bytes": PAGE},
    {"op": "reserve", "step": 0, "bytes": PAGE},
    {"op": "data", "offset": 0, "bytes": 64, "check": bytes(16)},
    {"op": "sync"},
    {"op": "commit", "step": 0, "attributes": [ATTRIBUTE], "ahead_bytes": PAGE} | SPENT | content_of([(0, PAGE)], 0),
    {"op": "hold", "step": 0},
    {"op": "skip", "step": 0},
    {"op": "close", "steps": 1, "attributes": [ATTRIBUTE]},
    {"op": "abort"},
    {"op": "attach", "stream": "weather", "consumers": ["fold"], "owner": "o", "take_over": True},
    {"op": "watch", "stream": "weather", "after": -1, "change": -1, "timeout_s": 0.0, "limit": 9},
    {"op": "done", "stream": "weather", "consumer": "fold", "step": 0, "checkpoint": b"c"},
    {"op": "drop", "stream": "weather", "left": True},
    {"op": "give_up", "stream": "weather"},
    {"op": "join", "stream": "weather", "after": -1, "follow": True},
    {"op": "pass", "step": 0},
    {"op": "pin", "steps": [0]},
    {"op": "unpin", "steps": [0]},
    {"op": "get", "step": 0, "offset": 0, "bytes": 64},
    {"op": "status"},
]  # fmt: skip


class Peer:
    """A client of a server whose loop turns only when someone waits for it."""

    def __init__(self, server):
        self.server, self.reader, self.seal = server, FrameReader(), CHECKSUM
        self.socket = socket.create_connection(split_address(server.tcp))
        self.socket.setblocking(False)
        self.is_gone = False
        self.reader.decode = bytes
        shake_hands(KEY, self.say, self.hear, self._seal_with)
        self.reader.decode = decode_map

    def _seal_with(self, said, heard):
        self.seal, self.reader.seal = said, heard

    def say(self, message, raw=b""):
        with contextlib.suppress(OSError):
            self.socket.sendall(encode(message, self.seal) + raw)
        self.server.turn(0.0)

    def hear(self):
        """Return the next reply; None if none is coming, or the server has hung up."""
        idle = 0
        while idle < TURNS:
            if (message := self.reader.next()) is not None:
                return message
            try:
                data = self.socket.recv(1 << 20)
            except BlockingIOError:
                idle += 1
                self.server.turn(0.0)
                continue
            except OSError:
                data = b""
            if not data:
                self.is_gone = True
                return None
            self.reader.add(data)
        return None


def odd(dice, message):
    """Return a message with a field out of all bounds, or of another type."""
    message = dict(message)
    if dice.throw(2):
        key = dice.of(sorted(message))
        message[key] = dice.of([*NUMBERS, *TEXTS, *ODD])
    return message


def converse_with(server, messages, dice, last):
    """Say odd things as peers until the bytes are used up: the server serves on, and no one else notices."""
    bystander, peer = Peer(server), None
    while dice:
        if peer is None or peer.is_gone:
            peer = Peer(server)
        message = odd(dice, dice.of(messages))
        raw = bytes(64) if message.get("op") == "data" else b""
        with contextlib.suppress(ProtocolError):
            peer.say(message, raw)
            peer.hear()
        if dice.throw(8) == 0:
            peer.socket.close()
            server.turn(0.0)
            peer = None
    bystander.say(last)
    assert bystander.hear()["ok"], "the server doesn't serve any more"


def serve(made, messages, dice, last):
    """Serve, and continue by another server from what is left; neither may take anything for its own mistake."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="bbflow-fuzz-", dir=MEMORY) as folder, contextlib.redirect_stderr(said):
        server = made(Path(folder) / "n")
        try:
            converse_with(server, messages, dice, last)
        finally:
            server.close()
        server = made(Path(folder) / "n")
        server.turn(0.0)
        server.close()
    assert "Traceback" not in said.getvalue(), said.getvalue()
    assert "\x1b" not in said.getvalue()


class Node(Server):
    """An agent with its store."""

    def __init__(self, directory):
        self.store = NodeStore(directory, PAGES * PAGE)
        super().__init__(self.store, "bb0", Endpoint(KEY))

    def close(self):
        super().close()
        self.store.close()


class FilesNode(MasterServer):
    """A master with its database."""

    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        self.database = Database(directory / "metadata.db")
        master = Master(self.database, Options(storage=""), lambda: 1000.0)
        super().__init__(master, "bb0", directory, Endpoint(KEY), directory / "contact.json")

    def close(self):
        super().close()
        self.database.close()


def live_agent(dice):
    """An agent's loop."""
    serve(Node, AGENTS, dice, {"op": "status"})


def live_master(dice):
    """A master's loop."""

    sessions = [SESSION | {"uid": 1, "gid": 1}, SESSION | {"uid": 1, "gid": 1, "resume": ""}]
    serve(FilesNode, [*sessions, *CLIENTS, *NODES], dice, sessions[1] | {"handles": [], "slots": []})
