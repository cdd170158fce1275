"""The states that count, as tasks have packed them, and the files in which they lie."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace

from bbflow.transit.folding.held import AlikeShards, hold
from bbflow.transit.folding.packing import Alike, Roster, count_of, gather, held_of, pack, unpack
from bbflow.transit.folding.shards import ShardKey, ShardState


class CountedStates(MutableMapping[ShardKey, ShardState]):
    """Shard to state; those that a lane folds are kept as they came, and unpacked for who looks at one."""

    def __init__(self) -> None:
        self._single: dict[ShardKey, ShardState] = {}
        self._packed: dict[str, tuple[Roster, tuple[Alike, ...]]] = {}
        self._unpacked: dict[ShardKey, ShardState] | None = None
        self.changes = 0
        """Grows whenever a shard gets its first state, or loses it."""

    @property
    def packed(self) -> Mapping[str, tuple[Roster, tuple[Alike, ...]]]:
        """The rosters whose states are packed, by their digests."""
        return self._packed

    @property
    def single(self) -> Mapping[ShardKey, ShardState]:
        """The states that aren't packed."""
        return self._single

    @property
    def _likes(self) -> Iterator[ShardState]:
        """All of them, those that are alike once."""
        yield from (item.like for _, alike in self._packed.values() for item in alike)
        yield from self._single.values()

    @property
    def files(self) -> frozenset[str]:
        """The files in which any of them lies, or is held."""
        return frozenset(path for state in self._likes for path in (*state.paths, *state.held))

    def files_in(self, directory: str) -> frozenset[str]:
        """Return those in a directory."""
        return frozenset(path for path in self.files if os.path.dirname(path) == directory)

    def let_go(self) -> None:
        """Hold nothing any more: a later checkpoint is about to be stored, and what it names counts."""
        if not any(state.held for state in self._likes):
            return
        for digest, (roster, alike) in self._packed.items():
            released = ((replace(item.like, held=frozenset()), item.members) for item in alike)
            everyone = range(len(roster))
            records = ((like, everyone if members is None else members) for like, members in released)
            self._packed[digest] = roster, gather(roster, records)
        self._single = {key: replace(state, held=frozenset()) for key, state in self._single.items()}
        self._unpacked = None

    def of(self, roster: Roster) -> tuple[Alike, ...]:
        """Return the states of a roster's shards."""
        known = self._packed.get(roster.digest)
        return pack(roster, self) if known is None else known[1]

    def has_all(self, roster: Roster) -> bool:
        """Whether all of a roster's shards have a state."""
        known = self._packed.get(roster.digest)
        return known is not None and count_of(*known) == len(roster)

    @property
    def held(self) -> Iterator[AlikeShards]:
        """All of them by field, those that are alike together."""
        for roster, alike in self._packed.values():
            yield from held_of(roster, alike)
        yield from hold(sorted(self._single.values(), key=lambda state: state.order))

    def which(self, holds: Callable[[ShardState], bool]) -> list[ShardState]:
        """Return those of which something holds that is the same for all that are alike."""
        packed = (unpack(roster, filter(lambda item: holds(item.like), own)) for roster, own in self._packed.values())
        return [*(state for own in packed for state in own.values()), *filter(holds, self._single.values())]

    def put(self, roster: Roster, alike: tuple[Alike, ...]) -> None:
        """Let new states of a roster's shards count."""
        known = self._packed.get(roster.digest)
        if known is None:
            self._make_room(roster)
        if known is None or count_of(*known) != count_of(roster, alike):
            self.changes += 1
        self._packed[roster.digest] = roster, alike
        self._unpacked = None

    def _make_room(self, roster: Roster) -> None:
        """Let go of what there was of a roster's shards, in whatever other rosters they have been."""
        self._release(roster.keys)
        for key in roster.keys:
            self._single.pop(key, None)

    def _release(self, keys: Iterable[ShardKey]) -> None:
        """Unpack the rosters that have any of some shards."""
        for digest, (other, alike) in tuple(self._packed.items()):
            if not other.positions.keys().isdisjoint(keys):
                self._single.update(unpack(other, alike))
                del self._packed[digest]

    def _all(self) -> dict[ShardKey, ShardState]:
        if self._unpacked is None:
            self._unpacked = dict(self._single)
            for roster, alike in self._packed.values():
                self._unpacked |= unpack(roster, alike)
        return self._unpacked

    def __getitem__(self, key: ShardKey) -> ShardState:
        return self._all()[key]

    def __setitem__(self, key: ShardKey, state: ShardState) -> None:
        if key not in self._single:
            self._release([key])
            self.changes += 1
        self._single[key] = state
        self._unpacked = None

    def __delitem__(self, key: ShardKey) -> None:
        self._release([key])
        del self._single[key]
        self.changes += 1
        self._unpacked = None

    def __iter__(self) -> Iterator[ShardKey]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
