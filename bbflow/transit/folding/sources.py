"""The blocks of a task's steps, mapped where they lie, as the inputs of each shard."""

import mmap
from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from bbflow.operators.filter import Extremes
from bbflow.operators.steps import Array
from bbflow.store.block_values import map_file, values_at
from bbflow.store.pool import map_pool
from bbflow.stream.cf import Encoding
from bbflow.stream.dtypes import wide_dtype
from bbflow.transit.folding.inputs import Inputs
from bbflow.transit.folding.plans import FoldPlan, PlannedShard, PlannedSteps
from bbflow.transit.folding.shards import Place
from bbflow.transit.folding.slots import Keys


class MappedSteps:
    """The blocks of some steps that lie alike.

    Parameters
    ----------
    plan
        How they lie.
    steps
        Which steps.
    """

    def __init__(self, plan: FoldPlan, steps: PlannedSteps) -> None:
        self.plan, self.steps = plan, steps

    @cached_property
    def _pool(self) -> mmap.mmap:
        return map_pool(self.plan.directories.pool)

    @cached_property
    def _offsets(self) -> list[list[int]]:
        offsets: list[list[int]] = self.plan.layout.offsets_of(self.steps.sources).tolist()
        return offsets

    @property
    def pool(self) -> mmap.mmap:
        """The node's pool."""
        return self._pool

    def offsets(self, form: int, wanted: Sequence[int]) -> list[int]:
        """Return where the blocks of a form lie in the pool in some of the steps."""
        return [self._offsets[step][form] for step in wanted]

    def after(self, number: int) -> "NewSteps":
        """Return the steps after one."""
        return NewSteps(self, tuple(at for at, own in enumerate(self.steps.numbers) if own > number))

    def inputs(self, shard: PlannedShard, wanted: Sequence[int], keys: Keys) -> Inputs:
        """Return what a shard folds of some of the steps, which are in some spans."""
        numbers, times = tuple(self.steps.numbers[at] for at in wanted), tuple(self.steps.times[at] for at in wanted)
        weights = {name: tuple(own[at] for at in wanted) for name, own in self.steps.weights.items()}
        if self.steps.arrays:
            return Inputs(
                numbers,
                times,
                {},
                arrays=tuple(self.steps.arrays[at] for at in wanted),
                others={text: tuple(own[at] for at in wanted) for text, own in self.steps.others.items()},
                weights=weights,
            )
        diagnostic = self.plan.diagnostics[shard.key.diagnostic]
        names, files = diagnostic.variables, diagnostic.fields_of_steps
        region = shard.key.start, shard.key.count
        parts = {name: item.steps(keys, times, *region) for name, item in files.items()}
        apart = self.plan.singles.keys() | self.plan.fixed.keys()
        forms = [self.plan.layout.forms[place[1]] for place in shard.places.values() if place not in apart]
        return Inputs(
            numbers,
            times,
            {name: self.plan.encodings[name] for name in names} | dict.fromkeys(files, Encoding()),
            {name: tuple(self._values(shard, shard.places[name], wanted)) for name in names} | parts,
            extremes=self._extremes(shard.places[names[0]], wanted),
            bytes=sum(form.bytes for form in forms) * len(wanted),
            weights=weights,
        )

    def _values(self, shard: PlannedShard, place: Place, wanted: Sequence[int]) -> Iterator[Array]:
        points = prod(shard.key.count)
        if place in self.plan.fixed:
            values = self.plan.fixed[place].part(shard.key, shard.local, points)
            return (values for _ in wanted)
        if place in self.plan.singles:
            dtype = self.plan.singles[place].dtype
            return (np.full(points, self.steps.values[step][place], dtype) for step in wanted)
        at, form = place[1], self.plan.layout.forms[place[1]]
        if form.spilled:
            source = self.plan.layout.source_of[at]
            files = (self.steps.files[step][source] for step in wanted)
            return (values_at(map_file(file), form.place, form) for file in files)
        return (values_at(self._pool, self._offsets[step][at], form) for step in wanted)

    def extremes(self, forms: Array, step: int) -> Array:
        """Return the smallest and the largest value of blocks in a step; of shape (forms, 2).

        Where they aren't known the smallest is above the largest.

        Parameters
        ----------
        forms
            Which blocks: of one type, that a filter wants to know of.
        step
            Position of the step.
        """
        dtype, told = wide_dtype(self.plan.layout.forms[forms[0]].type), self.steps.extremes[step]
        if not told:
            return np.full((len(forms), 2), (1, 0), dtype)
        return np.frombuffer(told, dtype).reshape(-1, 2)[np.searchsorted(self.plan.filtered, forms)]

    def _extremes(self, place: Place, wanted: Sequence[int]) -> tuple[Extremes, ...]:
        node, at = place
        if node != self.plan.node or at not in self.plan.filtered:
            return (None,) * len(wanted)
        told = [self.extremes(np.array([at]), step)[0].tolist() for step in wanted]
        return tuple((least, most) if least <= most else None for least, most in told)


class NewSteps(NamedTuple):
    """Some steps that lie alike."""

    blocks: MappedSteps
    """Steps, and their blocks."""
    at: tuple[int, ...]
    """Which of them."""


def ends_of(steps: Sequence[NewSteps]) -> tuple[int, int, float]:
    """Return the number of the first of some steps, in their order, and of the last one, and this one's time."""
    (first, at), (last, to) = steps[0], steps[-1]
    return first.steps.numbers[at[0]], last.steps.numbers[to[-1]], last.steps.times[to[-1]]
