"""The states of shards as tables: a row for each shard of a lane, and what the states of many rows have in common once.

Nearly all shards of a lane are folded equally far, into the same files. So what goes to the workers, comes back with a
receipt and stands in a checkpoint is as small for a thousand shards as for one. Who wants to know of a single shard
looks at its row.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import DamagedError
from bbflow.host.atomic import write_whole
from bbflow.operators.frozen import Frozen
from bbflow.operators.steps import Array
from bbflow.transit.spans.slots import LEVELS
from bbflow.transit.states.shards import Region, Row, ShardKey, ShardState
from bbflow.transit.states.written import Written, pack, unpack

Member = tuple[ShardKey, Region, Sequence[int]]
"""A shard, the part of the field that its states are of, and where these lie in files of `LEVELS`."""

ROSTERS_DIRECTORY = ".rosters"
"""In the output, while the run lasts: rosters, which checkpoints name."""
FEW_ROWS = 32
PADS = {"start": 0, "count": 1, "first": 0, "shape": 1}
"""What stands for dimensions that a shard hasn't."""


@lru_cache
def row_type(dims: int) -> np.dtype[Any]:
    """Return the type of a row, for shards of this many dimensions at most.

    Which of the table's diagnostics it is of; how many dimensions its block and its part of the field have, and where
    each begins, and its shape (further ones are 0 and 1); and the first byte of its states in files of each level.
    """
    places = [(name, "<i8", (dims,)) for name in ("start", "count", "first", "shape")]
    numbers = [(name, "<i4") for name in ("diagnostic", "dims", "field_dims")]
    return np.dtype([*numbers, ("pad", "<i4"), *places, ("offsets", "<i8", (len(LEVELS),))])


class RosterRecord(Written, frozen=True, kw_only=True):
    """What a file of a lane's shards holds; as `Roster`."""

    node: str
    diagnostics: tuple[str, ...]
    dims: int
    """Of the rows' type."""
    rows: bytes


