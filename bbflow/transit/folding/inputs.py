"""What shards fold: the blocks where they lie, or what is made of them: expressions, points, transforms."""

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import prod
from typing import NamedTuple

import numpy as np

from bbflow.errors import BbflowError, StreamError
from bbflow.operators.decoding import Encoded, fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.expressions import TILE_POINTS, Expression
from bbflow.operators.filter import Extremes
from bbflow.operators.fold import HasTiles
from bbflow.operators.kernel_arrays import as_blocks
from bbflow.operators.space.placement import Local
from bbflow.operators.state import part_of
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.store.block_values import spilled_values, values_at
from bbflow.store.pool import map_pool
from bbflow.stream.cf import Encoding
from bbflow.stream.dtypes import wide_dtype
from bbflow.stream.folded import MEAN, state_places
from bbflow.stream.layouts import BlockForm
from bbflow.transit.folding.plans import FoldPlan, PlannedShard, PlannedSteps, come_and_go, lacking
from bbflow.transit.spans.slots import Keys
from bbflow.transit.states.inner import then
from bbflow.transit.states.shards import Place


class Inputs(NamedTuple):
    """Some steps of one region; or of some of one diagnostic that have as many points: then step by step one by one."""

    numbers: tuple[int, ...]
    """The steps' numbers, oldest first."""
    times: tuple[float, ...]
    """Their times, in the stream's units."""
    values: Mapping[str, tuple[Array, ...]]
    """Variable to its values in each step and region, of shape (points,)."""
    encodings: Mapping[str, Encoding]
    """Variable to how its values are written."""
    bytes: int
    """Bytes of the blocks."""

    @classmethod
    def joined(cls, parts: "Sequence[Inputs]") -> "Inputs":
        """Return several parts as one, in their order; one at least."""
        if len(parts) == 1:
            return parts[0]
        numbers, times, values, encodings, sizes = zip(*parts, strict=True)
        joined = {name: tuple(chain.from_iterable(own[name] for own in values)) for name in values[0]}
        return cls(tuple(chain(*numbers)), tuple(chain(*times)), joined, encodings[0], sum(sizes))

    @property
    def variables(self) -> dict[str, Steps | Encoded]:
        """The steps of each variable, as they lie where that is what is meant."""
        order = _order(self.times, self.numbers)
        variables: dict[str, Steps | Encoded] = {}
        for name, own in self.values.items():
            encoding, dtype = self.encodings[name], own[0].dtype
            values = as_blocks(own, dtype, own[0].size)
            if is_bare(encoding, dtype):
                variables[name] = Steps(values, next(iter(fills_of(encoding, dtype)), None), *order)
            else:
                variables[name] = Encoded(Steps(values, None, *order), encoding)
        return variables


def _order(times: Sequence[float], numbers: Sequence[int]) -> tuple[Array, Array]:
    return np.asarray(times, "f8"), np.asarray(numbers, "i8")


@dataclass(frozen=True, slots=True)
class ShardSteps:
    """A shard's steps as its statistics take them: any part of the points can be had, and is made only then."""

    source: Steps | Mapping[str, Steps | Encoded]
    """The field, or the variables that it is an expression of."""
    diagnostic: Diagnostic
    """What is computed."""
    dtype: DType
    """Type of the values that the statistics are of."""
    carried: tuple[Mapping[str, Views] | None, Mapping[str, Views]] | None = None
    """For each transform what it carries so far, None before the first step, and where that goes; None for none."""
    keys: Keys = field(default_factory=dict)
    """In which span of each window the steps are."""
    begun: frozenset[int] = frozenset()
    """Positions of the transforms for which a span of their window begins."""
    after: Mapping[str, Array] | None = None
    """Fields of files, each of shape (points,), for the expression after `each`; None if that comes later, or never."""
    weights: Array = field(default_factory=lambda: np.empty(0))
    """How much each step counts; of shape (steps,), or none where all count alike."""

    @property
    def told(self) -> HasTiles:
        """The field where it lies, if nothing is to be made of it; else this."""
        is_made = self.carried is not None or self.after is not None or self.weights.size
        return self._checked(self.source) if isinstance(self.source, Steps) and not is_made else self

    def part(self, points: slice) -> Steps:
        """Make some of the points; a second time gives the same."""
        steps = self._transformed(points)
        if self.after is not None:
            steps = then(self.diagnostic.then, steps, {name: own[points] for name, own in self.after.items()})
        return self._checked(replace(steps, weights=self.weights) if self.weights.size else steps)

    def _checked(self, steps: Steps) -> Steps:
        if (dtype := steps.values[0].dtype) != self.dtype:
            raise BbflowError(
                f"{self.diagnostic.name}: some blocks have values of type {self.dtype}, others of type {dtype}: let "
                "all ranks write one type"
            )
        return steps

    def _transformed(self, points: slice) -> Steps:
        steps = self.source.part(points) if isinstance(self.source, Steps) else self._evaluated(self.source, points)
        if self.carried is None:
            return steps
        source, target = self.carried
        for number, transform in enumerate(self.diagnostic.transforms):
            views = part_of(target[str(number)], points)
            if source is None:
                transform.clear(views)
            else:
                for name, values in part_of(source[str(number)], points).items():
                    views[name][...] = values
            if transform.window is not None:
                begins = source is not None and number in self.begun
                transform.enter(views, self.keys[transform.window.name], begins=begins)
            made = transform.apply(views, steps)
            steps = Steps(made, None, steps.times, steps.numbers, steps.others)
        return steps

    def _evaluated(self, variables: Mapping[str, Steps | Encoded], points: slice) -> Steps:
        tiles = {name: steps.part(points) for name, steps in variables.items()}
        others = {text: evaluate(item, tiles) for text, item in self.diagnostic.others.items()}
        return replace(evaluate(self.diagnostic.of, tiles), others=others)


