"""The fold task: a batch of steps into the partial states of a lane's shards, where the blocks lie.

Shards are sorted by what their states have in common; each sort is folded by what folds it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from bbflow.operators.library import load
from bbflow.operators.own.guard import collecting
from bbflow.operators.steps import Array
from bbflow.store.pool import map_pool
from bbflow.transit.folding.alike_fold import AlikeFold
from bbflow.transit.folding.inputs import MappedSteps, contribution, has_means
from bbflow.transit.folding.kernel_table import table_of
from bbflow.transit.folding.plans import FoldPlan, PlannedShard
from bbflow.transit.folding.work import FoldReceipt, LaneWork, PartialSteps, SpanReceipt
from bbflow.transit.spans.slots import Keys
from bbflow.transit.states.files import LaneTurn, begun
from bbflow.transit.states.inherited import Inherited
from bbflow.transit.states.shards import Region, ShardKey, ShardState
from bbflow.transit.states.tables import Roster, gather, groups


def _counted(work: LaneWork, roster: Roster) -> Iterator[tuple[ShardState, Array, Inherited | None]]:
    """Yield the states that count, those that begin with what an earlier run has left, and those that begin."""
    new: Array = np.ones(len(roster), bool)
    for item in work.states:
        own = item.of_rows(len(roster))
        new[own] = False
        yield item, own, None
    found: dict[tuple[str, tuple[Region, ...]], tuple[Inherited, list[int]]] = {}
    for key, before in work.inherited.items():
        if new[at := roster.positions[key]]:
            found.setdefault((key.diagnostic, before.taken), (before, []))[1].append(at)
    for before, rows in found.values():
        new[rows] = False
        yield ShardState(), np.array(rows), before
    if new.any():
        yield ShardState(), np.flatnonzero(new), None


def _fold_span(
    work: LaneWork, keys: Keys, steps: Sequence[MappedSteps], roster: Roster
) -> tuple[tuple[ShardState, ...], int]:
    """Return the states that steps in one span of every window come to, by how they lie, and the bytes of blocks."""
    parts = [(own, own.plan.roster.find(roster)) for own in steps]
    told = [own.plan.diagnostics for own in steps]
    diagnostics = told[0] if len(told) == 1 else {key: item for some in told for key, item in some.items()}
    lane = next((own.plan.lane for own in steps if own.plan.lane), "")
    # What only shards have in common that may be folded together.
    sorts = np.stack([np.where(rows < 0, -1, table_of(own.plan).sorts[rows]) for own, rows in parts], axis=1)
    found, size = list[tuple[ShardState, Array]](), 0
    for like, counted, inherited in _counted(work, roster):
        for _, at in groups(sorts[counted]):
            group = counted[at]
            present = [(own.after(like.last_step), rows[group]) for own, rows in parts if rows[group[0]] >= 0]
            present = [item for item in present if item[0].steps.numbers]
            if not present:
                found.append((like, group))
                continue
            fold = AlikeFold(like, roster.chosen(group), lane, diagnostics, keys, present, work.threads)
            found += [(state, group[own]) for state, own in fold.fold(inherited, holds=work.holds)]
            size += fold.bytes
    return gather(roster, found), size


def fold_lane(work: LaneWork, *plans: FoldPlan) -> FoldReceipt | None:
    """Fold a batch of steps into the states of a lane's shards; a task.

    It changes nothing that counts: a second run of the same task, on any worker, gives the same states, or None if
    no one waits for them any more.

    Parameters
    ----------
    work
        The steps.
    *plans
        How they lie, in their order.
    """
    if not (lane := next((plan.lane for plan in plans if plan.lane), "")):
        return _folded(work, plans)
    turn = LaneTurn(min(steps.numbers[0] for steps in work.spans[0].steps), work.attempt)
    with begun(lane, turn, work.counted) as is_wanted:
        return _folded(work, plans) if is_wanted else None


def _folded(work: LaneWork, plans: Sequence[FoldPlan]) -> FoldReceipt:
    started_s, size = time.time(), 0
    roster, found = work.roster or plans[0].roster, list[SpanReceipt]()
    parts: list[PartialSteps] = []
    with collecting(work.off) as errors:
        for span in work.spans:
            steps = [MappedSteps(plan, own) for plan, own in zip(plans, span.steps, strict=True)]
            alike, folded = _fold_span(work, span.keys, steps, roster)
            contributed = list(_contributions(work, span.keys, steps))
            found.append(SpanReceipt(alike, dict(errors)))
            parts += [part for part, _ in contributed]
            size += folded + sum(size for _, size in contributed)
            # What each span has come to is published later, from where it lies.
            work = replace(work, states=tuple(own.holding() for own in alike))
    return FoldReceipt(roster.digest, tuple(found), tuple(parts), size, started_s, time.time())


def _contributions(work: LaneWork, keys: Keys, steps: Sequence[MappedSteps]) -> Iterator[tuple[PartialSteps, int]]:
    """Yield what blocks contribute to steps that depend on those of other ranks too, and the bytes of the blocks."""
    found: dict[ShardKey, list[tuple[MappedSteps, list[PlannedShard]]]] = {}
    for own in steps:
        for shard in own.plan.joined:
            found.setdefault(shard.key, []).append((own, [shard]))
    for key, parts in found.items():
        inputs, values, others = contribution(parts, keys, averages=key.diagnostic not in work.stepwise)
        yield PartialSteps(key, inputs.numbers, values, has_means(parts), others), inputs.bytes


def get_ready(pool: str) -> None:
    """Import what folds, load the kernel and map a node's pool: a task, before the first step is there."""
    load()
    map_pool(pool, is_backed=False)


def keep_plan(plan: FoldPlan) -> FoldPlan:
    """Be told of a plan; a task, whose result stays with the workers for all that fold by it."""
    return plan
