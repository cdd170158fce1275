"""What a window's span has come to: the partial states of shards, read where they lie.

Small fields and spans whose states lie alike are reduced in one call: for each alone Python takes longer than that.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.fold import fold_tiles
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, DType
from bbflow.transit.publication.finish import Partial
from bbflow.transit.spans.slots import BASE, OUTER, StateSlot, slots_of
from bbflow.transit.spans.timeline import Closing
from bbflow.transit.states.files import combine_files, map_file, map_source
from bbflow.transit.states.inherited import Inherited, remainder
from bbflow.transit.states.inner import inner_step
from bbflow.transit.states.shards import Region, ShardState, StatePlace, places_of
from bbflow.transit.states.state_layouts import state_layout_of
from bbflow.transit.states.tables import States, groups

SMALL_BYTES = 1 << 20
"""A larger state is looked at where it lies: to copy it would take longer than what is saved."""
GATHERED_BYTES = 8 << 20
"""About how many bytes of states are taken together."""


def partial_of(diagnostic: Diagnostic, span: Closing, region: Region, shard: ShardState, node: str = "") -> Partial:
    """Return what one shard has of a window's span; its files are only mapped."""
    places = places_of(shard.files, [*slots_of(OUTER, span.window, span.keys)])
    states: list[Any] = [map_source(place) for place in places]
    if _is_in(span, shard):
        base = places_of(shard.files, [BASE[OUTER]])
        step = inner_step(diagnostic, region, shard) if span.ends_inner(diagnostic) else None
        if step is None:
            states += [map_source(place) for place in base]
        else:
            state_layout = state_layout_of(diagnostic, OUTER, np.dtype(shard.dtype), region[1])
            open_steps = np.empty(state_layout.nbytes, np.uint8)
            combine_files(state_layout, base, open_steps)
            fold_tiles(state_layout, open_steps, open_steps, step, [None])
            states.append(open_steps)
    return Partial(*region, shard.dtype, tuple(states), node)


def partials_of(diagnostic: Diagnostic, span: Closing, shards: Iterable[States]) -> Iterator[Partial]:
    """Yield what some shards have of a window's span: each by itself, or small ones that lie alike together."""
    for alike in shards:
        if span.ends_inner(diagnostic):
            node = alike.roster.node
            yield from (partial_of(diagnostic, span, region, state, node) for _, region, state in alike.rows())
        else:
            yield from together(diagnostic, alike, slots_in(span, alike.like))


def together(diagnostic: Diagnostic, alike: States, slots: list[StateSlot]) -> Iterator[Partial]:
    """Yield what some shards have: small ones that lie alike together; one alone is only mapped.

    Parameters
    ----------
    diagnostic
        Whose states these are.
    alike
        The shards.
    slots
        Which of their states, the earlier ones first; all of one level.
    """
    places, roster = tuple(places_of(alike.like.files, slots)), alike.roster
    firsts, offsets = roster.firsts, roster.offsets(slots[0].level)
    for shape, own in groups(roster.shapes):
        state_layout = state_layout_of(diagnostic, slots[0].level, np.dtype(alike.like.dtype), tuple(shape))
        for run in neighbours(state_layout, tuple(shape), firsts[own]):
            at = own[run]
            states = _gathered(LyingStates(state_layout, places, offsets[at]))
            count = (len(at) * shape[0], *shape[1:]) if shape else ()
            yield Partial(tuple(firsts[at[0]].tolist()), count, alike.like.dtype, tuple(states), roster.node)


