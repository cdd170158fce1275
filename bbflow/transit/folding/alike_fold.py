"""The fold of shards that are alike: which files their next states go to, what they begin with, what spans come to.

What is done with the values is said by those who derive from `AlikeFold`: all blocks in one call of the kernel
(`at_once.py`), or one after the other here: transforms, expressions, points and levels, and families in Python.
"""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import BbflowError, ConfigError, StreamError, naming
from bbflow.host.atomic import replacing
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import Extremes
from bbflow.operators.fold import HasTiles, fold_tiles
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, DType
from bbflow.operators.windows.window import Window
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.inner import inner_step
from bbflow.transit.folding.inputs import Inputs, MappedSteps, ShardSteps, ends_of, extremes_of, open_inputs
from bbflow.transit.folding.plans import PlannedShard
from bbflow.transit.folding.rank_states import kept_of, lacking, views_of
from bbflow.transit.folding.shards import LABEL, Extent, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, CARRIED, INNER, LEVELS, OUTER, Keys, StateSlot, plan_roll
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import free_file, joined, map_file, map_target
from bbflow.transit.folding.tables import Roster


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
    """

    def __init__(
        self,
        shards: AlikeShards,
        diagnostic: Diagnostic,
        keys: Keys,
        sources: Sequence[MappedSteps] = (),
        rows: Sequence[Array] = (),
    ) -> None:
        self._shards, self._diagnostic, self._keys = shards, diagnostic, keys
        self._sources, self._in_plans = sources, rows
        self._like = shards.like
        self._files = dict(shards.like.files)
        # What counts, which is only read until a receipt says otherwise, and what the stored checkpoint names: from
        # there an analysis that takes over goes on, whatever becomes of this task.
        self._taken = {*shards.like.paths, *shards.like.held}
        self._layouts: dict[tuple[str, DType, tuple[int, ...]], StateLayout] = {}
        self._extents: dict[str, list[Extent]] = {}

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
        folded = self._fold_steps()
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
    def _planned(self) -> list[list[PlannedShard]]:
        """The shards, as each plan has them."""
        parts = zip(self._sources, self._in_plans, strict=True)
        return [list(own.plan.shards(rows)) for own, rows in parts]

    def _inputs(self, at: int) -> Inputs:
        """Return one shard's steps as they lie."""
        parts = zip(self._sources, self._planned, strict=True)
        inputs = Inputs.joined([own.inputs(shards[at], self._keys) for own, shards in parts])
        assert inputs is not None
        return inputs

    def _keep_rows(self, at: int, inputs: Inputs, rows: Mapping[str, Array]) -> tuple[str, ...]:
        """Write a shard's rows that passed to files whose names a repeated task gives again, with `LABEL` in them."""
        kept, directory = [], self._sources[0].plan.directories.rows
        ((key, _, _),) = self._shards.roster.members(self._shards.rows[at : at + 1])
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
        regions = [region for _, region, _ in self._shards.roster.members(self._shards.rows)]
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
        roll = plan_roll(level, windows, old, self._keys, self._files)
        for slot in roll.merged if base is not None else ():
            assert base is not None
            current = self._files.get(slot)
            if current is None:
                self._files[slot] = base  # a state is never written to, so several slots may have it
            else:
                self._merge(level, current, base, slot)
        for slot in roll.dropped:
            self._files.pop(slot, None)

    def _target(self, slot: StateSlot) -> mmap.mmap:
        """Map the file that gets a slot's next states."""
        shards = self._shards
        path = free_file(shards.directory, shards.lane, slot.level, self._taken)
        self._taken.add(path)
        self._files[slot] = StatePlace(path, 0)
        if slot.level not in self._extents:
            self._extents[slot.level] = joined(np.array(shards.extents(slot.level)))
        return map_target(path, self._extents[slot.level])


def _with_time(rows: Array, inputs: Inputs) -> Array:
    times = dict(zip(inputs.numbers, inputs.times, strict=True))
    timed = np.empty(len(rows), [*rows.dtype.descr, ("time", "f8")])
    for name in rows.dtype.names or ():
        timed[name] = rows[name]
    timed["time"] = [times[step] for step in rows["step"].tolist()]
    return timed


