"""Small fields and spans whose states lie alike, reduced in one call: for each alone Python takes longer than that."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from mmap import mmap
from typing import NamedTuple

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, DType
from bbflow.transit.folding.shards import StatePlace
from bbflow.transit.folding.slots import OUTER
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import map_file
from bbflow.transit.folding.tables import FieldStates

FIELD_BYTES, STACK_BYTES = 1 << 18, 4 << 20
"""Bytes of a field's state that is small, and of each of the two states that are in memory of all that is stacked."""


class LyingStates(NamedTuple):
    """What there is of a small field's span: states of parts of it that follow each other along its first dimension."""

    layout: StateLayout
    """Of one part's state."""
    places: tuple[StatePlace, ...]
    """Where states merge from, the earlier ones first; counted from each part's offset."""
    offsets: Array
    """Of shape (parts,)."""

    @property
    def nbytes(self) -> int:
        """Bytes of one state of all parts."""
        return self.layout.nbytes * len(self.offsets)


FieldParts = tuple[StateLayout, Array]
"""Layout and offsets, as `LyingStates` has them."""


def parts_of_field(diagnostic: Diagnostic, alike: FieldStates, shape: tuple[int, ...]) -> FieldParts | None:
    """Return the layout of a small field's parts, which follow each other and are all of it, and their offsets.

    None if its states must be looked at one by one.
    """
    firsts, shapes = alike.firsts, alike.shapes
    if any(item.is_users for item in diagnostic.operators) or (shapes != shapes[0]).any():
        return None
    layout = state_layout_of(diagnostic, OUTER, np.dtype(alike.like.dtype), tuple(shapes[0].tolist()))
    if layout.gathers or layout.nbytes * len(alike) > FIELD_BYTES:
        return None
    order = np.lexsort(firsts.T[::-1]) if shape else np.arange(len(alike))
    whole = np.zeros((len(alike), len(shape)), "i8")
    if shape:
        whole[:, 0] = np.arange(len(alike)) * shapes[0, 0]
    is_all = (firsts[order] == whole).all() and (len(alike) * shapes[0, :1].sum(), *shapes[0, 1:]) == (shape or (0,))
    return (layout, alike.offsets(OUTER)[order]) if is_all and (shape or len(alike) == 1) else None


def stacked_results(diagnostic: Diagnostic, spans: Sequence[Sequence[LyingStates]]) -> dict[str, Array]:
    """Return the results of some fields' spans by operator, of shape (fields, spans, axis, …, points).

    Parameters
    ----------
    diagnostic
        What is computed of each.
    spans
        For each span the fields: all with one layout, as many places and parts.
    """
    one, (*shape, _) = spans[0][0], _shape(spans)
    layout = StateLayout(one.layout.families, one.layout.dtype, prod(_shape(spans)))
    state, further = np.empty(layout.nbytes, np.uint8), np.empty(layout.nbytes, np.uint8)
    _stack(spans, 0, layout, state)
    for number in range(1, len(one.places)):
        _stack(spans, number, layout, further)
        layout.merge((state, further), state)
    found = {}
    for item in diagnostic.operators:
        values = item.finalize(layout, state)
        found[item.name] = np.moveaxis(values.reshape(*item.lead, *shape, -1), (-3, -2), (0, 1))
    return found


def _stack(spans: Sequence[Sequence[LyingStates]], number: int, whole: StateLayout, state: Array) -> None:
    """Copy the states at one of their places into a state of all fields and spans."""
    one, views = spans[0][0], whole.views(state)
    own = {
        (family, name): (begin, views[family][name].reshape((*views[family][name].shape[:-1], *_shape(spans))))
        for (family, name), begin in one.layout.places.items()
    }
    for at, fields in enumerate(spans):
        for first, last in _runs([field.places[number] for field in fields]):
            path, offset = fields[first].places[number]
            file, offsets = map_file(path), np.concatenate([field.offsets for field in fields[first:last]]) + offset
            for begin, target in own.values():
                into = target[..., first:last, at, :]
                lain = _lain(file, (*into.shape[:-2], one.layout.points), target.dtype, offsets + begin)
                into[...] = np.moveaxis(lain, 0, -2).reshape(into.shape)


def _shape(spans: Sequence[Sequence[LyingStates]]) -> tuple[int, int, int]:
    return len(spans[0]), len(spans), spans[0][0].layout.points * len(spans[0][0].offsets)


def _runs(places: Sequence[StatePlace]) -> Iterator[tuple[int, int]]:
    """Yield which fields that follow each other have their states at one place of one file."""
    cuts = [at for at in range(1, len(places)) if places[at] != places[at - 1]]
    return pairwise([0, *cuts, len(places)])


def _lain(file: mmap, shape: tuple[int, ...], dtype: DType, offsets: Array) -> Array:
    """Look at values of a shape where they lie in a file; of shape (offsets, …)."""
    strides = np.diff(offsets)
    if (strides != strides[:1]).any():
        return np.stack([np.ndarray(shape, dtype, file, offset) for offset in offsets.tolist()])
    stride = int(strides[0]) if len(strides) else 0
    return np.ndarray((len(offsets), *shape), dtype, file, int(offsets[0]), (stride, *np.empty(shape, dtype).strides))
