"""The fold of shards that are alike: which files their next states go to, what they begin with, what spans come to.

A shard's steps are prepared: blocks lie where they can be folded, or expressions, points and transforms make arrays of
them. Then they are folded: the kernel takes all shards in one call, and what is made in calls of some MiB. What has a
family that is folded in Python, or filters of what is made, goes shard by shard in tiles.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bbflow.errors import BbflowError, ConfigError, naming
from bbflow.host.atomic import replacing
from bbflow.operators import kernel
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import Extremes, Filter, gather_rows, in_order
from bbflow.operators.fold import HasTiles, fold_tiles
from bbflow.operators.steps import Array, Steps
from bbflow.operators.windows.window import Window
from bbflow.transit.folding.inputs import (
    MappedSteps,
    Part,
    ShardSteps,
    extremes_of,
    open_steps,
    shard_inputs,
)
from bbflow.transit.folding.kernel_table import StateTable, table_of
from bbflow.transit.spans.slots import BASE, CARRIED, INNER, OUTER, Keys, StateSlot, plan_roll
from bbflow.transit.states.files import free_file, map_file, map_target
from bbflow.transit.states.inherited import Inherited
from bbflow.transit.states.inner import inner_step
from bbflow.transit.states.shards import LABEL, ShardState, StatePlace
from bbflow.transit.states.tables import Member, Roster, groups

MADE_BYTES = 4 << 20
"""About how many bytes of values are made before they are folded; a shard that exceeds it goes tile by tile."""


Rows = Mapping[str, Array]
"""Filter name to what passed."""


class Side(NamedTuple):
    """States in a file that is mapped."""

    file: memoryview
    """All of it."""
    offset: int = 0
    """How much further on they lie than the shards' table says: below 0 where another analysis had placed them."""

    @classmethod
    def at(cls, place: StatePlace) -> "Side":
        """Map the states at a place for reading."""
        return cls(memoryview(map_file(place.path)), place.offset)

    @property
    def address(self) -> int:
        """Where the file's states begin in memory, as long as this is there."""
        return int(np.frombuffer(self.file, np.uint8).ctypes.data) + self.offset

    def state(self, table: StateTable, at: int) -> memoryview:
        """Return the bytes of one of a table's states."""
        begin = int(table.begins[at]) + self.offset
        return self.file[begin : begin + table.layout(at).nbytes]


Sides = tuple[Side | None, Side]
"""States of a slot as they are, None if there are none, and where the next ones of the same shards go."""


def _addresses(sides: Sides) -> tuple[int, int]:
    """Return where both are in memory, as long as they are there; 0 for none."""
    return 0 if sides[0] is None else sides[0].address, sides[1].address


class PreparedSteps(NamedTuple):
    """Steps of shards that were prepared: of one, or of some of a diagnostic that have as many points."""

    at: Array
    """Which shards."""
    steps: HasTiles
    """Of several step by step, one by one; then any part of the points is one of each."""
    extremes: Sequence[Extremes]
    """For each step smallest and largest value of one shard, or None."""
    filters: Sequence[Filter] = ()
    """What is kept of one shard's steps as it is."""


