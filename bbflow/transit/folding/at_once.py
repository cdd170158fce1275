"""The fold of blocks that the kernel takes as they lie: all of a lane's in few calls, without Python work for each."""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.errors import BbflowError, StreamError
from bbflow.operators import kernel, library
from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import gather_rows, in_order
from bbflow.operators.library import FAMILY_TASK, FIELDS, TYPES
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array, DType, Steps
from bbflow.store.pool import map_pool
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import state_places
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.alike_fold import AlikeFold, AlikeShards
from bbflow.transit.folding.plans import FoldPlan
from bbflow.transit.folding.rank_states import is_plain, lacking
from bbflow.transit.folding.shards import StatePlace
from bbflow.transit.folding.slots import BASE, OUTER, Keys, StateSlot
from bbflow.transit.folding.sources import NewSteps
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


FAMILY_ROW = np.dtype([("row", "i8"), ("family", "u8"), ("begin", "i8")])
"""What a shard's state has besides the kernel's fields.

The shard's row; address of what is the same for all states of a kind (`library.FAMILY`); first byte of the state in
files of the lane.
"""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """What the kernel must know of a plan's shards.

    It takes those of variables themselves, with operators that are made of moments and extremes, percentiles and
    histograms, and no transforms, `each`, `then` or `space`.
    """

    rows: Array
    """A `ROW` for each of the roster's."""
    families: Array
    """`FAMILY_ROW` by row."""
    kept: tuple[Array, ...]
    """What addresses point to."""

    @classmethod
    def of(cls, plan: FoldPlan) -> "KernelTable":
        """Make the table of a plan."""
        rows = np.zeros(len(plan.roster), ROW)
        kept, families = list[Array](), list[tuple[int, int, int]]()
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
                row, further = _row(diagnostic, form, plan.encodings[form.name], kept)
                if row is not None:
                    rows[own[alike]] = row
                    rows["form"][own[alike]] = at[alike]
                    families += [(shard, item.ctypes.data, 0) for shard in own[alike].tolist() for item in further]
        begins = plan.extents(OUTER)[:, 0]
        rows["fields"] = np.where(rows["fields"] < 0, -1, begins[:, None] + rows["fields"])
        told = np.array(sorted(families), FAMILY_ROW)
        told["begin"] = begins[told["row"]]
        return cls(rows, told, tuple(kept))

    def addresses(self, rows: Array, first: int) -> Array:
        """Return where the fields of some shards' states are, 0 for none, in a file that is mapped at an address."""
        fields = self.rows["fields"][rows]  # no further column: rows are long
        return np.where(fields < 0, 0, fields + first)

    def families_of(self, rows: Array) -> Array:
        """Return a task for each family of some shards, which it names by their positions here.

        It is of `library.FAMILY_TASK`, and has for addresses of states where these begin in files of the lane.
        """
        places = np.full(len(self.rows), -1)
        places[rows] = np.arange(len(rows))
        at = places[self.families["row"]]
        own, at = self.families[at >= 0], at[at >= 0]
        tasks = np.zeros(len(own), FAMILY_TASK)
        tasks["task"], tasks["family"] = at, own["family"]
        for side in ("left", "right", "target"):
            tasks[side] = own["begin"]
        return tasks[np.argsort(at, kind="stable")]


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


