"""How states lie that ranks have folded of their blocks (FORMAT.md, 'Plan')."""

ACCUMULATORS = ("count", "shift", "first", "second", "min", "max")
"""In the order of their bits, which is the kernel's."""
ALIGNMENT = 64
"""Each begins at a multiple of this many bytes."""
WIDTHS = {"count": 4, "first": 8, "second": 8}
"""Bytes of a number of those whose type isn't the values'."""


def state_places(fields: int, item_bytes: int, points: int) -> tuple[dict[str, int], int]:
    """Return where the accumulators of a state begin in its block, and the bytes of all.

    Parameters
    ----------
    fields
        Which there are: bit i stands for the i-th of `ACCUMULATORS`.
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
    return places, end
