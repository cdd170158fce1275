"""Shards: the parts of a field that one node folds, and where their partial states lie."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from bbflow.operators.frozen import FrozenMap
from bbflow.operators.steps import Array
from bbflow.transit.spans.slots import LEVELS, Keys, StateSlot

Region = tuple[tuple[int, ...], tuple[int, ...]]
"""First index and shape."""
Extent = tuple[int, int]
"""First byte and size."""
LABEL = "\0"
"""Stands for a shard's label in names of rows; no path has it."""


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
            # All that follow begin no earlier along the axis.
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


Place = tuple[str, int]
"""The name of a node, and which of the forms there."""
Regions = Mapping[ShardKey, Mapping[str, Place]]
"""Region of a field to the places of the variables' blocks there."""


class StatePlace(NamedTuple):
    """Where a state lies."""

    path: str
    """A state file; other shards' states are in it too."""
    offset: int
    """The state's first byte there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """How far shards are folded, and where their partial states lie: of one, or what all of them have in common."""

    dtype: str = ""
    """NumPy's name of the values' type after the transforms; empty before the first step."""
    last_step: int = -1
    """Every step up to this one is in the states."""
    last_time: float = 0.0
    """Time of that step, in the stream's units."""
    keys: Keys | None = None
    """Spans that this step is in; None before the first one."""
    files: Mapping[StateSlot, StatePlace] = field(default_factory=dict)
    """Where its states lie, by their slot; in a table counted from where each row says."""
    rows: tuple[str, ...] = ()
    """Files with rows that passed a filter and are not published yet; in a table with `LABEL`."""
    first_step: int = -1
    """The step with which it began."""
    held: frozenset[str] = frozenset()
    """Further files in which its places stay as they are: the stored checkpoint names them until a later one is."""
    at: bytes | None = None
    """In a table which rows it is of: their positions, ascending and of four bytes each; None for all."""

    def __post_init__(self) -> None:
        for name, own in (("keys", self.keys), ("files", self.files)):
            if type(own) is dict:
                object.__setattr__(self, name, FrozenMap(own))

    @property
    def paths(self) -> frozenset[str]:
        """The files in which its states lie."""
        return frozenset(place.path for place in self.files.values())

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where its states lie in files of `LEVELS`; 0 where it has none."""
        own = [next((at.offset for slot, at in self.files.items() if slot.level == level), 0) for level in LEVELS]
        return tuple(own)

    def next_held(self, *, holds: bool) -> frozenset[str]:
        """Return what its next state holds: what the stored checkpoint names stays until there is a later one.

        Parameters
        ----------
        holds
            Whether the checkpoint stays while the next batches are folded. The first of them finds nothing held, and
            this state named; the others find what is held.
        """
        return (self.held or self.paths) if holds else frozenset()

    def holding(self) -> "ShardState":
        """Return the same that holds its own files too: what it comes to is published while it is folded further."""
        return replace(self, held=self.held | self.paths)

    @property
    def told(self) -> tuple[Any, ...]:
        """All that it says, whichever rows it is of, so that it can be looked up."""
        keys = None if self.keys is None else tuple(self.keys.items())
        files = tuple(self.files.items())
        return self.dtype, self.last_step, self.last_time, keys, files, self.rows, self.first_step, self.held

    def of_rows(self, count: int) -> Array:
        """Return the positions of its rows in a table of so many."""
        return np.arange(count) if self.at is None else np.frombuffer(self.at, "<i4").astype("i8")

    def shifted(self, offsets: Sequence[int]) -> "ShardState":
        """Return the same where the rows say offsets that are smaller by these, one for each of `LEVELS`."""
        if not any(offsets):
            return self
        files = {
            slot: StatePlace(path, at + offsets[LEVELS.index(slot.level)]) for slot, (path, at) in self.files.items()
        }
        return replace(self, files=files)

    def seen(self, key: ShardKey, offsets: Sequence[int]) -> "ShardState":
        """Return the state of one of the rows, whose states lie at these offsets in files of `LEVELS`."""
        rows = tuple(path.replace(LABEL, key.label) for path in self.rows)
        return replace(self.shifted(offsets), rows=rows, at=None)

    def shared(self, key: ShardKey, offsets: Sequence[int]) -> "ShardState":
        """Return what a shard's state may have in common with others', for a row that says these offsets."""
        rows = tuple(path.replace(key.label, LABEL) for path in self.rows)
        return replace(self.shifted([-at for at in offsets]), rows=rows)


def places_of(files: Mapping[StateSlot, StatePlace], slots: Iterable[StateSlot]) -> list[StatePlace]:
    """Return where the states of those slots lie that have one, in their order."""
    return [files[slot] for slot in slots if slot in files]


Row = tuple[ShardKey, Region, ShardState]
"""A row of a table that is looked at: a shard, the part of the field that its results are for, and its state."""
