"""Talking to an agent from Python: one connection, one request at a time."""

import socket
import ssl
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from msgspec import Struct

from bbflow.errors import NodeError, StreamError
from bbflow.landing.contact import NodeAddress
from bbflow.landing.handshake import TIMEOUT_S, shake_hands
from bbflow.landing.listen import is_loopback, split_address, tune
from bbflow.landing.replies import BytesReply, DoneReply, StatusReply, parse_verdict
from bbflow.landing.requests import GetRequest, StatusRequest, WatchRequest
from bbflow.landing.tls import peer_context
from bbflow.store.frames import FrameReader, checksum, encode, parser

ReplyT = TypeVar("ReplyT", bound=Struct)

GRACE_S = 30.0
"""How long an agent may take to answer a request that doesn't wait."""
ATTEMPTS = 3
"""How often bytes are asked for whose checksum doesn't match."""


class NodeClient:
    """A connection to one BB node's agent: by its Unix socket on the node's own host, else by TCP.

    Parameters
    ----------
    node
        Where it is.

    Raises
    ------
    NodeError
        If nobody listens there, or not who should.
    """

    def __init__(self, node: NodeAddress) -> None:
        self.node = node
        self._reader = FrameReader(decode=bytes)
        where = node.socket if _is_here(node) else node.tcp
        try:
            self._socket = _connect_unix(node) if _is_here(node) else _connect_tcp(node)
        except OSError as error:
            raise NodeError(
                f"BB node {node.name} on {node.host} doesn't answer at {where} ({error.strerror or error}): "
                "start it, or write a new contact file"
            ) from None
        try:
            self._socket.settimeout(TIMEOUT_S)
            shake_hands(node.key, self._exchange)
        except (OSError, NodeError) as error:
            self._socket.close()
            raise NodeError(f"BB node {node.name} on {node.host} at {where}: {error}") from None

    def request(self, asked: Struct, kind: type[ReplyT]) -> ReplyT:
        """Send a request and give its reply.

        Parameters
        ----------
        asked
            One of `requests`.
        kind
            What its reply is, if it isn't refused.

        Raises
        ------
        StreamError
            If the agent refuses; the message is the agent's.
        NodeError
            If the agent is gone.
        ProtocolError
            If its reply isn't one of the format.
        """
        held_back_s = asked.timeout_s if isinstance(asked, WatchRequest) else 0.0
        self._socket.settimeout(held_back_s + GRACE_S)
        try:
            payload = self._exchange(asked)
        except OSError as error:
            raise NodeError(f"BB node {self.node.name} is gone ({error})") from None
        verdict = parse_verdict(payload)
        if not verdict.ok:
            raise StreamError(verdict.error)
        reply: ReplyT = parser(kind, "a reply")(payload)
        return reply

    def status(self) -> StatusReply:
        """Ask how the node is.

        Raises
        ------
        NodeError
            If the agent is gone.
        """
        return self.request(StatusRequest(), StatusReply)

    def get(self, step: int, offset: int, target: memoryview) -> None:
        """Read a part of the pool of a node on another host; the stream must have been joined.

        Parameters
        ----------
        step
            A step that this connection holds.
        offset
            First byte in the pool.
        target
            Where the bytes go; its length says how many.

        Raises
        ------
        StreamError
            If the agent refuses.
        NodeError
            If the agent is gone, or the bytes arrive damaged again and again.
        """
        for _ in range(ATTEMPTS):
            reply = self.request(GetRequest(step=step, offset=offset, bytes=len(target)), BytesReply)
            self._receive_raw(target)
            if checksum(target) == reply.crc:
                return
        raise NodeError(f"{len(target)} bytes from BB node {self.node.name} arrived damaged {ATTEMPTS} times")

    def _receive_raw(self, target: memoryview) -> None:
        filled = self._reader.take_raw(target)
        while filled < len(target):
            try:
                count = self._socket.recv_into(target[filled:])
            except OSError as error:
                raise NodeError(f"BB node {self.node.name} is gone ({error})") from None
            if not count:
                raise NodeError(f"BB node {self.node.name} closed the connection")
            filled += count

    def _exchange(self, message: Struct) -> bytes:
        self._socket.sendall(encode(message))
        while (payload := self._reader.next()) is None:
            data = self._socket.recv(1 << 20)
            if not data:
                raise NodeError(f"BB node {self.node.name} closed the connection")
            self._reader.add(data)
        return bytes(payload)

    def interrupt(self) -> None:
        """Make a request that another thread waits for fail at once."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> "NodeClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_here(node: NodeAddress) -> bool:
    return node.host == socket.gethostname()


def _connect_unix(node: NodeAddress) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(node.socket)
    except OSError:
        connection.close()
        raise
    return connection


def _connect_tcp(node: NodeAddress) -> socket.socket:
    if not node.tcp or is_loopback(node.tcp):
        raise NodeError(f"BB node {node.name} serves its own host {node.host} only: start it with --listen ADDRESS")
    host, port = split_address(node.tcp)
    connection = socket.create_connection((host, port), TIMEOUT_S)
    tune(connection)
    if not node.tls:
        return connection
    try:
        return peer_context(node.tls).wrap_socket(connection, server_hostname=host)
    except ssl.SSLError as error:
        connection.close()
        raise NodeError(f"BB node {node.name}: its certificate isn't accepted ({error})") from None


def tell_node(node: NodeAddress, asked: Struct) -> None:
    """Connect, and have one thing done.

    Raises
    ------
    StreamError, NodeError
        As `NodeClient.request`.
    """
    with NodeClient(node) as client:
        client.request(asked, DoneReply)


def status_of(node: NodeAddress) -> StatusReply:
    """Connect, and ask how a node is.

    Raises
    ------
    NodeError
        If it doesn't answer.
    """
    with NodeClient(node) as client:
        return client.status()
