"""What a window's span has come to: the partial states of shards, read where they lie."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.fold import fold_tiles
from bbflow.operators.frozen import Frozen
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array
from bbflow.operators.windows.window import Window
from bbflow.transit.folding.inherited import Inherited, remainder
from bbflow.transit.folding.inner import inner_step, places_of
from bbflow.transit.folding.partials import Partial
from bbflow.transit.folding.shards import Progress, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, OUTER, StateSlot, WindowKey, slots_of
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import combine_files, map_file, map_source
from bbflow.transit.folding.tables import FieldStates, groups

SMALL_BYTES = 1 << 20
"""A larger state is looked at where it lies: to copy it would take longer than what is saved."""
GATHERED_BYTES = 8 << 20
"""About how many bytes of states are taken together."""


SpanKey = tuple[str, tuple[WindowKey, ...]]
"""A window's name, and the units of its span."""


@dataclass(frozen=True, slots=True)
class ReducedSpan(Frozen):
    """What of a window is to be reduced."""

    window: Window
    """Which window."""
    keys: tuple[WindowKey, ...]
    """Its unit spans, oldest first: several of a running window."""
    inner_ends: bool
    """Whether what `each` makes of the steps so far belongs to it."""
    off: Mapping[str, str]
    """Users' operators that have failed, and are called no more."""

    @property
    def key(self) -> SpanKey:
        """Which span of which window."""
        return self.window.name, self.keys


def partial_of(diagnostic: Diagnostic, span: ReducedSpan, shard: ShardState, order: int = 0) -> Partial:
    """Return what one shard has of a window's span; its files are only mapped."""
    places = places_of(shard.files, [*slots_of(OUTER, span.window, span.keys)])
    states: list[Any] = [map_source(place) for place in places]
    if _is_in(span, shard):
        base = places_of(shard.files, [BASE[OUTER]])
        step = inner_step(diagnostic, shard) if span.inner_ends else None
        if step is None:
            states += [map_source(place) for place in base]
        else:
            state_layout = state_layout_of(diagnostic, OUTER, np.dtype(shard.dtype), shard.count)
            open_steps = np.empty(state_layout.nbytes, np.uint8)
            combine_files(state_layout, base, open_steps)
            fold_tiles(state_layout, open_steps, open_steps, step, [None])
            states.append(open_steps)
    return Partial(shard.start, shard.count, shard.dtype, tuple(states), order)


def partials_of(
    diagnostic: Diagnostic, span: ReducedSpan, shards: Iterable[FieldStates], order: int
) -> Iterator[Partial]:
    """Yield what some shards have of a window's span: each by itself, or small ones that lie alike together."""
    for alike in shards:
        if span.inner_ends:
            yield from (partial_of(diagnostic, span, shard, order) for shard in alike.states)
        else:
            yield from together(diagnostic, alike, slots_in(span, alike.like), order)


def together(diagnostic: Diagnostic, alike: FieldStates, slots: list[StateSlot], order: int = 0) -> Iterator[Partial]:
    """Yield what some shards have: small ones that lie alike together; one alone is only mapped.

    Parameters
    ----------
    diagnostic
        Whose states these are.
    alike
        The shards.
    slots
        Which of their states, the earlier ones first; all of one level.
    order
        Where they merge with others of the same points.
    """
    places = places_of(alike.like.files, slots)
    offsets = alike.offsets(slots[0].level)
    for shape, own in groups(alike.shapes):
        state_layout = state_layout_of(diagnostic, slots[0].level, np.dtype(alike.like.dtype), tuple(shape))
        for run in neighbours(state_layout, tuple(shape), alike.firsts[own], offsets[own]):
            at = own[run.at]
            here = [StatePlace(path, first + int(offsets[at])) for path, first in places]
            states = (gather(state_layout, place, run) if run.length > 1 else map_source(place) for place in here)
            count = (run.length * shape[0], *shape[1:]) if shape else ()
            yield Partial(tuple(alike.firsts[at].tolist()), count, alike.like.dtype, tuple(states), order)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Shards whose regions follow each other along the first dimension, at even distances in their files."""

    at: int
    """Which one is the first."""
    length: int
    """How many there are."""
    stride: int
    """Bytes from one's states to the next one's; of one alone it means nothing."""


def neighbours(
    state_layout: StateLayout, shape: tuple[int, ...], firsts: Array, offsets: Array
) -> Iterator[Neighbours]:
    """Put shards together that follow each other.

    Parameters
    ----------
    state_layout
        Of one of their states; if states may not be merged in any order, or are large, each shard stays alone.
    shape
        Of each one's region.
    firsts
        For each the first index of its region; of shape (shards, dimensions).
    offsets
        For each the first byte of its states in their files; of shape (shards,).
    """
    if len(firsts) == 1 or not state_layout.commutes or state_layout.nbytes > SMALL_BYTES or not shape:
        yield from (Neighbours(at, 1, 0) for at in range(len(firsts)))
        return
    most = max(GATHERED_BYTES // max(state_layout.nbytes, 1), 1)
    ordered = np.lexsort((firsts[:, 0], *firsts[:, :0:-1].T))  # by the last key first: the others, then the first one
    firsts, strides = firsts[ordered], np.diff(offsets[ordered])
    beside = (np.diff(firsts[:, 0]) == shape[0]) & (firsts[1:, 1:] == firsts[:-1, 1:]).all(axis=1) & (strides > 0)
    uneven = np.append(False, beside[:-1] & (strides[1:] != strides[:-1]))[: len(strides)]
    begins = np.flatnonzero(np.append(True, ~beside | uneven)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(ordered)], strict=True):
        for at in range(begin, end, most):
            length = min(most, end - at)
            yield Neighbours(int(ordered[at]), length, int(strides[at]) if length > 1 else 0)


def gather(state_layout: StateLayout, place: StatePlace, run: Neighbours) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Copy one state of each of some neighbours into a state of all their points.

    Parameters
    ----------
    state_layout
        Of one of their states.
    place
        Where the first one's lies.
    run
        All of them, two at least.
    """
    together = StateLayout(state_layout.families, state_layout.dtype, state_layout.points * run.length)
    state = np.empty(together.nbytes, np.uint8)
    mapping, views = map_file(place.path), together.views(state)
    for (family, name), offset in state_layout.places.items():
        target = views[family][name]
        inner = target.shape[:-1]
        shape = (*inner, state_layout.points)
        strides = (run.stride, *np.empty(shape, target.dtype).strides)
        lying: Array = np.ndarray(
            (run.length, *shape), target.dtype, buffer=mapping, offset=place.offset + offset, strides=strides
        )
        target.reshape((*inner, run.length, state_layout.points))[...] = np.moveaxis(lying, 0, -2)
    return state


def slots_in(span: ReducedSpan, shard: Progress) -> list[StateSlot]:
    """Return which of a shard's states a span merges from, the earlier ones first."""
    return [*slots_of(OUTER, span.window, span.keys), *([BASE[OUTER]] if _is_in(span, shard) else [])]


def _is_in(span: ReducedSpan, shard: Progress) -> bool:
    """Whether the steps since the last end of any window belong to a span."""
    return shard.keys is not None and shard.keys[span.window.name] in span.keys


def remainder_of(diagnostic: Diagnostic, span: ReducedSpan, inherited: Inherited, directory: str) -> Iterator[Partial]:
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
    with remainder(diagnostic, inherited, directory) as shard:
        if shard is not None:
            yield partial_of(diagnostic, span, shard, order=-1)
