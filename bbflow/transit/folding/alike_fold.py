"""The fold of shards that are alike: which files their next states go to, what they begin with, and what spans come to.

What kernels do with the values is said by those who derive from it: all blocks in one call, or one after the other.
"""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from bbflow.errors import BbflowError, ConfigError, naming
from bbflow.host.atomic import replacing
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, DType
from bbflow.operators.windows.window import Window
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.inputs import Inputs
from bbflow.transit.folding.plans import PlannedShard
from bbflow.transit.folding.shards import LABEL, Extent, Progress, StatePlace
from bbflow.transit.folding.slots import BASE, INNER, LEVELS, OUTER, Keys, StateSlot, plan_roll
from bbflow.transit.folding.sources import NewSteps, ends_of
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import free_file, joined, map_target
from bbflow.transit.folding.tables import Roster


@dataclass(frozen=True, slots=True, eq=False)
class AlikeShards:
    """Some shards of a lane whose states have all in common but where they lie."""

    like: Progress
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


Record = tuple[Progress, Array]
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
        sources: Sequence[NewSteps] = (),
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
            Whether the stored checkpoint stays meanwhile (`Progress.next_held`).

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
        return [list(own.blocks.plan.shards(rows)) for own, rows in parts]

    def _inputs(self, at: int) -> Inputs:
        """Return one shard's steps as they lie."""
        parts = zip(self._sources, self._planned, strict=True)
        inputs = Inputs.joined([own.blocks.inputs(shards[at], own.at, self._keys) for own, shards in parts])
        assert inputs is not None
        return inputs

    def _keep_rows(self, at: int, inputs: Inputs, rows: Mapping[str, Array]) -> tuple[str, ...]:
        """Write a shard's rows that passed to files whose names a repeated task gives again, with `LABEL` in them."""
        kept, directory = [], self._sources[0].blocks.plan.directories.rows
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
