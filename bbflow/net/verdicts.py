"""What any server answers, whatever it was asked (FORMAT.md, 'Replies')."""

from msgspec import UNSET, Struct, UnsetType

from bbflow.net.frames import parser
from bbflow.reading.wire_types import Check


class DoneReply(Struct, frozen=True, kw_only=True):
    """It is done."""

    ok: bool = True


class RefusedReply(Struct, frozen=True, kw_only=True):
    """It isn't, and nothing has changed."""

    ok: bool = False
    error: str = "the node refused and gave no reason"


class PoolPart(Struct, frozen=True):
    """A part of the pool that a reader has asked for: it goes out as its bytes behind a `BytesReply`."""

    offset: int
    size: int
    """Bytes."""
    key: bytes = b""
    """By which the reader gets them by libfabric; empty: they are sent."""


class BytesReply(Struct, frozen=True, kw_only=True):
    """Bytes of the pool follow, or lie open."""

    ok: bool = True
    key: bytes | UnsetType = UNSET
    """Base and key by which they are read by libfabric: then they don't follow."""
    bytes: int
    check: Check
    """What they are checked by."""


parse_verdict = parser(RefusedReply, "a reply")
"""Takes of any reply in whether it is a refusal."""
