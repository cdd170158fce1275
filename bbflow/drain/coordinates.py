"""Coordinates of the stores: the 1-D variables of a step that are named as a dimension."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from bbflow.operators.decoding import written_fill
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.puts import seen
from bbflow.stream.records import Block
from bbflow.view.layout import PlacedBlock, fill_of

Array = np.ndarray[Any, Any]


class CoordinateStep(Protocol):
    """A step whose variables can be read."""

    @property
    def placed(self) -> Sequence[PlacedBlock]:
        """Its blocks."""

    def whole(self, names: Sequence[str]) -> list[Array]:
        """Read variables that are there."""


class CoordinateStore(Protocol):
    """A store that keeps coordinate variables."""

    def is_coordinate(self, name: str) -> bool:
        """Whether a coordinate variable of this name is there."""

    def add_coordinate(self, name: str, values: Array, *, hole: Any = None) -> None:
        """Write a coordinate variable; what stands in holes is named, unless the stream names such a value."""


def write_coordinates(first: CoordinateStep, stores: Sequence[CoordinateStore], attributes: StreamAttributes) -> None:
    """Copy the coordinate variables (1-D, named as a dimension) of a step into the stores that lack them."""
    arrays = [block for _, block in first.placed if block.kind == "GlobalArray"]
    forms: dict[str, set[tuple[str, tuple[int, ...]]]] = {}
    for block in arrays:
        forms.setdefault(block.name, set()).add((block.type, block.shape))
    axes = {name for name, own in forms.items() if len(own) == 1 and all(len(shape) == 1 for _, shape in own)}
    dims = {
        dim for block in arrays for dim in attributes.dimensions(block.name, attributes.grid(block.name, block.shape))
    }
    lacking = {dim: [store for store in stores if not store.is_coordinate(dim)] for dim in sorted(dims & axes)}
    wanted = [dim for dim, those in lacking.items() if those]
    for dim, values in zip(wanted, first.whole(wanted), strict=True):
        is_hole = _holes([block for block in arrays if block.name == dim])
        hole = fill_of(written_fill(attributes.encoding(dim), values.dtype), values.dtype) if is_hole.any() else None
        whole = values if hole is None else np.where(is_hole, hole, values)
        for store in lacking[dim]:
            store.add_coordinate(dim, whole, hole=hole if values.dtype.kind in "iu" else None)


def _holes(blocks: Sequence[Block]) -> Array:
    """Return which points of a 1-D array are in none of its blocks."""
    found = np.ones(blocks[0].shape, bool)
    for block in blocks:
        found[block.start[0] : block.start[0] + block.count[0]] = False
    return found


def is_same(whole: Array, blocks: Sequence[tuple[Array, Block]]) -> bool:
    """Whether what a step has of a coordinate is what is known of it, bit for bit.

    Parameters
    ----------
    whole
        What is known.
    blocks
        All that the step has, with their values; where they overlap the last Put counts (`puts.seen`).
    """
    if any(block.kind not in ("GlobalArray", "GlobalValue") or block.shape != whole.shape for _, block in blocks):
        return False
    found = whole.copy()
    for values, block in seen(blocks):
        if values.dtype != whole.dtype:
            return False
        place = tuple(slice(begin, begin + count) for begin, count in zip(block.start, block.count, strict=True))
        found[place] = values
    return found.tobytes() == whole.tobytes()
