"""Types of what clients, masters and IOnodes say to each other about files (FORMAT.md)."""

from typing import Annotated

from msgspec import Meta

from bbflow.wire import MAX_INTEGER

Whole = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
"""A number that fits where it is stored."""
Pairs = tuple[tuple[Whole, Whole], ...]
"""Pairs of numbers: a version's pieces, slots and their requests."""
Sizes = dict[str, Whole]
"""Numbers by name."""
PieceKey = Annotated[str, Meta(pattern=r"^[1-9a-f][0-9a-f]{0,15}\.(?:0|[1-9a-f][0-9a-f]{0,11})\Z")]
"""Name of a piece's file: its version and its number."""
Keys = tuple[tuple[PieceKey, Whole], ...]
"""Piece files, with their bytes."""
