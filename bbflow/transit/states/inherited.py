"""What shards begin with: each takes the part of an earlier state that no other has taken."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.frozen import Frozen
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array
from bbflow.transit.spans.slots import Keys, StateSlot
from bbflow.transit.spans.timeline import Timeline
from bbflow.transit.states.shards import Region, Row, ShardKey, ShardState, StatePlace, overlapping
from bbflow.transit.states.state_layouts import by_region, place_of, state_layout_of


@dataclass(frozen=True, slots=True)
class Inherited(Frozen):
    """The state of one diagnostic at the end of an earlier run, without the regions that were taken already."""

    path: str
    """The state file."""
    shape: tuple[int, ...]
    """Of the field."""
    dtype: str
    """NumPy's name of the values' type after the transforms."""
    offsets: Mapping[StateSlot, int]
    """Place of the state to its first byte in the file."""
    keys: Keys
    """Spans that the last step is in."""
    number: int
    """Number of that step."""
    time: float
    """Its time, in the stream's units."""
    taken: tuple[Region, ...] = ()
    """What other shards begin with."""

    @property
    def region(self) -> Region:
        """All of the field."""
        return (0,) * len(self.shape), self.shape

    def state_layout(self, diagnostic: Diagnostic, slot: StateSlot, count: tuple[int, ...]) -> StateLayout:
        """Return the state layout of a slot's state of a region."""
        return state_layout_of(diagnostic, slot.level, np.dtype(self.dtype), count)

    def free(self, start: tuple[int, ...], count: tuple[int, ...]) -> Array:
        """Return which points of a region aren't taken; bool of the region's shape."""
        free = np.ones(count, bool)
        for first, size in self.taken:
            axes = zip(first, size, start, count, strict=True)
            free[tuple(slice(max(a - c, 0), max(min(a + b - c, d), 0)) for a, b, c, d in axes)] = False
        return free

    def cut(
        self, diagnostic: Diagnostic, slot: StateSlot, regions: Sequence[Region], buffer: Any, firsts: Iterable[int]
    ) -> None:
        """Set the states of some regions to what is saved, where it isn't taken; to the identity elsewhere.

        Parameters
        ----------
        diagnostic, slot
            Whose states these are.
        regions
            Whose points they have.
        buffer
            Gets them.
        firsts
            For each its first byte there.
        """
        whole = self.state_layout(diagnostic, slot, self.shape)
        if not whole.nbytes:
            return
        source = by_region(whole, map_part(self.path, self.offsets[slot], whole.nbytes, "r"), self.shape)
        state_layouts = {count: self.state_layout(diagnostic, slot, count) for count in {count for _, count in regions}}
        places = {count: state_layout.places for count, state_layout in state_layouts.items()}
        for (start, count), first in zip(regions, firsts, strict=True):
            place, free = place_of(start, count), self.free(start, count) if self.taken else np.True_
            if self.taken:
                state_layouts[count].clear(memoryview(buffer)[first : first + state_layouts[count].nbytes])
            for name, at in places[count].items():
                values = source[name][place]
                target: Array = np.ndarray(values.shape, values.dtype, buffer, first + at)
                np.copyto(target, values, where=free)

    def begun(self, state: ShardState, files: Mapping[StateSlot, StatePlace]) -> ShardState:
        """Return a shard's state that begins with some files of what was cut."""
        return replace(
            state, dtype=self.dtype, last_step=self.number, last_time=self.time, keys=self.keys, files=dict(files)
        )


def map_part(path: str, offset: int, size: int, mode: Any) -> Array:
    """Map some bytes of a file."""
    return np.memmap(path, np.uint8, mode, offset, (size,))


@contextmanager
def remainder(diagnostic: Diagnostic, inherited: Inherited, directory: str) -> Iterator[ShardState | None]:
    """Yield what no shard has taken, as the state of the whole field; None if all is taken.

    Parameters
    ----------
    diagnostic
        Whose state.
    inherited
        The state.
    directory
        For its files, which end with the context.
    """
    if not inherited.free(*inherited.region).any():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bbflow-remainder-", dir=directory) as scratch:
        files: dict[StateSlot, StatePlace] = {}
        for number, slot in enumerate(inherited.offsets):
            # A byte at least: an empty file can't be mapped.
            buffer = bytearray(max(inherited.state_layout(diagnostic, slot, inherited.shape).nbytes, 1))
            inherited.cut(diagnostic, slot, [inherited.region], buffer, [0])
            files[slot] = StatePlace(f"{scratch}/{number}", 0)
            Path(files[slot].path).write_bytes(buffer)
        yield inherited.begun(ShardState(), files)


def order_of(key: ShardKey, first_step: int) -> tuple[Any, ...]:
    """Return which of several shards of one point takes over what an earlier run has left: the first of them.

    Of those that began with one step a field's whole, which ranks have joined, comes last.
    """
    return first_step, not key.count, key.node, key.start, key.count


@dataclass(frozen=True, slots=True)
class Before:
    """What the runs before this one have left, in a chain of jobs."""

    number: int
    """Number of their last step."""
    timeline: Timeline
    """The spans that are alive."""
    errors: Mapping[str, str]
    """What failed in users' operators."""
    states: Mapping[str, Inherited]
    """By diagnostic."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What the shards of each diagnostic begin with."""

    before: Mapping[str, Inherited] = field(default_factory=dict)
    """Diagnostic to what an earlier run has left."""
    settled: Mapping[str, Inherited] = field(default_factory=dict)
    """Diagnostic to what this run has kept of it before its blocks moved."""

    def __bool__(self) -> bool:
        return bool(self.before or self.settled)

    def of(self, diagnostic: str, taken: Sequence[Region] = ()) -> Inherited | None:
        """Return a diagnostic's state without what is taken; None if there is none."""
        state = self.settled.get(diagnostic, self.before.get(diagnostic))
        return None if state is None else replace(state, taken=tuple(taken))

    def of_shards(self, begun: Mapping[ShardKey, Row], others: Iterable[Row]) -> dict[ShardKey, Inherited]:
        """Return what new shards begin with, if anything: nothing of what shards before them, in order, have taken."""
        found: dict[ShardKey, Inherited] = {}
        by_diagnostic: dict[str, list[Row]] = {}
        for row in (*begun.values(), *(row for row in others if row[0] not in begun)):
            by_diagnostic.setdefault(row[0].diagnostic, []).append(row)
        for diagnostic, rows in by_diagnostic.items():
            rows.sort(key=lambda row: order_of(row[0], row[2].first_step))
            regions, taken = [region for _, region, _ in rows], dict[int, list[Region]]()
            for pair in overlapping(regions):
                taken.setdefault(max(pair), []).append(regions[min(pair)])
            for at, (key, _, _) in enumerate(rows):
                before = self.of(diagnostic, taken.get(at, ())) if key in begun else None
                if before is not None:
                    found[key] = before
        return found

    def with_settled(self, states: Mapping[str, Inherited]) -> "Origins":
        """Return these with what was kept of some diagnostics last."""
        return replace(self, settled={**self.settled, **states})
