"""Merging the partial states of shards and nodes into fields."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bbflow.operators import StateLayout
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import Array
from bbflow.operators.fold import fold_tiles
from bbflow.operators.own.guard import collecting
from bbflow.operators.windows import Window
from bbflow.transit.chain.heritage import Inherited, remainder
from bbflow.transit.folding.inner import files_of, inner_step
from bbflow.transit.folding.layouts import by_region, layout_of
from bbflow.transit.folding.shards import ShardState
from bbflow.transit.folding.slots import BASE, OUTER, WindowKey, slots_of
from bbflow.transit.folding.states import combine_files


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial state of a region, in memory: what nodes hand to each other."""

    start: tuple[int, ...]
    """First index in the field."""
    count: tuple[int, ...]
    """Shape of the region."""
    dtype: str
    """NumPy's name of the type of the values after the transforms."""
    state: bytes | bytearray
    """As its `StateLayout` lays it out."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """What failed in users' operators."""


@dataclass(frozen=True, slots=True)
class ReducedSpan:
    """What of a window is to be reduced."""

    window: Window
    """Which window."""
    keys: tuple[WindowKey, ...]
    """Its unit spans, oldest first: several of a running window."""
    inner_ends: bool
    """Whether what `each` makes of the steps so far belongs to it."""
    off: Mapping[str, str]
    """Users' operators that have failed, and are called no more."""


def merge_shards(diagnostic: Diagnostic, span: ReducedSpan, shards: Sequence[ShardState]) -> Partial:
    """Merge what one node has of a window's span; the task runs where the state files are.

    Parameters
    ----------
    diagnostic
        What is computed.
    span
        Which span.
    shards
        Its states on one node; their regions may overlap.

    Returns
    -------
    Partial
        The smallest box around all of them.
    """
    with collecting(span.off) as errors:
        merged = merge(diagnostic, [partial_of(diagnostic, span, shard) for shard in shards])
    return replace(merged, errors=errors)


def merge_remainder(diagnostic: Diagnostic, span: ReducedSpan, inherited: Inherited, directory: str) -> Partial | None:
    """Give what an earlier run has of a window's span, where no shard has taken it over; None if there is nothing.

    Parameters
    ----------
    diagnostic
        What is computed.
    span
        Which span.
    inherited
        What the earlier run has left.
    directory
        For files that end with the task.
    """
    with collecting(span.off) as errors, remainder(diagnostic, inherited, directory) as shard:
        part = None if shard is None else partial_of(diagnostic, span, shard)
    return None if part is None else replace(part, errors=errors)


def partial_of(diagnostic: Diagnostic, span: ReducedSpan, shard: ShardState) -> Partial:
    """Give what one shard has of a window's span."""
    layout = layout_of(diagnostic, OUTER, np.dtype(shard.dtype), shard.count)
    state = bytearray(layout.nbytes)
    combine_files(layout, files_of(shard.files, [*slots_of(OUTER, span.window, span.keys)]), state)
    if shard.keys is not None and shard.keys[span.window.name] in span.keys:
        base = bytearray(layout.nbytes)
        combine_files(layout, files_of(shard.files, [BASE[OUTER]]), base)
        step = inner_step(diagnostic, shard) if span.inner_ends else None
        if step is not None:
            fold_tiles(layout, base, base, step, [None])
        layout.combine(state, base, state)
    return Partial(shard.start, shard.count, shard.dtype, state)


def merge(diagnostic: Diagnostic, parts: Sequence[Partial]) -> Partial:
    """Merge partial states, of regions that may overlap, into one of the smallest box around them."""
    if len(parts) == 1:
        return parts[0]
    start = tuple(min(part.start[axis] for part in parts) for axis in range(len(parts[0].start)))
    end = tuple(max(part.start[axis] + part.count[axis] for part in parts) for axis in range(len(start)))
    count = tuple(last - first for first, last in zip(start, end, strict=True))
    return merge_into(diagnostic, start, count, parts)


def merge_into(
    diagnostic: Diagnostic, start: tuple[int, ...], count: tuple[int, ...], parts: Sequence[Partial]
) -> Partial:
    """Merge partial states into one of a box; what no part covers is without any step."""
    layout = layout_of(diagnostic, OUTER, np.dtype(parts[0].dtype), count)
    whole = bytearray(layout.nbytes)
    layout.clear(whole)
    fields = by_region(layout, whole, count)
    for part in parts:
        own = layout_of(diagnostic, OUTER, np.dtype(part.dtype), part.count)
        merged = bytearray(own.nbytes)
        place: tuple[Any, ...] = (..., *_region(start, part))
        for name, view in by_region(own, merged, part.count).items():
            view[...] = fields[name][place]
        own.combine(merged, part.state, merged)
        for name, view in by_region(own, merged, part.count).items():
            fields[name][place] = view
    return Partial(start, count, parts[0].dtype, whole)


def _region(origin: tuple[int, ...], part: Partial) -> Iterator[slice]:
    for at, first, size in zip(origin, part.start, part.count, strict=True):
        yield slice(first - at, first - at + size)


def finalize(
    diagnostic: Diagnostic, shape: tuple[int, ...], found: Sequence[Partial | None]
) -> tuple[dict[str, Array], dict[str, str]]:
    """Give the fields of a window's span over the whole variable.

    Parameters
    ----------
    diagnostic
        What is computed.
    shape
        Of the field.
    found
        One for each node; what an earlier run has left comes first.

    Returns
    -------
    tuple
        Operator name to an array of `shape`, an operator's own axis before it; points that nobody wrote are as
        without valid values. And what failed in users' operators.
    """
    parts = [part for part in found if part is not None]
    with collecting({name: text for part in parts for name, text in part.errors.items()}) as errors:
        whole = merge_into(diagnostic, (0,) * len(shape), shape, parts)
        layout: StateLayout = layout_of(diagnostic, OUTER, np.dtype(whole.dtype), shape)
        results = {}
        for operator in diagnostic.operators:
            values = operator.finalize(layout, whole.state)
            results[operator.name] = values.reshape((*values.shape[:-1], *shape))
    return results, errors