@dataclass(frozen=True, eq=False)
class Roster(Frozen):
    """The shards of a lane, in an order."""

    node: str
    """Whose they are."""
    diagnostics: tuple[str, ...]
    """Diagnostics that rows name by their position here."""
    rows: Array
    """A row for each shard, of `row_type`."""

    @classmethod
    def of(cls, keys: Sequence[ShardKey], regions: Sequence[Region], offsets: Any) -> "Roster":
        """Make the table of some shards of a node.

        Parameters
        ----------
        keys
            Which shards.
        regions
            The parts of the field that their states are of.
        offsets
            Where these lie in files of `LEVELS`, of shape (shards, levels).
        """
        codes = {name: number for number, name in enumerate(dict.fromkeys([key.diagnostic for key in keys]))}
        columns = {
            "start": [key.start for key in keys],
            "count": [key.count for key in keys],
            "first": [first for first, _ in regions],
            "shape": [shape for _, shape in regions],
        }
        lengths = {name: [len(own) for own in columns[name]] for name in ("start", "first")}
        dims = max((max(own, default=0) for own in lengths.values()), default=0)
        rows: Array = np.zeros(len(keys), row_type(dims))
        rows["diagnostic"] = [codes[key.diagnostic] for key in keys]
        rows["dims"], rows["field_dims"] = lengths["start"], lengths["first"]
        for name, values in columns.items():
            rows[name] = padded(values, dims, PADS[name])
        rows["offsets"] = np.reshape(offsets, (len(keys), len(LEVELS)))
        return cls(keys[0].node if keys else "", tuple(codes), rows)

    @classmethod
    def united(cls, tables: "Sequence[Roster]") -> "Roster":
        """Return one with the shards of all: the first one, if they have the same."""
        united = tables[0]
        for other in tables[1:]:
            if other.digest != united.digest:
                united = united._with(other.chosen(np.flatnonzero(united.find(other) < 0)))
        return united

    def _with(self, other: "Roster") -> "Roster":
        names, dims = tuple(dict.fromkeys((*self.diagnostics, *other.diagnostics))), max(self.dims, other.dims)
        rows = np.concatenate([own._rows_as(names, dims) for own in (self, other)]) if len(other) else self.rows
        return Roster(self.node or other.node, names, rows)

    def _rows_as(self, names: Sequence[str], dims: int) -> Array:
        """Return the rows with other numbers of their diagnostics, and as many dimensions."""
        rows: Array = np.zeros(len(self), row_type(dims))
        for name, pad in PADS.items():
            rows[name] = pad
        for name in ("dims", "field_dims", "offsets"):
            rows[name] = self.rows[name]
        for name in PADS:
            rows[name][:, : self.dims] = self.rows[name]
        rows["diagnostic"] = np.array([names.index(name) for name in self.diagnostics], "i4")[self.rows["diagnostic"]]
        return rows

    @property
    def dims(self) -> int:
        """How many dimensions the rows have."""
        return int(self.rows.dtype["start"].shape[0])

    @property
    def packed(self) -> bytes:
        """What a file of it holds."""
        record = RosterRecord(
            node=self.node, diagnostics=self.diagnostics, dims=self.dims, rows=self.rows.tobytes()
        )  # fmt: skip
        return pack(record)

    @cached_property
    def digest(self) -> str:
        """Its name: no other table has it."""
        return blake2b(self.packed, digest_size=16).hexdigest()

    @classmethod
    def unpacked(cls, packed: bytes, name: str) -> "Roster":
        """Take a table out of its file, of some name; as `written.unpack`."""
        record = unpack(packed, RosterRecord, name)
        return cls(record.node, record.diagnostics, np.frombuffer(record.rows, row_type(record.dims)))

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        known = {"digest": self.digest} if "digest" in self.__dict__ else {}
        return Roster, (self.node, self.diagnostics, self.rows), known

    def chosen(self, rows: Array) -> "Roster":
        """Return those at some positions."""
        if is_all(rows, len(self)):
            return self
        return Roster(self.node, self.diagnostics, self.rows[rows])

    @cached_property
    def keys(self) -> tuple[ShardKey, ...]:
        """Which shards they are."""
        return tuple(key for key, _, _ in self.members())

    @cached_property
    def positions(self) -> dict[ShardKey, int]:
        """Where each one stands."""
        return {key: at for at, key in enumerate(self.keys)}

    def members(self, rows: Array | slice = slice(None)) -> list[Member]:
        """Look at all or some of them."""
        told = self.rows[rows]
        columns = (told[name].tolist() for name in ("diagnostic", "dims", "field_dims", *PADS, "offsets"))
        return [
            (
                ShardKey(self.node, self.diagnostics[of], tuple(start[:dims]), tuple(count[:dims])),
                (tuple(first[:own]), tuple(shape[:own])),
                offsets,
            )
            for of, dims, own, start, count, first, shape, offsets in zip(*columns, strict=True)
        ]

    def find(self, others: "Roster") -> Array:
        """Return where each of some others stands, -1 for none; of shape (others,)."""
        if others.digest == self.digest:
            return np.arange(len(self))
        if self.node != others.node or not set(self.diagnostics) & set(others.diagnostics):
            return np.full(len(others), -1)
        names, dims = tuple(dict.fromkeys((*self.diagnostics, *others.diagnostics))), max(self.dims, others.dims)
        own, theirs = (_marks(table._rows_as(names, dims)) for table in (self, others))
        known = {mark: at for at, mark in enumerate(own)}
        return np.array([known.get(mark, -1) for mark in theirs], "i8")

    @cached_property
    def fields(self) -> "list[tuple[Array, Roster]]":
        """The positions of each field's shards, by where they lie, and these as a table: of as many dimensions."""
        rows, kinds = self.rows, np.stack([self.rows[name] for name in ("diagnostic", "dims", "field_dims")], axis=1)
        ordered = np.lexsort((*rows["count"].T[::-1], *rows["start"].T[::-1], *kinds.T[::-1]))
        ends = np.flatnonzero((np.diff(kinds[ordered], axis=0) != 0).any(axis=1)) + 1
        parts = np.split(ordered, ends) if len(ordered) else []
        return [(own, self._field(own)) for own in parts]

    def _field(self, positions: Array) -> "Roster":
        rows, name = self.rows[positions], self.diagnostics[self.rows["diagnostic"][positions[0]]]
        rows["diagnostic"] = 0
        return Roster(self.node, (name,), rows)

    def _column(self, name: str, dims: str) -> Array:
        column: Array = self.rows[name][:, : int(self.rows[dims][0]) if len(self) else 0]
        return column

    @property
    def firsts(self) -> Array:
        """Where the regions of a field's shards begin; of shape (shards, dimensions)."""
        return self._column("first", "field_dims")

    @property
    def shapes(self) -> Array:
        """Their shapes."""
        return self._column("shape", "field_dims")

    @property
    def regions(self) -> list[Region]:
        """Both, one by one."""
        return list(zip(map(tuple, self.firsts.tolist()), map(tuple, self.shapes.tolist()), strict=True))

    def offsets(self, level: str) -> Array:
        """Return where the states of a level lie; of shape (shards,)."""
        offsets: Array = self.rows["offsets"][:, LEVELS.index(level)]
        return offsets


