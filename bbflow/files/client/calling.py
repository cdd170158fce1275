"""Talking to a master or an IOnode: one connection, one request at a time, errors as `OSError`."""

import errno
import socket
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from bbflow.errors import NodeError, printable
from bbflow.files.commands import IonodeAddress
from bbflow.files.piece_requests import ReadRequest, WriteRequest
from bbflow.files.replies import FileReply, parse_verdict
from bbflow.net.connection import ATTEMPTS, NodeConnection, ReplyT
from bbflow.net.contact import NodeAddress
from bbflow.net.frames import parser
from bbflow.net.verdicts import BytesReply

READ_BYTES = 64 << 10


class Gone(NodeError):  # noqa: N818 - it may come back
    """A connection broke: its other end may come back."""


class Caller(NodeConnection):
    """A connection to a master or an IOnode.

    Parameters
    ----------
    address
        Where it is.

    Raises
    ------
    NodeError
        If nothing listens there, or not who should.
    """

    standstill_s = 60  # what is written to an IOnode fills a window: it may be stopped for a while

    def __init__(self, address: NodeAddress) -> None:
        super().__init__(address)
        self._socket.settimeout(None)

    def call(self, asked: Struct, kind: type[ReplyT]) -> ReplyT:
        """Send a request and return its reply.

        Parameters
        ----------
        asked
            It.
        kind
            What its reply is, if it isn't refused.

        Raises
        ------
        OSError
            If it is refused, with the errno of the reply.
        Gone
            If the connection broke.
        ProtocolError
            If its reply isn't one of the format.
        """
        self.send(asked)
        return self.reply(kind)

    def send(self, message: Struct, raw: memoryview | None = None) -> None:
        """Send a message, and raw bytes behind it.

        Raises
        ------
        Gone
            If the connection broke.
        """
        try:
            self._say(message)
            if raw is not None:
                self._socket.sendall(raw)
        except OSError as error:
            raise Gone(f"{self.node.name} is gone ({error})") from None

    def reply(self, kind: type[ReplyT]) -> ReplyT:
        """Wait for the reply to the oldest request.

        Raises
        ------
        OSError, Gone, ProtocolError
            As `call`.
        """
        payload = self.receive()
        verdict = parse_verdict(payload)
        if not verdict.ok:
            raise OSError(verdict.errno, printable(verdict.error))
        reply: ReplyT = parser(kind, "a reply")(payload)
        return reply

    def decode_by(self, decode: Callable[[bytes], Any]) -> None:
        """Take in what comes from now on as something else than replies."""
        self._reader.decode = decode

    def receive(self, timeout_s: float | None = None) -> Any:
        """Wait for the next message.

        Raises
        ------
        Gone
            If the connection broke.
        TimeoutError
            If none came in time.
        """
        try:
            if timeout_s is not None:
                self._socket.settimeout(timeout_s)
            while (message := self._reader.next()) is None:
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise Gone(f"{self.node.name} closed the connection")
                self._reader.add(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise Gone(f"{self.node.name} is gone ({error})") from None
        finally:
            if timeout_s is not None:
                self._settimeout_none()
        return message

    def _settimeout_none(self) -> None:
        if self._socket.fileno() >= 0:
            self._socket.settimeout(None)

    def read(self, key: str, offset: int, target: memoryview) -> int:
        """Read a range of a piece, at most `MOST_BYTES`; return how many bytes there were.

        Raises
        ------
        OSError, Gone
            As `call`; EIO if the bytes arrive damaged again and again.
        """
        for _ in range(ATTEMPTS):
            reply = self.call(ReadRequest(key=key, offset=offset, bytes=len(target)), BytesReply)
            part = target[: reply.bytes]
            try:
                self._receive_raw(part)
            except NodeError as error:
                raise Gone(str(error)) from None
            if self._is_intact(part, reply.check):
                return len(part)
        raise OSError(errno.EIO, f"{len(target)} bytes from IOnode {self.node.name} arrived damaged {ATTEMPTS} times")

    def write(self, key: str, offset: int, content: memoryview) -> None:
        """Write a range of a piece, at most `MOST_BYTES`.

        Raises
        ------
        OSError, Gone
            As `read`.
        """
        for _ in range(ATTEMPTS):
            self.send(
                WriteRequest(key=key, offset=offset, bytes=len(content), check=self._seal.of_raw(content)), content
            )
            try:
                self.reply(FileReply)
                return
            except OSError as error:
                if error.errno != errno.EBADMSG:
                    raise
        raise OSError(errno.EIO, f"{len(content)} bytes to IOnode {self.node.name} arrived damaged {ATTEMPTS} times")


def address_of(told: IonodeAddress, key: str) -> NodeAddress:
    """Return the address of an IOnode as its master tells it."""
    return NodeAddress(told.name, told.host, told.socket, told.directory, key, told.tcp, told.tls)


def is_here(told: IonodeAddress) -> bool:
    """Whether an IOnode is on this host."""
    return told.host == socket.gethostname()