def evaluate(expression: Expression, variables: Mapping[str, Steps]) -> Steps:
    """Return an expression's steps; those of a variable itself are not copied."""
    if expression.is_plain:
        return variables[expression.variables[0]]
    like = next(iter(variables.values()))
    return Steps(expression.evaluate(variables), None, like.times, like.numbers)


def open_steps(parts: "Sequence[Part]", keys: Keys) -> tuple[Steps | Mapping[str, Steps | Encoded], int]:
    """Return the field's values, or the variables that it is to be computed of, and the bytes of the blocks.

    Parameters
    ----------
    parts, keys
        As for `shard_inputs`; the results of each shard depend on its blocks alone.
    """
    own, (shard, *_) = parts[0]
    diagnostic = own.plan.diagnostics[shard.key.diagnostic]
    if own.steps.arrays:
        order = _order(own.steps.times, own.steps.numbers)
        others = {name: Steps(values, None, *order) for name, values in own.steps.others.items()}
        return Steps(own.steps.arrays, None, *order, others), 0
    inputs = shard_inputs(parts, keys)
    variables = inputs.variables
    if shard.local is None:
        lies = variables[diagnostic.of.variables[0]]
        if diagnostic.of.is_plain and not diagnostic.others and isinstance(lies, Steps):
            return lies, inputs.bytes
        return variables, inputs.bytes
    order = _order(inputs.times, inputs.numbers)
    others = {
        text: Steps(_local(shard.local, item, variables), None, *order) for text, item in diagnostic.others.items()
    }
    values = _local(shard.local, diagnostic.of, variables, averaged=_averages(diagnostic))
    return Steps(values, None, *order, others), inputs.bytes


def _averages(diagnostic: Diagnostic) -> bool:
    """Whether steps may be given as their mean, as often as there are steps."""
    return diagnostic.takes_means and diagnostic.space is not None and diagnostic.space.takes_means


def _local(
    local: Local, expression: Expression, variables: Mapping[str, Steps | Encoded], *, averaged: bool = False
) -> list[Array]:
    """Choose or reduce."""
    values = local.averaged if averaged else local.values
    made = (values(steps) for steps in _evaluated(local, expression, variables))
    return [np.ascontiguousarray(values).reshape(-1) for some in made for values in some]