def padded(values: Sequence[Sequence[int]], dims: int, pad: int) -> Array:
    """Return some tuples as rows of a length."""
    if any(len(own) != dims for own in values):
        further = (pad,) * dims
        values = [(*own, *further[len(own) :]) for own in values]
    return np.array(values, "i8").reshape(len(values), dims)


def is_all(rows: Array, count: int) -> bool:
    """Whether some positions are all of so many, in their order."""
    return len(rows) == count and bool((rows[1:] > rows[:-1]).all())


def _marks(rows: Array) -> list[bytes]:
    """Return what tells rows from each other."""
    numbers = np.stack([rows["diagnostic"], rows["dims"]], axis=1).astype("i8")
    marks = np.ascontiguousarray(np.concatenate([numbers, rows["start"], rows["count"]], axis=1))
    found: list[bytes] = marks.view(f"V{marks.shape[1] * marks.itemsize}").reshape(-1).tolist()
    return found


def gather(roster: Roster, records: Iterable[tuple[ShardState, Array]]) -> tuple[ShardState, ...]:
    """Put together what is alike of some records: what states have in common, and the positions of these."""
    found: dict[Any, tuple[ShardState, list[Array]]] = {}
    for like, own in records:
        found.setdefault(like.told, (like, []))[1].append(own)
    joined = ((like, np.concatenate(own)) for like, own in found.values())
    return tuple(
        replace(like, at=None if len(own) == len(roster) else np.sort(own).astype("<i4").tobytes())
        for like, own in joined
        if len(own)
    )


