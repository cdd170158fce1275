"""One peer's connection as the node sees it: frames and raw bytes, without waiting."""

import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import UNSET, Raw, Struct

from bbflow.net.frames import CHECKSUM, MAX_PAYLOAD_BYTES, FrameReader, Seal, encode, is_intact
from bbflow.net.handshake import MAX_FRAME_BYTES, HelloMessage, NodeHandshake, ProveMessage, parse_handshake
from bbflow.net.verdicts import BytesReply, PoolPart, RefusedReply

READ_BYTES = 4096
"""Asked for where a message is expected: what follows it in the same read is copied a second time."""
MAX_READ_BYTES = 1 << 20
WAKE_BYTES = 256 << 10
"""How many raw bytes are waited for in one sleep, if as many are to come."""
TURN_BYTES = 16 << 20
"""After this many raw bytes it is another connection's turn."""
CHOKED_BYTES = 1 << 20
"""So much may wait for a peer to read it before what it asks is left unread."""
A = TypeVar("A")
R = TypeVar("R")
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(frozen=True, slots=True)
class Landed:
    """Raw bytes have come in and lie in the pool."""

    offset: int
    """Where."""
    intact: bool
    """Whether they are those that were sent."""


class GoneError(Exception):
    """The peer is not there any more."""

    def __init__(self, *, by_itself: bool) -> None:
        super().__init__()
        self.by_itself = by_itself
        """Whether it has ended; otherwise the network broke and it may come back."""


class Link:
    """A peer's socket with what is half read and half written.

    Parameters
    ----------
    peer
        The socket.
    handshake
        What it must pass before anything else.
    pool
        Gives where raw bytes land, and come from.
    turn_bytes
        How much is taken in before other peers have their turn.
    """

    def __init__(
        self,
        peer: socket.socket,
        handshake: NodeHandshake,
        pool: Callable[[], memoryview],
        turn_bytes: int = TURN_BYTES,
    ) -> None:
        peer.setblocking(False)
        self.socket = peer
        self.handshake = handshake
        self._pool, self._turn_bytes = pool, turn_bytes
        self._reader = FrameReader(MAX_FRAME_BYTES, parse_handshake)
        self._seal: Seal = CHECKSUM
        self._unsent: list[memoryview] = []
        self._is_broken = False
        self._landing: memoryview | None = None
        self._expected = (0, b"")
        self._filled_bytes = 0

    def trust(self, decode: Callable[[bytes], Any]) -> None:
        """Accept requests of any length, now that the peer has proved itself; over TCP what follows is sealed."""
        if self.socket.family != socket.AF_UNIX:
            self._reader.seal, self._seal = self.handshake.seals()
        self._reader.max_payload_bytes, self._reader.decode = MAX_PAYLOAD_BYTES, decode

    def expect(self, offset: int, size: int, check: bytes) -> None:
        """Set where the raw bytes that follow the last message go."""
        self._expected = (offset, check)
        self._landing, self._filled_bytes = self._pool()[offset : offset + size], 0

    def has(self, offset: int, size: int, check: bytes) -> bool:
        """Whether a part of the pool is what the peer has written there by another way."""
        return is_intact(self._reader.seal, self._pool()[offset : offset + size], check)

    def receive(self) -> Iterator[Any]:
        """Iterate over what has come in.

        Raises
        ------
        GoneError
            If the peer is not there any more.
        ProtocolError
            If it sent something that isn't a frame.
        """
        budget_bytes, is_drained = self._turn_bytes, False
        while budget_bytes > 0 and not self.is_choked:
            if self._landing is not None:
                before_bytes = self._filled_bytes
                landed = self._fill(self._landing)
                budget_bytes -= self._filled_bytes - before_bytes
                if landed is None:
                    return
                is_drained = False
                yield landed
            elif (message := self._reader.next()) is not None:
                yield message
            elif is_drained:
                return
            else:
                is_drained = not self._read_more()

    @property
    def has_unread(self) -> bool:
        """Whether something is here already that the socket will not announce again."""
        return not self._reader.missing_bytes or (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0)

    def _read_more(self) -> bool:
        """Read what is here, and return whether there may be more: asking again would be another system call."""
        size = min(max(READ_BYTES, self._reader.missing_bytes), MAX_READ_BYTES)
        data = self._read(self.socket.recv, size)
        if data:
            self._reader.add(data)
        return data is not None and len(data) == size

    def _fill(self, target: memoryview) -> Landed | None:
        if not self._filled_bytes:
            self._filled_bytes = self._reader.take_raw(target)
        while self._filled_bytes < len(target):
            count = self._read(self.socket.recv_into, target[self._filled_bytes :])
            if not count:
                self._wake_at(len(target) - self._filled_bytes)
                return None
            self._filled_bytes += count
        self._landing = None
        self._wake_at(1)
        offset, check = self._expected
        return Landed(offset, intact=is_intact(self._reader.seal, target, check))

    def _wake_at(self, count: int) -> None:
        """Sleep until this many bytes are there: waking for each packet costs more than moving its bytes."""
        # Not with TLS: OpenSSL may hold a part of them already, and the kernel would wait for bytes that never come.
        if self.socket.family != socket.AF_UNIX and not isinstance(self.socket, ssl.SSLSocket):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(count, WAKE_BYTES))

    def _read(self, receive: Callable[[A], R], argument: A) -> R | None:
        """Read what is here; None if nothing is."""
        try:
            received: R | None = receive(argument)
        except WOULD_BLOCK:
            return None
        except OSError:
            self._is_broken = True
            received = None
        if not received:
            # On its own host no network breaks: it has ended, with something unread.
            raise GoneError(by_itself=not self._is_broken or self.socket.family == socket.AF_UNIX)
        return received

    def send(self, message: Struct | Raw) -> None:
        """Send a message, or a part of the pool behind one, as far as the socket takes it now."""
        if isinstance(message, PoolPart):
            raw = self._pool()[message.offset : message.offset + message.size]
            reply = BytesReply(bytes=message.size, check=self._seal.of_raw(raw), key=message.key or UNSET)
            self._unsent += [memoryview(encode(reply, self._seal)), *([] if message.key else [raw])]
        else:
            self._unsent.append(memoryview(encode(message, self._seal)))
        self.flush()

    @property
    def unsent_bytes(self) -> int:
        """How much waits for the socket."""
        return sum(map(len, self._unsent))

    @property
    def is_choked(self) -> bool:
        """Whether the peer is to read what it was sent before anything that it asks is looked at."""
        return self.unsent_bytes > CHOKED_BYTES

    def flush(self) -> None:
        """Send what the socket takes now."""
        while self._unsent:
            try:
                sent = self.socket.send(self._unsent[0])
            except WOULD_BLOCK:
                return
            except OSError as error:
                self._unsent.clear()  # the peer is gone: its end shows at the next read
                # What broke the connection is told once, here: the next read sees but an end, as after a close.
                self._is_broken = self._is_broken or error.errno != errno.EPIPE
                return
            self._unsent[0] = self._unsent[0][sent:]
            if not self._unsent[0]:
                del self._unsent[0]


def answer_handshake(link: Link, message: HelloMessage | ProveMessage, decode: Callable[[bytes], Any]) -> str | None:
    """Take a message of a peer that has not proved itself; give why it is refused, if it is.

    Parameters
    ----------
    link, message
        Whose, and what.
    decode
        Takes in what comes after the handshake.
    """
    reply = link.handshake.answer(message)
    if link.handshake.done:
        link.trust(decode)  # what lets it in is sealed already
    link.send(reply)
    return reply.error if isinstance(reply, RefusedReply) else None
