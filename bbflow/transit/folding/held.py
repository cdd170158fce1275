"""Shards of a field whose states are alike but for where they lie: a thousand of them are a few arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bbflow.operators.family import Array
from bbflow.transit.folding.shards import Region, ShardKey, ShardState, StatePlace
from bbflow.transit.folding.slots import LEVELS

Member = tuple[ShardKey, Region, tuple[int, ...]]
"""A shard, the part of the field that its states are of, and where these lie in files of `LEVELS`."""
LABEL = "\0"
"""Stands for a shard's label in names of rows; no path has it."""
NOBODY = ShardKey("", "", (), ())


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Members of one field on one node; each column has a row for each."""

    starts: Array
    """First index in the global arrays of its variables."""
    counts: Array
    """Shape there."""
    firsts: Array
    """First index in the field."""
    shapes: Array
    """Shape there."""
    offsets: Array
    """Where its states lie, by level."""

    @classmethod
    def of(cls, members: Sequence[Member]) -> "Columns":
        """Take some members apart."""
        keys, regions, offsets = zip(*members, strict=True)
        rows = [key.start for key in keys], [key.count for key in keys], *zip(*regions, strict=True), offsets
        return cls(*(np.array(own, "i8").reshape(len(members), -1) for own in rows))

    def __len__(self) -> int:
        return len(self.offsets)

    def chosen(self, rows: Array) -> "Columns":
        """Return some of them."""
        return Columns(*(own[rows] for own in (self.starts, self.counts, self.firsts, self.shapes, self.offsets)))


@dataclass(frozen=True, slots=True, eq=False)
class AlikeShards:
    """Shards of one field on one node whose states are alike."""

    node: str
    """The node."""
    diagnostic: str
    """The field's diagnostic."""
    like: ShardState
    """What their states have in common (`stripped`)."""
    columns: Columns
    """Which shards."""

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def order(self) -> tuple[Any, ...]:
        """As `ShardState.order`, for all of them."""
        return self.like.first_step, not self.columns.counts.shape[1], self.node

    @property
    def regions(self) -> list[Region]:
        """The parts of the field that they are of."""
        columns = self.columns
        return list(zip(_tuples(columns.firsts), _tuples(columns.shapes), strict=True))

    @property
    def states(self) -> list[ShardState]:
        """One by one."""
        columns = self.columns
        rows = zip(
            _tuples(columns.starts), _tuples(columns.counts), self.regions, _tuples(columns.offsets), strict=True
        )
        return [
            placed(self.like, (ShardKey(self.node, self.diagnostic, start, count), region, offsets))
            for start, count, region, offsets in rows
        ]

    def chosen(self, rows: Array) -> "AlikeShards":
        """Return some of them."""
        return AlikeShards(self.node, self.diagnostic, self.like, self.columns.chosen(rows))


def _tuples(rows: Array) -> list[tuple[int, ...]]:
    return list(map(tuple, rows.tolist()))


def hold(states: Iterable[ShardState]) -> list[AlikeShards]:
    """Put the states together that are alike, in the order in which the first of them come."""
    found: dict[Any, tuple[ShardState, list[Member]]] = {}
    for state in states:
        offsets = tuple(
            next((place.offset for slot, place in state.files.items() if slot.level == level), 0) for level in LEVELS
        )
        like = stripped(state, offsets)
        kind = state.key.node, state.key.diagnostic, len(state.key.count), told(like)
        found.setdefault(kind, (like, []))[1].append((state.key, state.region, offsets))
    return [
        AlikeShards(node, diagnostic, like, Columns.of(members))
        for (node, diagnostic, *_), (like, members) in found.items()
    ]


def stripped(state: ShardState, offsets: Sequence[int]) -> ShardState:
    """Make a shard's state one of no shard: its offsets count from the shard's."""
    files = {slot: StatePlace(path, at - offsets[LEVELS.index(slot.level)]) for slot, (path, at) in state.files.items()}
    rows = tuple(path.replace(state.key.label, LABEL) for path in state.rows)
    return replace(state, key=NOBODY, start=(), count=(), files=files, rows=rows)


def placed(like: ShardState, member: Member) -> ShardState:
    """Make a state of no shard one of a shard."""
    key, (start, count), offsets = member
    files = {slot: StatePlace(path, at + offsets[LEVELS.index(slot.level)]) for slot, (path, at) in like.files.items()}
    rows = tuple(path.replace(LABEL, key.label) for path in like.rows)
    return replace(like, key=key, start=start, count=count, files=files, rows=rows)


def told(like: ShardState) -> tuple[Any, ...]:
    """Return all that is said of a state of no shard, so that it can be looked up."""
    keys = None if like.keys is None else tuple(like.keys.items())
    return (
        like.dtype,
        like.last_step,
        like.last_time,
        keys,
        tuple(like.files.items()),
        like.rows,
        like.first_step,
        like.held,
    )
