"""The fold task: a batch of steps into the partial states of a lane's shards, where the blocks lie.

Shards are sorted by what their states have in common; each sort is folded by what folds it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from bbflow.operators.library import load
from bbflow.operators.own.guard import collecting
from bbflow.operators.steps import Array
from bbflow.store.pool import map_pool
from bbflow.transit.folding.alike_fold import AlikeFold, Record
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.inputs import MappedSteps, has_means, other_partials, partials, shard_inputs
from bbflow.transit.folding.kernel_table import table_of
from bbflow.transit.folding.plans import FoldPlan, PlannedShard
from bbflow.transit.folding.shards import Region, ShardKey, ShardState
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.states import LaneTurn, begun
from bbflow.transit.folding.tables import Roster, gather, groups
from bbflow.transit.folding.work import FoldReceipt, LaneWork, PartialSteps, SpanReceipt


def _rows_of(other: Roster, roster: Roster) -> Array:
    """Return where the shards of a roster stand in another one; -1 for nowhere."""
    if other is roster:
        return np.arange(len(roster))
    rows = np.full(len(roster), -1)
    rows[roster.find(other)] = np.arange(len(other))
    return rows


class LaneFold:
    """Takes steps that are in one span of every window into the states of a lane's shards.

    Parameters
    ----------
    work
        What is to be done.
    keys
        The spans.
    steps
        The steps, by how they lie, in their order.
    roster
        The shards that have states.
    """

    def __init__(self, work: LaneWork, keys: Keys, steps: Sequence[MappedSteps], roster: Roster) -> None:
        self._work, self._keys, self._steps, self._roster = work, keys, steps, roster
        self._rows = [_rows_of(own.plan.roster, roster) for own in steps]
        own = [item.plan.diagnostics for item in steps]
        self._diagnostics = own[0] if len(own) == 1 else {key: item for some in own for key, item in some.items()}
        self.bytes = 0
        """Bytes of the blocks that were folded."""

    def fold(self) -> tuple[ShardState, ...]:
        """Return the states that came of it."""
        found = (record for counted in self._counted() for record in self._fold(*counted))
        return gather(self._roster, found)

    def _counted(self) -> Iterator[tuple[ShardState, Array, Inherited | None]]:
        """Yield the states that count, those that begin with what an earlier run has left, and those that begin."""
        new: Array = np.ones(len(self._roster), bool)
        for item in self._work.states:
            own = item.of_rows(len(self._roster))
            new[own] = False
            yield item, own, None
        found: dict[tuple[str, tuple[Region, ...]], tuple[Inherited, list[int]]] = {}
        for key, before in self._work.inherited.items():
            if new[at := self._roster.positions[key]]:
                found.setdefault((key.diagnostic, before.taken), (before, []))[1].append(at)
        for before, rows in found.values():
            new[rows] = False
            yield ShardState(), np.array(rows), before
        if new.any():
            yield ShardState(), np.flatnonzero(new), None

    @cached_property
    def _sorts(self) -> Array:
        """What only shards have in common that may be folded together; of shape (shards, plans)."""
        parts = zip(self._steps, self._rows, strict=True)
        return np.stack([np.where(rows < 0, -1, table_of(own.plan).sorts[rows]) for own, rows in parts], axis=1)

    def _fold(self, like: ShardState, own: Array, inherited: Inherited | None) -> Iterator[Record]:
        """Fold states that have all in common, those of a sort together."""
        lane = next((steps.plan.lane for steps in self._steps if steps.plan.lane), "")
        for _, at in groups(self._sorts[own]):
            group = own[at]
            present = [(steps.after(like.last_step), rows[group]) for steps, rows in self._of_group(group)]
            present = [item for item in present if item[0].steps.numbers]
            if not present:
                yield like, group
                continue
            sources, rows = zip(*present, strict=True)
            told = like, self._roster.chosen(group), lane, self._diagnostics, self._keys
            fold = AlikeFold(*told, sources, rows, self._work.threads)
            yield from ((state, group[at]) for state, at in fold.fold(inherited, holds=self._work.holds))
            self.bytes += fold.bytes

    def _of_group(self, group: Array) -> Iterator[tuple[MappedSteps, Array]]:
        """Yield the steps in which shards of a sort have blocks, with the rows of all shards there."""
        return ((own, rows) for own, rows in zip(self._steps, self._rows, strict=True) if rows[group[0]] >= 0)


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
            lane = LaneFold(work, span.keys, steps, roster)
            alike, contributed = lane.fold(), list(_contributions(work, span.keys, steps))
            found.append(SpanReceipt(alike, dict(errors)))
            parts += [part for part, _ in contributed]
            size += lane.bytes + sum(size for _, size in contributed)
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
        plan, local = parts[0][0].plan, parts[0][1][0].local
        inputs = shard_inputs(parts, keys)
        assert local is not None
        diagnostic, averages = plan.diagnostics[key.diagnostic], key.diagnostic not in work.stepwise
        values = partials(inputs, diagnostic, local, averages=averages)
        others = other_partials(inputs, diagnostic, local)
        yield PartialSteps(key, inputs.numbers, values, has_means(parts), others), inputs.bytes


def get_ready(pool: str) -> None:
    """Import what folds, load the kernel and map a node's pool: a task, before the first step is there."""
    load()
    map_pool(pool)


def keep_plan(plan: FoldPlan) -> FoldPlan:
    """Be told of a plan; a task, whose result stays with the workers for all that fold by it."""
    return plan
