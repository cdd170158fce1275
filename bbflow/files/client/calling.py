"""Talking to a master or an IOnode: one connection, one request at a time, errors as `OSError`."""

import errno
import secrets
import select
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from bbflow.errors import NodeError, printable
from bbflow.files.commands import IonodeAddress
from bbflow.files.piece_requests import BeginConnectionRequest, ReadRequest, WriteRequest
from bbflow.files.replies import FileReply, parse_verdict
from bbflow.net.connection import ATTEMPTS, NodeConnection, ReplyT
from bbflow.net.contact import NodeAddress

SILENCE_S = 10.0
"""How long a server may leave a request without reply before it is looked whether it still lets anybody in."""


class Gone(NodeError):  # noqa: N818 - it may come back
    """A connection broke: its other end may come back."""


class UnansweredError(OSError):
    """Nobody knows what became of a request: its reply never came."""


class Caller(NodeConnection):
    """A connection to a master or an IOnode. One that doesn't reply is waited for while it lets others in, no longer.

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
    gone = Gone
    kind = "the master"
    """What it is a connection to."""
    _replies = False

    def __init__(self, address: NodeAddress) -> None:
        super().__init__(address)
        # A request may wait for others, as an open does for a writer's close: how long, the master decides.
        self._socket.settimeout(None)
        self._replies = True

    def _wait(self) -> None:
        """Wait for what comes: that may take long where others are waited for, from who is stopped it never does."""
        if not self._replies or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            return
        coming = select.poll()
        coming.register(self._socket, select.POLLIN)
        while not coming.poll(SILENCE_S * 1000):
            try:
                NodeConnection(self.node).close()
            except NodeError as error:
                raise Gone(f"{self.kind} {self.node.name} has been silent for {SILENCE_S:.0f} s: {error}") from None

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
        return self.request(asked, kind, within_s=None)

    def send(self, message: Struct) -> None:
        """Send a message that has no reply.

        Raises
        ------
        Gone
            If the connection broke.
        """
        self._send(message)

    def _accept(self, payload: bytes) -> None:
        verdict = parse_verdict(payload)
        if not verdict.ok:
            raise OSError(verdict.errno, printable(verdict.error))

    def decode_by(self, decode: Callable[[bytes], Any]) -> None:
        """Take in what comes from now on as something else than replies, which may be long in coming."""
        self._replies = False
        self._reader.decode = decode

    def receive(self) -> Any:
        """Wait for the next message.

        Raises
        ------
        Gone
            If the connection broke.
        """
        try:
            return self._hear()
        except OSError as error:
            raise self._is_gone(error) from None


class IonodeCaller(Caller):
    """A connection to an IOnode.

    Parameters
    ----------
    address
        Where it is.

    Raises
    ------
    NodeError
        As `Caller`.
    """

    kind = "IOnode"

    def __init__(self, address: NodeAddress) -> None:
        super().__init__(address)
        self.name = secrets.token_hex(8)
        """What `begin` calls it."""

    def read(self, key: str, offset: int, target: memoryview) -> int:
        """Read a range of a piece, at most `MOST_BYTES`; return how many bytes there were.

        Raises
        ------
        OSError, Gone
            As `call`; EIO if the bytes arrive damaged again and again.
        """
        count = self.fetch(ReadRequest(key=key, offset=offset, bytes=len(target)), target, within_s=None)
        if count is None:
            raise self._damaged("from", len(target))
        return count

    def begin(self, without: Iterable[str]) -> None:
        """Give the connection its name, at an IOnode, and let nothing be changed there any more by others."""
        self.call(BeginConnectionRequest(connection=self.name, without=tuple(without)), FileReply)

    def write(self, key: str, offset: int, content: memoryview, *, make: bool = False) -> None:
        """Write a range of a piece, at most `MOST_BYTES`; with `make` the piece begins with it.

        Raises
        ------
        OSError, Gone
            As `read`.
        """
        for _ in range(ATTEMPTS):
            check = self._seal.of_raw(content)
            self._send(WriteRequest(key=key, offset=offset, bytes=len(content), check=check, make=make), content)
            try:
                self.answer(FileReply)
                return
            except OSError as error:
                if error.errno != errno.EBADMSG:
                    raise
        raise self._damaged("to", len(content))

    def _damaged(self, way: str, size: int) -> OSError:
        return OSError(errno.EIO, f"{size} bytes {way} IOnode {self.node.name} arrived damaged {ATTEMPTS} times")


def address_of(told: IonodeAddress, key: str) -> NodeAddress:
    """Return the address of an IOnode as its master tells it."""
    return NodeAddress(told.name, told.host, told.socket, told.directory, key, told.tcp, told.tls)


def is_here(told: IonodeAddress) -> bool:
    """Whether an IOnode is on this host."""
    return told.host == socket.gethostname()
