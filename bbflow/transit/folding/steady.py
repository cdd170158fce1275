"""The fold of blocks that the kernel takes as they lie: all of a lane's in few calls, without Python work for each."""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.operators import kernel, rules
from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.library import FIELDS, TYPES
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array
from bbflow.operators.windows.window import Window
from bbflow.store.pool import map_pool
from bbflow.stream.cf import Encoding
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.plans import FoldPlan, LaneWork, PlannedSteps
from bbflow.transit.folding.shards import Progress, ShardKey, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, OUTER, StateSlot, plan_roll
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import free_file, joined, map_file, map_target
from bbflow.transit.folding.tables import Alike, Roster, States, gather, groups

Record = tuple[Progress, Array]
"""What some states have in common, and the positions of the shards that have it."""
TYPE_NAMES = [dtype.str for dtype in TYPES]

ROW = np.dtype(
    [
        *((name, "i8") for name in ("form", "types", "points", "bytes")),
        ("extents", "i8", 2),
        ("fields", "i8", len(FIELDS)),
        *((name, "i8") for name in ("fills", "windows")),
    ]
)
"""What the kernel must know of a shard.

Which form its block is, -1 if the kernel can't take it as it lies; code of the values' type; values and bytes of a
block; first byte and size of its states in files of the lane; first byte of each of the kernel's fields there, -1 for
none; address of the value that stands for 'missing', 0 for none; which of `known_windows` its diagnostic has.
"""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """What the kernel must know of a plan's shards.

    It takes those of variables themselves, with operators that are made of moments and extremes, and no transforms,
    `each`, `then`, `space` or filters.
    """

    rows: Array
    """A `ROW` for each of the roster's."""
    known_windows: tuple[tuple[Window, ...], ...]
    """The windows of all its diagnostics."""
    kept: tuple[Array, ...]
    """What addresses point to."""

    @classmethod
    def of(cls, plan: FoldPlan) -> "KernelTable":
        """Make the table of a plan."""
        rows, windows = np.zeros(len(plan.roster), ROW), dict[tuple[Window, ...], int]()
        kept: list[Array] = []
        rows["form"] = -1
        forms = np.array([at if node == plan.node else -1 for node, at in plan.places], "i8")
        whole: Array = np.ones(len(plan.roster), bool)
        whole[list(plan.locals)] = False
        for code, key in enumerate(plan.roster.diagnostics):
            diagnostic = plan.diagnostics[key]
            own = np.flatnonzero(whole & (plan.roster.rows["diagnostic"] == code)) if _is_plain(diagnostic) else ()
            if not len(own):
                continue
            at = forms[plan.blocks[own, 0]]
            own, at = own[at >= 0], at[at >= 0]
            for form, alike in _kinds([plan.layout.forms[number] for number in at.tolist()]):
                row = _row(diagnostic, form, plan.encodings[form.name], kept)
                if row is not None:
                    rows[own[alike]] = row
                    rows["form"][own[alike]] = at[alike]
            rows["windows"][own] = windows.setdefault(diagnostic.windows, len(windows))
        offsets = plan.extents(OUTER)[:, :1]
        rows["extents"][:, :1] = offsets
        rows["fields"] = np.where(rows["fields"] < 0, -1, offsets + rows["fields"])
        return cls(rows, tuple(windows), tuple(kept))

    def addresses(self, rows: Array, first: int) -> Array:
        """Return where the fields of some shards' states are, 0 for none, in a file that is mapped at an address."""
        fields = self.rows["fields"][rows]  # no further column: rows are long
        return np.where(fields < 0, 0, fields + first)


Rows = tuple[KernelTable, Array]
"""Shards that stand in some rows of a table."""
_tables: WeakKeyDictionary[FoldPlan, KernelTable] = WeakKeyDictionary()


def table_of(plan: FoldPlan) -> KernelTable:
    """Return the table of a plan, made once."""
    if plan not in _tables:
        _tables[plan] = KernelTable.of(plan)
    return _tables[plan]


