"""Small shards that lie alike, taken together: what is done for each of a thousand is done once for all of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.operators import StateLayout
from bbflow.transit.folding.shards import ShardState, StatePlace
from bbflow.transit.folding.states import map_file

SMALL_BYTES = 1 << 20
"""A larger state is looked at where it lies: to copy it would take longer than what is saved."""
GATHERED_BYTES = 8 << 20
"""About so many bytes of states are taken together."""


@dataclass(frozen=True, slots=True)
class PlacedShard:
    """A shard, and where the states lie that are asked of it."""

    shard: ShardState
    places: Sequence[StatePlace]
    """The earlier ones first."""

    @property
    def _across(self) -> tuple[Any, ...]:
        """What neighbours have in common."""
        own = self.shard
        return own.dtype, own.count, own.start[1:], tuple(place.path for place in self.places)

    def is_followed_by(self, other: "PlacedShard") -> bool:
        """Whether the other one's rows are the next ones, and its states lie behind the own ones in the same files."""
        own, next_ = self.shard, other.shard
        return (
            self._across == other._across
            and bool(own.start)
            and own.start[0] + own.count[0] == next_.start[0]
            and other.stride_from(self) > 0
        )

    def stride_from(self, other: "PlacedShard") -> int:
        """How many bytes its states lie behind the other one's; 0 if that isn't the same for all of them."""
        strides = {own.offset - before.offset for own, before in zip(self.places, other.places, strict=True)}
        return strides.pop() if len(strides) == 1 else 0


def neighbours(layout: StateLayout, held: Iterable[PlacedShard]) -> Iterator[list[PlacedShard]]:
    """Put shards together whose regions follow each other along the first dimension, at even distances in their files.

    Parameters
    ----------
    layout
        Of one of their states; if states may not be merged in any order, or are large, each shard stays alone.
    held
        Shards of one field, all of one shape and type.
    """
    most = max(GATHERED_BYTES // max(layout.nbytes, 1), 1)
    if not layout.commutes or layout.nbytes > SMALL_BYTES:
        yield from ([item] for item in held)
        return
    run: list[PlacedShard] = []
    for item in sorted(held, key=lambda item: (item.shard.start[1:], item.shard.start)):
        if run and not _goes_on(run, item, most):
            yield run
            run = []
        run.append(item)
    if run:
        yield run


def _goes_on(run: Sequence[PlacedShard], item: PlacedShard, most: int) -> bool:
    if len(run) == most or not run[-1].is_followed_by(item):
        return False
    return len(run) == 1 or item.stride_from(run[-1]) == run[-1].stride_from(run[-2])


def gather(layout: StateLayout, run: Sequence[PlacedShard], slot: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Copy one state of each of some neighbours into a state of all their points.

    Parameters
    ----------
    layout
        Of one of their states.
    run
        Two of them at least, as `neighbours` gives them.
    slot
        Which of the states that are asked of each.
    """
    (path, first), (_, second) = (item.places[slot] for item in run[:2])
    together = StateLayout(layout.families, layout.dtype, layout.points * len(run))
    state = np.empty(together.nbytes, np.uint8)
    mapping, views = map_file(path), together.views(state)
    for (family, name), place in layout.places.items():
        target = views[family][name]
        inner = target.shape[:-1]
        shape = (*inner, layout.points)
        strides = (second - first, *np.empty(shape, target.dtype).strides)
        lying: np.ndarray[Any, Any] = np.ndarray(
            (len(run), *shape), target.dtype, buffer=mapping, offset=first + place, strides=strides
        )
        target.reshape((*inner, len(run), layout.points))[...] = np.moveaxis(lying, 0, -2)
    return state
