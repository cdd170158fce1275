"""Types of what clients, masters and IOnodes say to each other about files (FORMAT.md)."""

from typing import Annotated

from msgspec import Meta, Struct

from bbflow.reading import wire_types as wire

Whole = wire.Whole
Pairs = tuple[tuple[Whole, Whole], ...]
"""Pairs of numbers: a version's pieces, slots and their requests."""
Seen = tuple[Whole, str] | None
"""Size and version of an object, as the shared storage told them; None for no object."""
Sizes = dict[str, Whole]
"""Numbers by name."""
# Checked while it is decoded: it becomes a file's name.
PieceKey = Annotated[str, Meta(pattern=r"^[1-9a-f][0-9a-f]{0,15}\.(?:0|[1-9a-f][0-9a-f]{0,11})\Z")]
"""Name of a piece's file: its version and its number."""
Keys = tuple[tuple[PieceKey, Whole], ...]
"""Piece files, with their bytes."""


class Attr(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What clients are told of an inode, as a directory's entry or by itself (FORMAT.md, 'Attributes')."""

    ino: Whole
    kind: str
    """`f`, `d` or `l`."""
    mode: Whole
    uid: Whole
    gid: Whole
    size: Whole
    atime_ns: Whole
    mtime_ns: Whole
    ctime_ns: Whole
    nlink: Whole
    version: Whole
    state: str
    """Where a file's bytes are; empty for what isn't a file."""
    master: Whole = 0
    """Number of the master where it continues; 0 for this one."""