def _kinds(forms: Sequence[BlockForm]) -> Iterator[tuple[BlockForm, Array]]:
    """Yield a form of each kind, and the positions of all that are like it."""
    found: dict[Any, list[int]] = {}
    for at, form in enumerate(forms):
        found.setdefault((form.type, form.count, form.bytes, form.spilled, form.stride), []).append(at)
    return ((forms[own[0]], np.array(own)) for own in found.values())


def _row(diagnostic: Diagnostic, form: BlockForm, encoding: Encoding, kept: list[Array]) -> Any:
    """Return the row of shards with blocks of a kind, but for where they lie; None if the kernel can't take these."""
    if form.spilled or not form.bytes or form.stride > 1 or form.dtype not in TYPES:
        return None
    state_layout = state_layout_of(diagnostic, OUTER, form.dtype, form.count)
    is_known = state_layout.families and all(
        isinstance(family, Moments) and not family.is_weighted for family in state_layout.families
    )
    if not is_known or not is_bare(encoding, form.dtype):
        return None
    fill = next(iter(fills_of(encoding, form.dtype)), np.empty(0))
    kept.append(fill)
    places = {field: offset for (_, field), offset in state_layout.places.items()}
    points, fields = prod(form.count), tuple(places.get(name, -1) for name in FIELDS)
    address = fill.ctypes.data if fill.size else 0
    told = 0, TYPES[form.dtype], points, points * form.dtype.itemsize, (0, state_layout.nbytes), fields, address, 0
    return np.array(told, ROW)


