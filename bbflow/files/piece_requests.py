"""What clients may ask of an IOnode (FORMAT.md, 'Client and IOnode'): checked once, where it comes in."""

from typing import Annotated

from msgspec import Meta, Struct

from bbflow.net.frames import parser
from bbflow.reading.wire_types import Check, Count

MOST_BYTES = 8 << 20
"""The longest range that is read or written by one request."""
Range = Annotated[int, Meta(ge=0, le=MOST_BYTES)]


class ReadRequest(Struct, frozen=True, tag_field="op", tag="read", kw_only=True):
    """Read a range of a piece."""

    key: str
    offset: Count
    bytes: Range


class BeginConnectionRequest(Struct, frozen=True, tag_field="op", tag="begin", kw_only=True):
    """Name a connection, and retire others whose requests are no longer waited for."""

    connection: str
    """Any name that no other one has."""
    without: tuple[str, ...] = ()
    """Connections by which nothing is changed any more once this is answered."""


class WriteRequest(Struct, frozen=True, tag_field="op", tag="write", kw_only=True):
    """Raw bytes follow, which belong into a piece."""

    key: str
    offset: Count
    bytes: Range
    check: Check
    make: bool = False
    """Whether the piece begins with it: what has its name goes, and else it must be there."""


class CutRequest(Struct, frozen=True, tag_field="op", tag="cut", kw_only=True):
    """Truncate a piece; one that is to have no bytes need not be there."""

    key: str
    bytes: Count


class CopyRequest(Struct, frozen=True, tag_field="op", tag="copy", kw_only=True):
    """Copy another piece's first bytes."""

    key: str
    of: str
    bytes: Count


class ReadyRequest(Struct, frozen=True, tag_field="op", tag="ready", kw_only=True):
    """Wait until a range has come from the shared storage."""

    key: str
    offset: Count
    bytes: Count


class UsageRequest(Struct, frozen=True, tag_field="op", tag="status", kw_only=True):
    """Ask how full it is."""


PieceRequest = (
    BeginConnectionRequest | ReadRequest | WriteRequest | CutRequest | CopyRequest | ReadyRequest | UsageRequest
)
parse_piece_request = parser(PieceRequest, "a request")
"""Takes in what a client asks."""
