"""What a task's plans and sources make: the inputs of each shard, mapped where they lie."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from bbflow.operators.filter import Extremes
from bbflow.operators.library import load
from bbflow.operators.steps import Array
from bbflow.store.pool import map_file, map_pool, values_at
from bbflow.stream.cf import Encoding
from bbflow.stream.layouts import wide_dtype
from bbflow.transit.folding.inputs import Inputs
from bbflow.transit.folding.plans import FoldPlan, LaneWork, PlannedShard, PlannedSteps
from bbflow.transit.folding.shards import Place, ShardKey, ShardState
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.states import begun
from bbflow.transit.folding.steady import SteadyFold, packed
from bbflow.transit.folding.tables import Roster, States
from bbflow.transit.folding.task import FoldReceipt, FoldWork, fold_batch


def fold_lane(work: LaneWork, *plans: FoldPlan) -> FoldReceipt | None:
    """Fold a batch of steps into the states of a lane's shards; a task.

    It changes nothing that counts: a second run of the same task, on any worker, gives the same states, or None if
    nobody waits for them any more.

    Parameters
    ----------
    work
        The steps.
    *plans
        How they lie, in their order.
    """
    directory, lane = next(((plan.directories.states, plan.lane) for plan in plans if plan.lane), ("", ""))
    if not lane:
        return _folded(work, plans)
    with begun(directory, lane, work.steps[0].numbers[0], work.counted) as is_wanted:
        return _folded(work, plans) if is_wanted else None


def _folded(work: LaneWork, plans: Sequence[FoldPlan]) -> FoldReceipt:
    started_s = time.time()
    roster = work.roster or plans[0].roster
    steady = SteadyFold(work, plans, roster)
    done = steady.fold()
    works, states = ([], {}) if steady.is_all else _others(work, plans, roster, steady.taken)
    receipt = fold_batch(works)
    states.update((state.key, state) for state in receipt.states)
    return replace(
        receipt,
        states=(),
        bytes=receipt.bytes + steady.bytes,
        started_s=started_s,
        roster=roster.digest,
        alike=packed(roster, done, states),
    )


def get_ready(pool: str) -> None:
    """Import what folds, load the kernel and map a node's pool: a task, before the first step is there."""
    load()
    map_pool(pool)


def keep_plan(plan: FoldPlan) -> FoldPlan:
    """Be told of a plan; a task, whose result stays with the workers for all that fold by it."""
    return plan


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
        self._pool = map_pool(plan.directories.pool)
        self._offsets = plan.layout.offsets_of(steps.sources).tolist()
        self._filtered = {at: row for row, at in enumerate(plan.filtered)}

    def inputs(self, shard: PlannedShard, after: int, keys: Keys) -> Inputs:
        """Return what a shard folds: the steps after one, all of which are in some spans."""
        wanted = [at for at, number in enumerate(self.steps.numbers) if number > after]
        diagnostic = self.plan.diagnostics[shard.key.diagnostic]
        names, files = diagnostic.variables, diagnostic.fields_of_steps
        parts = {name: item.part(keys, shard.key.start, shard.key.count) for name, item in files.items()}
        apart = self.plan.singles.keys() | self.plan.fixed.keys()
        forms = [self.plan.layout.forms[place[1]] for place in shard.places.values() if place not in apart]
        return Inputs(
            tuple(self.steps.numbers[at] for at in wanted),
            tuple(self.steps.times[at] for at in wanted),
            {name: self.plan.encodings[name] for name in names} | dict.fromkeys(files, Encoding()),
            {name: tuple(self._values(shard, shard.places[name], wanted)) for name in names}
            | {name: (values,) * len(wanted) for name, values in parts.items()},
            extremes=tuple(self._extremes(shard, names[0], at) for at in wanted),
            bytes=sum(form.bytes for form in forms) * len(wanted),
            weights={name: tuple(own[at] for at in wanted) for name, own in self.steps.weights.items()},
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
            source = int(self.plan.layout.source_of[at])
            files = (self.steps.files[step][source] for step in wanted)
            return (values_at(map_file(file), form.place, form) for file in files)
        return (values_at(self._pool, self._offsets[step][at], form) for step in wanted)

    def _extremes(self, shard: PlannedShard, name: str, step: int) -> Extremes:
        node, at = shard.places[name]
        row = self._filtered.get(at) if node == self.plan.node else None
        if row is None or not self.steps.extremes[step]:
            return None
        dtype = wide_dtype(self.plan.layout.forms[self.plan.filtered[row]].type)
        least, most = np.frombuffer(self.steps.extremes[step], dtype).reshape(-1, 2)[row].tolist()
        return (least, most) if least <= most else None


def _others(
    work: LaneWork, plans: Sequence[FoldPlan], roster: Roster, taken: Array
) -> tuple[list[FoldWork], dict[ShardKey, ShardState]]:
    """Return the work on shards that are folded one by one, and the states that they have."""
    sources = [MappedSteps(plan, steps) for plan, steps in zip(plans, work.steps, strict=True)]
    states = {state.key: state for state in States(roster, work.states).rows(~taken)}
    return list(_shard_works(work, states, sources, [~taken[roster.find(plan.roster)] for plan in plans])), states


def _shard_works(
    work: LaneWork,
    states: Mapping[ShardKey, ShardState],
    sources: Sequence[MappedSteps],
    wanted: Sequence[Array],
) -> Iterator[FoldWork]:
    found: dict[ShardKey, list[tuple[MappedSteps, PlannedShard]]] = {}
    for item, rows in zip(sources, wanted, strict=True):
        for shard in (*item.plan.shards(np.flatnonzero(rows)), *item.plan.joined):
            found.setdefault(shard.key, []).append((item, shard))
    for key, own in found.items():
        plan, shard = own[0][0].plan, own[0][1]
        state = states.get(key)
        after = -1 if state is None else state.last_step
        inputs = [item.inputs(at, after, work.keys) for item, at in own]
        whole = Inputs.joined([item for item in inputs if item.numbers])
        if whole is not None:
            yield FoldWork(
                state or ShardState(key, *shard.region, first_step=whole.numbers[0]),
                plan.diagnostics[key.diagnostic],
                whole,
                work.keys,
                shard.local,
                plan.directories.states,
                plan.directories.rows,
                work.off,
                shard.room,
                work.counted,
                work.inherited.get(key),
                work.holds,
                key.diagnostic not in work.stepwise,
            )
