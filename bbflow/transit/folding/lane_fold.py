"""The fold of a lane: its shards by what their states have in common, each sort by what folds it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.steps import Array
from bbflow.operators.windows.window import Window
from bbflow.transit.folding.alike_fold import AlikeShards, Record
from bbflow.transit.folding.at_once import AtOnce, table_of
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.one_by_one import OneByOne
from bbflow.transit.folding.plans import FoldPlan
from bbflow.transit.folding.shards import Progress, Region
from bbflow.transit.folding.slots import LEVELS, Keys
from bbflow.transit.folding.sources import MappedSteps
from bbflow.transit.folding.tables import Alike, Roster, gather, groups
from bbflow.transit.folding.work import LaneWork


@dataclass(frozen=True, slots=True)
class LaneSorts:
    """Which of a lane's shards are folded together: found once for all batches of steps that lie alike."""

    diagnostics: Mapping[str, Diagnostic]
    """What is computed, by its key."""
    rows: Sequence[Array]
    """Of each plan, where the shards stand in its roster; -1 for nowhere."""
    sizes: Array
    """Bytes of the places of their states; as `FoldPlan.sizes`."""
    sorts: Array
    """What only shards of one sort have in common: they are folded together if their states are alike."""

    @classmethod
    def of(cls, plans: Sequence[FoldPlan], roster: Roster) -> "LaneSorts":
        """Find them for shards that have blocks by some plans."""
        diagnostics = {key: item for plan in plans for key, item in plan.diagnostics.items()}
        rows = [_rows_of(plan.roster, roster) for plan in plans]
        sizes: Array = np.zeros((len(roster), len(LEVELS)), "i8")
        for plan, own in zip(plans, rows, strict=True):
            sizes[own >= 0] = plan.sizes[own[own >= 0]]
        kinds = _kinds(plans, rows, roster, diagnostics)
        return cls(diagnostics, rows, sizes, np.column_stack([*kinds, *(own >= 0 for own in rows)]))


_sorts: WeakKeyDictionary[FoldPlan, LaneSorts] = WeakKeyDictionary()


def _sorts_of(plans: Sequence[FoldPlan], roster: Roster) -> LaneSorts:
    """Return the sorts of a lane; those of the shards of one plan alone are found once."""
    if len(plans) > 1 or roster is not plans[0].roster:
        return LaneSorts.of(plans, roster)
    if plans[0] not in _sorts:
        _sorts[plans[0]] = LaneSorts.of(plans, roster)
    return _sorts[plans[0]]


def _rows_of(other: Roster, roster: Roster) -> Array:
    rows = np.full(len(roster), -1)
    rows[roster.find(other)] = np.arange(len(other))
    return rows


def _kinds(
    plans: Sequence[FoldPlan], rows: Sequence[Array], roster: Roster, diagnostics: Mapping[str, Diagnostic]
) -> tuple[Array, Array]:
    """Return for each shard its windows' number and its values' type, if the kernel takes its blocks at once.

    Of the others it is their diagnostic, as a number below 0, and -1: types are what transforms make of them.
    """
    at_once, types = np.ones(len(roster), bool), np.full(len(roster), -1)
    for plan, own in zip(plans, rows, strict=True):
        there = np.flatnonzero(own >= 0)
        told = table_of(plan).rows[own[there]]
        at_once[there] &= (told["form"] >= 0) & ((types[there] < 0) | (types[there] == told["types"]))
        types[there] = told["types"]
    known: dict[tuple[Window, ...], int] = {}
    of = roster.rows["diagnostic"]
    windows = np.array([known.setdefault(diagnostics[key].windows, len(known)) for key in roster.diagnostics], "i8")
    return np.where(at_once, windows[of], -1 - of), np.where(at_once, types, -1)


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
        self._lane = _sorts_of([own.plan for own in steps], roster)
        self.bytes = 0
        """Bytes of the blocks that were folded."""

    def fold(self) -> tuple[Alike, ...]:
        """Return the states that came of it."""
        found = (record for counted in self._counted() for record in self._fold(*counted))
        return gather(self._roster, found)

    def _counted(self) -> Iterator[tuple[Progress, Array, Inherited | None]]:
        """Yield the states that count, those that begin with what an earlier run has left, and those that begin."""
        new: Array = np.ones(len(self._roster), bool)
        for item in self._work.states:
            own = item.rows(self._roster)
            new[own] = False
            yield item.like, own, None
        found: dict[tuple[str, tuple[Region, ...]], tuple[Inherited, list[int]]] = {}
        for key, before in self._work.inherited.items():
            if new[at := self._roster.positions[key]]:
                found.setdefault((key.diagnostic, before.taken), (before, []))[1].append(at)
        for before, rows in found.values():
            new[rows] = False
            yield Progress(), np.array(rows), before
        if new.any():
            yield Progress(), np.flatnonzero(new), None

    def _fold(self, like: Progress, own: Array, inherited: Inherited | None) -> Iterator[Record]:
        """Fold states that have all in common, those of a sort together."""
        plan = next((steps.plan for steps in self._steps if steps.plan.lane), self._steps[0].plan)
        for (kind, *_), at in groups(self._lane.sorts[own]):
            group = own[at]
            present = [(steps.after(like.last_step), rows[group]) for steps, rows in self._of_group(group)]
            if not any(new.at for new, _ in present):
                yield like, group
                continue
            sources, rows = zip(*(item for item in present if item[0].at), strict=True)
            shards = AlikeShards(like, self._roster, group, self._lane.sizes[group], plan.directories.states, plan.lane)
            diagnostic = self._lane.diagnostics[self._roster.diagnostics[self._roster.rows["diagnostic"][group[0]]]]
            fold = (
                AtOnce(shards, diagnostic, self._keys, sources, rows, self._work.threads)
                if kind >= 0
                else OneByOne(shards, diagnostic, self._keys, sources, rows)
            )
            yield from fold.fold(inherited, holds=self._work.holds)
            self.bytes += fold.bytes

    def _of_group(self, group: Array) -> Iterator[tuple[MappedSteps, Array]]:
        """Yield the steps in which shards of a sort have blocks, with the rows of all shards there."""
        return ((own, rows) for own, rows in zip(self._steps, self._lane.rows, strict=True) if rows[group[0]] >= 0)
