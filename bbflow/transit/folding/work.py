"""What the fold's tasks are told, and what they tell the driver."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bbflow.operators.frozen import Frozen
from bbflow.operators.steps import Array
from bbflow.transit.folding.plans import PlannedSteps
from bbflow.transit.spans.slots import Keys
from bbflow.transit.states.inherited import Inherited
from bbflow.transit.states.shards import ShardKey, ShardState
from bbflow.transit.states.tables import Roster


class SpanWork(NamedTuple):
    """Steps that are in one span of every window."""

    steps: tuple[PlannedSteps, ...]
    """For each plan its steps."""
    keys: Keys
    """The spans."""


@dataclass(frozen=True, slots=True)
class LaneWork(Frozen):
    """What one task does, besides what its plans say."""

    spans: tuple[SpanWork, ...]
    """What is folded, one after the other."""
    off: Mapping[str, str]
    """Users' operators that have failed, and are called no more."""
    roster: Roster | None
    """The shards that have states; None for those of the first plan."""
    states: tuple[ShardState, ...]
    """Their states that count now."""
    inherited: Mapping[ShardKey, Inherited] = field(default_factory=dict)
    """What shards that have none begin with, if an earlier run has left something."""
    counted: frozenset[str] = frozenset()
    """The files in which any of the node's states counts now, or is held."""
    holds: bool = False
    """Whether the stored checkpoint stays while this is folded, and after that (`ShardState.next_held`)."""
    threads: int = 1
    """How many may fold the lane's blocks side by side."""
    stepwise: frozenset[str] = frozenset()
    """Diagnostics whose blocks' contributions are joined step by step, not as the steps' mean."""
    attempt: int = 0
    """Larger than that of each task before: one that is given up isn't begun after that in its place (`LaneTurn`)."""


@dataclass(frozen=True, slots=True)
class PartialSteps(Frozen):
    """What some blocks contribute to steps that depend on others too."""

    key: ShardKey
    """The blocks."""
    numbers: tuple[int, ...]
    """The steps."""
    values: Array
    """Of shape (steps, components, points), or (1, components, points) of the steps' mean."""
    is_folded: bool = False
    """Whether ranks have folded any of the steps: then the mean is all there is."""
    others: Mapping[str, Array] = field(default_factory=dict)
    """The same of the operators' further inputs, by their text; of the steps."""


class SpanReceipt(NamedTuple):
    """What the shards of a lane have with the last step of a `SpanWork`."""

    alike: tuple[ShardState, ...]
    """Their states."""
    errors: Mapping[str, str]
    """What had failed in users' operators by then."""


@dataclass(frozen=True, slots=True)
class FoldReceipt:
    """What a fold task has done; it counts once the driver has committed it."""

    roster: str
    """Digest of the lane's roster."""
    spans: tuple[SpanReceipt, ...]
    """What came of each span's steps; the last states are those that count."""
    partials: tuple[PartialSteps, ...]
    """What must be merged with other blocks' before it can be folded."""
    bytes: int
    """Bytes of the blocks."""
    started_s: float
    """When it began (seconds since the epoch)."""
    ended_s: float
    """When it ended."""
