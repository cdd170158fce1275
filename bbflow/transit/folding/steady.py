"""The fold of blocks that the kernel takes as they lie: all of a lane's in few calls, without Python work for each.

These are variables themselves, with operators that are made of moments and extremes, and no transforms, `each`, `then`,
`space` or filters. What is derived of a plan is derived once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.operators import kernel, rules
from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import Array
from bbflow.operators.library import FIELDS, TYPES
from bbflow.operators.state import StateLayout
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.windows import Window
from bbflow.store.pool import map_pool
from bbflow.transit.folding.layouts import layout_of
from bbflow.transit.folding.packing import NOBODY, Alike, Roster, gather, pack
from bbflow.transit.folding.plans import FoldPlan, LaneWork, PlannedShard, PlannedSteps
from bbflow.transit.folding.shards import Extent, ShardKey, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, OUTER, StateSlot, plan_roll
from bbflow.transit.folding.states import map_file, map_target, next_file

Record = tuple[ShardState, Array]
"""A state of no shard, and the positions of the shards that have it."""
TYPE_NAMES = [dtype.str for dtype in TYPES]
NO_STATE = ShardState(NOBODY, (), ())


@dataclass(frozen=True, slots=True)
class Table:
    """The shards of a plan that the kernel takes as they lie; each column has an element for each."""

    at: Array
    """Its position in the plan's roster."""
    forms: Array
    """Which form its block is."""
    types: Array
    """Code of the values' type."""
    points: Array
    """Values of a block."""
    bytes: Array
    """Bytes of a block."""
    extents: Array
    """First byte and size of its states in files of the lane, of shape (shards, 2)."""
    fields: Array
    """First byte of each of the kernel's fields in a state, -1 for none; of shape (shards, fields)."""
    fills: Array
    """Address of the value that stands for 'missing', 0 for none."""
    windows: Array
    """Which of `known_windows` its diagnostic has."""
    known_windows: tuple[tuple[Window, ...], ...]
    """The windows of all its diagnostics."""
    kept: tuple[Array, ...]
    """What the addresses point to."""

    @classmethod
    def of(cls, plan: FoldPlan) -> "Table":
        """Make the table of a plan."""
        rows, fills, windows = [], dict[Any, Array](), dict[tuple[Window, ...], int]()
        layouts: dict[Any, tuple[StateLayout, int, list[int]]] = {}
        shards = (shard for shard in plan.shards if shard.room is not None)
        for position, shard in enumerate(shards):
            form = _steady_form(plan, shard)
            if form is None:
                continue
            at, dtype, count = form
            key = shard.key.diagnostic, dtype, count
            if key not in layouts:
                layout = layout_of(plan.diagnostics[shard.key.diagnostic], OUTER, dtype, count)
                layouts[key] = layout, layout.nbytes, _places(layout)
            layout, nbytes, places = layouts[key]
            if not all(isinstance(family, Moments) for family in layout.families) or not layout.families:
                continue
            (name,) = shard.places
            if (name, dtype) not in fills:
                fills[name, dtype] = next(iter(fills_of(plan.encodings[name], dtype)), np.empty(0))
            fill = fills[name, dtype]
            assert shard.room is not None
            first, points = shard.room.extents[OUTER][0], prod(count)
            own_windows = windows.setdefault(plan.diagnostics[shard.key.diagnostic].windows, len(windows))
            told = position, at, TYPES[dtype], points, points * dtype.itemsize, first, nbytes
            rows.append((*told, fill.ctypes.data if fill.size else 0, own_windows, *places))
        table = np.array(rows, "i8").reshape(-1, 9 + len(FIELDS))
        at, forms, types, points, bytes_ = table.T[:5]
        kept = tuple(fills.values())
        return cls(
            at, forms, types, points, bytes_, table[:, 5:7], table[:, 9:], table[:, 7], table[:, 8], tuple(windows),
            kept,
        )  # fmt: skip

    def addresses(self, rows: Array, first: int) -> Array:
        """Give where the fields of some shards' states are, 0 for none, in a file that is mapped at an address."""
        fields = self.fields[rows]
        return np.where(fields < 0, 0, first + self.extents[rows, :1] + fields)


Rows = tuple[Table, Array]
"""Shards that stand in some rows of a table."""


_tables: WeakKeyDictionary[FoldPlan, Table] = WeakKeyDictionary()


def table_of(plan: FoldPlan) -> Table:
    """Give the table of a plan, made once."""
    if plan not in _tables:
        _tables[plan] = Table.of(plan)
    return _tables[plan]


def _steady_form(plan: FoldPlan, shard: PlannedShard) -> "tuple[int, np.dtype[Any], tuple[int, ...]] | None":
    """Give which form a shard's block is, and its type and shape; None if the kernel can't take it as it lies."""
    if not _is_plain(plan.diagnostics[shard.key.diagnostic]) or shard.local is not None or len(shard.places) != 1:
        return None
    ((name, (node, at)),) = shard.places.items()
    form = plan.layout.forms[at] if node == plan.node else None
    if form is None or form.spilled or not form.bytes or form.dtype not in TYPES:
        return None
    return (at, form.dtype, form.count) if is_bare(plan.encodings[name], form.dtype) else None


