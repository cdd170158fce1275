"""An IOnode's side of one client's connection, with waiting: frames, raw bytes, handshake, TLS."""

import errno
import math
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from bbflow.errors import ProtocolError
from bbflow.files.piece_requests import PieceRequest, parse_piece_request
from bbflow.host.closable import Closable
from bbflow.net.frames import CHECKSUM, MAX_PAYLOAD_BYTES, FrameReader, Seal, encode, is_intact
from bbflow.net.handshake import MAX_FRAME_BYTES, NodeHandshake, WelcomeReply, parse_handshake
from bbflow.net.verdicts import BytesReply, RefusedReply

READ_BYTES = 64 << 10


class Conversation(Closable):
    """A client that has proved itself.

    Parameters
    ----------
    peer
        Its socket.
    key
        The contact file's key.
    identity
        Who the node is.
    tls
        For a TCP socket with TLS.
    timeout_s
        How long all of its proof may take.

    Raises
    ------
    ProtocolError
        If it doesn't prove itself in time.
    OSError
        If it is gone.
    """

    def __init__(
        self, peer: socket.socket, key: str, identity: WelcomeReply, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self._socket, self._deadline_s = peer, time.monotonic() + timeout_s
        self._reader = FrameReader(MAX_FRAME_BYTES, parse_handshake)
        self._seal: Seal = CHECKSUM
        self._changing, self._is_retired = threading.Lock(), False
        self.name = ""
        """What its client calls it, once it has said."""
        try:
            self._hurry()
            if tls is not None:
                self._socket = tls.wrap_socket(peer, server_side=True)
            self._shake_hands(NodeHandshake(key, identity))
            self._deadline_s = math.inf
            # From here on a client may be silent for as long as it likes.
            self._socket.settimeout(None)
        except TimeoutError:
            self._socket.close()
            raise ProtocolError(f"it didn't prove itself within {timeout_s:.1f} s") from None
        except BaseException:
            self._socket.close()
            raise

    def _hurry(self) -> None:
        """Limit the next call's wait to what the peer has left for its proof: it may send byte by byte."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def _shake_hands(self, handshake: NodeHandshake) -> None:
        while not handshake.done:
            message = self._next()
            if message is None:
                raise ProtocolError("it left before it proved itself")
            reply = handshake.answer(message)
            if handshake.done and self._socket.family != socket.AF_UNIX:
                self._reader.seal, self._seal = handshake.seals()  # what lets it in is sealed already
            self.send(reply)
            if isinstance(reply, RefusedReply):
                raise ProtocolError(reply.error)
        # Only now: a peer that hasn't proved itself can't make this process hold more than a frame of the handshake.
        self._reader.max_payload_bytes, self._reader.decode = MAX_PAYLOAD_BYTES, parse_piece_request

    def receive(self) -> PieceRequest | None:
        """Wait for the next request; None if the client has left.

        Raises
        ------
        ProtocolError
            If what comes is none.
        OSError
            If the connection broke.
        """
        asked: PieceRequest | None = self._next()
        return asked

    def _next(self) -> Any:
        while (message := self._reader.next()) is None:
            if self._deadline_s < math.inf:
                self._hurry()
            data = self._socket.recv(READ_BYTES)
            if not data:
                return None
            self._reader.add(data)
        return message

    def receive_raw(self, size: int, check: bytes) -> tuple[memoryview, bool]:
        """Wait for raw bytes; return them, and whether they are those that were sent, as their message tells.

        Raises
        ------
        OSError
            If the connection broke.
        """
        target = memoryview(bytearray(size))
        filled = self._reader.take_raw(target)
        while filled < size:
            count = self._socket.recv_into(target[filled:])
            if not count:
                raise ConnectionResetError("the client left within its bytes")
            filled += count
        return target, is_intact(self._reader.seal, target, check)

    def send(self, message: Struct) -> None:
        """Send a message.

        Raises
        ------
        OSError
            If the connection broke.
        """
        self._socket.sendall(encode(message, self._seal))

    def send_raw(self, content: bytes) -> None:
        """Send a reply with raw bytes behind it.

        Raises
        ------
        OSError
            If the connection broke.
        """
        view = memoryview(content)
        self.send(BytesReply(bytes=len(view), check=self._seal.of_raw(view)))
        self._socket.sendall(view)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold while a request changes a piece.

        Raises
        ------
        OSError
            ESTALE if its client has said by another connection that it waits for none of this one's requests.
        """
        with self._changing:
            if self._is_retired:
                raise OSError(errno.ESTALE, "this connection's client has gone on without it")
            yield

    def retire(self) -> None:
        """Change nothing more by this connection, once what is being changed is done."""
        with self._changing:
            self._is_retired = True

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