def _row(diagnostic: Diagnostic, form: BlockForm, encoding: Encoding, kept: list[Array]) -> tuple[Any, list[Array]]:
    """Return the row of shards with blocks of a kind, but for where they lie, and what their states have besides.

    The row is None if the kernel can't take these.
    """
    if (
        form.spilled
        or form.is_single
        or form.stride > 1
        or form.dtype not in TYPES
        or not is_bare(encoding, form.dtype)
    ):
        return None, []
    state_layout = state_layout_of(diagnostic, OUTER, form.dtype, form.count)
    fields, families = (-1,) * len(FIELDS), list[Array]()
    for family in state_layout.families:
        places = {field: offset for (name, field), offset in state_layout.places.items() if name == family.name}
        if isinstance(family, Moments) and not family.is_weighted:
            fields = tuple(places.get(name, -1) for name in FIELDS)
        elif family.in_kernel is not None:
            families.append(family.in_kernel.told([*places.values()]))
        else:
            return None, []
    if form.folded and (families or diagnostic.filters):
        return None, []  # which then is refused where its values are read
    fill = next(iter(fills_of(encoding, form.dtype)), np.empty(0))
    kept += [fill, *families]
    points, address = prod(form.count), fill.ctypes.data if fill.size else 0
    states = _states(diagnostic, form, fields) if form.folded > 0 else (-1,) * len(FIELDS)
    told = 0, TYPES[form.dtype], points, points * form.dtype.itemsize, address, form.folded, fields, states
    return np.array(told, ROW), families


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
    shards, diagnostic, keys, sources, rows
        As for `AlikeFold`.
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
        super().__init__(shards, diagnostic, keys, sources, rows)
        self._threads = threads
        self._table, self._rows = table_of(sources[0].blocks.plan), rows[0]
        self._families = self._table.families_of(rows[0])
        self._kept: list[mmap.mmap | Array] = []
        """What the kernel has addresses of."""

    @property
    def bytes(self) -> int:
        """Bytes of the blocks."""
        return int(self._column("bytes").sum()) * sum(len(source.at) for source in self._sources)

    def _column(self, name: str) -> Array:
        column: Array = self._table.rows[name][self._rows]
        return column

    def _values_dtype(self) -> DType:
        return np.dtype(TYPE_NAMES[int(self._column("types")[0])])

    def _fields(self, first: int) -> Array:
        """Return where the fields of the states lie in a file that is mapped at an address; 0 for none."""
        return self._table.addresses(self._rows, first) if first else np.zeros((len(self._rows), len(FIELDS)), "u8")

    def _families_at(self, **sides: int) -> Array:
        """Return the tasks of what states have besides, by where the files of their sides are mapped."""
        tasks = self._families.copy()
        for side in ("left", "right", "target"):
            tasks[side] = tasks[side] + sides[side] if sides.get(side) else 0
        return tasks

    def _source(self, place: StatePlace) -> int:
        """Return where states begin to lie that are at some place."""
        return self._address(map_file(place.path)) + place.offset

    def _address(self, mapping: mmap.mmap) -> int:
        """Return where a file is mapped, for good: nobody else may hold it, or it is mapped anew where it grows."""
        self._kept.append(mapping)
        return np.frombuffer(mapping, np.uint8).ctypes.data

    def _merge(self, level: str, current: StatePlace, base: StatePlace, slot: StateSlot) -> None:
        left, right, target = self._source(current), self._source(base), self._address(self._target(slot))
        tasks = np.zeros(len(self._rows), library.MERGE_TASK)
        tasks["left"], tasks["right"], tasks["target"] = self._fields(left), self._fields(right), self._fields(target)
        tasks["points"] = self._column("points")
        families = self._families_at(left=left, right=right, target=target)
        library.merge_many(self._column("types"), tasks, families, self._threads)

    def _end_inner(self) -> None:
        raise AssertionError("the kernel takes no 'each'")

    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        blocks, folded = (np.stack(own, axis=1) for own in zip(*self._blocks(), strict=True))
        begun = self._files.get(BASE[OUTER])
        source = 0 if begun is None else self._source(begun)
        target = self._address(self._target(BASE[OUTER]))
        passed: dict[int, dict[str, Array]] = {}
        # Blocks before states: sums of both differ by rounding alone, whatever comes first.
        counts = (folded == 0).sum(axis=1)
        if counts.any():
            ordered = np.take_along_axis(blocks, (folded != 0).argsort(kind="stable"), 1) if folded.any() else blocks
            passed = self._fold_blocks(source, target, ordered, counts)
        if folded.any():
            into = self._fields(target)
            left = np.where(counts[:, None] > 0, into, self._fields(source))
            self._merge_states(left, into, blocks, folded)
        return self._with_rows(passed)

    def _fold_blocks(self, source: int, target: int, blocks: Array, counts: Array) -> dict[int, dict[str, Array]]:
        """Take the first blocks of each shard into its state, as many as it has; gives what passed filters."""
        blocks, own = np.ascontiguousarray(blocks), np.flatnonzero(counts > 0)
        tasks = np.zeros(len(blocks), kernel.TASK)
        tasks["source"], tasks["target"] = self._fields(source), self._fields(target)
        tasks["blocks"] = blocks.ctypes.data + 8 * blocks.shape[1] * np.arange(len(blocks))
        tasks["steps"], tasks["points"], tasks["fill"] = counts, self._column("points"), self._column("fills")
        named, filters = self._filters(tasks)
        families = self._families_at(left=source, target=target)
        if len(own) < len(blocks):  # those whose ranks have folded all have nothing else
            families = families[np.isin(families["task"], own)]
            families["task"] = np.searchsorted(own, families["task"])
        found = kernel.fold_many(self._column("types")[own], tasks[own], families, self._threads, filters)
        return self._gathered(named, found)

    def _filters(self, tasks: Array) -> tuple[list[tuple[int, str]], Array]:
        """Point tasks to their shards' filters; gives the shard and the name of each of these, and their table."""
        plan = self._sources[0].blocks.plan
        codes, dtype = plan.roster.rows["diagnostic"][self._rows], self._values_dtype()
        named, parts = list[tuple[int, str]](), list[Array]()
        for code, key in enumerate(plan.roster.diagnostics):
            limits = {item.name: own for item in plan.diagnostics[key].filters if (own := item.interval(dtype))}
            at = np.flatnonzero(codes == code)
            if not limits or not len(at):
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
            forms = table_of(source.blocks.plan).rows["form"][rows[at]]
            found += [source.blocks.extremes(forms, step) for step in source.at]
        return np.stack(found, axis=1)

    def _gathered(self, named: Sequence[tuple[int, str]], found: Sequence[Array]) -> dict[int, dict[str, Array]]:
        """Return the rows of what passed, by shard and filter."""
        rows: dict[int, dict[str, Array]] = {}
        for (at, name), passed in zip(named, found, strict=True):
            if len(passed):
                inputs = self._inputs(at)
                (values,) = inputs.variables.values()
                steps = Steps(values, None, numbers=np.asarray(inputs.numbers, "i8"))
                rows.setdefault(at, {})[name] = in_order([gather_rows(steps, passed)], values[0].dtype)
        return rows

    def _with_rows(self, passed: Mapping[int, Mapping[str, Array]]) -> list[tuple[tuple[str, ...], Array]]:
        """Write the rows that passed; gives their files, and which shards have them."""
        found: dict[tuple[str, ...], list[int]] = {}
        for at, row in enumerate(self._shards.rows.tolist() if passed else ()):
            files = self._keep_rows(at, self._inputs(at), passed[at]) if at in passed else ()
            found.setdefault(files, []).append(row)
        return [(files, np.array(own)) for files, own in found.items()] or [((), self._shards.rows)]

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
                library.merge_many(self._column("types")[own], tasks, self._families[:0], self._threads)
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
