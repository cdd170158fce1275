"""Plans: what a node's tasks must know of steps that lie alike. They go to the workers once, and stay there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bbflow.cf import Encoding
from bbflow.layouts import EXTREMES_BYTES
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space import Local
from bbflow.records import BlockForm, Layout
from bbflow.transit.folding.batches import Stretch
from bbflow.transit.folding.footprint import ends_within, states_of, written_of
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.packing import Alike, Roster
from bbflow.transit.folding.patterns import Parts
from bbflow.transit.folding.regions import Place
from bbflow.transit.folding.shards import Region, Room, ShardKey
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.states import ReadyWork, without_gaps


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """What doesn't change of a shard from step to step."""

    key: ShardKey
    """Which shard."""
    region: Region
    """The part of the field that its states are of."""
    local: Local | None
    """Which points of the blocks, or what of them, if not all."""
    places: Mapping[str, Place]
    """Variable to where its block lies."""
    room: Room | None = None
    """Where its states go, if it has some of its own."""

    @property
    def keeps_states(self) -> bool:
        """Whether its states are its own, and not joined with those of other blocks step by step."""
        return self.local is None or self.local.complete

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannedShard, (self.key, self.region, self.local, self.places, self.room)


@dataclass(frozen=True, slots=True)
class Directories:
    """Where a node's tasks read and write."""

    pool: str
    """Path of the node's pool."""
    states: str
    """Where the node keeps states."""
    rows: str
    """Where rows that pass filters are put until they are published."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FoldPlan:
    """What one lane of a node folds of steps that lie alike."""

    node: str
    """The node."""
    directories: Directories
    """Where it reads and writes."""
    layout: Layout
    """How the blocks lie there."""
    singles: Mapping[Place, BlockForm]
    """The forms of single values, which may be on other nodes."""
    diagnostics: Mapping[str, Diagnostic]
    """What is computed, by its key."""
    encodings: Mapping[str, Encoding]
    """Variable to how its values are written."""
    shards: tuple[PlannedShard, ...]
    """The lane's shards."""
    roster: Roster
    """Those of them that have states of their own."""
    filtered: tuple[int, ...]
    """Forms whose minimum and maximum a filter wants to know, ascending."""

    @property
    def lane(self) -> str:
        """What the names of the lane's files begin with; empty if it keeps no states."""
        return next((shard.room.label for shard in self.shards if shard.room is not None), "")

    def ready_work(self, living: Mapping[str, int], ahead: int) -> ReadyWork:
        """Say which files the lane's next batches need, if they lie as this one.

        Parameters
        ----------
        living
            Level to how many files have states now (`living_files`).
        ahead
            How many batches more than one are folded while what has ended is published.
        """
        needs: dict[str, dict[str, int]] = {}
        for key, own in self.diagnostics.items():
            further = ahead if ends_within(own) else 0
            for level, most in states_of(own).items():
                known = min(max(living.get(level, 0), 1), most)
                needs.setdefault(level, {})[key] = known + written_of(own, level) + further
        rooms = [(shard.key.diagnostic, shard.room) for shard in self.shards if shard.room is not None]
        files = []
        for level, own_needs in needs.items():
            for number in sorted(set(own_needs.values())):
                wanting = {key for key, need in own_needs.items() if need >= number}
                files.append(
                    (level, number, without_gaps(room.extents[level] for key, room in rooms if key in wanting))
                )
        return ReadyWork(self.directories.states, self.lane, tuple(files))


@dataclass(frozen=True, slots=True)
class PlannedSteps:
    """What changes of some steps that lie alike: it is as small for a thousand blocks as for one."""

    numbers: tuple[int, ...]
    """The steps' numbers, oldest first."""
    times: tuple[float, ...]
    """Their times, in the stream's units."""
    sources: tuple[bytes, ...]
    """For each step the first byte of each of its sources in the pool (`Step.sources`)."""
    files: tuple[tuple[str, ...], ...]
    """For each step where its spilled blocks are."""
    values: tuple[Mapping[Place, Any], ...]
    """For each step the plan's single values."""
    extremes: tuple[bytes, ...]
    """For each step minimum and maximum of the plan's filtered forms."""

    @classmethod
    def of(cls, plan: FoldPlan, stretch: Stretch) -> "PlannedSteps":
        """Return what a plan's tasks must know of some steps."""
        own = [parts[plan.node] for parts in stretch.parts]
        return cls(
            stretch.numbers,
            stretch.times,
            tuple(step.sources for step in own),
            tuple(step.files for step in own),
            tuple(_values(plan, parts) for parts in stretch.parts),
            tuple(_rows_of(step.extremes, plan.filtered) for step in own),
        )


def _values(plan: FoldPlan, parts: Parts) -> dict[Place, Any]:
    steps = {place: parts[place[0]] for place in plan.singles}
    return {place: step.values[step.layout.singles.index(place[1])] for place, step in steps.items()}


def _rows_of(extremes: bytes, positions: tuple[int, ...]) -> bytes:
    if not positions or not extremes:
        return b""
    rows = np.frombuffer(extremes, np.uint8).reshape(-1, EXTREMES_BYTES)
    return rows[list(positions)].tobytes()


@dataclass(frozen=True, slots=True)
class LaneWork:
    """What one task does, besides what its plans say."""

    steps: tuple[PlannedSteps, ...]
    """For each plan its steps; all in one span of every window."""
    keys: Keys
    """Those spans."""
    off: Mapping[str, str]
    """Users' operators that have failed, and are called no more."""
    roster: Roster | None
    """The shards that have states; None for those of the first plan."""
    states: tuple[Alike, ...]
    """Their states that count now."""
    inherited: Mapping[ShardKey, Inherited] = field(default_factory=dict)
    """What shards that have none begin with, if an earlier run has left something."""
    counted: frozenset[str] = frozenset()
    """The files in which any of the node's states counts now, or is held."""
    holds: bool = False
    """Whether the stored checkpoint stays while this is folded (`ShardState.holding`)."""
    threads: int = 1
    """How many may fold the lane's blocks side by side."""