def living_files(alike: Iterable[ShardState]) -> dict[str, int]:
    """Return in how many files a shard has states at most, by level."""
    found: Counter[str] = Counter()
    for item in alike:
        found |= Counter(level for level, _ in {(slot.level, place.path) for slot, place in item.files.items()})
    return dict(found)


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """The states of a lane's shards, as far as they have some."""

    roster: Roster
    """The shards."""
    alike: tuple[ShardState, ...]
    """What they have: once for all that have it in common."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "list[States]":
        """Make tables of single shards' states: one for each node."""
        nodes: dict[str, list[Row]] = {}
        for row in rows:
            nodes.setdefault(row[0].node, []).append(row)
        found = []
        for own in nodes.values():
            keys, regions, states = zip(*own, strict=True)
            roster = Roster.of(keys, regions, [state.offsets for state in states])
            found.append(cls.in_roster(roster, enumerate(states)))
        return found

    @classmethod
    def in_roster(cls, roster: Roster, states: Iterable[tuple[int, ShardState]]) -> "States":
        """Make a table of single shards' states, by their positions."""
        keys, offsets = roster.keys, roster.rows["offsets"].tolist()
        return cls(
            roster, gather(roster, ((state.shared(keys[at], offsets[at]), np.array([at])) for at, state in states))
        )

    def _records(self) -> Iterator[tuple[ShardState, Array]]:
        return ((item, item.of_rows(len(self.roster))) for item in self.alike)

    @property
    def count(self) -> int:
        """How many shards have a state."""
        return sum(len(rows) for _, rows in self._records())

    @property
    def has(self) -> Array:
        """Which shards have a state; bool of shape (shards,)."""
        has: Array = np.zeros(len(self.roster), bool)
        for _, rows in self._records():
            has[rows] = True
        return has

    def rows(self, among: Array | None = None) -> Iterator[Row]:
        """Look at the states one by one: all, or those of rows that an array of bool names."""
        for like, own in self._records():
            for key, region, offsets in self.roster.members(own if among is None else own[among[own]]):
                yield key, region, like.seen(key, offsets)

    def get(self, key: ShardKey) -> ShardState | None:
        """Look at the state of one shard; None if it isn't here, or has none."""
        at = self.roster.positions.get(key) if key.diagnostic in self.roster.diagnostics else None
        own = None if at is None else np.arange(len(self.roster)) == at
        return None if own is None else next((state for _, _, state in self.rows(own)), None)

    def chosen(self, among: Array) -> "States":
        """Return those of the shards that an array of bool names."""
        place = np.cumsum(among) - 1
        roster = self.roster.chosen(np.flatnonzero(among))
        return States(roster, gather(roster, ((like, place[own[among[own]]]) for like, own in self._records())))

    def without(self, diagnostics: Collection[str]) -> "States":
        """Return those of the shards that aren't of some diagnostics."""
        stays: Array = np.array([name not in diagnostics for name in self.roster.diagnostics], bool)
        return self if stays.all() else self.chosen(stays[self.roster.rows["diagnostic"]])

    def changed(self, change: Callable[[ShardState], ShardState]) -> "States":
        """Return the states changed in what they have in common."""
        return States(self.roster, gather(self.roster, ((change(like), own) for like, own in self._records())))

    def moved(self, roster: Roster) -> Iterator[tuple[ShardState, Array]]:
        """Yield what these have of another table's shards, with the positions there."""
        at = roster.find(self.roster)
        for like, rows in self._records():
            own = rows[at[rows] >= 0]
            shifts = self.roster.rows["offsets"][own] - roster.rows["offsets"][at[own]]
            for shift, number in groups(shifts):
                yield like.shifted(shift), at[own[number]]

    @property
    def fields(self) -> "Iterator[States]":
        """The states of each field: those that are alike together."""
        for item, rows in self._records():
            marked: Array = np.full(len(self.roster), item.at is None)
            marked[rows] = True
            for positions, shards in self.roster.fields:
                own = marked[positions]
                if own.any():
                    yield States(shards.chosen(np.flatnonzero(own)), (replace(item, at=None),))

    def is_of(self, diagnostic: str) -> bool:
        """Whether these, as those of `fields`, are of a diagnostic."""
        return self.roster.diagnostics[0] == diagnostic

    @property
    def like(self) -> ShardState:
        """What all have in common, where all have a state and are alike, as those of `fields`."""
        (own,) = self.alike
        return own

    @property
    def order(self) -> tuple[Any, ...]:
        """As `inherited.order_of`, for all of a field that are alike."""
        return self.like.first_step, not self.roster.rows["dims"][0], self.roster.node


def groups(rows: Array) -> Iterator[tuple[list[int], Array]]:
    """Yield rows that are equal, with their positions."""
    if len(rows) and (rows == rows[0]).all():
        yield rows[0].tolist(), np.arange(len(rows))
        return
    if len(rows) <= FEW_ROWS:  # NumPy takes longer for so few
        found: dict[tuple[int, ...], list[int]] = {}
        for at, row in enumerate(rows.tolist()):
            found.setdefault(tuple(row), []).append(at)
        yield from ((list(kind), np.array(own)) for kind, own in sorted(found.items()))
        return
    ordered = np.lexsort(rows.T[::-1])  # by the last key first; `np.unique` takes nine times as long
    ends = np.flatnonzero((rows[ordered[1:]] != rows[ordered[:-1]]).any(axis=1)) + 1
    yield from ((rows[own[0]].tolist(), own) for own in np.split(ordered, ends))


