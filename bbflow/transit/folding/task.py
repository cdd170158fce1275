"""The fold task: a batch of steps into the partial states of some shards, where the blocks lie."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import BbflowError, ConfigError, naming
from bbflow.host.atomic import replacing
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import Extremes
from bbflow.operators.fold import HasTiles, fold_tiles
from bbflow.operators.own.guard import collecting
from bbflow.operators.space.placement import Local
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array
from bbflow.operators.windows.window import Window
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.inner import inner_step
from bbflow.transit.folding.inputs import Inputs, extremes_of, open_inputs, other_partials, partials
from bbflow.transit.folding.shards import Room, ShardKey, ShardState, StatePlace
from bbflow.transit.folding.slots import BASE, CARRIED, INNER, OUTER, Keys, StateSlot, plan_roll
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import begun, combine_files, free_file, map_source, map_target
from bbflow.transit.folding.steps import Carried, Then, WeighedSteps
from bbflow.transit.folding.tables import Alike


@dataclass(frozen=True, slots=True)
class FoldWork:
    """What one task does for one shard."""

    state: ShardState
    """The state that counts now."""
    diagnostic: Diagnostic
    """What is computed."""
    inputs: Inputs
    """Steps, all in one span of every window."""
    keys: Keys
    """Those spans."""
    local: Local | None
    """Which points of the blocks, or what of them, if not all."""
    state_directory: str
    """Where the node keeps states."""
    rows_directory: str
    """Where rows that pass filters are put until they are published."""
    off: Mapping[str, str]
    """Users' operators that have failed, and are called no more."""
    room: Room | None = None
    """Where the states go, if the shard keeps some."""
    counted: frozenset[str] = frozenset()
    """The files in which any of the node's states counts now, or is held."""
    inherited: Inherited | None = None
    """What an earlier run has left, if the shard begins with it."""
    holds: bool = False
    """Whether the stored checkpoint stays while this is folded (`Progress.next_held`)."""
    averages: bool = True
    """Whether what is joined with other blocks may be of the steps' mean."""

    @property
    def keeps_states(self) -> bool:
        """Whether the states are the shard's own, and not joined with those of other blocks step by step."""
        return self.local is None or self.local.complete or bool(self.inputs.arrays)


@dataclass(frozen=True, slots=True)
class PartialSteps:
    """What some blocks contribute to steps that depend on others too."""

    key: ShardKey
    """The blocks."""
    numbers: tuple[int, ...]
    """The steps."""
    values: Array
    """Of shape (steps, components, points), or (1, components, points) of the steps' mean."""
    others: Mapping[str, Array] = field(default_factory=dict)
    """The same of the operators' further inputs, by their text; of the steps."""


@dataclass(frozen=True, slots=True)
class FoldReceipt:
    """What a fold task has done; it counts once the driver has committed it."""

    states: tuple[ShardState, ...]
    """The next states of single shards."""
    partials: tuple[PartialSteps, ...]
    """What must be merged with other blocks' before it can be folded."""
    errors: Mapping[str, str]
    """What failed in users' operators."""
    bytes: int
    """Bytes of the blocks."""
    started_s: float
    """When it began (seconds since the epoch)."""
    ended_s: float
    """When it ended."""
    roster: str = ""
    """Digest of the roster whose next states are packed; empty if none are."""
    alike: tuple[Alike, ...] = ()
    """Those."""


def fold_batch(works: Sequence[FoldWork]) -> FoldReceipt:
    """Fold a batch of steps into the states of some shards.

    It changes nothing that counts: a second run of the same task, on any worker, gives the same states.

    Parameters
    ----------
    works
        One for each shard.
    """
    started_s = time.time()
    states, parts = [], []
    with collecting(works[0].off if works else None) as errors:
        for work in works:
            if work.keeps_states:
                states.append(ShardFold(work).fold())
            else:
                parts.append(_partial(work))
    size = sum(work.inputs.bytes for work in works)
    return FoldReceipt(tuple(states), tuple(parts), errors, size, started_s, time.time())


