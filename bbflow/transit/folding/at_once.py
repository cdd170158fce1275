"""The fold of blocks that the kernel takes as they lie: all of a lane's in few calls, without Python work for each."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from bbflow.operators import kernel
from bbflow.operators.filter import gather_rows, in_order
from bbflow.operators.steps import Array, DType, Steps
from bbflow.transit.folding.alike_fold import AlikeFold
from bbflow.transit.folding.kernel_table import TYPE_NAMES, KernelTable, table_of
from bbflow.transit.folding.shards import StatePlace
from bbflow.transit.folding.slots import BASE, OUTER, StateSlot


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
