"""Merging the partial states of shards and nodes into fields."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bbflow.operators import StateLayout
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import Array
from bbflow.operators.fold import fold_tiles
from bbflow.operators.own.guard import collecting
from bbflow.operators.windows import Window
from bbflow.transit.folding.inherited import Inherited, remainder
from bbflow.transit.folding.inner import files_of, inner_step
from bbflow.transit.folding.layouts import by_region, layout_of
from bbflow.transit.folding.shards import Region, ShardState
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
        if len(shards) == 1:
            merged = partial_of(diagnostic, span, shards[0])
        else:
            parts = (partial_of(diagnostic, span, shard) for shard in shards)
            merged = merge_into(diagnostic, *box_around([shard.region for shard in shards]), shards[0].dtype, parts)
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


def box_around(regions: Sequence[Region]) -> Region:
    """Give the smallest box around some regions."""
    start = tuple(map(min, zip(*(first for first, _ in regions), strict=True)))
    ends = [tuple(at + size for at, size in zip(first, count, strict=True)) for first, count in regions]
    return start, tuple(max(all_) - first for first, all_ in zip(start, zip(*ends, strict=True), strict=True))


def merge_into(
    diagnostic: Diagnostic, start: tuple[int, ...], count: tuple[int, ...], dtype: str, parts: Iterable[Partial]
) -> Partial:
    """Merge partial states, of regions that may overlap, into one of a box; what none covers is without any step.

    It holds the whole and, one after the other, each part and what both come to: never more than three times the whole.
    """
    layout = layout_of(diagnostic, OUTER, np.dtype(dtype), count)
    whole = bytearray(layout.nbytes)
    layout.clear(whole)
    fields = by_region(layout, whole, count)
    for part in parts:
        _merge_part(diagnostic, fields, (..., *_region(start, part)), part)
        del part  # before the next one is made
    return Partial(start, count, dtype, whole)


def _merge_part(
    diagnostic: Diagnostic, fields: Mapping[tuple[str, str], Array], place: tuple[Any, ...], part: Partial
) -> None:
    """Merge a part into its place in the whole's fields."""
    layout = layout_of(diagnostic, OUTER, np.dtype(part.dtype), part.count)
    merged = bytearray(layout.nbytes)
    views = by_region(layout, merged, part.count)
    for name, view in views.items():
        view[...] = fields[name][place]
    layout.combine(merged, part.state, merged)
    for name, view in views.items():
        fields[name][place] = view


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
        start = (0,) * len(shape)
        if len(parts) == 1 and (parts[0].start, parts[0].count) == (start, shape):
            whole = parts[0]
        else:
            whole = merge_into(diagnostic, start, shape, parts[0].dtype, parts)
        layout: StateLayout = layout_of(diagnostic, OUTER, np.dtype(whole.dtype), shape)
        results = {}
        for operator in diagnostic.operators:
            values = operator.finalize(layout, whole.state)
            results[operator.name] = values.reshape((*values.shape[:-1], *shape))
    return results, errors
