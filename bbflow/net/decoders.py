"""Decoders of structs, made one at a time.

What msgspec derives from a struct it shows to other threads before that is complete: two that made a decoder of the
same struct, or of one within it, at the same time crashed the process (seen with 0.22).
"""

import threading
from functools import cache
from typing import Any

import msgspec

# msgspec shows other threads what it derives from a struct before that is complete: some crashed.
_MAKING = threading.Lock()


def msgpack_decoder(kind: Any) -> "msgspec.msgpack.Decoder[Any]":
    """Return what decodes some type, or a union of them, from MessagePack."""
    with _MAKING:
        return _msgpack_decoder(kind)


def json_decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    """Return what decodes some type from JSON."""
    with _MAKING:
        return _json_decoder(kind)


@cache
def _msgpack_decoder(kind: Any) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(kind)


@cache
def _json_decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind)
