"""Frames: how every message and every index record lies in bytes (FORMAT.md, 'Frame')."""

import hmac
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol

import google_crc32c
import msgspec

from bbflow.errors import DamagedError, ProtocolError
from bbflow.net.decoders import msgpack_decoder

LENGTH = struct.Struct("<I")
_CRC = struct.Struct("<I")
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
_ENCODER = msgspec.msgpack.Encoder(enc_hook=lambda value: value.item())  # numbers of NumPy


class Seal(Protocol):
    """What one direction of a connection is checked by; both sides have one each, which count alike."""

    size: int
    """Bytes of what stands in a frame's header."""

    def of_frame(self, payload: bytes) -> bytes:
        """Return what belongs to the next frame."""

    def of_raw(self, raw: memoryview) -> bytes:
        """Return what belongs to the next raw bytes."""


class Checksum:
    """Against damage: for a Unix socket, whose other end the kernel vouches for, and for what lies in a file."""

    size = _CRC.size

    def of_frame(self, payload: bytes) -> bytes:
        """Return the CRC-32 (ISO 3309)."""
        return _CRC.pack(zlib.crc32(payload))

    def of_raw(self, raw: memoryview) -> bytes:
        """Return the CRC-32C (RFC 3720)."""
        import numpy as np  # late: the library takes no memoryview; an array of the same memory it does

        return _CRC.pack(int(google_crc32c.value(np.frombuffer(raw, np.uint8))))


CHECKSUM = Checksum()


def is_intact(seal: Seal, raw: memoryview, told: bytes) -> bool:
    """Whether raw bytes are those that were sent, as their message tells."""
    return hmac.compare_digest(seal.of_raw(raw), told)


def pack(message: msgspec.Struct | msgspec.Raw | Mapping[str, Any]) -> bytes:
    """Return the bytes of one message or record, without their frame."""
    return _ENCODER.encode(message)


def encode(message: msgspec.Struct | msgspec.Raw | Mapping[str, Any], seal: Seal = CHECKSUM) -> bytes:
    """Return the frame of one message or record.

    Parameters
    ----------
    message
        It, or its bytes from `pack`.
    seal
        What it is checked by.

    Raises
    ------
    ProtocolError
        If it would be longer than a reader accepts.
    """
    payload = pack(message)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ProtocolError(
            f"a message of {len(payload)} bytes is above the limit of {MAX_PAYLOAD_BYTES}: if it tells of a stream, "
            "that needs more nodes, or fewer blocks and attributes"
        )
    return LENGTH.pack(len(payload)) + seal.of_frame(payload) + payload


@cache
def parser(kind: Any, what: str) -> Callable[[bytes], Any]:
    """Return what takes messages or records of some kinds in out of their frames.

    It raises a `ProtocolError` for what the format doesn't know, and a `DamagedError` for what isn't MessagePack.

    Parameters
    ----------
    kind
        A struct, or a union of tagged ones.
    what
        What they are, for the error.
    """
    decoder = msgpack_decoder(kind)

    def parse(payload: bytes) -> Any:
        try:
            return decoder.decode(payload)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"{what} that the format doesn't know: {error}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise DamagedError(f"a frame holds no MessagePack: {error}") from None

    return parse


def decode_map(payload: bytes) -> dict[str, Any]:
    """Take any map with string keys in.

    Raises
    ------
    DamagedError
        If it is none.
    """
    try:
        return _MAP.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError) as error:
        raise DamagedError(f"a frame holds no map with string keys: {error}") from None


_MAP = msgspec.msgpack.Decoder(dict[str, Any])


class FrameReader:
    """Takes bytes as they come and gives the messages that are complete, and what lies between them.

    Parameters
    ----------
    max_payload_bytes
        Longest payload that is accepted; it may be changed between two messages.
    decode
        Gives the message of a payload; it may be changed too.
    """

    def __init__(
        self, max_payload_bytes: int = MAX_PAYLOAD_BYTES, decode: Callable[[bytes], Any] = decode_map
    ) -> None:  # fmt: skip
        self.seal: Seal = CHECKSUM
        """What frames are checked by; it may be changed once."""
        self._pending = bytearray()
        self.decode = decode
        """Returns the message of a payload."""
        self.max_payload_bytes = max_payload_bytes
        """Longest payload that is accepted."""
        self.consumed_bytes = 0
        """Bytes of the frames given so far."""

    def add(self, data: bytes | bytearray) -> None:
        """Take bytes in."""
        self._pending += data

    def next(self) -> Any:
        """Return the next message; None if it isn't complete.

        Raises
        ------
        ProtocolError
            If a frame is too long or damaged, or what `decode` raises.
        """
        begin = LENGTH.size + self.seal.size
        if len(self._pending) < begin:
            return None
        (length,) = LENGTH.unpack_from(self._pending)
        if length > self.max_payload_bytes:
            raise DamagedError(f"a frame of {length} bytes is above the limit of {self.max_payload_bytes}")
        end = begin + length
        if len(self._pending) < end:
            return None
        payload = bytes(self._pending[begin:end])
        if not hmac.compare_digest(self.seal.of_frame(payload), bytes(self._pending[LENGTH.size : begin])):
            raise DamagedError("a frame was damaged on its way, or isn't the next one that the other side sent")
        del self._pending[:end]
        self.consumed_bytes += end
        return self.decode(payload)

    @property
    def missing_bytes(self) -> int:
        """How many bytes the message that is coming in still needs at least."""
        begin = LENGTH.size + self.seal.size
        if len(self._pending) < begin:
            return begin - len(self._pending)
        (length,) = LENGTH.unpack_from(self._pending)
        return max(begin + int(length) - len(self._pending), 0)

    def take_raw(self, target: memoryview) -> int:
        """Move raw bytes that came in behind a message to where they belong; return how many."""
        count = min(len(target), len(self._pending))
        target[:count] = self._pending[:count]
        del self._pending[:count]
        return count

    def feed(self, data: bytes) -> Iterator[Any]:
        """Take bytes in and go through the messages that they complete.

        Raises
        ------
        ProtocolError
            As for `next`.
        """
        self.add(data)
        while (message := self.next()) is not None:
            yield message
