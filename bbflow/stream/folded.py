"""How states lie that ranks have folded of their blocks (FORMAT.md, 'Plan')."""

import struct
from zlib import crc32

ACCUMULATORS = ("count", "shift", "first", "second", "min", "max")
"""In the order of their bits, which is the kernel's."""
MEAN = ("count", "shift", "first")
"""Those that a mean is made of."""
COUNTS = "counts"
"""A histogram's, behind them."""
ALIGNMENT = 64
"""Each begins at a multiple of this many bytes."""
WIDTHS = {"count": 4, "first": 8, "second": 8}
"""Bytes of a number of those whose type isn't the values'."""

ROWS_BIT, EDGES_BIT = 8, 32
MOST_ROWS = 1 << 16


def folded_of(accumulators: int, edges: tuple[float, ...] = ()) -> int:
    """Return the number that says what a state has: accumulators, rows of a histogram's counts, and a check of edges.

    Parameters
    ----------
    accumulators
        Bit i stands for the i-th of `ACCUMULATORS`.
    edges
        Of the histogram's bins; none without one.
    """
    rows = len(edges) + 1 if edges else 0
    check = crc32(struct.pack(f"<{len(edges)}d", *edges)) >> 1 if edges else 0
    return accumulators | rows << ROWS_BIT | check << EDGES_BIT


def rows_of(folded: int) -> int:
    """Return how many rows of a histogram's counts a state has."""
    return folded >> ROWS_BIT & (2 * MOST_ROWS - 1)


def state_places(fields: int, item_bytes: int, points: int) -> tuple[dict[str, int], int]:
    """Return where the accumulators of a state begin in its block, and the bytes of all.

    Parameters
    ----------
    fields
        What it has, as `folded_of` says.
    item_bytes
        Of a value.
    points
        How many there are of each.
    """
    places: dict[str, int] = {}
    end = 0
    for bit, name in enumerate(ACCUMULATORS):
        if fields >> bit & 1:
            places[name] = end
            end += -(-points * WIDTHS.get(name, item_bytes) // ALIGNMENT) * ALIGNMENT
    if rows := rows_of(fields):
        places[COUNTS] = end
        end += -(-points * rows * 4 // ALIGNMENT) * ALIGNMENT
    return places, end
