"""Plans: what a node's tasks must know of steps that lie alike. They go to the workers once, and stay there."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.frozen import Frozen
from bbflow.operators.space.placement import Local
from bbflow.operators.steps import Array, DType
from bbflow.stream.cf import Encoding
from bbflow.stream.records import BlockForm, Layout
from bbflow.transit.folding.fixed import FixedField
from bbflow.transit.states.shards import Place, Region, ShardKey
from bbflow.transit.states.tables import Roster


class PlannedShard(NamedTuple):
    """What doesn't change of a shard from step to step: a row of a plan that is looked at."""

    key: ShardKey
    """Which shard."""
    region: Region
    """The part of the field that its states are of."""
    local: Local | None
    """Which points of the blocks, or what of them, if not all."""
    places: Mapping[str, Place]
    """Variable to where its block lies."""
    offsets: tuple[int, ...] | None = None
    """Where its states go in files of `LEVELS`, if it has some of its own; None where a plan is looked at."""


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
class FoldPlan(Frozen):
    """What one lane of a node folds of steps that lie alike."""

    node: str
    """The node."""
    directories: Directories
    """Where it reads and writes."""
    layout: Layout
    """How the blocks lie there."""
    singles: Mapping[Place, BlockForm]
    """The forms of single values, which may be on other nodes."""
    fixed: Mapping[Place, FixedField]
    """What is held of the first step."""
    diagnostics: Mapping[str, Diagnostic]
    """What is computed, by its key."""
    encodings: Mapping[str, Encoding]
    """Variable to how its values are written."""
    dtypes: Mapping[str, DType]
    """Type of each one's values after the transforms."""
    roster: Roster
    """The lane's shards that have states of their own."""
    lane: str
    """Begins the paths of the lane's files; empty if it keeps no states."""
    places: tuple[Place, ...]
    """Where blocks lie."""
    blocks: Array
    """Which of these the blocks of each shard's variables are, -1 for none; of shape (shards, most of a shard)."""
    locals: Mapping[int, Local]
    """Position of a shard to which points of its blocks, or what of them, are its field's, if not all."""
    joined: tuple[PlannedShard, ...]
    """Shards whose steps are joined with those of other blocks before they are folded."""
    filtered: tuple[int, ...]
    """Forms whose minimum and maximum a filter wants to know, ascending."""

    def shards(self, rows: Array) -> Iterator[PlannedShard]:
        """Look at some of the shards that have states of their own."""
        told = zip(rows.tolist(), self.roster.members(rows), self.blocks[rows].tolist(), strict=True)
        for at, (key, region, _), own in told:
            # Rows are as long as the longest, so the others end with -1.
            names = zip(self.diagnostics[key.diagnostic].variables, own, strict=False)
            places = {name: self.places[number] for name, number in names if number >= 0}
            yield PlannedShard(key, region, self.locals.get(at), places)


@dataclass(frozen=True, slots=True)
class PlannedSteps(Frozen):
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
    weights: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """How much each step counts, by what diagnostics weigh them."""
    arrays: tuple[Array, ...] = ()
    """For each step the values of a field that ranks' blocks were joined into; none if blocks are folded."""
    others: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    """The same of the operators' further inputs, by their text."""

    def after(self, number: int) -> "PlannedSteps":
        """Return the steps after one."""
        first = bisect_right(self.numbers, number)
        if not first:
            return self
        later: dict[str, Any] = {}
        for name, own in ((item.name, getattr(self, item.name)) for item in fields(self)):
            is_map = isinstance(own, Mapping)
            later[name] = {key: values[first:] for key, values in own.items()} if is_map else own[first:]
        return PlannedSteps(**later)


def lacking(diagnostic: Diagnostic, form: BlockForm, what: list[str]) -> str:
    """Return the message about a state that lacks something."""
    return (
        f"{diagnostic.name}: ranks have folded {form.name} by an earlier analysis' configuration, without what "
        f"this one's operators are made of ({', '.join(what)}): let the operators be as they were, or start the "
        "program again"
    )


def come_and_go(diagnostic: Diagnostic) -> str:
    """Return the message about a mean that ranks have folded, but that isn't enough."""
    return (
        f"{diagnostic.name}: ranks have folded {diagnostic.of.variables[0]} over steps in some of which values are "
        "missing (or infinite, of either sign) that others have: what is remapped or averaged in space can't be made "
        "of their mean; start the program again with fold: on: node"
    )
