"""Small shards that lie alike, taken together: what is done for each of a thousand is done once for all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.operators import StateLayout
from bbflow.operators.family import Array
from bbflow.transit.folding.shards import StatePlace
from bbflow.transit.folding.states import map_file

SMALL_BYTES = 1 << 20
"""A larger state is looked at where it lies: to copy it would take longer than what is saved."""
GATHERED_BYTES = 8 << 20
"""About how many bytes of states are taken together."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Shards whose regions follow each other along the first dimension, at even distances in their files."""

    at: int
    """Which one is the first."""
    length: int
    """How many there are."""
    stride: int
    """Bytes from one's states to the next one's; of one alone it means nothing."""


def neighbours(layout: StateLayout, shape: tuple[int, ...], firsts: Array, offsets: Array) -> Iterator[Neighbours]:
    """Put shards together that follow each other.

    Parameters
    ----------
    layout
        Of one of their states; if states may not be merged in any order, or are large, each shard stays alone.
    shape
        Of each one's region.
    firsts
        For each the first index of its region; of shape (shards, dimensions).
    offsets
        For each the first byte of its states in their files; of shape (shards,).
    """
    if not layout.commutes or layout.nbytes > SMALL_BYTES or not shape:
        yield from (Neighbours(at, 1, 0) for at in range(len(firsts)))
        return
    most = max(GATHERED_BYTES // max(layout.nbytes, 1), 1)
    ordered = np.lexsort((firsts[:, 0], *firsts[:, :0:-1].T))  # by the last key first: the others, then the first one
    firsts, strides = firsts[ordered], np.diff(offsets[ordered])
    beside = (np.diff(firsts[:, 0]) == shape[0]) & (firsts[1:, 1:] == firsts[:-1, 1:]).all(axis=1) & (strides > 0)
    uneven = np.append(False, beside[:-1] & (strides[1:] != strides[:-1]))[: len(strides)]
    begins = np.flatnonzero(np.append(True, ~beside | uneven)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(ordered)], strict=True):
        for at in range(begin, end, most):
            length = min(most, end - at)
            yield Neighbours(int(ordered[at]), length, int(strides[at]) if length > 1 else 0)


def gather(layout: StateLayout, place: StatePlace, run: Neighbours) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Copy one state of each of some neighbours into a state of all their points.

    Parameters
    ----------
    layout
        Of one of their states.
    place
        Where the first one's lies.
    run
        All of them, two at least.
    """
    together = StateLayout(layout.families, layout.dtype, layout.points * run.length)
    state = np.empty(together.nbytes, np.uint8)
    mapping, views = map_file(place.path), together.views(state)
    for (family, name), offset in layout.places.items():
        target = views[family][name]
        inner = target.shape[:-1]
        shape = (*inner, layout.points)
        strides = (run.stride, *np.empty(shape, target.dtype).strides)
        lying: Array = np.ndarray(
            (run.length, *shape), target.dtype, buffer=mapping, offset=place.offset + offset, strides=strides
        )
        target.reshape((*inner, run.length, layout.points))[...] = np.moveaxis(lying, 0, -2)
    return state
