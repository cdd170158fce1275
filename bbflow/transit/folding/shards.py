"""Shards: the parts of a field that one node folds, and where their partial states lie."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from bbflow.transit.folding.slots import Keys, StateSlot

Region = tuple[tuple[int, ...], tuple[int, ...]]
"""First index and shape."""
Extent = tuple[int, int]
"""First byte and size."""


def overlap(left: Region, right: Region) -> bool:
    """Whether two regions have points in common."""
    axes = zip(*left, *right, strict=True)
    return all(a < c + d and c < a + b for a, b, c, d in axes)


def overlapping(regions: Sequence[Region]) -> Iterator[tuple[int, int]]:
    """Find the pairs of regions that have points in common, by their positions; few are compared with each other."""
    axis = _most_divided(regions)
    following = sorted(range(len(regions)), key=lambda at: regions[at][0][axis:])
    for at, left in enumerate(following):
        start, count = regions[left]
        for right in (following[later] for later in range(at + 1, len(following))):
            if start and regions[right][0][axis] >= start[axis] + count[axis]:
                break
            if overlap(regions[left], regions[right]):
                yield left, right


def _most_divided(regions: Iterable[Region]) -> int:
    """Return the axis along which most regions begin at different places."""
    starts = [set(axis) for axis in zip(*(start for start, _ in regions), strict=True)]
    return max(range(len(starts)), key=lambda axis: len(starts[axis]), default=0)


@dataclass(frozen=True, slots=True)
class ShardKey:
    """One region of one field on one node: what comes of all blocks with this selection is folded together."""

    node: str
    """The BB node that has the blocks."""
    diagnostic: str
    """The field's diagnostic."""
    start: tuple[int, ...]
    """First index in the global arrays of its variables."""
    count: tuple[int, ...]
    """Shape of the region; empty for a single value."""

    @property
    def label(self) -> str:
        """A name that fits into a file's, is the same in every process, and no other shard's."""
        place = blake2b(repr((self.diagnostic, self.start, self.count)).encode(), digest_size=16)
        return f"{re.sub(r'[^A-Za-z0-9_-]', '_', self.diagnostic)[:64]}-{place.hexdigest()}"

    def __reduce__(self) -> tuple[Any, ...]:  # as it is made, which takes a fifth of the time
        return ShardKey, (self.node, self.diagnostic, self.start, self.count)


class StatePlace(NamedTuple):
    """Where a state lies."""

    path: str
    """A state file; other shards' states are in it too."""
    offset: int
    """The state's first byte there."""


@dataclass(frozen=True, slots=True)
class Room:
    """Where a shard's next states go: one place for each level, in all files of its lane."""

    label: str
    """Begins the files' names: its lane's, and no other's."""
    extents: Mapping[str, Extent]
    """Level to first byte and size."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Room, (self.label, self.extents)


@dataclass(frozen=True, slots=True)
class ShardState:
    """How far a shard is folded, and the files with its partial states."""

    key: ShardKey
    """Which shard."""
    start: tuple[int, ...]
    """First index in the field that its results are for."""
    count: tuple[int, ...]
    """Shape of that region."""
    dtype: str = ""
    """NumPy's name of the values' type after the transforms; empty before the first step."""
    last_step: int = -1
    """Every step up to this one is in the states."""
    last_time: float = 0.0
    """Time of that step, in the stream's units."""
    keys: Keys | None = None
    """Spans that this step is in; None before the first one."""
    files: Mapping[StateSlot, StatePlace] = field(default_factory=dict)
    """Where its states lie, by their slot."""
    rows: tuple[str, ...] = ()
    """Files with rows that passed a filter and are not published yet."""
    first_step: int = -1
    """The step with which it began."""
    held: frozenset[str] = frozenset()
    """Further files in which its places stay as they are: the stored checkpoint names them until a later one is."""

    @property
    def region(self) -> Region:
        """First index in the field, and shape."""
        return self.start, self.count

    @property
    def paths(self) -> frozenset[str]:
        """The files in which its states lie."""
        return frozenset(place.path for place in self.files.values())

    def holding(self, *, held: bool) -> frozenset[str]:
        """Return what its next state holds: what the stored checkpoint names stays until there is a later one.

        Parameters
        ----------
        held
            Whether the checkpoint stays while the next batches are folded. The first of them finds nothing held, and
            this state named; the others find what is held.
        """
        return (self.held or self.paths) if held else frozenset()

    @property
    def order(self) -> tuple[Any, ...]:
        """Which of several shards of one point takes over what an earlier run has left: the first of them.

        Of those that began with one step a field's whole, which ranks have joined, comes last.
        """
        key = self.key
        return self.first_step, not key.count, key.node, key.start, key.count

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.key, self.start, self.count, self.dtype, self.last_step, self.last_time, self.keys
        return ShardState, (*own, self.files, self.rows, self.first_step, self.held)
