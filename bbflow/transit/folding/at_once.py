"""The fold of blocks that the kernel takes as they lie: all of a lane's in few calls, without Python work for each."""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.errors import BbflowError, StreamError
from bbflow.operators import kernel, library
from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.library import FIELDS, TYPES
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array, DType
from bbflow.store.pool import map_pool
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import state_places
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.alike_fold import AlikeFold, AlikeShards
from bbflow.transit.folding.plans import FoldPlan
from bbflow.transit.folding.rank_states import is_plain, lacking
from bbflow.transit.folding.shards import StatePlace
from bbflow.transit.folding.slots import BASE, OUTER, Keys, StateSlot
from bbflow.transit.folding.sources import NewSteps, ends_of
from bbflow.transit.folding.state_layouts import state_layout_of
from bbflow.transit.folding.states import map_file

TYPE_NAMES = [dtype.str for dtype in TYPES]

ROW = np.dtype(
    [
        *((name, "i8") for name in ("form", "types", "points", "bytes", "fills", "folded")),
        ("fields", "i8", len(FIELDS)),
        ("states", "i8", len(FIELDS)),
    ]
)
"""What the kernel must know of a shard.

Which form its block is, -1 if the kernel can't take it as it lies; code of the values' type; values and bytes of a
block; address of the value that stands for 'missing', 0 for none; whether its rank has folded it (`BlockForm.folded`);
first byte of each of the kernel's fields in files of the lane, and in a block that is a state, -1 for none.
"""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """What the kernel must know of a plan's shards.

    It takes those of variables themselves, with operators that are made of moments and extremes, and no transforms,
    `each`, `then`, `space` or filters.
    """

    rows: Array
    """A `ROW` for each of the roster's."""
    kept: tuple[Array, ...]
    """What addresses point to."""

    @classmethod
    def of(cls, plan: FoldPlan) -> "KernelTable":
        """Make the table of a plan."""
        rows = np.zeros(len(plan.roster), ROW)
        kept: list[Array] = []
        rows["form"] = -1
        forms = np.array([at if node == plan.node else -1 for node, at in plan.places], "i8")
        for code, key in enumerate(plan.roster.diagnostics):
            diagnostic = plan.diagnostics[key]
            own = np.flatnonzero(plan.roster.rows["diagnostic"] == code) if is_plain(diagnostic) else ()
            if not len(own):
                continue
            at = forms[plan.blocks[own, 0]]
            own, at = own[at >= 0], at[at >= 0]
            for form, alike in _kinds([plan.layout.forms[number] for number in at.tolist()]):
                row = _row(diagnostic, form, plan.encodings[form.name], kept)
                if row is not None:
                    rows[own[alike]] = row
                    rows["form"][own[alike]] = at[alike]
        rows["fields"] = np.where(rows["fields"] < 0, -1, plan.extents(OUTER)[:, :1] + rows["fields"])
        return cls(rows, tuple(kept))

    def addresses(self, rows: Array, first: int) -> Array:
        """Return where the fields of some shards' states are, 0 for none, in a file that is mapped at an address."""
        fields = self.rows["fields"][rows]  # no further column: rows are long
        return np.where(fields < 0, 0, fields + first)


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
        found.setdefault((form.type, form.count, form.bytes, form.spilled, form.folded, form.stride), []).append(at)
    return ((forms[own[0]], np.array(own)) for own in found.values())


def _row(diagnostic: Diagnostic, form: BlockForm, encoding: Encoding, kept: list[Array]) -> Any:
    """Return the row of shards with blocks of a kind, but for where they lie; None if the kernel can't take these."""
    if form.spilled or form.is_single or form.stride > 1 or form.dtype not in TYPES:
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
    states = _states(diagnostic, form, fields) if form.folded > 0 else (-1,) * len(FIELDS)
    told = 0, TYPES[form.dtype], points, points * form.dtype.itemsize, address, form.folded, fields, states
    return np.array(told, ROW)


def _states(diagnostic: Diagnostic, form: BlockForm, fields: Sequence[int]) -> tuple[int, ...]:
    """Return where a block that is a state has the kernel's fields."""
    places, _ = state_places(form.folded, form.dtype.itemsize, prod(form.count))
    if absent := [name for name, place in zip(FIELDS, fields, strict=True) if place >= 0 and name not in places]:
        raise StreamError(lacking(diagnostic, form, absent))
    return tuple(places.get(name, -1) for name in FIELDS)