class CountedStates:
    """The states that count, in tables as tasks have given them; each shard is in one table at most."""

    def __init__(self) -> None:
        self._tables: dict[str, States] = {}
        self.changes = 0
        """Grows whenever a shard gets its first state, or loses it."""

    @property
    def tables(self) -> Collection[States]:
        """All of them."""
        return self._tables.values()

    @property
    def likes(self) -> Iterator[ShardState]:
        """What the states of each table have in common."""
        return (item for table in self.tables for item in table.alike)

    @property
    def files(self) -> frozenset[str]:
        """The files in which any of them lies, or is held."""
        return frozenset(path for like in self.likes for path in (*like.paths, *like.held))

    @property
    def by_directory(self) -> Mapping[str, frozenset[str]]:
        """These files by the directories that they are in."""
        found: dict[str, set[str]] = {}
        for path in self.files:
            found.setdefault(os.path.dirname(path), set()).add(path)
        return {directory: frozenset(own) for directory, own in found.items()}

    def _of_node(self, node: str) -> list[States]:
        """Return the tables with shards of a node."""
        return [table for table in self.tables if table.roster.node == node]

    def __len__(self) -> int:
        return sum(table.count for table in self.tables)

    def __iter__(self) -> Iterator[Row]:
        return (row for table in self.tables for row in table.rows())

    def get(self, key: ShardKey) -> ShardState | None:
        """Look at the state of one shard; None if it has none."""
        found = (table.get(key) for table in self._of_node(key.node))
        return next((state for state in found if state is not None), None)

    def of(self, roster: Roster) -> tuple[ShardState, ...]:
        """Return the states of a lane's shards."""
        known = self._tables.get(roster.digest)
        if known is not None:
            return known.alike
        return gather(roster, (record for table in self._of_node(roster.node) for record in table.moved(roster)))

    def has_all(self, roster: Roster) -> bool:
        """Whether all of a lane's shards have a state."""
        known = self._tables.get(roster.digest)
        return known is not None and known.count == len(roster)

    def put(self, states: States) -> None:
        """Commit new states of a lane's shards, instead of what there was of them in whatever other tables."""
        if not len(states.roster):
            return
        digest = states.roster.digest
        known = self._tables.get(digest)
        if known is None:
            for table in self._of_node(states.roster.node):
                own = states.roster.find(table.roster) < 0
                if not own.all():
                    del self._tables[table.roster.digest]
                    if own.any():
                        rest = table.chosen(own)
                        self._tables[rest.roster.digest] = rest
        if known is None or known.count != states.count:
            self.changes += 1
        self._tables[digest] = states

    def drop(self, diagnostics: Collection[str]) -> list[ShardKey]:
        """Release the states of some diagnostics, and return the shards that had them."""
        gone = [key for key, _, _ in self if key.diagnostic in diagnostics]
        tables = [table.without(diagnostics) for table in self.tables]
        self._tables = {table.roster.digest: table for table in tables if len(table.roster)}
        self.changes += bool(gone)
        return gone

    def let_go(self) -> None:
        """Hold nothing any more: a later checkpoint is about to be stored, and what it names counts."""
        self._change(lambda like: bool(like.held), lambda like: replace(like, held=frozenset()))

    def take_rows(self) -> list[Row]:
        """Return the states with rows that were not published, and let go of the rows."""
        found = (States(table.roster, tuple(item for item in table.alike if item.rows)) for table in self.tables)
        unpublished = [row for own in found for row in own.rows()]
        self._change(lambda like: bool(like.rows), lambda like: replace(like, rows=()))
        return unpublished

    def _change(self, wanted: Callable[[ShardState], bool], change: Callable[[ShardState], ShardState]) -> None:
        if any(map(wanted, self.likes)):
            self._tables = {digest: table.changed(change) for digest, table in self._tables.items()}


class RosterFiles:
    """Keeps the rosters of a run in its output, for an analysis that continues it.

    Parameters
    ----------
    output
        Of the run.
    """

    def __init__(self, output: Path) -> None:
        self._directory = output / ROSTERS_DIRECTORY
        self._there: set[str] = set()

    def keep(self, rosters: Iterable[Roster]) -> None:
        """Write those that aren't there yet: before a checkpoint names them."""
        for roster in rosters:
            if roster.digest not in self._there:
                self._directory.mkdir(parents=True, exist_ok=True)
                write_whole(self._directory / roster.digest, roster.packed)
                self._there.add(roster.digest)

    def drop(self, named: Iterable[str]) -> None:
        """Remove all but some: once no checkpoint names them any more."""
        for digest in self._there - set(named):
            (self._directory / digest).unlink(missing_ok=True)
            self._there.remove(digest)

    def read(self, digest: str) -> Roster:
        """Return one that is there.

        Raises
        ------
        DamagedError
            If it isn't as it was kept: it says which states are whose.
        """
        self._there.add(digest)
        path = self._directory / digest
        roster = Roster.unpacked(path.read_bytes(), str(path))
        if roster.digest != digest:
            raise DamagedError(f"{path} is damaged: it isn't what its name says")
        return roster
