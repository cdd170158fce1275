"""The fold of shards that are alike: which files their next states go to, what they begin with, what spans come to.

Two derive from it: `AtOnce` has the kernel take all blocks of a lane as they lie, in few calls, without Python work for
each; `OneByOne` goes through shard after shard, for transforms, expressions, points and levels, and families in Python.
"""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import BbflowError, ConfigError, naming
from bbflow.host.atomic import replacing
from bbflow.operators import kernel
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import Extremes, gather_rows, in_order
from bbflow.operators.fold import HasTiles, fold_tiles
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, DType, Steps
from bbflow.operators.windows.window import Window
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.inner import inner_step
from bbflow.transit.folding.inputs import (
    Inputs,
    MappedSteps,
    ShardSteps,
    ends_of,
    extremes_of,
    open_inputs,
    shard_inputs,
)
from bbflow.transit.folding.kernel_table import TYPE_NAMES, KernelTable, table_of
from bbflow.transit.folding.plans import PlannedShard
from bbflow.transit.folding.shards import LABEL, Extent, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, CARRIED, INNER, LEVELS, OUTER, Keys, StateSlot, plan_roll
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import free_file, map_file, map_target, pages_of
from bbflow.transit.folding.tables import Member, Roster


@dataclass(frozen=True, slots=True, eq=False)
class AlikeShards:
    """Some shards of a lane whose states have all in common but where they lie."""

    like: ShardState
    """What they have in common."""
    roster: Roster
    """The lane's shards."""
    rows: Array
    """Positions of these."""
    sizes: Array
    """Bytes of the places of each one's states in files of `LEVELS`; of shape (shards, levels)."""
    directory: str
    """Where the node keeps states."""
    lane: str
    """Begins the names of the lane's files."""

    def offsets(self, level: str) -> Array:
        """Return the first byte of each one's states in files of a level."""
        offsets: Array = self.roster.rows["offsets"][self.rows, LEVELS.index(level)]
        return offsets

    def extents(self, level: str) -> list[Extent]:
        """Return the places of their states of a level."""
        return list(zip(self.offsets(level).tolist(), self.sizes[:, LEVELS.index(level)].tolist(), strict=True))

    def room_of(self, level: str, count: tuple[int, ...]) -> int:
        """Return the bytes of the smallest place of a level's states of regions of a shape."""
        if len(self.rows) == 1:
            return int(self.sizes[0, LEVELS.index(level)])
        rows = self.roster.rows[self.rows]
        own = (rows["field_dims"] == len(count)) & (rows["shape"][:, : len(count)] == count).all(axis=1)
        return int(self.sizes[own, LEVELS.index(level)].min())


Record = tuple[ShardState, Array]
"""What some states have in common, and the positions of the shards that have it."""


