"""The fold task: a batch of steps into the partial states of a lane's shards, where the blocks lie."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bbflow.operators.library import load
from bbflow.operators.own.guard import collecting
from bbflow.store.pool import map_pool
from bbflow.transit.folding.inputs import Inputs, other_partials, partials
from bbflow.transit.folding.lane_fold import LaneFold
from bbflow.transit.folding.plans import FoldPlan, PlannedShard
from bbflow.transit.folding.shards import ShardKey
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.sources import MappedSteps
from bbflow.transit.folding.states import begun
from bbflow.transit.folding.work import FoldReceipt, LaneWork, PartialSteps, SpanReceipt


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
    batch = min(steps.numbers[0] for steps in work.spans[0].steps)
    with begun(directory, lane, batch, work.counted) as is_wanted:
        return _folded(work, plans) if is_wanted else None


def _folded(work: LaneWork, plans: Sequence[FoldPlan]) -> FoldReceipt:
    started_s, size = time.time(), 0
    roster, found = work.roster or plans[0].roster, list[SpanReceipt]()
    parts: list[PartialSteps] = []
    with collecting(work.off) as errors:
        for span in work.spans:
            steps = [MappedSteps(plan, own) for plan, own in zip(plans, span.steps, strict=True)]
            lane = LaneFold(work, span.keys, steps, roster)
            alike, contributed = lane.fold(), list(_contributions(work, span.keys, steps))
            found.append(SpanReceipt(alike, dict(errors)))
            parts += [part for part, _ in contributed]
            size += lane.bytes + sum(size for _, size in contributed)
            # What each span has come to is published later, from where it lies.
            work = replace(work, states=tuple(replace(own, like=own.like.holding()) for own in alike))
    return FoldReceipt(roster.digest, tuple(found), tuple(parts), size, started_s, time.time())


def _contributions(work: LaneWork, keys: Keys, steps: Sequence[MappedSteps]) -> Iterator[tuple[PartialSteps, int]]:
    """Yield what blocks contribute to steps that depend on those of other ranks too, and the bytes of the blocks."""
    found: dict[ShardKey, list[tuple[MappedSteps, PlannedShard]]] = {}
    for own in steps:
        for shard in own.plan.joined:
            found.setdefault(shard.key, []).append((own, shard))
    for key, parts in found.items():
        plan, local = parts[0][0].plan, parts[0][1].local
        inputs = Inputs.joined([own.inputs(shard, range(len(own.steps.numbers)), keys) for own, shard in parts])
        assert inputs is not None
        assert local is not None
        diagnostic, averages = plan.diagnostics[key.diagnostic], key.diagnostic not in work.stepwise
        values = partials(inputs, diagnostic, local, averages=averages)
        yield PartialSteps(key, inputs.numbers, values, other_partials(inputs, diagnostic, local)), inputs.bytes


def get_ready(pool: str) -> None:
    """Import what folds, load the kernel and map a node's pool: a task, before the first step is there."""
    load()
    map_pool(pool)


def keep_plan(plan: FoldPlan) -> FoldPlan:
    """Be told of a plan; a task, whose result stays with the workers for all that fold by it."""
    return plan
