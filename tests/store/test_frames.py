import struct
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ProtocolError
from bbflow.net.frames import MAX_PAYLOAD_BYTES, FrameReader, encode

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
messages = st.dictionaries(st.text(), values, max_size=5)


@given(st.lists(messages, max_size=5), st.integers(1, 50))
def test_messages_come_back_as_they_were_however_the_bytes_are_cut(sent, piece):
    data = b"".join(encode(message) for message in sent)
    reader = FrameReader()
    received = [
        message for at in range(0, len(data), piece) for message in reader.feed(data[at : at + piece])
    ]  # fmt: skip
    assert received == sent
    assert reader.consumed_bytes == len(data)


@given(messages, st.data())
def test_a_changed_bit_of_the_payload_never_passes(message, data):
    frame = bytearray(encode(message))
    bit = data.draw(st.integers(4 * 8, len(frame) * 8 - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ProtocolError, match="damaged"):
        list(FrameReader().feed(bytes(frame)))


def test_a_length_above_the_limit_is_refused_before_its_bytes_come():
    header = struct.pack("<II", MAX_PAYLOAD_BYTES + 1, 0)
    with pytest.raises(ProtocolError, match="above the limit"):
        list(FrameReader().feed(header))


def test_a_message_above_the_limit_is_not_sent():
    with pytest.raises(ProtocolError, match="above the limit"):
        encode({"data": bytes(MAX_PAYLOAD_BYTES)})


@pytest.mark.parametrize(
    "payload",
    [msgspec.msgpack.encode([1, 2]), msgspec.msgpack.encode({1: 2}), msgspec.msgpack.encode("text"), b"\xc1", b""],
)
def test_a_payload_that_is_no_map_with_string_keys_is_refused(payload):
    frame = struct.pack("<II", len(payload), zlib.crc32(payload)) + payload
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(frame))


def test_a_frame_is_length_and_checksum_and_payload_in_little_endian():
    payload = msgspec.msgpack.encode({"op": "abort"})
    assert encode({"op": "abort"}) == struct.pack("<II", len(payload), zlib.crc32(payload)) + payload