def _evaluated(local: Local, expression: Expression, variables: Mapping[str, Steps | Encoded]) -> Iterator[Steps]:
    """Yield an expression's values, or what is made of their columns; one step at a time if large ones are computed."""
    needed = (*expression.variables, *(local.column.variables if local.column else ()))
    own = {name: variables[name] for name in dict.fromkeys(needed)}
    count, points = len(next(iter(own.values())).values), next(iter(own.values())).values[0].size
    lie_there = expression.is_plain and all(isinstance(steps, Steps) for steps in own.values())
    most = count if lie_there else max(TILE_POINTS // max(points, 1), 1)
    for first in range(0, count, most):
        some = {name: steps.some(slice(first, first + most)) for name, steps in own.items()}
        field = evaluate(expression, {name: some[name] for name in expression.variables})
        yield field if local.column is None else local.column.apply(field, some)


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
    def pool(self) -> mmap.mmap:
        """The node's pool."""
        return map_pool(self.plan.directories.pool)

    @cached_property
    def offsets(self) -> Array:
        """Where the blocks of each form lie in the pool; of shape (forms, steps)."""
        return self.plan.layout.offsets_of(self.steps.sources).T

    def blocks(self, forms: Array) -> Array:
        """Return where the blocks of some forms are in memory, as long as this is there; of shape (forms, steps)."""
        first: int = np.frombuffer(self.pool, np.uint8).ctypes.data
        return first + self.offsets[forms]

    def after(self, number: int) -> "MappedSteps":
        """Return the steps after one."""
        steps = self.steps.after(number)
        return self if steps is self.steps else MappedSteps(self.plan, steps)

    def inputs(self, shards: Sequence[PlannedShard], keys: Keys) -> Inputs:
        """Return what shards fold of the steps, which are in some spans."""
        numbers, times = self.steps.numbers, self.steps.times
        diagnostic = self.plan.diagnostics[shards[0].key.diagnostic]
        names, files = diagnostic.variables, diagnostic.fields_of_steps
        values = {name: _step_by_step([self._values(own, own.places[name]) for own in shards]) for name in names}
        for name, item in files.items():
            values[name] = _step_by_step([item.steps(keys, times, own.key.start, own.key.count) for own in shards])
        apart = self.plan.singles.keys() | self.plan.fixed.keys()
        places = [place for own in shards for place in own.places.values() if place not in apart]
        encodings = {name: self.plan.encodings[name] for name in names} | dict.fromkeys(files, Encoding())
        size = sum([self.plan.layout.forms[at].bytes for _, at in places]) * len(numbers)
        return Inputs(numbers, times, values, encodings, size)

    def _values(self, shard: PlannedShard, place: Place) -> Iterator[Array]:
        points = prod(shard.key.count)
        if place in self.plan.fixed:
            values = self.plan.fixed[place].part(shard.key, shard.local, points)
            return (values for _ in self.steps.numbers)
        if place in self.plan.singles:
            dtype = self.plan.singles[place].dtype
            return (np.full(points, own[place], dtype) for own in self.steps.values)
        at, form = place[1], self.plan.layout.forms[place[1]]
        if form.spilled:
            source = self.plan.layout.source_of[at]
            return (spilled_values(files[source], form.place, form) for files in self.steps.files)
        return (values_at(self.pool, offset, form) for offset in self.offsets[at].tolist())

    def extremes(self, forms: Array) -> Array:
        """Return the smallest and the largest value of some blocks in each step; of shape (forms, steps, 2).

        Where they aren't known the smallest is above the largest.

        Parameters
        ----------
        forms
            Which blocks: of one type, that a filter wants to know of.
        """
        dtype, own = wide_dtype(self.plan.layout.forms[forms[0]].type), np.searchsorted(self.plan.filtered, forms)
        unknown = np.full((len(forms), 2), (1, 0), dtype)
        steps = (np.frombuffer(told, dtype).reshape(-1, 2)[own] if told else unknown for told in self.steps.extremes)
        return np.stack([*steps], axis=1)

    def extremes_at(self, place: Place) -> list[Extremes]:
        """Return the smallest and the largest value of a shard's block in each step, None where they aren't known."""
        node, at = place
        if node != self.plan.node or at not in self.plan.filtered:
            return [None] * len(self.steps.numbers)
        told = self.extremes(np.array([at]))[0].tolist()
        return [(least, most) if least <= most else None for least, most in told]


def _step_by_step(shards: Sequence[Iterable[Array]]) -> tuple[Array, ...]:
    """Return the values of some shards' steps: all shards' of the first step, then of the next one."""
    return tuple(chain.from_iterable(zip(*shards, strict=True)))


Part = tuple[MappedSteps, Sequence[PlannedShard]]
"""Steps that lie alike, and how shards lie there."""


def _are_packed(plan: FoldPlan, diagnostic: Diagnostic) -> bool:
    encodings = [plan.encodings[name] for name in diagnostic.variables]
    return any(item.is_packed or item.unsigned is not None for item in encodings)


def extremes_of(parts: Sequence[Part], diagnostic: Diagnostic) -> list[Extremes]:
    """Return each step's smallest and largest value, where a shard's blocks tell those of what is folded."""
    own, (shard, *_) = parts[0]
    same = diagnostic.filters and diagnostic.of.is_plain and shard.local is None and not own.steps.arrays
    if not same or diagnostic.transforms or diagnostic.then is not None or _are_packed(own.plan, diagnostic):
        return [None] * sum(len(own.steps.numbers) for own, _ in parts)
    name = diagnostic.variables[0]
    return [known for own, (shard, *_) in parts for known in own.extremes_at(shard.places[name])]


def shard_inputs(parts: Sequence[Part], keys: Keys) -> Inputs:
    """Return what shards fold: their blocks, or means where ranks have folded these, of one shard then.

    Parameters
    ----------
    parts
        The steps, in their order.
    keys
        The spans that they are in.

    Raises
    ------
    StreamError
        If values come and go among the steps of a mean, or the mean isn't enough for the diagnostic.
    """
    if not has_means(parts):
        return Inputs.joined([own.inputs(shards, keys) for own, shards in parts])
    found, waiting = list[Inputs](), list[MappedSteps]()
    for own, (shard,) in parts:
        form = _folded_form(own, shard)
        if form is None:
            found.append(_widened(own.inputs([shard], keys)))
        elif form.waits:
            waiting.append(own)
        else:
            found += _means(own, shard, form, waiting)
            waiting = []
    if waiting:
        raise BbflowError("a batch ends among steps that its ranks have folded together")
    return Inputs.joined(found)


def contribution(parts: Sequence[Part], keys: Keys, *, averages: bool) -> tuple[Inputs, Array, dict[str, Array]]:
    """Return a shard's steps, and what they contribute to steps that depend on others too, and to further inputs.

    Parameters
    ----------
    parts, keys
        As for `shard_inputs`.
    averages
        Whether it may be that of the steps' mean, where the diagnostic takes it.
    """
    own, (shard,) = parts[0]
    diagnostic, local, inputs = own.plan.diagnostics[shard.key.diagnostic], shard.local, shard_inputs(parts, keys)
    assert local is not None
    variables, averages, found = inputs.variables, averages and _averages(diagnostic), list[Array]()
    for steps in _evaluated(local, diagnostic.of, variables):
        is_all = len(steps.values) == len(inputs.numbers)
        found.append(local.averaged_partial(steps) if averages and is_all else local.partial(steps))
    others = {
        text: np.concatenate([local.partial(steps) for steps in _evaluated(local, item, variables)])
        for text, item in diagnostic.others.items()
    }
    return inputs, np.concatenate(found), others


def has_means(parts: Sequence[Part]) -> bool:
    """Whether ranks have folded a shard's block in some of the steps; then it is alone."""
    return any(own.plan.layout.has_folded and _folded_form(own, shards[0]) is not None for own, shards in parts)


def _folded_form(own: MappedSteps, shard: PlannedShard) -> BlockForm | None:
    forms = (own.plan.layout.forms[at] for node, at in shard.places.values() if node == own.plan.node)
    folded = next((form for form in forms if form.folded), None)
    diagnostic = own.plan.diagnostics[shard.key.diagnostic]
    if folded is not None and not diagnostic.is_of_means:
        raise StreamError(lacking(diagnostic, folded, ["the steps themselves"]))
    return folded


def _means(own: MappedSteps, shard: PlannedShard, form: BlockForm, waiting: Sequence[MappedSteps]) -> list[Inputs]:
    """Return the steps of states, each with the mean of its own; the first one has those that wait, too."""
    diagnostic, found = own.plan.diagnostics[shard.key.diagnostic], []
    [(_, at)] = shard.places.values()
    told = [steps.steps for steps in waiting]
    before = [pair for steps in told for pair in zip(steps.numbers, steps.times, strict=True)]
    for offset, number, time in zip(own.offsets[at].tolist(), own.steps.numbers, own.steps.times, strict=True):
        numbers, times = zip(*before, (number, time), strict=True)
        mean = _mean(diagnostic, form, own, offset, len(numbers))
        values = {form.name: (mean,) * len(numbers)}
        found.append(Inputs(numbers, times, values, {form.name: Encoding()}, form.bytes))
        before = []
    return found


def _mean(diagnostic: Diagnostic, form: BlockForm, own: MappedSteps, offset: int, steps: int) -> Array:
    """Return the mean of so many steps in a state; float64 of shape (points,), NaN where all are missing.

    Raises
    ------
    StreamError
        If it lacks something, or only some of a point's values are missing: then other points weigh more in some steps.
    """
    points, (places, _) = prod(form.count), state_places(form.folded, form.dtype.itemsize, prod(form.count))
    if absent := [name for name in MEAN if name not in places]:
        raise StreamError(lacking(diagnostic, form, absent))
    types: tuple[DType, ...] = (np.dtype("i4"), form.dtype, np.dtype("f8"))
    begins = [offset + places[name] for name in MEAN]
    count, shift, first = (
        np.ndarray((points,), dtype, own.pool, begin) for dtype, begin in zip(types, begins, strict=True)
    )
    found: Array = np.full(points, np.nan)
    some = count > 0
    with np.errstate(invalid="ignore", over="ignore"):
        np.divide(first, count, out=found, where=some)
        found += shift
    if (some & ((count != steps) | np.isnan(found))).any():
        raise StreamError(come_and_go(diagnostic))
    return found


def _widened(inputs: Inputs) -> Inputs:
    """Return the same in float64, with NaN for what is missing, as means are."""
    found = {}
    for name, steps in inputs.variables.items():
        assert isinstance(steps, Steps)  # ranks fold what needs no decoding
        wide = [np.array(values, "f8") for values in steps.values]
        for values, own in zip(wide, steps.values, strict=True):
            if steps.fill is not None:
                values[own == steps.fill] = np.nan
        found[name] = tuple(wide)
    return inputs._replace(values=found, encodings=dict.fromkeys(found, Encoding()))
