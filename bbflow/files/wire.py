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
Keys = tuple[tuple[str, Whole], ...]
"""Piece files, with their bytes."""