class AlikeFold:
    """Takes a batch into the states of shards that are alike.

    Parameters
    ----------
    like
        What they have in common.
    roster
        The shards.
    lane
        Begins the paths of the lane's files.
    diagnostics
        What is computed, by its key: all that these shards are of have the same windows and levels, and one type.
    keys
        The spans that the batch is in.
    steps
        The steps that are new, by the plans that have the shards, and where these stand in the roster of each; none
        where spans are handed on only.
    threads
        How many may work side by side.
    """

    def __init__(
        self,
        like: ShardState,
        roster: Roster,
        lane: str,
        diagnostics: Mapping[str, Diagnostic],
        keys: Keys,
        steps: Sequence[tuple[MappedSteps, Array]] = (),
        threads: int = 1,
    ) -> None:
        self._like, self._roster, self._lane = like, roster, lane
        self._diagnostics, self._keys = diagnostics, keys
        self._steps, self._threads = steps, threads
        self._blocks = [table_of(own.plan).blocks[rows] for own, rows in steps]
        self.bytes = 0
        """Bytes of the blocks."""
        self._of = roster.rows["diagnostic"]
        self._kept: list[Array] = []
        """What filters have addresses of."""
        self._files = dict(like.files)
        # What counts, which is only read until a receipt says otherwise, and what the stored checkpoint names: from
        # there an analysis that takes over continues, whatever becomes of this task.
        self._taken = {*like.paths, *like.held}
        self._tables: dict[str, StateTable] = {}

    def fold(self, inherited: Inherited | None, *, holds: bool) -> list[tuple[ShardState, Array]]:
        """Return what the next states have in common, and the positions of the shards that have it.

        Parameters
        ----------
        inherited
            What an earlier run has left, if the shards begin with it: all are of one diagnostic then.
        holds
            Whether the stored checkpoint stays meanwhile (`ShardState.next_held`).

        Raises
        ------
        ConfigError
            If the values are of another type than those before.
        """
        dtype, held = self._steps[0][0].plan.dtypes[self._diagnostic(0).key], self._like.next_held(holds=holds)
        before = self._like.dtype if inherited is None else inherited.dtype
        if before and np.dtype(before) != dtype:
            raise ConfigError(
                f"{self._diagnostic(0).name}: the values are of type {dtype}, but were of type {np.dtype(before)} in "
                "the run before: its statistics can't go on; take it out of 'operators'"
            )
        if inherited is not None:
            self._inherit(inherited)
        self._like = replace(self._like, dtype=dtype.str)
        self._close_spans()
        # As it is before these steps, which put the next one in its place.
        base = self._files.get(BASE[OUTER])
        folded = self._fold_steps()
        if self._folded.any():
            self._merge_ranks(base)
        first, last = self._steps[0][0].steps, self._steps[-1][0].steps
        state = replace(
            self._like, last_step=last.numbers[-1], last_time=last.times[-1], keys=self._keys, files=self._files,
            first_step=first.numbers[0] if self._like.first_step < 0 else self._like.first_step, held=held,
        )  # fmt: skip
        return [(replace(state, rows=state.rows + rows), own) for rows, own in folded]

    def advance(self) -> Mapping[StateSlot, StatePlace]:
        """Return the states that there are when the spans of the keys begin, before any step in them."""
        self._close_spans()
        return self._files

    def _diagnostic(self, at: int) -> Diagnostic:
        return self._diagnostics[self._roster.diagnostics[self._of[at]]]

    @cached_property
    def _members(self) -> list[Member]:
        """The shards, one by one."""
        return self._roster.members()

    @cached_property
    def _folded(self) -> Array:
        """Whether each shard's rank has folded it in each plan (`BlockForm.folded`); of shape (shards, plans)."""
        return np.stack([blocks["folded"] for blocks in self._blocks], axis=1)

    def _table(self, level: str) -> StateTable:
        """Return where the shards' states of a level lie."""
        if level not in self._tables:
            self._tables[level] = self._make_table(level)
        return self._tables[level]

    def _make_table(self, level: str) -> StateTable:
        if self._steps:
            own, rows = self._steps[0]
            return table_of(own.plan).states[level].chosen(rows)
        dtypes = dict.fromkeys(self._roster.diagnostics, np.dtype(self._like.dtype))
        return StateTable.of(level, self._roster, self._diagnostics, dtypes)

    def _views(self, level: str, at: int, side: Side) -> dict[str, dict[str, Array]]:
        """Return one's state in a file."""
        table = self._table(level)
        return table.layout(at).views(side.state(table, at))

    def _inherit(self, inherited: Inherited) -> None:
        """Begin with the regions' part of what an earlier run has left."""
        regions = [region for _, region, _ in self._members]
        for slot in inherited.offsets:
            firsts = self._table(slot.level).begins.tolist()
            inherited.cut(self._diagnostic(0), slot, regions, self._target(slot), firsts)
        self._like = inherited.begun(self._like, self._files)

    def _close_spans(self) -> None:
        """Merge the base into the windows whose spans continue, and begin a new one, if a span has ended."""
        old, own = self._like.keys, self._diagnostic(0)
        if old is None or old == self._keys:
            return
        if own.each is not None:
            if old[own.each.window.name] != self._keys[own.each.window.name]:
                # Before the outer spans end: what it makes belongs to the span that has the last step of its own.
                self._end_inner()
            self._roll(INNER, (own.each.window,), old)
        self._roll(OUTER, own.windows, old)

    def _roll(self, level: str, windows: Sequence[Window], old: Keys) -> None:
        if all(old[window.name] == self._keys[window.name] for window in windows):
            return
        base = self._files.pop(BASE[level], None)
        merged, dropped = plan_roll(level, windows, old, self._keys, self._files)
        for slot in merged if base is not None else ():
            assert base is not None
            current = self._files.get(slot)
            if current is None:
                self._files[slot] = base  # a state is never written to, so several slots may have it
            else:
                self._merge(level, Side.at(current), Side.at(base), Side(self._target(slot)))
        for slot in dropped:
            self._files.pop(slot, None)

    def _merge(self, level: str, left: Side, right: Side, target: Side) -> None:
        """Merge states of a level."""
        table = self._table(level)
        own = np.flatnonzero(table.in_kernel)
        if len(own):
            table.chosen(own).merge(left.address, right.address, target.address, self._threads)
        for at in np.flatnonzero(~table.in_kernel).tolist():
            first, second, merged = (side.state(table, at) for side in (left, right, target))
            table.layout(at).merge([first, second], merged)

    def _target(self, slot: StateSlot) -> memoryview:
        """Map the file that gets a slot's next states."""
        path = free_file(self._lane, slot.level, self._taken)
        self._taken.add(path)
        self._files[slot] = StatePlace(path, 0)
        return memoryview(map_target(path, self._table(slot.level).pages))

    def _next(self, slot: StateSlot) -> Sides:
        place = self._files.get(slot)
        return None if place is None else Side.at(place), Side(self._target(slot))

    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        """Take the steps into the open states; gives files of rows that passed filters, and which shards have them."""
        level = OUTER if self._diagnostic(0).each is None else INNER
        carried = self._next(BASE[CARRIED]) if self._diagnostic(0).transforms else None
        sides = self._next(BASE[level])
        # Whether the kernel can take all blocks of a shard as they lie.
        lies = np.logical_and.reduce([blocks["form"] >= 0 for blocks in self._blocks])
        passed = self._fold_blocks(sides, np.flatnonzero(lies)) if lies.any() else {}
        if not lies.all():
            passed |= self._fold_made(level, sides, self._prepared(level, np.flatnonzero(~lies), carried))
        files: dict[tuple[str, ...], list[int]] = {}
        for at in range(len(self._roster) if passed else 0):
            files.setdefault(self._keep_rows(at, passed[at]) if at in passed else (), []).append(at)
        return [(own, np.array(rows)) for own, rows in files.items()] or [((), np.arange(len(self._roster)))]

    def _fold_blocks(self, sides: Sides, at: Array) -> dict[int, Rows]:
        """Take the blocks of some shards as they lie; gives what passed filters."""
        parts = list[tuple[Array, Array]]()
        for (own, _), all_of in zip(self._steps, self._blocks, strict=True):
            told = all_of[at]
            are_steps = told["folded"] == 0
            parts.append((own.blocks(told["form"]), np.repeat(are_steps[:, None], len(own.steps.numbers), axis=1)))
            self.bytes += int(told["bytes"][are_steps].sum()) * len(own.steps.numbers)
        blocks, are_steps = (np.concatenate(own, axis=1) for own in zip(*parts, strict=True))
        counts = are_steps.sum(axis=1)
        if not are_steps.all():  # those that are states come last
            # Stable: steps stay in their order.
            blocks = np.take_along_axis(blocks, (~are_steps).argsort(axis=1, kind="stable"), 1)
        if not (some := np.flatnonzero(counts)).size:
            return {}
        at, blocks = (at, blocks) if len(some) == len(at) else (at[some], blocks[some])
        fills = self._blocks[0]["fill"][at]
        table, begins = self._table(OUTER).chosen(at), blocks.shape[1] * np.arange(len(at))
        blocks = np.ascontiguousarray(blocks)  # what tasks have the addresses of must stay
        tasks = _tasks(table, sides, blocks.reshape(-1), begins, counts[some], fills)
        named, filters = self._filters(at, tasks)
        return self._gathered(named, self._call(table, sides, tasks, filters))

    def _call(self, table: StateTable, sides: Sides, tasks: Array, filters: Array = kernel.NO_FILTERS) -> list[Array]:
        left, target = _addresses(sides)
        families = table.tasks(left=left, target=target)
        return kernel.fold(table.rows["type"], tasks, families, self._threads, filters)

    def _filters(self, shards: Array, tasks: Array) -> tuple[list[tuple[int, str]], Array]:
        """Point some shards' tasks to their filters; gives the shard and the name of each of these, and their table."""
        if not self._steps[0][0].plan.filtered:
            return [], kernel.NO_FILTERS
        named, parts, dtype = list[tuple[int, str]](), list[Array](), np.dtype(self._like.dtype)
        for code in np.unique(self._of[shards]).tolist():
            filters = self._diagnostics[self._roster.diagnostics[code]].filters
            limits = {item.name: own for item in filters if (own := item.interval(dtype))}
            if not limits:
                continue
            at = np.flatnonzero(self._of[shards] == code)
            steps = zip(self._steps, self._blocks, strict=True)
            known = [own.extremes(blocks["form"][shards[at]]) for (own, _), blocks in steps]
            least, most = np.moveaxis(np.concatenate(known, axis=1), -1, 0)
            part = np.zeros((len(at), len(limits)), kernel.FILTER)
            for row, (lowest, highest) in zip(part.T, limits.values(), strict=True):
                # Unknown ranges have the smallest above the largest, and NaN compares as false: those aren't skipped.
                skip = ((least <= most) & ((most < lowest) | (least > highest))).astype("u1")
                row["lowest"], row["highest"] = lowest.ctypes.data, highest.ctypes.data
                row["skip"] = skip.ctypes.data + skip.shape[1] * np.arange(len(at))
                self._kept += [lowest, highest, skip]
            # Positions for now: where the table lies is known once all its parts are.
            tasks["filters"][at] = sum(map(np.size, parts)) + len(limits) * np.arange(len(at))
            tasks["filter_count"][at] = len(limits)
            named += [(shard, name) for shard in shards[at].tolist() for name in limits]
            parts.append(part.reshape(-1))
        table = np.concatenate(parts) if parts else np.zeros(0, kernel.FILTER)
        tasks["filters"] = np.where(tasks["filter_count"], table.ctypes.data + table.itemsize * tasks["filters"], 0)
        return named, table

    def _gathered(self, named: Sequence[tuple[int, str]], found: Sequence[Array]) -> dict[int, Rows]:
        """Return the rows of what passed, by shard and filter."""
        rows: dict[int, dict[str, Array]] = {}
        for (at, name), passed in zip(named, found, strict=True):
            if len(passed):
                inputs = shard_inputs(self._parts(np.array([at])), self._keys)
                (values,) = inputs.values.values()
                steps = Steps(values, None, numbers=np.asarray(inputs.numbers, "i8"))
                rows.setdefault(at, {})[name] = in_order([gather_rows(steps, passed)], values[0].dtype)
        return dict(rows)

    def _parts(self, at: Array) -> list[Part]:
        """Return some shards' steps as they lie, but for those that their ranks have folded: of all the same ones."""
        parts = zip(self._steps, self._folded[at[0]].tolist(), strict=True)
        return [(own, list(own.plan.shards(rows[at]))) for (own, rows), folded in parts if not folded]

    def _prepared(self, level: str, at: Array, carried: Sides | None) -> Iterator[PreparedSteps]:
        """Prepare some shards' steps: those of a diagnostic together whose values are made one by one anyway."""
        table = self._table(level)
        for (_, *folded), own in groups(np.column_stack([table.rows["layout"][at], self._folded[at]])):
            if not all(folded):
                alike = at[own]
                most, parts = self._most(level, alike[0]), self._parts(alike)
                for first in range(0, len(alike), most):
                    some = slice(first, first + most)
                    yield self._prepare(level, alike[some], [(steps, own[some]) for steps, own in parts], carried)

    def _most(self, level: str, at: int) -> int:
        """Return how many shards like one are prepared at a time."""
        diagnostic, table = self._diagnostic(at), self._table(level)
        alone = diagnostic.space or diagnostic.transforms or diagnostic.filters or _goes_after(diagnostic)
        if alone or not table.in_kernel[at]:
            return 1
        steps, layout = sum(len(own.steps.numbers) for own, _ in self._steps), table.layout(at)
        return max(MADE_BYTES // (steps * layout.points * layout.dtype.itemsize), 1)

    def _prepare(self, level: str, at: Array, parts: Sequence[Part], carried: Sides | None) -> PreparedSteps:
        diagnostic, states, after = self._diagnostic(at[0]), None, None
        source, size = open_steps(parts, self._keys)
        self.bytes += size
        if carried is not None:
            before, target = carried
            old = None if before is None else self._views(CARRIED, at[0], before)
            states = old, self._views(CARRIED, at[0], target)
        if _goes_after(diagnostic):
            after = diagnostic.parts_after(self._keys, *parts[0][1][0].region)
        weights = [own.steps.weights[diagnostic.weights] for own, _ in parts] if diagnostic.weights else ()
        steps = ShardSteps(
            source, diagnostic, self._table(level).layout(at[0]).dtype, states, self._keys, self._begun(diagnostic),
            after, np.array([*chain.from_iterable(weights)]),
        )  # fmt: skip
        return PreparedSteps(at, steps.told, extremes_of(parts, diagnostic), diagnostic.filters)

    def _begun(self, diagnostic: Diagnostic) -> frozenset[int]:
        """Return the transforms for which a span has begun since the step before."""
        old, windows = self._like.keys, [item.window for item in diagnostic.transforms]
        named = {at: window.name for at, window in enumerate(windows) if window is not None}
        return frozenset(at for at, name in named.items() if old is not None and old.get(name) != self._keys[name])

    def _end_inner(self) -> None:
        """Take what `each` makes of its span as a step of the statistics."""
        made = self._inner_steps()
        if (first := next(made, None)) is not None:
            self._fold_made(OUTER, self._next(BASE[OUTER]), chain([first], made))

    def _inner_steps(self) -> Iterator[PreparedSteps]:
        for at, (key, region, offsets) in enumerate(self._members):
            step = inner_step(self._diagnostics[key.diagnostic], region, self._like.seen(key, offsets))
            if step is None:  # then there is none of any: they are alike
                return
            yield PreparedSteps(np.array([at]), step, [None])

    def _fold_made(self, level: str, sides: Sides, made: Iterable[PreparedSteps]) -> dict[int, Rows]:
        """Take prepared steps into states of a level; gives what passed filters."""
        table, passed = self._table(level), dict[int, Rows]()
        in_kernel = table.in_kernel.tolist()
        waiting, size = list[tuple[Array, Steps]](), 0
        for at, steps, extremes, filters in made:
            layout = table.layout(at[0])
            nbytes = len(at) * len(extremes) * layout.points * layout.dtype.itemsize
            if in_kernel[at[0]] and not filters and (isinstance(steps, Steps) or nbytes <= MADE_BYTES):
                waiting.append((at, steps if isinstance(steps, Steps) else steps.part(slice(None))))
                size += nbytes
                if size >= MADE_BYTES:
                    self._fold_arrays(level, sides, waiting)
                    waiting, size = [], 0
            else:
                source, target = (None if side is None else side.state(table, at[0]) for side in sides)
                passed[int(at[0])] = fold_tiles(layout, source, target, steps, extremes, filters)
        if waiting:
            self._fold_arrays(level, sides, waiting)
        return {at: rows for at, rows in passed.items() if any(map(len, rows.values()))}

    def _fold_arrays(self, level: str, sides: Sides, made: Sequence[tuple[Array, Steps]]) -> None:
        """Take arrays of some shards into their states, in one call of the kernel."""
        lain, counts, fills = list[int](), list[int](), list[int]()
        for at, steps in made:
            blocks, shards = [block.ctypes.data for block in steps.values], len(at)
            lain += chain.from_iterable(blocks[number::shards] for number in range(shards))
            counts += [len(blocks) // shards] * shards
            fills += [0 if steps.fill is None else steps.fill.ctypes.data] * shards
        table, addresses = self._table(level).chosen(np.concatenate([at for at, _ in made])), np.array(lain, "u8")
        self._call(table, sides, _tasks(table, sides, addresses, np.cumsum([0, *counts[:-1]]), counts, fills))

    def _merge_ranks(self, before: StatePlace | None) -> None:
        """Merge what ranks have folded into the states, step by step, after the steps that they have not.

        Blocks before states: sums of both differ by rounding alone, whatever comes first.
        """
        if (self._folded < 0).all(axis=1).any():
            raise BbflowError("a batch ends among steps that its ranks have folded together")
        sides = None if before is None else Side.at(before), Side.at(self._files[BASE[OUTER]])
        source, target = _addresses(sides)
        left = np.where((self._folded == 0).any(axis=1), target, source)
        for (steps, _), all_of in zip(self._steps, self._blocks, strict=True):
            own = np.flatnonzero(all_of["folded"] > 0)
            told, table = all_of[own], self._table(OUTER).chosen(own)
            for blocks in steps.blocks(told["form"]).T if len(own) else ():
                table.merge_blocks(left[own], blocks, told, target, self._threads)
                left[own] = target
            self.bytes += int(told["bytes"].sum()) * len(steps.steps.numbers)

    def _keep_rows(self, at: int, rows: Rows) -> tuple[str, ...]:
        """Write a shard's rows that passed to files whose names a repeated task gives again, with `LABEL` in them."""
        kept, directory = [], self._steps[0][0].plan.directories.rows
        own = [own.steps for (own, _), folded in zip(self._steps, self._folded[at], strict=True) if not folded]
        times = {number: time for steps in own for number, time in zip(steps.numbers, steps.times, strict=True)}
        key, first, last = self._members[at][0], own[0].numbers[0], own[-1].numbers[-1]
        for name, passed in rows.items():
            if len(passed):
                path = f"{directory}/{name}.{key.node}.{LABEL}.{first:010d}-{last:010d}.npy"
                file = Path(path.replace(LABEL, key.label))
                with naming(str(file)), replacing(file) as temporary, temporary.open("wb") as new:
                    np.save(new, _with_time(passed, times))
                kept.append(path)
        return tuple(kept)


def _tasks(table: StateTable, sides: Sides, addresses: Array, begins: Array, counts: Any, fills: Any) -> Array:
    """Return what the kernel folds into the states of a table.

    Parameters
    ----------
    table, sides
        The states.
    addresses
        Of all blocks.
    begins, counts
        With which of them each shard begins, and how many it has.
    fills
        For each the address of the value that stands for 'missing', 0 for none.
    """
    tasks = np.zeros(len(begins), kernel.TASK)
    tasks["source"], tasks["target"] = map(table.fields, _addresses(sides))
    tasks["blocks"] = addresses.ctypes.data + addresses.itemsize * begins
    tasks["steps"], tasks["points"], tasks["fill"] = counts, table.rows["points"], fills
    return tasks


def _goes_after(diagnostic: Diagnostic) -> bool:
    """Whether an expression, or fields beside the statistics, come to the steps themselves."""
    return diagnostic.each is None and (diagnostic.then is not None or bool(diagnostic.fields_after))


def _with_time(rows: Array, times: Mapping[int, float]) -> Array:
    timed = np.empty(len(rows), [*rows.dtype.descr, ("time", "f8")])
    for name in rows.dtype.names or ():
        timed[name] = rows[name]
    timed["time"] = [times[step] for step in rows["step"].tolist()]
    return timed
