"""Whole fields of steps, as bytes: where they lie is found once for all steps with the same layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from bbflow.stream.point_maps import PointMap
from bbflow.stream.puts import points_of, seen
from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.view.blocks import BlockReader

Array = np.ndarray[Any, Any]
Parts = Mapping[str, Step]
"""Node name to what lies there of a step."""
Piece = tuple[str, int]
"""Name of a node, and which of the forms in its layout."""


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Where a field lies in all steps of one layout."""

    like: BlockForm
    """One of its blocks."""
    pieces: tuple[Piece, ...]
    """All that count, in an order in which each may cover others' points."""
    is_stacked: bool
    """Whether their bytes, one block behind the other in this order, are the whole field, and all are in pools."""
    points: int
    """How many points of the field they have."""


Layouts = tuple[tuple[str, Layout], ...]
"""Names of nodes, and how a step lies there."""


def layouts_of(parts: Parts) -> Layouts:
    """Return how a step lies."""
    return tuple((node, part.layout) for node, part in parts.items())


@lru_cache(maxsize=16)
def places_in(layouts: Layouts) -> Mapping[str, FieldPlace]:
    """Find the global arrays of a step by their names."""
    found: dict[str, list[tuple[Piece, BlockForm]]] = {}
    for node, layout in layouts:
        for at, form in enumerate(layout.forms):
            if form.kind == "GlobalArray":
                found.setdefault(form.name, []).append(((node, at), form))
    return {name: _place(placed) for name, placed in found.items()}


def _place(placed: Sequence[tuple[Piece, BlockForm]]) -> FieldPlace:
    placed = seen(placed)
    first, covered = placed[0][1], points_of([form for _, form in placed])
    rows = sorted((item for item in placed if prod(item[1].count)), key=lambda item: item[1].start[:1])
    if first.shape and all(form.shape == first.shape and form.count[1:] == first.shape[1:] for _, form in rows):
        ends = [0, *(form.start[0] + form.count[0] for _, form in rows)]
        begins = [*(form.start[0] for _, form in rows), first.shape[0]]
        if begins == ends and not any(form.spilled or form.stride > 1 for _, form in rows):
            return FieldPlace(first, tuple(piece for piece, _ in rows), is_stacked=True, points=covered)
    return FieldPlace(first, tuple(piece for piece, _ in placed), is_stacked=False, points=covered)


class FieldReader:
    """Reads fields of steps.

    Parameters
    ----------
    reader
        Reads what lies on other hosts, and fields that must be put together.
    """

    def __init__(self, reader: BlockReader) -> None:
        self._reader = reader
        self._pools: dict[str, Array | None] = {}

    def bytes_of(
        self,
        steps: Sequence[Parts],
        offsets: Sequence[Mapping[str, Sequence[int]]],
        place: FieldPlace,
        fill: Any,
        spread: PointMap | None = None,
    ) -> list[list[Array]]:
        """Return a field of steps that lie alike, each as arrays of bytes, which joined are the field.

        Parameters
        ----------
        steps
            For each what lies on the nodes.
        offsets
            For each, and each node, the first bytes of its blocks in the pool.
        place
            The field's, in the layouts of these steps.
        fill
            What stands in holes.
        spread
            Where the points lie in the field's grid, if not as they are.

        Returns
        -------
        list
            On their own host they are views of the pool, valid as long as the step is held.

        Raises
        ------
        NodeError, StreamError
            As for `BlockReader.read`.
        """
        blocks = [
            (pool, node, at, steps[0][node].layout.forms[at].bytes)
            for node, at in (place.pieces if place.is_stacked and spread is None else ())
            if (pool := self._pool(node)) is not None
        ]
        if len(blocks) == len(place.pieces):
            return [[pool[own[node][at] : own[node][at] + size] for pool, node, at, size in blocks] for own in offsets]
        return [[self._assembled(parts, place, fill, spread)] for parts in steps]

    def _assembled(self, parts: Parts, place: FieldPlace, fill: Any, spread: PointMap | None) -> Array:
        landed = next(parts[node].landed_in for node, _ in place.pieces)
        field = self._reader.assemble(landed, [(node, parts[node].blocks[at]) for node, at in place.pieces], fill)
        field = field if spread is None else spread.spread(field, fill)
        return np.ascontiguousarray(field).reshape(-1).view("u1")

    def _pool(self, node: str) -> Array | None:
        if node not in self._pools:
            self._pools[node] = self._reader.pool(node)
        return self._pools[node]


def offsets_of(steps: Sequence[Parts]) -> list[dict[str, list[int]]]:
    """Return for each step and node the first bytes of the blocks in the node's pool."""
    offsets: list[dict[str, list[int]]] = [{} for _ in steps]
    alike: dict[tuple[str, int], list[int]] = {}
    for at, parts in enumerate(steps):
        for node, part in parts.items():
            alike.setdefault((node, part.layout.number), []).append(at)
    for (node, _), own in alike.items():
        found = steps[own[0]][node].layout.offsets_of([steps[at][node].sources for at in own])
        for at, row in zip(own, found.tolist(), strict=True):
            offsets[at][node] = row
    return offsets