class AlikeFold(ABC):
    """Takes a batch into the states of shards that are alike.

    Parameters
    ----------
    shards
        The shards, with what counts of their states.
    diagnostic
        What is computed; where there are several, one of them: all have the same windows.
    keys
        The spans that the batch is in.
    sources
        The steps that are new, by the plans that have the shards; none where spans are handed on only.
    rows
        Of each plan, where the shards stand in its roster.
    threads
        How many may work side by side.
    """

    def __init__(
        self,
        shards: AlikeShards,
        diagnostic: Diagnostic,
        keys: Keys,
        sources: Sequence[MappedSteps] = (),
        rows: Sequence[Array] = (),
        threads: int = 1,
    ) -> None:
        self._shards, self._diagnostic, self._keys = shards, diagnostic, keys
        self._sources, self._in_plans, self._threads = sources, rows, threads
        self.bytes = 0
        """Bytes of the blocks."""
        self._like = shards.like
        self._kept: list[mmap.mmap | Array] = []
        """What the kernel has addresses of."""
        self._files = dict(shards.like.files)
        # What counts, which is only read until a receipt says otherwise, and what the stored checkpoint names: from
        # there an analysis that takes over goes on, whatever becomes of this task.
        self._taken = {*shards.like.paths, *shards.like.held}
        self._layouts: dict[tuple[str, DType, tuple[int, ...]], StateLayout] = {}
        self._pages: dict[str, list[Extent]] = {}

    def fold(self, inherited: Inherited | None, *, holds: bool) -> list[Record]:
        """Return the next states.

        Parameters
        ----------
        inherited
            What an earlier run has left, if the shards begin with it.
        holds
            Whether the stored checkpoint stays meanwhile (`ShardState.next_held`).

        Raises
        ------
        ConfigError
            If the values are of another type than those before.
        """
        if inherited is not None:
            self._inherit(inherited)
        dtype = self._values_dtype()
        if self._like.dtype and np.dtype(self._like.dtype) != dtype:
            raise ConfigError(
                f"{self._diagnostic.name}: the values are of type {dtype}, but were of type "
                f"{np.dtype(self._like.dtype)} in the run before: its statistics can't go on; take it out of "
                "'operators'"
            )
        self._like = replace(self._like, dtype=dtype.str)
        self._close_spans()
        before = self._files.get(BASE[OUTER])
        folded = self._fold_steps()
        if self._folded.any():
            self._merge_ranks(before)
        first, last, time = ends_of(self._sources)
        state = replace(
            self._like, last_step=last, last_time=time, keys=self._keys, files=self._files,
            first_step=first if self._like.first_step < 0 else self._like.first_step,
            held=self._shards.like.next_held(holds=holds),
        )  # fmt: skip
        return [(replace(state, rows=state.rows + rows), own) for rows, own in folded]

    def advance(self) -> Mapping[StateSlot, StatePlace]:
        """Return the states that there are when the spans of the keys begin, before any step in them."""
        self._close_spans()
        return self._files

    @abstractmethod
    def _values_dtype(self) -> DType:
        """Return the type of the values that are folded."""

    @abstractmethod
    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        """Take the steps into the open states; gives files of rows that passed filters, and which shards have them."""

    @abstractmethod
    def _merge(self, level: str, current: StatePlace, base: StatePlace, slot: StateSlot) -> None:
        """Merge states of a level into those of a slot that come next."""

    @abstractmethod
    def _end_inner(self) -> None:
        """Take what `each` makes of its span as a step of the statistics."""

    @cached_property
    def _members(self) -> list[Member]:
        """The shards, looked at."""
        return self._shards.roster.members(self._shards.rows)

    @cached_property
    def _planned(self) -> list[list[PlannedShard]]:
        """The shards, as each plan has them."""
        parts = zip(self._sources, self._in_plans, strict=True)
        return [list(own.plan.shards(rows)) for own, rows in parts]

    @cached_property
    def _folded(self) -> Array:
        """Of each shard in each plan whether its rank has folded it (`BlockForm.folded`); of shape (shards, plans)."""
        parts = zip(self._sources, self._in_plans, strict=True)
        return np.stack([table_of(own.plan).rows["folded"][rows] for own, rows in parts], axis=1)

    def _inputs(self, at: int) -> Inputs | None:
        """Return one shard's steps as they lie, but for those that its rank has folded; None if it has folded all."""
        parts = zip(self._sources, self._planned, self._folded[at], strict=True)
        return shard_inputs([(own, shards[at]) for own, shards, folded in parts if not folded], self._keys)

    def _merge_ranks(self, before: StatePlace | None) -> None:
        """Merge what ranks have folded into the states, step by step, after the steps that they have not.

        Blocks before states: sums of both differ by rounding alone, whatever comes first.
        """
        if (self._folded < 0).all(axis=1).any():
            raise BbflowError("a batch ends among steps that its ranks have folded together")
        target = self._address(self._files[BASE[OUTER]])
        left = np.where((self._folded == 0).any(axis=1), target, 0 if before is None else self._address(before))
        for source, rows, folded in zip(self._sources, self._in_plans, self._folded.T, strict=True):
            own = np.flatnonzero(folded > 0)
            table, into = table_of(source.plan).chosen(rows[own]), np.full(len(own), target)
            for code in set(table.rows["types"].tolist()):
                self._check_type(np.dtype(TYPE_NAMES[code]))
            for blocks in source.blocks(table.rows["form"]).T if len(own) else ():
                table.merge_blocks(left[own], blocks, into, self._threads)
                left[own] = target
            self.bytes += int(table.rows["bytes"].sum()) * len(source.steps.numbers)

    def _check_type(self, dtype: DType) -> None:
        if dtype != np.dtype(self._like.dtype):
            raise BbflowError(
                f"{self._diagnostic.name}: some blocks have values of type {self._like.dtype}, others of type "
                f"{dtype}: let all ranks write one type"
            )

    def _address(self, place: StatePlace) -> int:
        """Return where states begin to lie that are at some place: nobody may map the file anew while this is there."""
        mapping = map_file(place.path)
        self._kept.append(mapping)
        return np.frombuffer(mapping, np.uint8).ctypes.data + place.offset

    def _keep_rows(self, at: int, inputs: Inputs, rows: Mapping[str, Array]) -> tuple[str, ...]:
        """Write a shard's rows that passed to files whose names a repeated task gives again, with `LABEL` in them."""
        kept, directory = [], self._sources[0].plan.directories.rows
        key = self._members[at][0]
        first, last = inputs.numbers[0], inputs.numbers[-1]
        for name, passed in rows.items():
            if len(passed):
                path = f"{directory}/{name}.{key.node}.{LABEL}.{first:010d}-{last:010d}.npy"
                file = Path(path.replace(LABEL, key.label))
                with naming(str(file)), replacing(file) as temporary, temporary.open("wb") as new:
                    np.save(new, _with_time(passed, inputs))
                kept.append(path)
        return tuple(kept)

    def _inherit(self, inherited: Inherited) -> None:
        """Begin with the regions' part of what an earlier run has left."""
        regions = [region for _, region, _ in self._members]
        for slot in inherited.offsets:
            for count in {count for _, count in regions}:
                self._layout_of(slot.level, np.dtype(inherited.dtype), count)
            inherited.cut(
                self._diagnostic, slot, regions, self._target(slot), self._shards.offsets(slot.level).tolist()
            )
        self._like = inherited.begun(self._like, self._files)

    def _layout_of(self, level: str, dtype: DType, count: tuple[int, ...]) -> StateLayout:
        """Return the layout of a level's states of regions of a shape, which must fit into their places."""
        if (level, dtype, count) not in self._layouts:
            layout = state_layout_of(self._diagnostic, level, dtype, count)
            room = self._shards.room_of(level, count)
            if layout.nbytes > room:
                raise BbflowError(
                    f"{self._diagnostic.name}: a state of {layout.nbytes} bytes has a place of {room} bytes"
                )
            self._layouts[level, dtype, count] = layout
        return self._layouts[level, dtype, count]

    def _close_spans(self) -> None:
        """Hand on what the spans that end came to, and let the base start anew."""
        old, each = self._like.keys, self._diagnostic.each
        if old is None or old == self._keys:
            return
        if each is not None:
            if old[each.window.name] != self._keys[each.window.name]:
                self._end_inner()
            self._roll(INNER, (each.window,), old)
        self._roll(OUTER, self._diagnostic.windows, old)

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
                self._merge(level, current, base, slot)
        for slot in dropped:
            self._files.pop(slot, None)

    def _target(self, slot: StateSlot) -> mmap.mmap:
        """Map the file that gets a slot's next states."""
        shards = self._shards
        path = free_file(shards.directory, shards.lane, slot.level, self._taken)
        self._taken.add(path)
        self._files[slot] = StatePlace(path, 0)
        if slot.level not in self._pages:
            self._pages[slot.level] = pages_of(shards.extents(slot.level))
        return map_target(path, self._pages[slot.level])