class OneByOne(AlikeFold):
    """Folds shards of one diagnostic, one after the other.

    Parameters
    ----------
    shards, diagnostic, keys, sources, rows
        As for `AlikeFold`.
    """

    def __init__(
        self,
        shards: AlikeShards,
        diagnostic: Diagnostic,
        keys: Keys,
        sources: Sequence[MappedSteps] = (),
        rows: Sequence[Array] = (),
    ) -> None:
        super().__init__(shards, diagnostic, keys, sources, rows)
        self._members = shards.roster.members(shards.rows)
        self._carried: list[tuple[Any, Any]] = []
        self._opened: tuple[Inputs, ShardSteps] | None = None
        self.bytes = 0
        """Bytes of the blocks."""

    def _values_dtype(self) -> DType:
        if self._diagnostic.transforms:
            self._carried = self._next(BASE[CARRIED])
        self._opened = self._open(0)
        if self._opened is None:
            return next(form.dtype for form in self._forms(0) if form is not None)
        return self._opened[1].dtype

    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        level = OUTER if self._diagnostic.each is None else INNER
        states, found = self._next(BASE[level]), dict[tuple[str, ...], list[int]]()
        for at, row in enumerate(self._shards.rows.tolist()):
            opened, self._opened = self._opened or self._open(at), None
            files: tuple[str, ...] = ()
            if opened is not None:
                inputs, steps = opened
                if steps.dtype != np.dtype(self._like.dtype):
                    raise BbflowError(
                        f"{self._diagnostic.name}: some blocks have values of type {self._like.dtype}, others of type "
                        f"{steps.dtype}: let all ranks write one type"
                    )
                extremes = extremes_of(inputs, self._diagnostic, self._planned[0][at].local)
                rows = self._fold_one(level, at, states[at], steps.told, extremes)
                self.bytes += inputs.bytes
                files = self._keep_rows(at, inputs, rows)
            self._merge_states(at, *states[at], has_steps=opened is not None)
            found.setdefault(files, []).append(row)
        return [(files, np.array(own)) for files, own in found.items()]

    def _fold_one(
        self, level: str, at: int, state: tuple[Any, Any], steps: HasTiles, extremes: Sequence[Extremes]
    ) -> dict[str, Array]:
        return fold_tiles(self._layout(level, at), *state, steps, extremes, self._diagnostic.filters)

    def _forms(self, at: int) -> list[BlockForm | None]:
        """Return of each source the form of a shard's blocks if its rank has folded them; else None."""
        found: list[BlockForm | None] = []
        for source, own in zip(self._sources, self._planned, strict=True):
            plan, places = source.plan, own[at].places.values()
            forms = [plan.layout.forms[number] for node, number in places if node == plan.node]
            folded = next((form for form in forms if form.folded), None)
            if folded is not None and kept_of(self._diagnostic, folded, plan.encodings[folded.name]) is None:
                raise StreamError(lacking(self._diagnostic, folded, ["the steps themselves"]))
            found.append(folded)
        return found

    def _merge_states(self, at: int, source: Any, target: Any, *, has_steps: bool) -> None:
        """Merge what ranks have folded into a shard's state, step by step, after the steps that they have not."""
        forms = self._forms(at)
        if not any(forms):
            return
        layout = self._layout(OUTER, at)
        if not has_steps and all(form is None or form.waits for form in forms):
            raise BbflowError("a batch ends among steps that its ranks have folded together")
        rights = []
        for form, own, planned in zip(forms, self._sources, self._planned, strict=True):
            if form is not None and not form.waits:
                [(_, number)] = planned[at].places.values()
                offsets, pool = own.offsets(number), own.pool
                rights += [views_of(self._diagnostic, layout, form, pool, offset) for offset in offsets]
                self.bytes += form.bytes * len(offsets)
        left = layout.views(target) if has_steps else None if source is None else layout.views(source)
        for right in rights:
            into = layout.views(target)
            for family in layout.families:
                if left is None:
                    for name, values in right[family.name].items():
                        into[family.name][name][...] = values
                else:
                    family.merge(into[family.name], left[family.name], dict(right[family.name]))
            left = into

    def _open(self, at: int) -> tuple[Inputs, ShardSteps] | None:
        """Return a shard's steps, but for those that its rank has folded; None if it has folded all."""
        planned = [own[at] for own in self._planned]
        parts = [
            (source, shard)
            for source, shard, form in zip(self._sources, planned, self._forms(at), strict=True)
            if form is None
        ]
        if not parts:
            return None
        diagnostic, carried, after = self._diagnostic, None, None
        inputs = Inputs.joined([source.inputs(shard, self._keys) for source, shard in parts])
        assert inputs is not None
        if self._carried:
            layout, (source, target) = self._layout(CARRIED, at), self._carried[at]
            carried = None if source is None else layout.views(source), layout.views(target)
        if diagnostic.each is None and (diagnostic.then is not None or diagnostic.fields_after):
            after = diagnostic.parts_after(self._keys, *self._members[at][1])
        weights = np.array(inputs.weights[diagnostic.weights] if diagnostic.weights else ())
        opened = open_inputs(inputs, diagnostic, planned[0].local)
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
