"""The fold of blocks that the kernel takes as they lie: all of a lane's in few calls, without Python work for each."""

import mmap
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators import kernel, library
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import gather_rows, in_order
from bbflow.operators.library import FIELDS
from bbflow.operators.steps import Array, DType, Steps
from bbflow.transit.folding.alike_fold import AlikeFold, AlikeShards
from bbflow.transit.folding.inputs import MappedSteps
from bbflow.transit.folding.kernel_table import TYPE_NAMES, KernelTable, table_of
from bbflow.transit.folding.shards import StatePlace
from bbflow.transit.folding.slots import BASE, OUTER, Keys, StateSlot
from bbflow.transit.folding.states import map_file


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
        sources: Sequence[MappedSteps],
        rows: Sequence[Array],
        threads: int,
    ) -> None:
        super().__init__(shards, diagnostic, keys, sources, rows)
        self._threads = threads
        self._table, self._rows = table_of(sources[0].plan), rows[0]
        self._families = self._table.families_of(rows[0])
        self._kept: list[mmap.mmap | Array] = []
        """What the kernel has addresses of."""

    @property
    def bytes(self) -> int:
        """Bytes of the blocks."""
        return int(self._column("bytes").sum()) * sum(len(source.steps.numbers) for source in self._sources)

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
        plan = self._sources[0].plan
        if not plan.filtered:
            return [], kernel.NO_FILTERS
        codes, dtype = plan.roster.rows["diagnostic"][self._rows], self._values_dtype()
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
            yield table_of(source.plan), rows, len(source.steps.numbers)

    def _blocks(self) -> Iterator[tuple[Array, Array]]:
        """Yield for each step where the shards' blocks lie, and whether their ranks have folded them."""
        for source, rows in zip(self._sources, self._in_plans, strict=True):
            first = self._address(source.pool)
            own = table_of(source.plan).rows[rows]
            for begins in source.steps.sources:
                offsets = source.plan.layout.offsets(begins)
                yield first + offsets[own["form"]], own["folded"]