def neighbours(state_layout: StateLayout, shape: tuple[int, ...], firsts: Array) -> Iterator[Array]:
    """Put shards together whose regions follow each other along the first dimension; gives their positions, in order.

    Parameters
    ----------
    state_layout
        Of one of their states; if states may not be merged in any order, or are large, each shard stays alone.
    shape
        Of each one's region.
    firsts
        For each the first index of its region; of shape (shards, dimensions).
    """
    if len(firsts) == 1 or not state_layout.commutes or state_layout.nbytes > SMALL_BYTES or not shape:
        yield from np.arange(len(firsts))[:, np.newaxis]
        return
    most = max(GATHERED_BYTES // max(state_layout.nbytes, 1), 1)
    ordered = np.lexsort((firsts[:, 0], *firsts[:, :0:-1].T))  # by the last key first: the others, then the first one
    firsts = firsts[ordered]
    beside = (np.diff(firsts[:, 0]) == shape[0]) & (firsts[1:, 1:] == firsts[:-1, 1:]).all(axis=1)
    for run in np.split(ordered, np.flatnonzero(~beside) + 1):
        yield from np.split(run, range(most, len(run), most))


def slots_in(span: Closing, shard: ShardState) -> list[StateSlot]:
    """Return which of a shard's states a span merges from, the earlier ones first."""
    return [*slots_of(OUTER, span.window, span.keys), *([BASE[OUTER]] if _is_in(span, shard) else [])]


def _is_in(span: Closing, shard: ShardState) -> bool:
    """Whether the steps since the last end of any window belong to a span."""
    return shard.keys is not None and shard.keys[span.window.name] in span.keys


def remainder_of(diagnostic: Diagnostic, span: Closing, inherited: Inherited, directory: str) -> Iterator[Partial]:
    """Yield what an earlier run has of a window's span, where no shard has taken it over; nothing if there is nothing.

    Parameters
    ----------
    diagnostic
        What is computed.
    span
        Which span.
    inherited
        What the earlier run has left.
    directory
        For files that end with the call; what is mapped of them stays.
    """
    with remainder(diagnostic, inherited, directory) as state:
        if state is not None:
            yield partial_of(diagnostic, span, inherited.region, state)


FIELD_BYTES, STACK_BYTES = 1 << 18, 4 << 20
"""Bytes of a field's state that is small, and of each of the two states that are in memory of all that is stacked."""


class LyingStates(NamedTuple):
    """What there is of a span: states of parts of a field that follow each other along its first dimension."""

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


def parts_of_field(diagnostic: Diagnostic, alike: States, shape: tuple[int, ...]) -> FieldParts | None:
    """Return the layout of a small field's parts, which follow each other and are all of it, and their offsets.

    None if its states must be looked at one by one.
    """
    firsts, shapes, parts = alike.roster.firsts, alike.roster.shapes, len(alike.roster)
    if any(item.is_users for item in diagnostic.operators) or (shapes != shapes[0]).any():
        return None
    layout = state_layout_of(diagnostic, OUTER, np.dtype(alike.like.dtype), tuple(shapes[0].tolist()))
    if layout.gathers or layout.nbytes * parts > FIELD_BYTES:
        return None
    order = np.lexsort(firsts.T[::-1]) if shape else np.arange(parts)
    whole = np.zeros((parts, len(shape)), "i8")
    if shape:
        whole[:, 0] = np.arange(parts) * shapes[0, 0]
    is_all = (firsts[order] == whole).all() and (parts * shapes[0, :1].sum(), *shapes[0, 1:]) == (shape or (0,))
    return (layout, alike.roster.offsets(OUTER)[order]) if is_all and (shape or parts == 1) else None


def _gathered(lying: LyingStates) -> Iterator[Any]:
    """Yield what lies at each place as one state of all parts: mapped if there is one part, else a copy."""
    layout = lying.layout
    whole = StateLayout(layout.families, layout.dtype, layout.points * len(lying.offsets))
    for number, place in enumerate(lying.places):
        if len(lying.offsets) == 1:
            yield map_source(StatePlace(place.path, place.offset + int(lying.offsets[0])))
            continue
        state = np.empty(whole.nbytes, np.uint8)
        _stack([[lying]], number, whole, state)
        yield state


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
    shape = len(spans[0]), len(spans), len(one.offsets), one.layout.points
    own = {
        (family, name): (begin, views[family][name].reshape((*views[family][name].shape[:-1], *shape)))
        for (family, name), begin in one.layout.places.items()
    }
    for at, fields in enumerate(spans):
        for first, last in _runs([field.places[number] for field in fields]):
            path, offset = fields[first].places[number]
            file, offsets = map_file(path), np.concatenate([field.offsets for field in fields[first:last]]) + offset
            for begin, target in own.values():
                into = target[..., first:last, at, :, :]
                lain = _lain(file, (*into.shape[:-3], one.layout.points), target.dtype, offsets + begin)
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