class AtOnce(AlikeFold):
    """Folds all blocks of some shards that a table knows in one call.

    Parameters
    ----------
    shards, diagnostic, keys
        As for `AlikeFold`.
    sources
        The steps that are new, by the plans that have the shards.
    rows
        Of each plan's table, where the shards stand there.
    threads
        How many may fold blocks side by side.
    """

    def __init__(
        self,
        shards: AlikeShards,
        diagnostic: Diagnostic,
        keys: Keys,
        sources: Sequence[NewSteps],
        rows: Sequence[Array],
        threads: int,
    ) -> None:
        super().__init__(shards, diagnostic, keys)
        self._sources, self._in_plans, self._threads = sources, rows, threads
        self._table, self._rows = table_of(sources[0].blocks.plan), rows[0]
        self._mappings: list[mmap.mmap] = []
        """What the kernel has addresses of."""

    @property
    def bytes(self) -> int:
        """Bytes of the blocks."""
        return int(self._column("bytes").sum()) * sum(len(source.at) for source in self._sources)

    @property
    def _ends(self) -> tuple[int, int, float]:
        return ends_of(self._sources)

    def _column(self, name: str) -> Array:
        column: Array = self._table.rows[name][self._rows]
        return column

    def _values_dtype(self) -> DType:
        return np.dtype(TYPE_NAMES[int(self._column("types")[0])])

    def _addresses(self, place: StatePlace) -> Array:
        """Return where the fields of the states lie that are at some place."""
        return self._table.addresses(self._rows, self._address(map_file(place.path)) + place.offset)

    def _targets(self, slot: StateSlot) -> Array:
        return self._table.addresses(self._rows, self._address(self._target(slot)))

    def _address(self, mapping: mmap.mmap) -> int:
        """Return where a file is mapped, for good: nobody else may hold it, or it is mapped anew where it grows."""
        self._mappings.append(mapping)
        return np.frombuffer(mapping, np.uint8).ctypes.data

    def _merge(self, level: str, current: StatePlace, base: StatePlace, slot: StateSlot) -> None:
        tasks = np.zeros(len(self._rows), library.MERGE_TASK)
        tasks["right"], tasks["left"] = self._addresses(base), self._addresses(current)
        tasks["target"], tasks["points"] = self._targets(slot), self._column("points")
        library.merge_many(self._column("types"), tasks, self._threads)

    def _end_inner(self) -> None:
        raise AssertionError("the kernel takes no 'each'")

    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        blocks, folded = (np.stack(own, axis=1) for own in zip(*self._blocks(), strict=True))
        begun = self._files.get(BASE[OUTER])
        source = np.zeros((len(blocks), len(FIELDS)), "u8") if begun is None else self._addresses(begun)
        target = self._targets(BASE[OUTER])
        # Blocks before states: sums of both differ by rounding alone, whatever comes first.
        counts = (folded == 0).sum(axis=1)
        if counts.any():
            self._fold_blocks(
                source, target, np.take_along_axis(blocks, (folded != 0).argsort(kind="stable"), 1), counts
            )
        if folded.any():
            self._merge_states(np.where(counts[:, None] > 0, target, source), target, blocks, folded)
        return [((), self._shards.rows)]

    def _fold_blocks(self, source: Array, target: Array, blocks: Array, counts: Array) -> None:
        """Take the first blocks of each shard into its state, as many as it has."""
        blocks, own = np.ascontiguousarray(blocks), counts > 0
        tasks = np.zeros(len(blocks), kernel.TASK)
        tasks["source"], tasks["target"] = source, target
        tasks["blocks"] = blocks.ctypes.data + 8 * blocks.shape[1] * np.arange(len(blocks))
        tasks["steps"], tasks["points"], tasks["fill"] = counts, self._column("points"), self._column("fills")
        kernel.fold_many(self._column("types")[own], tasks[own], self._threads)

    def _merge_states(self, left: Array, target: Array, blocks: Array, folded: Array) -> None:
        """Merge what ranks have folded into the shards' states, step by step."""
        if (folded < 0).all(axis=1).any():
            raise BbflowError("a batch ends among steps that its ranks have folded together")
        at = 0
        for plan, rows, steps in self._in_steps():
            states = plan.rows["states"][rows]
            for step in range(at, at + steps):
                own = folded[:, step] > 0
                tasks = np.zeros(int(own.sum()), library.MERGE_TASK)
                tasks["left"], tasks["target"] = left[own], target[own]
                tasks["right"] = np.where(states[own] < 0, 0, blocks[own, step, None] + states[own])
                tasks["points"] = self._column("points")[own]
                library.merge_many(self._column("types")[own], tasks, self._threads)
                left = np.where(own[:, None], target, left)
            at += steps

    def _in_steps(self) -> Iterator[tuple[KernelTable, Array, int]]:
        """Yield for each plan its table, where the shards stand there, and how many steps it has."""
        for source, rows in zip(self._sources, self._in_plans, strict=True):
            yield table_of(source.blocks.plan), rows, len(source.at)

    def _blocks(self) -> Iterator[tuple[Array, Array]]:
        """Yield for each step where the shards' blocks lie, and whether their ranks have folded them."""
        for source, rows in zip(self._sources, self._in_plans, strict=True):
            first = self._address(map_pool(source.blocks.plan.directories.pool))
            own = table_of(source.blocks.plan).rows[rows]
            for at in source.at:
                offsets = source.blocks.plan.layout.offsets(source.blocks.steps.sources[at])
                yield first + offsets[own["form"]], own["folded"]
