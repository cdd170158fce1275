"""How much memory the partial states of a stream take at most, known as soon as its first step shows the fields."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from bbflow.errors import CapacityError, ConfigError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.steps import DType
from bbflow.store.extents import ALIGNMENT_BYTES, align
from bbflow.transit.states.state_layouts import ends_within, state_sizes, states_of, written_of
from bbflow.units import format_bytes

AHEAD = 1
"""Files of a level that another batch needs while what has ended is published: it writes open steps only."""
MOST_SPANS, SPANS_BYTES = 16, 16 << 20
"""A task folds so many spans at most, whose further states take so many bytes on a node: a task, a publication and a
checkpoint for each take longer than small fields themselves."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The states of one diagnostic on one node."""

    diagnostic: str
    """Which one."""
    points: int
    """Points of the field that lie there."""
    dtype: DType
    """Type of its values."""
    bytes: int
    """Most bytes of its state files."""
    ahead_bytes: int
    """The same where further batches are folded while what has ended is published."""
    span_bytes: int
    """Bytes of the files that each further span takes that is folded by one task."""


def footprint(diagnostic: Diagnostic, dtype: DType, counts: Iterable[tuple[int, ...]], processes: int) -> Footprint:
    """Return what a diagnostic's states take on one node.

    Parameters
    ----------
    diagnostic
        What is computed.
    dtype
        Type of its values after the transforms.
    counts
        Shapes of its regions there.
    processes
        Worker processes of the node's host: each has files of its own.
    """
    own = states_of(diagnostic)
    files = {level: number + written_of(diagnostic, level) for level, number in own.items()}
    ahead = AHEAD if ends_within(diagnostic) else 0
    bytes_, further, spans, points = 0, 0, 0, 0
    for count, regions in Counter(counts).items():
        sizes = {level: align(max(size, 1)) for level, size in state_sizes(diagnostic, dtype, count).items()}
        each = processes * sum(number * sizes[level] for level, number in files.items())
        bytes_ += regions * (each + ALIGNMENT_BYTES)  # a lane, which has a region at least, notes which batch has begun
        further += regions * ahead * processes * sum(sizes[level] for level in own)
        spans += regions * processes * sum(written_of(diagnostic, level) * sizes[level] for level in own)
        points += regions * prod(count)
    return Footprint(diagnostic.key, points, np.dtype(dtype), bytes_, bytes_ + further, spans)


def bytes_per_point(diagnostic: Diagnostic, dtype: str = "f4") -> float:
    """Return what the states keep for each point, before the size of the field is known."""
    points = 1 << 12
    one = footprint(diagnostic, np.dtype(dtype), [(points,)], 1)
    return (one.ahead_bytes - ALIGNMENT_BYTES) / points


@dataclass(frozen=True, slots=True)
class StateRoom:
    """What the states of a run may take."""

    bytes: Mapping[str, int]
    """Node to the most bytes."""
    ahead: bool
    """Whether there is room to fold further batches while what has ended is published."""
    spans: int
    """How many spans a task may fold."""


def room_for(
    footprints: Mapping[str, Sequence[Footprint]],
    capacity: int | None,
    free: Mapping[str, int],
    where: str,
    most_spans: int = 1,
) -> StateRoom:
    """Check that the states of all nodes have room, and say what further room there is good for.

    Parameters
    ----------
    footprints
        Node to what its states take.
    capacity
        Bytes that they may take on each; None for as much as there is.
    free
        Node to the bytes that are free where its states lie.
    where
        The configuration's key of the capacity.
    most_spans
        How many spans a task may fold at most.

    Raises
    ------
    ConfigError
        If they are above the capacity.
    CapacityError
        If that isn't free.
    """
    needs = {node: sum(item.bytes for item in items) for node, items in footprints.items()}
    for node, need in needs.items():
        told = f"the partial states take up to {format_bytes(need)} on BB node {node} ({_largest(footprints[node])})"
        remedy = "ask for fewer operators or windows, or for more nodes"
        if capacity is not None and need > capacity:
            raise ConfigError(f"{told}, but {where} is {format_bytes(capacity)}: raise it, {remedy}")
        if need > free[node]:
            raise CapacityError(f"{told}, but {format_bytes(free[node])} are free there: make room, {remedy}")
    ahead = {node: sum(item.ahead_bytes for item in items) for node, items in footprints.items()}
    left = {node: min(free[node], math.inf if capacity is None else capacity) - need for node, need in ahead.items()}
    if min(left.values(), default=0) < 0:
        return StateRoom(needs, ahead=False, spans=1)
    each = {node: sum(item.span_bytes for item in items) for node, items in footprints.items()}
    further = (int(min(SPANS_BYTES, left[node]) // max(size, 1)) for node, size in each.items())
    spans = min(MOST_SPANS, most_spans, *(1 + more for more in further))
    return StateRoom({node: need + (spans - 1) * each[node] for node, need in ahead.items()}, ahead=True, spans=spans)


def _largest(items: Sequence[Footprint]) -> str:
    one = max(items, key=lambda item: item.bytes)
    each = one.bytes / max(one.points, 1)
    return f"the most for {one.diagnostic}: {format_bytes(each)} for each of {one.points} points"