def _with_time(rows: Array, inputs: Inputs) -> Array:
    times = dict(zip(inputs.numbers, inputs.times, strict=True))
    timed = np.empty(len(rows), [*rows.dtype.descr, ("time", "f8")])
    for name in rows.dtype.names or ():
        timed[name] = rows[name]
    timed["time"] = [times[step] for step in rows["step"].tolist()]
    return timed


class AtOnce(AlikeFold):
    """Folds all blocks of some shards that a table knows in one call; as `AlikeFold`."""

    @cached_property
    def _table(self) -> KernelTable:
        return table_of(self._sources[0].plan).chosen(self._in_plans[0])

    def _values_dtype(self) -> DType:
        return np.dtype(TYPE_NAMES[int(self._table.rows["types"][0])])

    def _merge(self, level: str, current: StatePlace, base: StatePlace, slot: StateSlot) -> None:
        left, right = self._begins(current), self._begins(base)
        self._target(slot)
        self._table.merge(left, right, self._begins(self._files[slot]), self._threads)

    def _begins(self, place: StatePlace | None) -> Array:
        """Return for each shard where a file is mapped that has its state; 0 for none."""
        return np.full(len(self._shards.rows), 0 if place is None else self._address(place))

    def _end_inner(self) -> None:
        raise AssertionError("the kernel takes no 'each'")

    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        source = self._begins(self._files.get(BASE[OUTER]))
        self._target(BASE[OUTER])
        parts = list[tuple[Array, Array]]()
        for own, rows, folded in zip(self._sources, self._in_plans, self._folded.T, strict=True):
            told, are_steps = table_of(own.plan).rows[rows], folded == 0
            parts.append((own.blocks(told["form"]), np.repeat(are_steps[:, None], len(own.steps.numbers), axis=1)))
            self.bytes += int(told["bytes"][are_steps].sum()) * len(own.steps.numbers)
        blocks, are_steps = (np.concatenate(own, axis=1) for own in zip(*parts, strict=True))
        if not (counts := are_steps.sum(axis=1)).any():
            return [((), self._shards.rows)]
        if not are_steps.all():  # those that are states come last
            blocks = np.take_along_axis(blocks, (~are_steps).argsort(axis=1, kind="stable"), 1)
        return self._with_rows(self._fold_blocks(source, blocks, counts))

    def _fold_blocks(self, source: Array, blocks: Array, counts: Array) -> dict[int, dict[str, Array]]:
        """Take the first blocks of each shard into its state, as many as it has; gives what passed filters."""
        blocks, table, target = np.ascontiguousarray(blocks), self._table, self._begins(self._files[BASE[OUTER]])
        tasks = np.zeros(len(blocks), kernel.TASK)
        tasks["source"], tasks["target"] = table.fields(source), table.fields(target)
        tasks["blocks"] = blocks.ctypes.data + 8 * blocks.shape[1] * np.arange(len(blocks))
        tasks["steps"], tasks["points"], tasks["fill"] = counts, table.rows["points"], table.rows["fills"]
        named, filters = self._filters(tasks)
        own = np.flatnonzero(counts > 0)
        if len(own) < len(blocks):  # the ranks of the others have folded all
            table = table.chosen(own)
        families = table.tasks(left=source[own], target=target[own])
        return self._gathered(
            named, kernel.fold_many(table.rows["types"], tasks[own], families, self._threads, filters)
        )

    def _filters(self, tasks: Array) -> tuple[list[tuple[int, str]], Array]:
        """Point tasks to their shards' filters; gives the shard and the name of each of these, and their table."""
        plan = self._sources[0].plan
        if not plan.filtered:
            return [], kernel.NO_FILTERS
        codes, dtype = plan.roster.rows["diagnostic"][self._in_plans[0]], self._values_dtype()
        named, parts = list[tuple[int, str]](), list[Array]()
        for code, key in enumerate(plan.roster.diagnostics):
            limits = {item.name: own for item in plan.diagnostics[key].filters if (own := item.interval(dtype))}
            if not limits:
                continue
            at = np.flatnonzero(codes == code)
            if not len(at):
                continue
            least, most = np.moveaxis(self._extremes(at), -1, 0)
            part = np.zeros((len(at), len(limits)), kernel.FILTER)
            for row, (lowest, highest) in zip(part.T, limits.values(), strict=True):
                skip = ((least <= most) & ((most < lowest) | (least > highest))).astype("u1")
                row["lowest"], row["highest"] = lowest.ctypes.data, highest.ctypes.data
                row["skip"] = skip.ctypes.data + skip.shape[1] * np.arange(len(at))
                self._kept += [lowest, highest, skip]
            tasks["filters"][at] = sum(map(np.size, parts)) + len(limits) * np.arange(len(at))
            tasks["filter_count"][at] = len(limits)
            named += [(shard, name) for shard in at.tolist() for name in limits]
            parts.append(part.reshape(-1))
        table = np.concatenate(parts) if parts else np.zeros(0, kernel.FILTER)
        tasks["filters"] = np.where(tasks["filter_count"], table.ctypes.data + table.itemsize * tasks["filters"], 0)
        return named, table

    def _extremes(self, at: Array) -> Array:
        """Return the smallest and the largest value of some shards' blocks, as `MappedSteps.extremes` does.

        It is of shape (shards, steps, 2).
        """
        found = []
        for source, rows in zip(self._sources, self._in_plans, strict=True):
            forms = table_of(source.plan).rows["form"][rows[at]]
            found += [source.extremes(forms, step) for step in range(len(source.steps.numbers))]
        return np.stack(found, axis=1)

    def _gathered(self, named: Sequence[tuple[int, str]], found: Sequence[Array]) -> dict[int, dict[str, Array]]:
        """Return the rows of what passed, by shard and filter."""
        rows: dict[int, dict[str, Array]] = {}
        for (at, name), passed in zip(named, found, strict=True):
            if len(passed) and (inputs := self._inputs(at)) is not None:
                (values,) = inputs.variables.values()
                steps = Steps(values, None, numbers=np.asarray(inputs.numbers, "i8"))
                rows.setdefault(at, {})[name] = in_order([gather_rows(steps, passed)], values[0].dtype)
        return rows

    def _with_rows(self, passed: Mapping[int, Mapping[str, Array]]) -> list[tuple[tuple[str, ...], Array]]:
        """Write the rows that passed; gives their files, and which shards have them."""
        found: dict[tuple[str, ...], list[int]] = {}
        for at, row in enumerate(self._shards.rows.tolist() if passed else ()):
            inputs = self._inputs(at) if at in passed else None
            files = () if inputs is None else self._keep_rows(at, inputs, passed[at])
            found.setdefault(files, []).append(row)
        return [(files, np.array(own)) for files, own in found.items()] or [((), self._shards.rows)]


