"""What an analysis writes for one that takes over: typed, and with a version that says whether it can be read."""

from typing import Any, TypeVar

import msgspec
import numpy as np

from bbflow.errors import ConfigError, DamagedError
from bbflow.net.decoders import msgpack_decoder

VERSION = 3
"""Of all that is written so."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Begins what is written."""

    version: int = VERSION
    """As `VERSION` was."""


class _Versioned(msgspec.Struct):
    version: int


W = TypeVar("W", bound=Written)


def pack(written: object) -> bytes:
    """Return the bytes of something that is written, or of a part of it, in MessagePack."""
    return msgspec.msgpack.encode(written, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Return a number of NumPy's as Python's: times may be such."""
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"a {type(value).__name__} can't be written")


def unpack(packed: bytes, kind: type[W], name: str) -> W:
    """Take bytes that some analysis has written.

    Parameters
    ----------
    packed
        Them.
    kind
        What they are.
    name
        What they are called in a message, such as a file's path.

    Raises
    ------
    ConfigError
        If another version of bbflow has written them.
    DamagedError
        If they are something else.
    """
    try:
        version = msgpack_decoder(_Versioned).decode(packed).version
    except msgspec.DecodeError as error:
        raise DamagedError(f"{name} is damaged: {error}") from None
    if version != VERSION:
        raise ConfigError(
            f"{name} has version {version}, but this bbflow reads version {VERSION}: continue with the bbflow that "
            "began the run, or start again in another output"
        )
    try:
        written: W = msgpack_decoder(kind).decode(packed)
        return written
    except msgspec.ValidationError as error:
        raise DamagedError(f"{name} is damaged: {error}") from None