def fold_joined(works: Sequence[FoldWork]) -> FoldReceipt | None:
    """Fold what blocks of several ranks have come to, step by step; as `fold_batch`, or None if nobody waits for it."""
    batch = min((work.inputs.numbers[0] for work in works), default=-1)  # none if a state has all steps already
    rooms = {work.room.label: work for work in works if work.room is not None}
    with ExitStack() as stack:
        for label, work in sorted(rooms.items()):
            if not stack.enter_context(begun(work.state_directory, label, batch, work.counted)):
                return None
        return fold_batch(works)


def _partial(work: FoldWork) -> PartialSteps:
    assert work.local is not None
    values = partials(work.inputs, work.diagnostic, work.local, averages=work.averages)
    others = other_partials(work.inputs, work.diagnostic, work.local)
    return PartialSteps(work.state.key, work.inputs.numbers, values, others)


class ShardFold:
    """Takes a batch into the states of one shard.

    Parameters
    ----------
    work
        What is to be done.
    """

    def __init__(self, work: FoldWork) -> None:
        self._work = work
        self._diagnostic = work.diagnostic
        self._old = work.state
        self._files = dict(work.state.files)
        # What counts and what the stored checkpoint names may only be read, whatever becomes of this task.
        self._taken = {*work.state.paths, *work.state.held}
        self._held = work.state.next_held(holds=work.holds)

    def fold(self) -> ShardState:
        """Return the next state."""
        work = self._work
        if work.inherited is not None:
            self._inherit(work.inherited)
        steps = self._open()
        dtype = steps.part(slice(0, 1)).values[0].dtype
        self._check_type(dtype)
        if self._old.keys is not None and self._old.keys != work.keys:
            self._close_spans(self._old.keys, dtype)
        level = INNER if self._diagnostic.each else OUTER
        if level == OUTER and self._diagnostic.then is not None:
            fields = self._diagnostic.parts_after(work.keys, *self._old.region)
            steps = Then(steps, self._diagnostic.then, fields)
        if self._diagnostic.weights:
            steps = WeighedSteps(steps, np.array(work.inputs.weights[self._diagnostic.weights]))
        rows = self._fold(level, dtype, steps, extremes_of(work.inputs, self._diagnostic, work.local))
        return replace(
            self._old,
            dtype=dtype.str,
            last_step=work.inputs.numbers[-1],
            last_time=work.inputs.times[-1],
            keys=work.keys,
            files=self._files,
            rows=self._old.rows + keep_rows(work, rows),
            held=self._held,
        )

    def advance(self) -> ShardState:
        """Return the state as it is when the spans of the work's keys begin, before any step in them."""
        if self._old.keys is None or self._old.keys == self._work.keys:
            return self._old
        self._close_spans(self._old.keys, np.dtype(self._old.dtype))
        return replace(self._old, keys=self._work.keys, files=self._files)

    def _inherit(self, inherited: Inherited) -> None:
        """Begin with the region's part of what an earlier run has left."""
        for slot in inherited.offsets:
            target = self._target(slot, inherited.state_layout(self._diagnostic, slot, self._old.count))
            inherited.cut(self._diagnostic, slot, [self._old.region], target, [0])
        self._old = inherited.begun(self._old, self._files)

    def _check_type(self, dtype: np.dtype[Any]) -> None:
        if self._old.dtype and np.dtype(self._old.dtype) != dtype:
            raise ConfigError(
                f"{self._diagnostic.name}: the values are of type {dtype}, but were of type "
                f"{np.dtype(self._old.dtype)} in the run before: its statistics can't go on; take it out of 'operators'"
            )

    def _open(self) -> HasTiles:
        """Return the steps as they come out of the transforms."""
        work, count = self._work, self._old.count
        steps = open_inputs(work.inputs, self._diagnostic, work.local, max(prod(count), 1))
        if not self._diagnostic.transforms:
            return steps
        slot = BASE[CARRIED]
        state_layout = state_layout_of(self._diagnostic, CARRIED, steps.part(slice(0, 1)).values[0].dtype, count)
        source = map_source(self._files[slot]) if slot in self._files else None
        target = self._target(slot, state_layout)
        return Carried(
            steps,
            self._diagnostic.transforms,
            None if source is None else state_layout.views(source),
            state_layout.views(target),
            self._begun(work.keys),
        )

    def _begun(self, keys: Keys) -> frozenset[int]:
        """Return the transforms for which a span has begun since the step before."""
        old, windows = self._old.keys, [item.window for item in self._diagnostic.transforms]
        named = {at: window.name for at, window in enumerate(windows) if window is not None}
        return frozenset(at for at, name in named.items() if old is not None and old.get(name) != keys[name])

    def _close_spans(self, old: Keys, dtype: np.dtype[Any]) -> None:
        """Hand on what the spans that end came to, and let the base start anew."""
        each = self._diagnostic.each
        if each and old[each.window.name] != self._work.keys[each.window.name]:
            step = inner_step(self._diagnostic, self._old)
            if step is not None:
                self._fold(OUTER, dtype, step, [None])
        if each:
            self._roll(INNER, (each.window,), old, dtype)
        self._roll(OUTER, self._diagnostic.windows, old, dtype)

    def _roll(self, level: str, windows: Sequence[Window], old: Keys, dtype: np.dtype[Any]) -> None:
        if all(old[window.name] == self._work.keys[window.name] for window in windows):
            return
        base = self._files.pop(BASE[level], None)
        roll = plan_roll(level, windows, old, self._work.keys, self._files)
        state_layout = state_layout_of(self._diagnostic, level, dtype, self._old.count)
        for slot in roll.merged if base is not None else ():
            assert base is not None
            current = self._files.get(slot)
            if current is None:
                self._files[slot] = base  # a state is never written to, so several slots may have it
            else:
                combine_files(state_layout, [current, base], self._target(slot, state_layout))
        for slot in roll.dropped:
            self._files.pop(slot, None)

    def _fold(
        self, level: str, dtype: np.dtype[Any], steps: HasTiles, extremes: Sequence[Extremes]
    ) -> dict[str, Array]:
        """Take steps into a level's base."""
        slot = BASE[level]
        state_layout = state_layout_of(self._diagnostic, level, dtype, self._old.count)
        source = map_source(self._files[slot]) if slot in self._files else None
        return fold_tiles(
            state_layout, source, self._target(slot, state_layout), steps, extremes, self._diagnostic.filters
        )

    def _target(self, slot: StateSlot, state_layout: StateLayout) -> Any:
        """Map the place that gets a slot's next state."""
        work = self._work
        assert work.room is not None
        offset, size = work.room.extents[slot.level]
        if state_layout.nbytes > size:
            raise BbflowError(
                f"{self._diagnostic.name}: a state of {state_layout.nbytes} bytes has a place of {size} bytes"
            )
        path = free_file(work.state_directory, work.room.label, slot.level, self._taken)
        self._taken.add(path)
        self._files[slot] = StatePlace(path, offset)
        return memoryview(map_target(path, [(offset, size)]))[offset : offset + size]


def keep_rows(work: FoldWork, rows: Mapping[str, Array]) -> tuple[str, ...]:
    """Write the rows that passed to files whose names a repeated task gives again."""
    kept = []
    first, last = work.inputs.numbers[0], work.inputs.numbers[-1]
    for name, passed in rows.items():
        if len(passed):
            label = f"{work.state.key.node}.{work.state.key.label}"
            path = Path(work.rows_directory) / f"{name}.{label}.{first:010d}-{last:010d}.npy"
            with naming(str(path)), replacing(path) as temporary, temporary.open("wb") as file:
                np.save(file, _with_time(passed, work.inputs))
            kept.append(str(path))
    return tuple(kept)


def _with_time(rows: Array, inputs: Inputs) -> Array:
    times = dict(zip(inputs.numbers, inputs.times, strict=True))
    timed = np.empty(len(rows), [*rows.dtype.descr, ("time", "f8")])
    for name in rows.dtype.names or ():
        timed[name] = rows[name]
    timed["time"] = [times[step] for step in rows["step"].tolist()]
    return timed