def _is_plain(diagnostic: Diagnostic) -> bool:
    bare = not (diagnostic.transforms or diagnostic.each or diagnostic.then or diagnostic.filters)
    return bare and diagnostic.of.is_plain and not diagnostic.others


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
        for key, before in work.inherited.items():
            taken[roster.positions[key]] &= not before.taken
        self._taken: Array = taken
        self._label = next((plan.lane for plan in plans if plan.lane), "")
        self._mappings: list[mmap.mmap] = []
        """What the kernel has addresses of."""
        self.bytes = 0
        """Bytes of the blocks that were folded."""

    def _rows_of(self, plan: FoldPlan, table: KernelTable) -> tuple[Array, Array]:
        """Return each shard's row in a plan's table, -1 for none; and the positions of the plan's other shards."""
        at, there = self._roster.find(plan.roster), table.rows["form"] >= 0
        rows = np.full(len(self._roster), -1)
        rows[at[there]] = np.flatnonzero(there)
        return rows, at[~there]

    def fold(self) -> list[Record]:
        """Return the states that came of it."""
        done: list[Record] = []
        for like, members in self._records():
            own = self._keep_type(like.dtype, members) if like.dtype else members
            for group in self._alike(own, self._of_tables("types", own)):
                steps = self._new_steps(like, group)
                if steps:
                    rows = self._in_table(group, steps[0][0])
                    done += [
                        self._fold(like, rolled, part, steps) for rolled, part in self._advanced(like, group, rows)
                    ]
                elif like.keys is not None:
                    done.append((like, group))
        return done

    @property
    def taken(self) -> Array:
        """Which of the roster's shards are folded; bool of shape (shards,)."""
        return self._taken

    @property
    def is_all(self) -> bool:
        """Whether nothing else is to be folded."""
        return bool(self._taken.all()) and not any(plan.joined for plan in self._plans)

    def _records(self) -> Iterator[Record]:
        """Yield the states that count, and at last those that have none."""
        new = self._taken.copy()
        for item in self._work.states:
            own = item.rows(self._roster)
            new[own] = False
            if (own := own[self._taken[own]]).size:
                yield item.like, own
        for item in gather(self._roster, self._inherited()):
            own = item.rows(self._roster)
            new[own] = False
            yield item.like, own
        if new.any():
            yield Progress(), np.flatnonzero(new)

    def _inherited(self) -> Iterator[Record]:
        """Let new shards begin with what was kept of their points, those of a diagnostic together."""
        found: dict[str, list[int]] = {}
        for key in self._work.inherited:
            if self._taken[at := self._roster.positions[key]]:
                found.setdefault(key.diagnostic, []).append(at)
        for own in found.values():
            before = self._work.inherited[self._roster.keys[own[0]]]
            if self._keep_type(before.dtype, np.array(own)).size == len(own):
                yield self._cut(before, np.array(own)), np.array(own)

    def _cut(self, before: Inherited, own: Array) -> Progress:
        """Write what some shards of a diagnostic begin with, and return the state that they have then."""
        members = self._roster.members(own)
        key = members[0][0].diagnostic
        diagnostic = next(plan.diagnostics[key] for plan in self._plans if key in plan.diagnostics)
        regions = [region for _, region, _ in members]
        extents = self._of_tables("extents", own)
        files: dict[StateSlot, StatePlace] = {}
        for slot in before.offsets:
            path = self._free(Progress(), files)
            before.cut(diagnostic, slot, regions, map_target(path, joined(extents)), extents[:, 0].tolist())
            files[slot] = StatePlace(path, 0)
        return before.begun(Progress(), files)

    def _keep_type(self, dtype: str, own: Array) -> Array:
        """Return the shards whose values are of a type; for the others there is an error, which is said elsewhere."""
        same: Array = np.array([name == dtype for name in TYPE_NAMES])[self._of_tables("types", own)]
        self._taken[own[~same]] = False
        return own[same]

    def _of_tables(self, column: str, own: Array) -> Array:
        """Return what a column of the plans' tables has of some shards."""
        columns = [table.rows[column] for table in self._tables]
        found: Array = np.zeros((len(self._roster), *columns[0].shape[1:]), "i8")
        for (rows, _), values in zip(self._rows, columns, strict=True):
            there = rows >= 0
            found[there] = values[rows[there]]
        chosen: Array = found[own]
        return chosen

    def _alike(self, members: Array, types: Array) -> Iterator[Array]:
        """Part shards by the plans that they are in, and their type: a call has one list of steps, a state one type."""
        marks = np.column_stack([self._present[members], types])
        return (members[own] for _, own in groups(marks))

    def _advanced(self, like: Progress, own: Array, rows: Rows) -> Iterator[Record]:
        """Hand on the spans that end before these steps, as `ShardFold.advance` does for one shard."""
        if like.keys is None or like.keys == self._work.keys:
            yield like, own
            return
        table, at = rows
        codes = table.rows["windows"][at]
        for code in np.unique(codes).tolist():
            members, windows = own[codes == code], table.known_windows[code]
            yield self._rolled(like, windows, (table, at[codes == code])), members

    def _rolled(self, like: Progress, windows: Sequence[Window], rows: Rows) -> Progress:
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
            current = files.get(slot)
            # A state is never written to, so several slots may have it.
            files[slot] = base if current is None else self._merge(self._free(like, files), current, base, rows)
        for slot in roll.dropped:
            files.pop(slot, None)
        return replace(like, keys=new, files=files)

    def _free(self, like: Progress, files: Mapping[StateSlot, StatePlace]) -> str:
        """Return the file that gets the next state of shards, which have written others already."""
        # Never into what counts, which is only read until a receipt says otherwise, nor into what the stored checkpoint
        # names: from there an analysis that takes over goes on.
        taken = {*like.paths, *like.held, *(place.path for place in files.values())}
        return free_file(self._plans[0].directories.states, self._label, OUTER, taken)

    def _merge(self, path: str, current: StatePlace, base: StatePlace, rows: Rows) -> StatePlace:
        """Merge open states into those of a slot."""
        table, at = rows
        tasks = np.zeros(len(at), rules.MERGE_TASK)
        tasks["target"] = table.addresses(at, self._target(path, rows))
        tasks["right"] = table.addresses(at, self._address(map_file(base.path)) + base.offset)
        tasks["left"] = table.addresses(at, self._address(map_file(current.path)) + current.offset)
        tasks["points"] = table.rows["points"][at]
        rules.merge_many(table.rows["types"][at], tasks, self._work.threads)
        return StatePlace(path, 0)

    def _target(self, path: str, rows: Rows) -> int:
        """Map a file for the next states of some shards, and return the address."""
        table, at = rows
        return self._address(map_target(path, joined(table.rows["extents"][at])))

    def _address(self, mapping: mmap.mmap) -> int:
        """Return where a file is mapped, for good: nobody else may hold it, or it is mapped anew where it grows."""
        self._mappings.append(mapping)
        return _address(mapping)

    def _new_steps(self, like: Progress, group: Array) -> list[tuple[int, int]]:
        """Return the steps that a group's states haven't: the plan by its place, and the step by its place there."""
        plans = np.flatnonzero(self._present[group[0]]).tolist()
        steps = ((at, step, number) for at in plans for step, number in enumerate(self._work.steps[at].numbers))
        return [(at, step) for at, step, number in steps if number > like.last_step]

    def _fold(self, before: Progress, like: Progress, group: Array, steps: Sequence[tuple[int, int]]) -> Record:
        """Fold some steps into the open states of shards that have the same plans, and are alike.

        Parameters
        ----------
        before, like
            Their states that count, and what these have come to where spans have ended.
        group
            The shards.
        steps
            As `_new_steps` gives them.
        """
        table, rows = self._in_table(group, steps[0][0])
        own = {name: table.rows[name][rows] for name in ("types", "points", "bytes", "fills")}
        blocks = np.ascontiguousarray(np.stack([self._addresses(at, step, group) for at, step in steps], axis=1))
        path = self._free(before, like.files)
        target = self._target(path, (table, rows))
        place = like.files.get(BASE[OUTER])
        tasks = np.zeros(len(group), kernel.TASK)
        tasks["target"] = table.addresses(rows, target)
        if place is not None:
            tasks["source"] = table.addresses(rows, self._address(map_file(place.path)) + place.offset)
        tasks["blocks"] = blocks.ctypes.data + 8 * blocks.shape[1] * np.arange(len(group))
        tasks["steps"], tasks["points"], tasks["fill"] = blocks.shape[1], own["points"], own["fills"]
        kernel.fold_many(own["types"], tasks, self._work.threads)
        self.bytes += int(own["bytes"].sum()) * len(steps)
        at, step = steps[-1]
        last: PlannedSteps = self._work.steps[at]
        begun = self._work.steps[steps[0][0]].numbers[steps[0][1]]
        state = replace(
            like, dtype=TYPE_NAMES[int(own["types"][0])], last_step=last.numbers[step], last_time=last.times[step],
            keys=self._work.keys, files={**like.files, BASE[OUTER]: StatePlace(path, 0)},
            first_step=begun if like.first_step < 0 else like.first_step,
            held=before.next_held(holds=self._work.holds),
        )  # fmt: skip
        return state, group

    def _in_table(self, group: Array, plan: int) -> Rows:
        """Return a plan's table, and where the shards of a group stand there."""
        return self._tables[plan], self._rows[plan][0][group]

    def _addresses(self, plan: int, step: int, group: Array) -> Array:
        """Return where the blocks of a step lie."""
        own, table = self._plans[plan], self._tables[plan]
        first = self._address(map_pool(own.directories.pool))
        offsets = own.layout.offsets(self._work.steps[plan].sources[step])
        addresses: Array = first + offsets[table.rows["form"][self._rows[plan][0][group]]]
        return addresses


def packed(roster: Roster, done: Sequence[Record], others: Mapping[ShardKey, ShardState]) -> tuple[Alike, ...]:
    """Return all states of a lane in few records."""
    states = States(roster, gather(roster, done))
    return (
        states.with_rows((roster.positions[key], state) for key, state in others.items()).alike
        if others
        else states.alike
    )


def _address(mapping: Any) -> int:
    return np.frombuffer(mapping, np.uint8).ctypes.data
