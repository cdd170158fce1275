"""Partial states of parts of a field, and one state of those that have points in common."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.frozen import Frozen
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array
from bbflow.transit.folding.shards import Region
from bbflow.transit.folding.slots import OUTER
from bbflow.transit.folding.state_layouts import by_region, state_layout_of


@dataclass(frozen=True, slots=True)
class Partial(Frozen):
    """What some shard has of a span: states of one region, which merge to its share of it."""

    start: tuple[int, ...]
    """First index in the field."""
    count: tuple[int, ...]
    """Shape of the region."""
    dtype: str
    """NumPy's name of the type of the values after the transforms."""
    states: tuple[Any, ...]
    """Buffers, the earlier ones first, laid out as `state_layout_of` says; mapped files, where that is enough."""
    order: int = 0
    """Where several cover a point, they merge in this order."""

    @property
    def region(self) -> Region:
        """First index in the field, and shape."""
        return self.start, self.count

    def merged(self, state_layout: StateLayout) -> Any:
        """Return one state of all; without a copy if it is alone."""
        if len(self.states) == 1:
            return self.states[0]
        whole = np.empty(state_layout.nbytes, np.uint8)
        state_layout.merge(self.states, whole)
        return whole


def state_layout_of_part(diagnostic: Diagnostic, part: Partial) -> StateLayout:
    """Return the state layout of a part's states."""
    return state_layout_of(diagnostic, OUTER, np.dtype(part.dtype), part.count)


def apart(diagnostic: Diagnostic, parts: Sequence[Partial]) -> Sequence[Partial]:
    """Return parts that have no point in common: those that have some are merged into one."""
    parts = sorted((part for part in parts if part.states), key=lambda part: part.order)
    regions = tuple(part.region for part in parts)
    return parts if are_apart(regions) else [merge_into(diagnostic, *box_around(regions), parts)]


@lru_cache(maxsize=64)
def are_apart(regions: tuple[Region, ...]) -> bool:
    """Whether no two of some regions have a point in common."""
    if len(regions) < 2 or not regions[0][0]:
        return len(regions) < 2
    starts = np.array([start for start, _ in regions])
    ends = starts + np.array([count for _, count in regions])
    for at in range(len(regions) - 1):
        meet = (starts[at] < ends[at + 1 :]) & (starts[at + 1 :] < ends[at])
        if meet.all(axis=1).any():
            return False
    return True


def box_around(regions: Sequence[Region]) -> Region:
    """Return the smallest box around some regions."""
    start = tuple(map(min, zip(*(first for first, _ in regions), strict=True)))
    ends = [tuple(at + size for at, size in zip(first, count, strict=True)) for first, count in regions]
    return start, tuple(max(all_) - first for first, all_ in zip(start, zip(*ends, strict=True), strict=True))


def merge_into(
    diagnostic: Diagnostic, start: tuple[int, ...], count: tuple[int, ...], parts: Iterable[Partial]
) -> Partial:
    """Merge partial states, of regions that may overlap, into one of a box; what none covers is without any step.

    It holds the whole and, one after the other, each part and what both come to: never more than three times the whole.
    """
    parts = list(parts)
    state_layout = state_layout_of(diagnostic, OUTER, np.dtype(parts[0].dtype), count)
    whole = np.empty(state_layout.nbytes, np.uint8)
    state_layout.clear(whole)
    fields = by_region(state_layout, whole, count)
    for part in parts:
        _merge_part(diagnostic, fields, (..., *_region(start, part)), part)
    return Partial(start, count, parts[0].dtype, (whole,))


def _merge_part(
    diagnostic: Diagnostic, fields: Mapping[tuple[str, str], Array], place: tuple[Any, ...], part: Partial
) -> None:
    """Merge a part into its place in the whole's fields."""
    state_layout = state_layout_of_part(diagnostic, part)
    merged = np.empty(state_layout.nbytes, np.uint8)
    views = by_region(state_layout, merged, part.count)
    for name, view in views.items():
        view[...] = fields[name][place]
    state_layout.combine(merged, part.merged(state_layout), merged)
    for name, view in views.items():
        fields[name][place] = view


def _region(origin: tuple[int, ...], part: Partial) -> Iterator[slice]:
    for at, first, size in zip(origin, part.start, part.count, strict=True):
        yield slice(first - at, first - at + size)
