"""From partial states of parts of a field to results, band by band: no whole state is ever in memory for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.frozen import Frozen
from bbflow.operators.operator import FINISHED_POINTS
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, Views
from bbflow.transit.spans.slots import OUTER
from bbflow.transit.states.shards import Region, overlapping
from bbflow.transit.states.state_layouts import by_region, put_state, state_layout_of


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
    node: str = ""
    """Whose these are, empty for what an earlier run left; where several cover a point, they merge in this order."""

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
    parts = sorted((part for part in parts if part.states), key=lambda part: part.node)
    regions = tuple(part.region for part in parts)
    return parts if are_apart(regions) else [merge_into(diagnostic, *box_around(regions), parts)]


@lru_cache(maxsize=64)
def are_apart(regions: tuple[Region, ...]) -> bool:
    """Whether no two of some regions have a point in common."""
    return not any(overlapping(regions))


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
        region = tuple(first - at for at, first in zip(start, part.start, strict=True)), part.count
        own = state_layout_of_part(diagnostic, part)
        put_state(fields, own, region, part.merged(own), shared=True)
    return Partial(start, count, parts[0].dtype, (whole,))


BAND_BYTES = 8 << 20
"""About how many bytes of results are made at a time."""
Band = tuple[int, int]
"""First row along a field's first dimension, and the one after the last."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A part whose states are looked into, in the shape that bands are cut of."""

    start: tuple[int, ...]
    count: tuple[int, ...]
    state_layout: StateLayout
    states: tuple[Mapping[str, Views], ...]

    def is_in(self, band: Band) -> bool:
        return self.start[0] < band[1] and self.start[0] + self.count[0] > band[0]

    def scratch_bytes(self) -> int:
        """Return what a tile of several states needs beside them."""
        row = max(prod(self.count[1:]), 1)
        rows = min(max(FINISHED_POINTS // row, 1), self.count[0])
        return self.state_layout.nbytes_of(rows * row) if len(self.states) > 1 else 0

    def tiles(self, band: Band, scratch: Any) -> Iterator[tuple[Band, dict[str, Views]]]:
        """Yield the rows that are in a band, some at a time, with what their states merge to: in the scratch."""
        first, last = max(band[0], self.start[0]), min(band[1], self.start[0] + self.count[0])
        points = prod(self.count[1:])
        for tile in cut(first, last, FINISHED_POINTS // max(points, 1)):
            own = slice((tile[0] - self.start[0]) * points, (tile[1] - self.start[0]) * points)
            yield tile, self.state_layout.part(self.states, own, scratch)


class Finishing:
    """Makes the results of one field.

    Parameters
    ----------
    diagnostic
        What is computed.
    shape
        Of the field.
    parts
        What there is of it, one at least; points that none covers are as without valid values.
    """

    def __init__(self, diagnostic: Diagnostic, shape: tuple[int, ...], parts: Sequence[Partial]) -> None:
        self.shape = shape
        """The field's."""
        self._operators = diagnostic.operators
        self._point = state_layout_of(diagnostic, OUTER, np.dtype(parts[0].dtype), ())
        parts = apart(diagnostic, parts)
        alike = {(part.dtype, part.count): part for part in parts}
        state_layouts = {key: state_layout_of_part(diagnostic, part) for key, part in alike.items()}
        self._shape, regions = _divisible(shape, [part.region for part in parts])
        self._parts = [
            _Open(
                *region,
                state_layout := state_layouts[part.dtype, part.count],
                tuple(state_layout.all_views(part.states)),
            )
            for part, region in zip(parts, regions, strict=True)
        ]
        self._scratch = bytearray(max((part.scratch_bytes() for part in self._parts), default=0))
        self._is_covered = sum(prod(part.count) for part in self._parts) == prod(self._shape)

    @property
    def is_small(self) -> bool:
        """Whether all results together aren't larger than those of a band, or must be made together."""
        if self._point.gathers:
            return True
        points = prod(self._shape)
        bytes_per_point = sum(prod(item.lead) * item.dtype(self._point.dtype).itemsize for item in self._operators)
        return points * bytes_per_point <= BAND_BYTES

    def bands(self) -> Iterator[tuple[Band, dict[str, Array]]]:
        """Yield the results of some rows at a time, by operator, of shape (axis, rows, …); arrays are used again."""
        bytes_per_row = sum(values.nbytes for values in self._arrays(1).values())
        rows = min(max(BAND_BYTES // max(bytes_per_row, 1), 1), self._shape[0])
        arrays = self._arrays(rows)
        for band in cut(0, self._shape[0], rows):
            own = {name: values[:, : band[1] - band[0]] for name, values in arrays.items()}
            self._fill(band, own)
            yield band, own

    def whole(self) -> dict[str, Array]:
        """Return all results, by operator, of shape (axis, …), or that of the field."""
        arrays = self._arrays(self._shape[0])
        self._fill((0, self._shape[0]), arrays)
        return {item.name: arrays[item.name].reshape((*item.lead, *self.shape)) for item in self._operators}

    def without_values(self) -> dict[str, Array]:
        """Return what a point of a row comes to that has no value, by operator: of shape (axis, 1), or (1,)."""
        arrays = self._arrays(1)
        self._fill_empty(arrays)
        return {item.name: arrays[item.name].reshape(*item.lead, 1) for item in self._operators}

    def _arrays(self, rows: int) -> dict[str, Array]:
        shapes = {item.name: (prod(item.lead), rows, *self._shape[1:]) for item in self._operators}
        return {item.name: np.empty(shapes[item.name], item.dtype(self._point.dtype)) for item in self._operators}

    def _fill(self, band: Band, results: Mapping[str, Array]) -> None:
        if not self._is_covered:
            self._fill_empty(results)
        for part in filter(lambda part: part.is_in(band), self._parts):
            for (first, last), state in part.tiles(band, self._scratch):
                place = slice(first - band[0], last - band[0])
                along = [slice(at, at + size) for at, size in zip(part.start[1:], part.count[1:], strict=True)]
                for item in self._operators:
                    own = results[item.name][(slice(None), place, *along)]
                    there = own.reshape(-1) if own.flags.c_contiguous else None  # a view: it is written where it stays
                    values = item.finish(state, self._point.dtype, there)
                    if values is not there:
                        own[...] = values.reshape(own.shape)

    def _fill_empty(self, results: Mapping[str, Array]) -> None:
        """Fill everything as it is without any value."""
        state = np.empty(self._point.nbytes, np.uint8)
        self._point.clear(state)
        for item in self._operators:
            values = item.finish(self._point.views(state), self._point.dtype)
            own = results[item.name]
            own[...] = values.reshape(-1, *(1 for _ in self._shape))


def _divisible(shape: tuple[int, ...], regions: Sequence[Region]) -> tuple[tuple[int, ...], list[Region]]:
    """Return a field another shape with the same order of points, that can be cut into bands, and its regions in it.

    Where one region is all of it each point is a row; else dimensions of size one aren't the first, if others are
    there. A single value is a row of one point.
    """
    whole = (0,) * len(shape), shape
    if list(regions) == [whole]:
        points = prod(shape)
        return (points,), [((0,), (points,))]
    ones = next((at for at, size in enumerate(shape) if size > 1), max(len(shape) - 1, 0))
    return shape[ones:] or (1,), [(start[ones:] or (0,), count[ones:] or (1,)) for start, count in regions]


def cut(first: int, last: int, size: int) -> Iterator[Band]:
    """Cut rows into bands of some size."""
    size = max(size, 1)
    return ((at, min(at + size, last)) for at in range(first, last, size))
