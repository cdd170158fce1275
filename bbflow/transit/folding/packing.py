"""States of a lane's shards in few records: nearly all are alike but for the shard itself.

So what goes to the workers, comes back with a receipt and stands in a checkpoint is as small for a thousand shards as
for one. Who wants to know of a single shard unpacks them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from bbflow.operators.family import Array
from bbflow.transit.folding.held import AlikeShards, Columns, Member, placed, stripped, told
from bbflow.transit.folding.shards import ShardKey, ShardState
from bbflow.transit.folding.written import Written
from bbflow.transit.folding.written import pack as pack_written
from bbflow.transit.folding.written import unpack as unpack_written


class RosterRecord(Written, frozen=True, kw_only=True):
    """What a file of a roster holds."""

    members: tuple[Member, ...]
    """Its shards."""


class Roster:
    """The shards of a lane, in an order.

    Parameters
    ----------
    members
        Each shard, the part of the field that its states are of, and where these lie in files of the lane.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = tuple(members)
        """Each shard, its region, and the first bytes of its states in files of `LEVELS`."""

    @property
    def node(self) -> str:
        """Whose they are."""
        return self.members[0][0].node if self.members else ""

    @cached_property
    def packed(self) -> bytes:
        """What a file of it holds."""
        return pack_written(RosterRecord(members=self.members))

    @cached_property
    def digest(self) -> str:
        """Its name: no other roster has it."""
        return blake2b(self.packed, digest_size=16).hexdigest()

    @classmethod
    def unpacked(cls, packed: bytes, name: str) -> "Roster":
        """Take a roster out of its file, of some name; as `written.unpack`."""
        return cls(unpack_written(packed, RosterRecord, name).members)

    @classmethod
    def of(cls, rosters: "Sequence[Roster]") -> "Roster":
        """Return one with the shards of all: the first one, if they have the same."""
        if all(other.digest == rosters[0].digest for other in rosters):
            return rosters[0]
        return cls(dict.fromkeys(member for roster in rosters for member in roster.members))

    @cached_property
    def keys(self) -> tuple[ShardKey, ...]:
        """The shards."""
        return tuple(key for key, *_ in self.members)

    @cached_property
    def positions(self) -> dict[ShardKey, int]:
        """Where each shard stands."""
        return {key: at for at, key in enumerate(self.keys)}

    @cached_property
    def fields(self) -> dict[str, tuple[Array, Columns]]:
        """Diagnostic to the positions of its shards, ordered by where they lie, and to the shards."""
        found: dict[str, list[int]] = {}
        for at in sorted(range(len(self)), key=lambda at: (self.keys[at].start, self.keys[at].count)):
            found.setdefault(self.keys[at].diagnostic, []).append(at)
        return {key: (np.array(own), Columns.of([self.members[at] for at in own])) for key, own in found.items()}

    def __len__(self) -> int:
        return len(self.members)

    def __reduce__(self) -> tuple[Any, ...]:
        return Roster, (self.members,), {"digest": self.digest}


@dataclass(frozen=True, slots=True)
class Alike:
    """States that differ in nothing but their shard."""

    like: ShardState
    """One of them, of no shard: its offsets count from the roster's, and `LABEL` is its label in names of rows."""
    members: tuple[int, ...] | None
    """Positions of the shards in the roster; None for all."""


def living_files(alike: Iterable[Alike]) -> dict[str, int]:
    """Return in how many files a shard has states at most, by level."""
    found: Counter[str] = Counter()
    for item in alike:
        found |= Counter(level for level, _ in {(slot.level, place.path) for slot, place in item.like.files.items()})
    return dict(found)


def count_of(roster: Roster, alike: Iterable[Alike]) -> int:
    """Return how many of a roster's shards have a state."""
    return sum(len(roster) if item.members is None else len(item.members) for item in alike)


def pack(roster: Roster, states: Mapping[ShardKey, ShardState]) -> tuple[Alike, ...]:
    """Return the states of a roster's shards, as far as they have some, in few records."""
    if not states:
        return ()
    found = ((at, states.get(key)) for at, key in enumerate(roster.keys))
    return gather(roster, ((stripped(state, roster.members[at][2]), [at]) for at, state in found if state is not None))


def gather(roster: Roster, records: Iterable[tuple[ShardState, Iterable[int]]]) -> tuple[Alike, ...]:
    """Put together what is alike of some records: a state of no shard, and the positions of those that have it."""
    found: dict[Any, tuple[ShardState, list[int]]] = {}
    for like, own in records:
        found.setdefault(told(like), (like, []))[1].extend(own)
    return tuple(Alike(like, None if len(own) == len(roster) else tuple(sorted(own))) for like, own in found.values())


def unpack(roster: Roster, alike: Iterable[Alike], wanted: Collection[int] | None = None) -> dict[ShardKey, ShardState]:
    """Return the states one by one: all, or those of shards at some positions."""
    found = {}
    for item in alike:
        for at in range(len(roster)) if item.members is None else item.members:
            if wanted is None or at in wanted:
                found[roster.keys[at]] = placed(item.like, roster.members[at])
    return found


def held_of(roster: Roster, alike: Iterable[Alike]) -> Iterator[AlikeShards]:
    """Yield the states of each field."""
    for item in alike:
        marked = np.full(len(roster), item.members is None)
        marked[list(item.members or ())] = True
        for diagnostic, (positions, columns) in roster.fields.items():
            held = AlikeShards(roster.node, diagnostic, item.like, columns)
            if (own := marked[positions]).all():
                yield held
            elif own.any():
                yield held.chosen(own)