def _is_plain(diagnostic: Diagnostic) -> bool:
    bare = not (diagnostic.transforms or diagnostic.each or diagnostic.then or diagnostic.filters)
    return bare and diagnostic.of.is_plain and not diagnostic.others


def _places(layout: StateLayout) -> list[int]:
    places = {field: offset for (_, field), offset in layout.places.items()}
    return [places.get(name, -1) for name in FIELDS]


class SteadyFold:
    """Folds what it can of a lane's work.

    Parameters
    ----------
    work
        What is to be done.
    plans
        How the steps lie, in their order.
    roster
        The shards that have states.
    """

    def __init__(self, work: LaneWork, plans: Sequence[FoldPlan], roster: Roster) -> None:
        self._work, self._plans, self._roster = work, plans, roster
        self._tables = [table_of(plan) for plan in plans]
        self._rows = [self._rows_of(plan, table) for plan, table in zip(plans, self._tables, strict=True)]
        self._present = np.stack([rows >= 0 for rows, _ in self._rows], axis=1)
        taken: Array = np.any(self._present, axis=1)
        for _, others in self._rows:
            taken[others] = False
        for key in work.inherited:
            taken[roster.positions[key]] = False
        self._taken: Array = taken
        self._label = next((plan.lane for plan in plans if plan.lane), "")
        self.bytes = 0
        """Bytes of the blocks that were folded."""

    def _rows_of(self, plan: FoldPlan, table: Table) -> tuple[Array, Array]:
        """Give each shard's row in a plan's table, -1 for none; and the positions of the plan's other shards."""
        rows = np.full(len(self._roster), -1)
        own = plan.roster is self._roster or plan.roster.digest == self._roster.digest
        positions = self._roster.positions
        at = np.arange(len(self._roster)) if own else np.array([positions[key] for key in plan.roster.keys], "i8")
        rows[at[table.at]] = np.arange(len(table.at))
        return rows, np.delete(at, table.at)

    def fold(self) -> list[Record]:
        """Give the states that came of it."""
        done: list[Record] = []
        for like, own in self._records():
            types = self._types(own)
            if like.dtype:
                keep = np.array([name == like.dtype for name in TYPE_NAMES])[types]
                self._taken[own[~keep]] = False  # an error that is said elsewhere
                own, types = own[keep], types[keep]
            for group in self._alike(own, types):
                steps = self._new_steps(like, group)
                if steps:
                    current = like.files.get(BASE[OUTER])
                    rows = self._in_table(group, steps[0][0])
                    done += [
                        self._fold(rolled, current, members, steps)
                        for rolled, members in self._advanced(like, group, rows)
                    ]
                elif like.keys is not None:
                    done.append((like, group))
        return done

    @property
    def taken(self) -> set[ShardKey]:
        """The shards that are folded."""
        return {self._roster.keys[at] for at in np.flatnonzero(self._taken)}

    @property
    def is_all(self) -> bool:
        """Whether nothing else is to be folded."""
        return bool(self._taken.all()) and all(len(plan.shards) == len(plan.roster) for plan in self._plans)

    def _records(self) -> Iterator[Record]:
        """Give the states that count, and at last those that have none."""
        new = self._taken.copy()
        for item in self._work.states:
            own = np.arange(len(self._roster)) if item.members is None else np.array(item.members, "i8")
            new[own] = False
            if (own := own[self._taken[own]]).size:
                yield item.like, own
        if new.any():
            yield NO_STATE, np.flatnonzero(new)

    def _types(self, own: Array) -> Array:
        types = np.zeros(len(self._roster), "i8")
        for (rows, _), table in zip(self._rows, self._tables, strict=True):
            there = rows >= 0
            types[there] = table.types[rows[there]]
        return types[own]

    def _alike(self, members: Array, types: Array) -> Iterator[Array]:
        """Part shards by the plans that they are in, and their type: a call has one list of steps, a state one type."""
        marks = np.column_stack([self._present[members], types])
        _, group = np.unique(marks, axis=0, return_inverse=True)
        return (members[group.reshape(-1) == number] for number in range(int(group.max(initial=-1)) + 1))

    def _advanced(self, like: ShardState, own: Array, rows: Rows) -> Iterator[Record]:
        """Hand on the spans that end before these steps, as `ShardFold.advance` does for one shard."""
        if like.keys is None or like.keys == self._work.keys:
            yield like, own
            return
        table, at = rows
        codes = table.windows[at]
        for code in np.unique(codes).tolist():
            members, windows = own[codes == code], table.known_windows[code]
            yield self._rolled(like, windows, (table, at[codes == code])), members

    def _rolled(self, like: ShardState, windows: Sequence[Window], rows: Rows) -> ShardState:
        """Merge open states into those of their spans, and let the ones go that are done with."""
        assert like.keys is not None
        old, new = like.keys, self._work.keys
        if all(old[window.name] == new[window.name] for window in windows):
            return replace(like, keys=new)
        files = dict(like.files)
        base = files.pop(BASE[OUTER], None)
        roll = plan_roll(OUTER, windows, old, new, files)
        for slot in roll.merged if base is not None else ():
            assert base is not None
            files[slot] = self._merge(slot, files.get(slot), base, rows)
        for slot in roll.dropped:
            files.pop(slot, None)
        return replace(like, keys=new, files=files)

    def _merge(self, slot: StateSlot, current: StatePlace | None, base: StatePlace, rows: Rows) -> StatePlace:
        """Merge open states into those of a slot."""
        table, at = rows
        path, target = self._target(slot, current, rows)
        tasks = np.zeros(len(at), rules.MERGE_TASK)
        tasks["target"] = table.addresses(at, target)
        tasks["right"] = table.addresses(at, _address(map_file(base.path)) + base.offset)
        if current is not None:
            tasks["left"] = table.addresses(at, _address(map_file(current.path)) + current.offset)
        tasks["points"] = table.points[at]
        rules.merge_many(table.types[at], tasks, self._work.threads)
        return StatePlace(path, 0)

    def _target(self, slot: StateSlot, current: StatePlace | None, rows: Rows) -> tuple[str, int]:
        """Give the file that gets the next states of a slot, and the address at which it is mapped."""
        table, at = rows
        path = next_file(self._plans[0].directories.states, self._label, slot.label, current and current.path)
        return path, _address(map_target(path, joined(table.extents[at])))

    def _new_steps(self, like: ShardState, group: Array) -> list[tuple[int, int]]:
        """Give the steps that a group's states haven't: the plan by its place, and the step by its place there."""
        plans = np.flatnonzero(self._present[group[0]]).tolist()
        steps = ((at, step, number) for at in plans for step, number in enumerate(self._work.steps[at].numbers))
        return [(at, step) for at, step, number in steps if number > like.last_step]

    def _fold(
        self, like: ShardState, current: StatePlace | None, group: Array, steps: Sequence[tuple[int, int]]
    ) -> Record:
        """Fold some steps into the open states of shards that have the same plans, and are alike."""
        table, rows = self._in_table(group, steps[0][0])
        blocks = np.ascontiguousarray(np.stack([self._addresses(at, step, group) for at, step in steps], axis=1))
        path, target = self._target(BASE[OUTER], current, (table, rows))
        place = like.files.get(BASE[OUTER])
        source = None if place is None else map_file(place.path)
        tasks = np.zeros(len(group), kernel.TASK)
        tasks["target"] = table.addresses(rows, target)
        if place is not None and source is not None:
            tasks["source"] = table.addresses(rows, _address(source) + place.offset)
        tasks["blocks"] = blocks.ctypes.data + 8 * blocks.shape[1] * np.arange(len(group))
        tasks["steps"], tasks["points"], tasks["fill"] = blocks.shape[1], table.points[rows], table.fills[rows]
        kernel.fold_many(table.types[rows], tasks, self._work.threads)
        self.bytes += int(table.bytes[rows].sum()) * len(steps)
        at, step = steps[-1]
        last: PlannedSteps = self._work.steps[at]
        begun = self._work.steps[steps[0][0]].numbers[steps[0][1]]
        state = replace(
            like, dtype=TYPE_NAMES[int(table.types[rows[0]])], last_step=last.numbers[step], last_time=last.times[step],
            keys=self._work.keys, files={**like.files, BASE[OUTER]: StatePlace(path, 0)},
            first_step=begun if like.first_step < 0 else like.first_step,
        )  # fmt: skip
        return state, group

    def _in_table(self, group: Array, plan: int) -> Rows:
        """Give a plan's table, and where the shards of a group stand there."""
        return self._tables[plan], self._rows[plan][0][group]

    def _addresses(self, plan: int, step: int, group: Array) -> Array:
        """Give where the blocks of a step lie."""
        own, table = self._plans[plan], self._tables[plan]
        first = _address(map_pool(own.directories.pool))
        offsets = own.layout.offsets(self._work.steps[plan].sources[step])
        return first + offsets[table.forms[self._rows[plan][0][group]]]


def packed(roster: Roster, done: Sequence[Record], others: Mapping[ShardKey, ShardState]) -> tuple[Alike, ...]:
    """Give all states of a lane in few records."""
    rest = ((item.like, range(len(roster)) if item.members is None else item.members) for item in pack(roster, others))
    return gather(roster, [*((like, own.tolist()) for like, own in done), *rest])


def joined(extents: Array) -> list[Extent]:
    """Put extents together that follow each other."""
    ordered = extents[np.argsort(extents[:, 0])]
    ends = ordered.sum(axis=1)
    begins = np.flatnonzero(np.append(True, ordered[1:, 0] - ends[:-1] >= _PAGE))
    lasts = np.append(begins[1:], len(ordered)) - 1
    return [(int(first), int(end - first)) for first, end in zip(ordered[begins, 0], ends[lasts], strict=True)]


_PAGE = 4096


def _address(mapping: Any) -> int:
    return np.frombuffer(mapping, np.uint8).ctypes.data
