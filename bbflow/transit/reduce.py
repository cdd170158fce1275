"""Merging the partial states of shards and nodes into fields."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.operators import Operator, StateLayout
from bbflow.transit.fold import combine_files
from bbflow.transit.shards import ShardState

Array = np.ndarray[Any, Any]
Fields = dict[tuple[str, str], Array]


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial state of a region, in memory: what nodes hand to each other."""

    start: tuple[int, ...]
    """First index in the global array."""
    count: tuple[int, ...]
    """Shape of the region."""
    dtype: str
    """NumPy's name of the variable's type."""
    state: bytes | bytearray
    """As its `StateLayout` lays it out."""


def merge_shards(operators: Sequence[Operator], window: str, base: str, shards: Sequence[ShardState]) -> Partial:
    """Merge what one node has of a window; the task runs where the state files are.

    Parameters
    ----------
    operators
        The variable's statistics.
    window
        Name of the window.
    base
        Name of the variable's finest window, whose open span belongs to every window.
    shards
        States of one variable on one node; their regions may overlap.

    Returns
    -------
    Partial
        The smallest box around all of them.
    """
    parts = []
    for shard in shards:
        layout = _layout(operators, shard.dtype, shard.key.count)
        state = bytearray(layout.nbytes)
        closed = [] if window == base else [shard.files.get(window)]
        combine_files(layout, [*closed, shard.files[base]], state)
        parts.append(Partial(shard.key.start, shard.key.count, shard.dtype, state))
    return merge(operators, parts)


def merge(operators: Sequence[Operator], parts: Sequence[Partial]) -> Partial:
    """Merge partial states, of regions that may overlap, into one of the smallest box around them."""
    if len(parts) == 1:
        return parts[0]
    start = tuple(min(part.start[axis] for part in parts) for axis in range(len(parts[0].start)))
    end = tuple(max(part.start[axis] + part.count[axis] for part in parts) for axis in range(len(start)))
    count = tuple(last - first for first, last in zip(start, end, strict=True))
    layout = _layout(operators, parts[0].dtype, count)
    state = bytearray(layout.nbytes)
    layout.clear(state)
    whole = _fields(layout, state, count)
    for part in parts:
        region = tuple(
            slice(first - origin, first - origin + size)
            for first, origin, size in zip(part.start, start, part.count, strict=True)
        )
        _combine_into(operators, whole, region, part)
    return Partial(start, count, parts[0].dtype, state)


def _combine_into(operators: Sequence[Operator], whole: Fields, region: tuple[slice, ...], part: Partial) -> None:
    place: tuple[Any, ...] = (..., *region)
    layout = _layout(operators, part.dtype, part.count)
    merged = bytearray(layout.nbytes)
    for name, view in _fields(layout, merged, part.count).items():
        view[...] = whole[name][place]
    layout.combine(merged, part.state, merged)
    for name, view in _fields(layout, merged, part.count).items():
        whole[name][place] = view


def finalize(operators: Sequence[Operator], shape: tuple[int, ...], parts: Sequence[Partial]) -> dict[str, Array]:
    """Give the fields of a window over the whole variable.

    Parameters
    ----------
    operators
        The variable's statistics.
    shape
        Global shape.
    parts
        One for each node.

    Returns
    -------
    dict
        Operator name to an array of `shape`; points that nobody wrote are as without valid values.
    """
    layout = _layout(operators, parts[0].dtype, shape)
    empty = bytearray(layout.nbytes)
    layout.clear(empty)
    origin = (0,) * len(shape)
    whole = merge(operators, [Partial(origin, shape, parts[0].dtype, empty), *parts])
    return {operator.name: _shaped(operator.finalize(layout, whole.state), shape) for operator in operators}


def _layout(operators: Sequence[Operator], dtype: str, count: tuple[int, ...]) -> StateLayout:
    return StateLayout.of(operators, dtype=np.dtype(dtype), points=int(np.prod(count, dtype=np.int64)))


def _fields(layout: StateLayout, state: Any, count: tuple[int, ...]) -> Fields:
    """Give all fields of a state with the region's shape as their last axes."""
    return {
        (family, name): view.reshape(*view.shape[:-1], *count)
        for family, views in layout.views(state).items()
        for name, view in views.items()
    }


def _shaped(values: Array, shape: tuple[int, ...]) -> Array:
    return values.reshape(*values.shape[:-1], *shape)
