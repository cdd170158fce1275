"""States of a lane's shards in few records: nearly all are alike but for the shard itself.

So what goes to the workers, comes back with a receipt and stands in a checkpoint is as small for a thousand shards as
for one. Who wants to know of a single shard unpacks them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgpack

from bbflow.transit.folding.shards import Region, ShardKey, ShardState
from bbflow.transit.folding.slots import Slot


class Roster:
    """The shards of a lane, in an order.

    Parameters
    ----------
    members
        Each shard, and the part of the field that its states are of.
    """

    def __init__(self, members: Iterable[tuple[ShardKey, Region]]) -> None:
        self.members = tuple(members)
        """Each shard, and its region."""

    @property
    def node(self) -> str:
        """Whose they are."""
        return self.members[0][0].node if self.members else ""

    @cached_property
    def packed(self) -> bytes:
        """What a file of it holds."""
        told = [[key.node, key.diagnostic, key.start, key.count, *region] for key, region in self.members]
        packed: bytes = msgpack.packb(told)
        return packed

    @cached_property
    def digest(self) -> str:
        """Its name: no other roster has it."""
        return blake2b(self.packed, digest_size=16).hexdigest()

    @classmethod
    def unpacked(cls, packed: bytes) -> "Roster":
        """Take a roster out of its file."""
        return cls(
            (ShardKey(node, diagnostic, tuple(start), tuple(count)), (tuple(first), tuple(shape)))
            for node, diagnostic, start, count, first, shape in msgpack.unpackb(packed)
        )

    @classmethod
    def of(cls, rosters: "Sequence[Roster]") -> "Roster":
        """Give one with the shards of all: the first one, if they have the same."""
        if all(other.digest == rosters[0].digest for other in rosters):
            return rosters[0]
        return cls(dict.fromkeys(member for roster in rosters for member in roster.members))

    @cached_property
    def keys(self) -> tuple[ShardKey, ...]:
        """The shards."""
        return tuple(key for key, _ in self.members)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Their labels."""
        return tuple(key.label for key in self.keys)

    @cached_property
    def positions(self) -> dict[ShardKey, int]:
        """Where each shard stands."""
        return {key: at for at, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.members)

    def __reduce__(self) -> tuple[Any, ...]:
        return Roster, (self.members,)


@dataclass(frozen=True, slots=True)
class Alike:
    """States that differ in nothing but their shard."""

    like: ShardState
    """One of them, of no shard, with `LABEL` for the shard's label in its paths."""
    members: tuple[int, ...] | None
    """Positions of the shards in the roster; None for all."""

    def to_wire(self) -> list[Any]:
        """Give what stands in a checkpoint."""
        return [self.like.to_wire(), self.members]

    @classmethod
    def from_wire(cls, message: Sequence[Any]) -> "Alike":
        """Take it out of a checkpoint."""
        like, members = message
        return cls(ShardState.from_wire(like), None if members is None else tuple(members))


LABEL = "\0"
"""No path has it."""
NOBODY = ShardKey("", "", (), ())


def count_of(roster: Roster, alike: Iterable[Alike]) -> int:
    """Give how many of a roster's shards have a state."""
    return sum(len(roster) if item.members is None else len(item.members) for item in alike)


def pack(roster: Roster, states: Mapping[ShardKey, ShardState]) -> tuple[Alike, ...]:
    """Give the states of a roster's shards, as far as they have some, in few records."""
    found: dict[Any, tuple[ShardState, list[int]]] = {}
    for at, key in enumerate(roster.keys):
        state = states.get(key)
        if state is not None:
            like = replace(_renamed(state, roster.labels[at], LABEL), key=NOBODY, start=(), count=())
            told = _told(like)
            found.setdefault(told, (like, []))[1].append(at)
    return tuple(Alike(like, None if len(own) == len(roster) else tuple(own)) for like, own in found.values())


def unpack(roster: Roster, alike: Iterable[Alike]) -> dict[ShardKey, ShardState]:
    """Give the states one by one."""
    found = {}
    for item in alike:
        for at in range(len(roster)) if item.members is None else item.members:
            key, (start, count) = roster.members[at]
            found[key] = replace(_renamed(item.like, LABEL, roster.labels[at]), key=key, start=start, count=count)
    return found


def _renamed(state: ShardState, old: str, new: str) -> ShardState:
    return replace(
        state,
        files={slot: path.replace(old, new) for slot, path in state.files.items()},
        dropped=tuple(path.replace(old, new) for path in state.dropped),
        rows=tuple(path.replace(old, new) for path in state.rows),
    )


def _told(like: ShardState) -> tuple[Any, ...]:
    """Give all that is said of a state, so that it can be looked up."""
    keys = None if like.keys is None else tuple(like.keys.items())
    files: tuple[tuple[Slot, str], ...] = tuple(like.files.items())
    return like.dtype, like.last_step, like.last_time, keys, files, like.dropped, like.rows, like.first_step
