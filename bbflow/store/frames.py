"""Frames: how every message and every index record lies in bytes (FORMAT.md, 'Frame')."""

import struct
import zlib
from collections.abc import Iterator

import msgpack

from bbflow.errors import ProtocolError
from bbflow.records import Message

HEADER = struct.Struct("<II")
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024


def encode(message: Message) -> bytes:
    """Give the frame of one message.

    Raises
    ------
    ProtocolError
        If it would be longer than a reader accepts.
    """
    payload: bytes = msgpack.packb(message)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ProtocolError(f"a message of {len(payload)} bytes is above the limit of {MAX_PAYLOAD_BYTES}")
    return HEADER.pack(len(payload), zlib.crc32(payload)) + payload


class FrameReader:
    """Takes bytes as they come and gives the messages that are complete."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.consumed_bytes = 0
        """Bytes of the frames given so far."""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add bytes and go through the messages that they complete.

        Raises
        ------
        ProtocolError
            If a frame is too long, damaged, or no map with string keys.
        """
        self._pending += data
        while len(self._pending) >= HEADER.size:
            length, crc = HEADER.unpack_from(self._pending)
            if length > MAX_PAYLOAD_BYTES:
                raise ProtocolError(f"a frame of {length} bytes is above the limit of {MAX_PAYLOAD_BYTES}")
            end = HEADER.size + length
            if len(self._pending) < end:
                return
            payload = bytes(self._pending[HEADER.size : end])
            if zlib.crc32(payload) != crc:
                raise ProtocolError("a frame's checksum doesn't match")
            del self._pending[:end]
            self.consumed_bytes += end
            yield _decode(payload)


def _decode(payload: bytes) -> Message:
    try:
        message = msgpack.unpackb(payload)
    except (ValueError, TypeError, RecursionError) as error:
        raise ProtocolError(f"a frame holds no MessagePack: {error}") from None
    if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
        raise ProtocolError("a frame holds no map with string keys")
    return message