class OneByOne(AlikeFold):
    """Folds shards of one diagnostic, one after the other.

    Parameters
    ----------
    shards, diagnostic, keys, sources, rows
        As for `AlikeFold`.
    """

    _opened: tuple[Inputs, ShardSteps] | None = None
    """The first shard's steps, which are opened before the others'."""

    @cached_property
    def _carried(self) -> list[tuple[Any, Any]]:
        return self._next(BASE[CARRIED]) if self._diagnostic.transforms else []

    def _values_dtype(self) -> DType:
        self._opened = self._open(0)
        if self._opened is None:
            row = table_of(self._sources[0].plan).rows[self._in_plans[0][0]]
            return np.dtype(TYPE_NAMES[int(row["types"])])
        return self._opened[1].dtype

    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        level = OUTER if self._diagnostic.each is None else INNER
        states, found = self._next(BASE[level]), dict[tuple[str, ...], list[int]]()
        for at, row in enumerate(self._shards.rows.tolist()):
            opened, self._opened = self._opened or self._open(at), None
            files: tuple[str, ...] = ()
            if opened is not None:
                inputs, steps = opened
                self._check_type(steps.dtype)
                extremes = extremes_of(inputs, self._diagnostic, self._planned[0][at].local)
                rows = self._fold_one(level, at, states[at], steps.told, extremes)
                self.bytes += inputs.bytes
                files = self._keep_rows(at, inputs, rows)
            found.setdefault(files, []).append(row)
        return [(files, np.array(own)) for files, own in found.items()]

    def _fold_one(
        self, level: str, at: int, state: tuple[Any, Any], steps: HasTiles, extremes: Sequence[Extremes]
    ) -> dict[str, Array]:
        return fold_tiles(self._layout(level, at), *state, steps, extremes, self._diagnostic.filters)

    def _open(self, at: int) -> tuple[Inputs, ShardSteps] | None:
        """Return a shard's steps, but for those that its rank has folded; None if it has folded all."""
        if (inputs := self._inputs(at)) is None:
            return None
        diagnostic, carried, after = self._diagnostic, None, None
        if self._carried:
            layout, (source, target) = self._layout(CARRIED, at), self._carried[at]
            carried = None if source is None else layout.views(source), layout.views(target)
        if diagnostic.each is None and (diagnostic.then is not None or diagnostic.fields_after):
            after = diagnostic.parts_after(self._keys, *self._members[at][1])
        weights = np.array(inputs.weights[diagnostic.weights] if diagnostic.weights else ())
        opened = open_inputs(inputs, diagnostic, self._planned[0][at].local)
        return inputs, ShardSteps(opened, diagnostic, carried, self._keys, self._begun, after, weights)

    @property
    def _begun(self) -> frozenset[int]:
        """The transforms for which a span has begun since the step before."""
        old, windows = self._like.keys, [item.window for item in self._diagnostic.transforms]
        named = {at: window.name for at, window in enumerate(windows) if window is not None}
        return frozenset(at for at, name in named.items() if old is not None and old.get(name) != self._keys[name])

    def _end_inner(self) -> None:
        states: list[tuple[Any, Any]] = []
        for at, (key, region, offsets) in enumerate(self._members):
            step = inner_step(self._diagnostic, region, self._like.seen(key, offsets))
            if step is None:  # then there is none of any: they are alike
                return
            states = states or self._next(BASE[OUTER])
            self._fold_one(OUTER, at, states[at], step, [None])

    def _merge(self, level: str, current: StatePlace, base: StatePlace, slot: StateSlot) -> None:
        lefts, rights = self._views(level, current), self._views(level, base)
        for at, (_, target) in enumerate(self._next(slot)):
            self._layout(level, at).merge([lefts[at], rights[at]], target)

    def _next(self, slot: StateSlot) -> list[tuple[Any, Any]]:
        """Map the states of a slot as they are, None if there are none, and the places that get the next ones."""
        place = self._files.get(slot)
        sources = [None] * len(self._members) if place is None else self._views(slot.level, place)
        whole, extents = memoryview(self._target(slot)), self._shards.extents(slot.level)
        return list(zip(sources, [whole[first : first + size] for first, size in extents], strict=True))

    def _views(self, level: str, place: StatePlace) -> list[Any]:
        whole = memoryview(map_file(place.path))
        return [whole[place.offset + first :] for first in self._shards.offsets(level).tolist()]

    def _layout(self, level: str, at: int) -> StateLayout:
        return self._layout_of(level, np.dtype(self._like.dtype or "f8"), self._members[at][1][1])
