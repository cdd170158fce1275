"""A connection to a server of a node: its Unix socket on the node's own host, else TCP; one request at a time."""

import socket
import ssl
import struct
from typing import Any, TypeVar

from msgspec import Struct

from bbflow.errors import BbflowError, NodeError, printable
from bbflow.host.closable import Closable
from bbflow.net.contact import NodeAddress
from bbflow.net.frames import CHECKSUM, FrameReader, Seal, encode, is_intact, parser
from bbflow.net.handshake import TIMEOUT_S, shake_hands
from bbflow.net.listen import SILENCE_S, is_loopback, split_address, tune
from bbflow.net.tls import peer_context, reason
from bbflow.net.verdicts import BytesReply, parse_verdict

ReplyT = TypeVar("ReplyT", bound=Struct)

GRACE_S = 30.0
"""How long a server may take to answer a request that doesn't wait."""
RECEIVED_BYTES = 1 << 16
"""Room for what comes, as long as it is waited for: many connections wait."""
ATTEMPTS = 3
"""How often bytes are asked for whose checksum doesn't match."""


class NodeConnection(Closable):
    """A connection to one server of a BB node, that has proved itself.

    Parameters
    ----------
    node
        Where it is.

    Raises
    ------
    NodeError
        If nothing listens there, or not who should.
    """

    refusal: type[BbflowError] = NodeError
    """What a request that is refused raises."""
    gone: type[NodeError] = NodeError
    """What is raised if the server is gone."""
    standstill_s: int = SILENCE_S
    """How long a server may take nothing of what it is sent: that is short, but for its host's silence."""

    def __init__(self, node: NodeAddress) -> None:
        self.node = node
        self._reader = FrameReader(decode=bytes)
        self._seal: Seal = CHECKSUM
        by_path = bool(node.socket) and _is_here(node)
        where = node.socket if by_path else node.tcp
        try:
            connect = _connect_unix if by_path else _connect_tcp
            self._socket = connect(node, self.standstill_s)
        except OSError as error:
            raise NodeError(
                f"BB node {node.name} on {node.host} doesn't answer at {where} ({error.strerror or error}): "
                "start it, or write a new contact file"
            ) from None
        try:
            self._socket.settimeout(TIMEOUT_S)
            shake_hands(node.key, self._say, self._hear, None if by_path else self._seal_with)
        except (OSError, NodeError) as error:
            self._socket.close()
            raise NodeError(f"BB node {node.name} on {node.host} at {where}: {error}") from None
        except BaseException:
            self._socket.close()
            raise

    def request(self, asked: Struct, kind: type[ReplyT], *, within_s: float | None = GRACE_S) -> ReplyT:
        """Send a request and return its reply.

        Parameters
        ----------
        asked
            It.
        kind
            What its reply is, if it isn't refused.
        within_s
            How long the server may take; as long as it likes if None.

        Raises
        ------
        BbflowError
            Of the kind `refusal`, if the server refuses; the message is the server's.
        NodeError
            If the server is gone.
        ProtocolError
            If its reply isn't one of the format.
        """
        self.ask(asked, within_s=within_s)
        return self.answer(kind)

    def ask(self, asked: Struct, *, within_s: float | None = GRACE_S) -> None:
        """Send a request, as `request` does; `answer` must follow before the next one."""
        try:
            self._socket.settimeout(within_s)
        except OSError as error:  # it was closed when its server was away
            raise self._is_gone(error) from None
        self._send(asked)

    def _send(self, message: Struct, raw: memoryview | None = None) -> None:
        try:
            self._say(message)
            if raw is not None:
                self._socket.sendall(raw)
        except OSError as error:
            raise self._is_gone(error) from None

    def answer(self, kind: type[ReplyT]) -> ReplyT:
        """Wait for the reply to what was asked last, and return it, as `request` does."""
        try:
            payload = self._hear()
        except OSError as error:
            raise self._is_gone(error) from None
        return self._taken(payload, kind)

    def heard(self, kind: type[ReplyT]) -> ReplyT | None:
        """Return the reply to what was asked last, as `answer` does, if all of it has come; without waiting."""
        try:
            self._socket.settimeout(0.0)
            payload = self._hear()
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError as error:
            raise self._is_gone(error) from None
        return self._taken(payload, kind)

    def _taken(self, payload: bytes, kind: type[ReplyT]) -> ReplyT:
        self._accept(payload)
        reply: ReplyT = parser(kind, "a reply")(payload)
        return reply

    def _accept(self, payload: bytes) -> None:
        """Raise what a reply refuses by, if it does."""
        verdict = parse_verdict(payload)
        if not verdict.ok:
            raise self.refusal(printable(verdict.error))

    def fetch(self, asked: Struct, target: memoryview, *, within_s: float | None = GRACE_S) -> int | None:
        """Ask for bytes, as `request` does, and take them in.

        Returns
        -------
        int or None
            How many there were; None if they arrive damaged again and again.
        """
        for _ in range(ATTEMPTS):
            reply = self.request(asked, BytesReply, within_s=within_s)
            part = target[: reply.bytes]
            self._receive(reply, part)
            if is_intact(self._reader.seal, part, reply.check):
                return len(part)
        return None

    def _receive(self, reply: BytesReply, target: memoryview) -> None:
        """Take in the bytes that a reply tells of."""
        self._receive_raw(target)

    def _receive_raw(self, target: memoryview) -> None:
        filled = self._reader.take_raw(target)
        while filled < len(target):
            try:
                self._wait()
                count = self._socket.recv_into(target[filled:])
            except OSError as error:
                raise self._is_gone(error) from None
            if not count:
                raise self.gone(f"BB node {self.node.name} closed the connection")
            filled += count

    def _seal_with(self, said: Seal, heard: Seal) -> None:
        self._seal, self._reader.seal = said, heard

    def _say(self, message: Struct) -> None:
        self._socket.sendall(encode(message, self._seal))

    def _is_gone(self, error: OSError) -> NodeError:
        return self.gone(f"BB node {self.node.name} is gone ({error})")

    def _hear(self) -> Any:
        while (payload := self._reader.next()) is None:
            self._wait()
            data = self._socket.recv(RECEIVED_BYTES)
            if not data:
                raise self.gone(f"BB node {self.node.name} closed the connection")
            self._reader.add(data)
        return payload

    def _wait(self) -> None:
        """Wait until something comes, where that is to be done otherwise than by the socket's own limit."""

    def fileno(self) -> int:
        """Return the socket's descriptor, for who waits for several."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _is_here(node: NodeAddress) -> bool:
    return node.host == socket.gethostname()


def _connect_unix(node: NodeAddress, standstill_s: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Also before a server that is stopped and lets no one in: its queue may be full.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", standstill_s, 0))
        connection.connect(node.socket)
    except OSError:
        connection.close()
        raise
    return connection


def _connect_tcp(node: NodeAddress, standstill_s: int) -> socket.socket:
    if not node.tcp or (is_loopback(node.tcp) and not _is_here(node)):
        raise NodeError(f"BB node {node.name} serves its own host {node.host} only: start it with --listen ADDRESS")
    host, port = split_address(node.tcp)
    connection = socket.create_connection((host, port), TIMEOUT_S)
    try:
        tune(connection)
        # Keepalive only probes idle connections: without this what is sent to a lost host is repeated for 15 minutes.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * standstill_s)
        return peer_context(node.tls).wrap_socket(connection, server_hostname=host) if node.tls else connection
    except ssl.SSLError as error:
        connection.close()
        raise NodeError(f"BB node {node.name}: its certificate isn't accepted: {reason(error)}") from None
    except BaseException:
        connection.close()
        raise
