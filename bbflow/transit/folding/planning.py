"""Planning: which shards of steps that lie alike are folded where, found once for each pattern."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.frozen import FrozenMap
from bbflow.operators.space.placement import Local, Placement
from bbflow.operators.steps import Array, DType
from bbflow.stream.cf import Encoding
from bbflow.stream.records import BlockForm, Layout
from bbflow.transit.folding.fixed import HELD, at_place
from bbflow.transit.folding.lanes import JOINED, Lanes, NodeLane, field_dtype
from bbflow.transit.folding.patterns import Pattern, Shapes
from bbflow.transit.folding.plans import Directories, FoldPlan, PlannedShard
from bbflow.transit.states.shards import Place, Region, ShardKey
from bbflow.transit.states.state_layouts import state_sizes
from bbflow.transit.states.tables import Roster, padded


@dataclass(frozen=True, slots=True)
class FoldSite:
    """Where and with what a run's tasks fold."""

    directories: Mapping[str, Directories]
    """By node."""
    threads: int
    """Of all workers."""
    encodings: Mapping[str, Encoding]
    """Variable to how its values are written."""


class Planning:
    """Cuts patterns into plans.

    Parameters
    ----------
    diagnostics
        What is computed, by its key.
    placements
        Diagnostic to where its field lies, of those that have a `space`.
    lanes
        Where shards were folded so far.
    """

    def __init__(
        self, diagnostics: Mapping[str, Diagnostic], placements: Mapping[str, Placement], lanes: Lanes
    ) -> None:
        self._diagnostics, self._placements, self._lanes = diagnostics, placements, lanes
        self._fitted: dict[str, tuple[Placement, dict[ShardKey, Local | None]]] = {}
        """Diagnostic to its space for the newest shape of its variable, and what blocks have of it."""
        self._plans: WeakKeyDictionary[Pattern, tuple[FoldSite, dict[NodeLane, FoldPlan]]] = WeakKeyDictionary()

    def local(self, key: ShardKey, shapes: Shapes) -> Local | None:
        """Return which points of a shard's blocks are its field's, if not all, for variables of these shapes."""
        placement = self._placements.get(key.diagnostic)
        if placement is None:
            return None
        shape = shapes[key.diagnostic]
        if key.diagnostic not in self._fitted or self._fitted[key.diagnostic][0].source != shape:
            self._fitted[key.diagnostic] = placement.of_shape(shape), {}
        fitted, known = self._fitted[key.diagnostic]
        if key not in known:
            known[key] = fitted.local(key.start, key.count)
        return known[key]

    def is_joined(self, key: ShardKey, shapes: Shapes) -> bool:
        """Whether a shard's blocks are joined step by step with those of other ranks."""
        local = self.local(key, shapes)
        return local is not None and not local.complete

    def region(self, key: ShardKey, shapes: Shapes) -> Region | None:
        """Return the part of the field that a shard's states are of; None if it is in no part."""
        local = self.local(key, shapes)
        if local is not None:
            return local.start, local.count
        return None if key.diagnostic in self._placements else (key.start, key.count)

    def plans(self, pattern: Pattern, site: FoldSite) -> dict[NodeLane, FoldPlan]:
        """Return each lane's plan of a pattern: the same object again for the same pattern and site."""
        known = self._plans.get(pattern)
        if known is None or known[0] != site:
            known = self._plans[pattern] = site, self._make(pattern, site)
        return known[1]

    def dtype(self, key: str, patterns: Iterable[Pattern], site: FoldSite) -> DType:
        """Return the type of a field's values before its transforms, which is the same in all steps that have it."""
        found = ((pattern, places) for pattern in patterns for places in pattern.regions[key].values())
        pattern, places = next(found)
        forms = {name: _form(pattern, place) for name, place in places.items()}
        return field_dtype(self._diagnostics[key], forms, site.encodings.__getitem__, self._placements.get(key))

    def joined_plan(self, key: ShardKey, site: FoldSite, dtype: DType) -> FoldPlan:
        """Return the plan of a field that ranks' blocks are joined into: its steps' values go with the task."""
        diagnostic, count = self._diagnostics[key.diagnostic], self._placements[key.diagnostic].shape
        transformed = diagnostic.transformed_dtype(dtype)
        offsets = self._lanes.places(key, JOINED, state_sizes(diagnostic, transformed, count))
        region, directories = ((0,) * len(count), count), site.directories[key.node]
        lane = f"{directories.states}/{self._lanes.label((key.node, JOINED))}"
        return FoldPlan(
            key.node, directories, Layout.of(()), {}, {}, {key.diagnostic: diagnostic}, {},
            {key.diagnostic: transformed}, Roster.of([key], [region], offsets), lane, (), np.empty((1, 0), "i8"), {},
            (), (),
        )  # fmt: skip

    def _forget_moved(self, pattern: Pattern) -> None:
        """Forget what blocks have of their fields that no batch can name any more: each move leaves some behind."""
        living = {key for own in (pattern, *self._plans) for name in self._fitted for key in own.regions[name]}
        for name, (placement, known) in self._fitted.items():
            self._fitted[name] = placement, {key: own for key, own in known.items() if key in living}

    def _joined_lanes(self) -> dict[ShardKey, int]:
        """Return the lanes of shards without states: a shard is in one lane, as steps of a batch may lie apart."""
        plans = (own.items() for _, own in self._plans.values())
        return {shard.key: lane for own in plans for (_, lane), plan in own for shard in plan.joined}

    def _make(self, pattern: Pattern, site: FoldSite) -> dict[NodeLane, FoldPlan]:
        self._forget_moved(pattern)
        by_node: dict[str, list[PlannedShard]] = {}
        for own in pattern.regions.values():
            for key, places in own.items():
                region = self.region(key, pattern.shapes)
                if region is not None:
                    shard = PlannedShard(key, region, self.local(key, pattern.shapes), places)
                    by_node.setdefault(key.node, []).append(shard)
        count = self._lanes.count(site.threads // len(site.directories))  # for all patterns: a shard keeps its lane
        types = {
            key: self._diagnostics[key].transformed_dtype(self.dtype(key, [pattern], site))
            for key, own in pattern.regions.items()
            if own
        }
        return {
            (node, number): self._plan(pattern, site, (node, number), lane, types)
            for node, shards in by_node.items()
            for number, lane in enumerate(self._share(pattern, shards, count, types))
            if lane
        }

    def _share(
        self, pattern: Pattern, shards: Sequence[PlannedShard], count: int, types: Mapping[str, DType]
    ) -> list[list[PlannedShard]]:
        """Share a node's shards out over some workers; a shard stays with the lane it began in."""
        layouts = pattern.layouts
        sizes = [
            sum([layouts[node].forms[at].bytes for node, at in shard.places.values() if node != HELD])
            for shard in shards
        ]
        loads = [0] * count
        lanes: list[list[PlannedShard]] = [[] for _ in range(count)]
        known_sizes: dict[tuple[str, tuple[int, ...]], dict[str, int]] = {}
        joined = self._joined_lanes()
        # The largest first, each to the lane that has least: what lanes differ by is then no more than a small one.
        for size, shard in sorted(zip(sizes, shards, strict=True), key=lambda own: -own[0]):
            known, kind = self._lanes.find(shard.key), (shard.key.diagnostic, shard.region[1])
            lane = loads.index(min(loads)) if known is None else known
            keeps_states = shard.local is None or shard.local.complete  # else its steps are joined with others'
            lane = lane if keeps_states else joined.get(shard.key, lane)
            loads[lane] += size
            if keeps_states and kind not in known_sizes:
                key = shard.key.diagnostic
                known_sizes[kind] = state_sizes(self._diagnostics[key], types[key], shard.region[1])
            offsets = self._lanes.places(shard.key, lane, known_sizes[kind]) if keeps_states else None
            lanes[lane].append(shard._replace(offsets=offsets))
        return lanes

    def _plan(
        self,
        pattern: Pattern,
        site: FoldSite,
        lane: NodeLane,
        shards: Sequence[PlannedShard],
        types: Mapping[str, DType],
    ) -> FoldPlan:
        node, directories = lane[0], site.directories[lane[0]]
        diagnostics = {key: self._diagnostics[key] for key in dict.fromkeys(shard.key.diagnostic for shard in shards)}
        places = dict.fromkeys(place for shard in shards for place in shard.places.values())
        wanted = (shard for shard in shards if diagnostics[shard.key.diagnostic].filters)
        own = [shard for shard in shards if shard.offsets is not None]
        return FoldPlan(
            node,
            directories,
            pattern.layouts[node],
            {place: form for place in places if place[0] != HELD and not (form := _form(pattern, place)).shape},
            {place: at_place(place, pattern.fixed) for place in places if place[0] == HELD},
            diagnostics,
            {name: site.encodings[name] for item in diagnostics.values() for name in item.variables},
            {item.key.diagnostic: types[item.key.diagnostic] for item in own},
            Roster.of([item.key for item in own], [item.region for item in own], [item.offsets for item in own]),
            f"{directories.states}/{self._lanes.label(lane)}" if own else "",
            tuple(places),
            _blocks(own, diagnostics, places),
            {at: shard.local for at, shard in enumerate(own) if shard.local is not None},
            tuple(shard._replace(places=FrozenMap(shard.places)) for shard in shards if shard.offsets is None),
            tuple(sorted({at for shard in wanted for place, at in shard.places.values() if place == node})),
        )


def _blocks(shards: Sequence[PlannedShard], diagnostics: Mapping[str, Diagnostic], places: Iterable[Place]) -> Array:
    """Return `FoldPlan.blocks`."""
    numbers: dict[Place | None, int] = {place: number for number, place in enumerate(places)}
    names = {key: item.variables for key, item in diagnostics.items()}
    rows = [[numbers.get(shard.places.get(name), -1) for name in names[shard.key.diagnostic]] for shard in shards]
    return padded(rows, max(map(len, names.values()), default=0), -1)


def _form(pattern: Pattern, place: Place) -> BlockForm:
    node, at = place
    return at_place(place, pattern.fixed).form if node == HELD else pattern.layouts[node].forms[at]
