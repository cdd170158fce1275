"""How Spark's processes speak with the prefetcher: TCP, lines of JSON, and the contact file's key first."""

import hmac
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from bbflow.errors import BbflowError, ProtocolError
from bbflow.net.contact import NodeAddress, add_node, contact_key, remove_node
from bbflow.net.handshake import MAX_FRAME_BYTES, TIMEOUT_S, HelloMessage, NodeHandshake, ProveMessage, WelcomeReply
from bbflow.net.listen import listen_tcp, public_address, tune
from bbflow.net.seals import Mac
from bbflow_spark.plans import partition_key, read_plan, read_question, stage_key
from bbflow_spark.prefetcher import Prefetcher, ReadPlace

MOST_BYTES = 256 << 20
"""Longest message: the plan of a stage with millions of partitions."""
NAME = "spark"
_HANDSHAKES = msgspec.json.Decoder(HelloMessage | ProveMessage)


@contextmanager
def served(prefetcher: Prefetcher, address: str, contact: Path, directory: Path) -> Iterator[None]:
    """Answer Spark's processes for as long as the block lasts.

    Parameters
    ----------
    prefetcher
        Whose answers they get.
    address
        ``host[:port]`` to listen at.
    contact
        File that is written for them; who can read it is let in.
    directory
        On the BB; tells two prefetchers apart.

    Raises
    ------
    ConfigError, NodeError
        If the address can't be used, or the contact file is of others.
    """
    key = contact_key(contact)
    listener = listen_tcp(address)
    where = public_address(listener, address)
    server = _Server(listener, prefetcher, key)
    add_node(contact, NodeAddress(NAME, socket.gethostname(), "", str(directory), key, where))
    thread = threading.Thread(target=server.serve_forever, name="bbflow-spark", kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield
    finally:
        remove_node(contact, NAME, str(directory))
        server.shutdown()
        # Before what serves them goes: tasks that wait for a file are told to read it themselves.
        prefetcher.close()
        thread.join()
        server.end()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, prefetcher: Prefetcher, key: str) -> None:
        super().__init__(listener.getsockname(), _Peer, bind_and_activate=False)
        # The one that socketserver has made knows IPv4 alone.
        self.socket.close()
        self.socket = listener
        self.prefetcher = prefetcher
        self.key = key
        self.peers: set[socket.socket] = set()

    def end(self) -> None:
        """Release everybody."""
        self.server_close()
        for peer in list(self.peers):
            peer.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: the client has gone."""


class _Peer(socketserver.StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        tune(self.connection)
        self.server.peers.add(self.connection)
        self._drives: set[str] = set()
        self._heard: Mac | None = None
        self._said: Mac | None = None
        try:
            if self._shake_hands():
                self._serve()
        except (OSError, ProtocolError):
            return  # it has gone, or is none of Spark's
        finally:
            self.server.peers.discard(self.connection)
            for application in self._drives:
                self.server.prefetcher.end(application)

    def _shake_hands(self) -> bool:
        self.connection.settimeout(TIMEOUT_S)
        handshake = NodeHandshake(self.server.key, WelcomeReply(name=NAME, host=socket.gethostname()))
        while not handshake.done:
            line = self.rfile.readline(MAX_FRAME_BYTES)
            if not line:
                return False
            reply = handshake.answer(_handshake(line))
            if handshake.done:
                self._heard, self._said = handshake.seals()  # what lets it in is sealed already
            self._say(asdict(reply))
            if not reply.ok:
                return False
        self.connection.settimeout(None)
        return True

    def _serve(self) -> None:
        while (message := self._hear()) is not None:
            try:
                reply = self._reply(message)
            except ProtocolError:
                raise
            except BbflowError as error:
                reply = {"ok": False, "error": str(error)}
            self._say(reply)

    def _reply(self, message: dict[str, Any]) -> dict[str, Any]:
        prefetcher = self.server.prefetcher
        match message.get("op"):
            case "ask":
                return self._answer(message)
            case "plan":
                plan = read_plan(message)
                self._drives.add(plan.key[0])
                prefetcher.plan(plan)
            case "done":
                prefetcher.done(partition_key(message))
            case "over":
                prefetcher.over(stage_key(message))
            case "end":
                prefetcher.end(stage_key(message)[0])
            case other:
                raise ProtocolError(f"Spark says {other!r}, which isn't known here")
        return {"ok": True}

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        answering = self.server.prefetcher.ask(read_question(message))
        while True:
            try:
                next(answering)
            except StopIteration as ended:
                return _told(ended.value)
            self._say({"wait": True})

    def _hear(self) -> dict[str, Any] | None:
        line = self.rfile.readline(MOST_BYTES)
        if not line:
            return None
        if self._heard is not None:
            tag, _, line = line.rstrip(b"\n").partition(b" ")
            if not hmac.compare_digest(self._heard.of_frame(line).hex().encode(), tag):
                raise ProtocolError("a line was damaged on its way, or isn't the next one that Spark said")
        try:
            message = json.loads(line)
        except ValueError:
            raise ProtocolError("a line that isn't JSON") from None
        if not isinstance(message, dict):
            raise ProtocolError("a line that isn't a message")
        return message

    def _say(self, message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        self.wfile.write(line if self._said is None else self._said.of_frame(line[:-1]).hex().encode() + b" " + line)


def _handshake(line: bytes) -> HelloMessage | ProveMessage:
    try:
        said: HelloMessage | ProveMessage = _HANDSHAKES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a line that isn't a handshake: {error}") from None
    return said


def _told(answer: ReadPlace) -> dict[str, Any]:
    told: dict[str, Any] = {"ok": True}
    if answer.end is not None:
        told["end"] = answer.end
    if answer.path is not None:
        told |= {"path": str(answer.path), "start": answer.start}
    return told
