"""Types of what clients, masters and IOnodes say to each other about files (FORMAT.md)."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bbflow.errors import DamagedError, ProtocolError
from bbflow.wire import MAX_INTEGER

Whole = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
"""A number that fits where it is stored."""
Pairs = tuple[tuple[Whole, Whole], ...]
"""Pairs of numbers: a version's pieces, slots and their requests."""
Sizes = dict[str, Whole]
"""Numbers by name."""
Keys = tuple[tuple[str, Whole], ...]
"""Piece files, with their bytes."""


def parser(kind: Any) -> Callable[[bytes], Any]:
    """Give what takes messages of some kinds in out of their frames.

    It raises a `ProtocolError` for what the format doesn't know, whose peer must be cut off, and a `DamagedError` for
    what is no message at all.
    """
    decoder = msgspec.msgpack.Decoder(kind)

    def parse(payload: bytes) -> Any:
        try:
            return decoder.decode(payload)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"a message that the format doesn't know: {error}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise DamagedError(f"a frame holds no MessagePack: {error}") from None

    return parse
