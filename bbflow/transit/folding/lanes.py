"""Lanes: where each shard is folded, and where its states lie in its lane's files."""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

from bbflow.errors import BbflowError
from bbflow.operators.decoding import decoded_dtype
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.placement import Placement
from bbflow.operators.steps import DType
from bbflow.store.extents import Extents
from bbflow.stream.cf import Encoding
from bbflow.stream.records import Block, BlockForm
from bbflow.transit.spans.slots import LEVELS
from bbflow.transit.states.shards import Extent, ShardKey

NodeLane = tuple[str, int]
"""A node, and one of its workers."""
JOINED = -1
"""The lane of fields that blocks of several ranks are joined into."""
ENDLESS = 1 << 62


class Lanes:
    """Keeps where shards are, as long as they have states.

    Parameters
    ----------
    stream, output
        Tell the run from all others whose states lie on the same nodes.
    epoch_ns
        When this analysis has begun: no other of the run has the same names, and later ones have greater ones.
    """

    def __init__(self, stream: str, output: Path, epoch_ns: int | None = None) -> None:
        self.run = blake2b(f"{stream}\0{output}".encode(), digest_size=8).hexdigest()
        """Begins the names of all the run's files."""
        self.epoch = f"{time.time_ns() if epoch_ns is None else epoch_ns:016x}"
        """Comes next in the names of this analysis' files."""
        self._known: dict[ShardKey, tuple[NodeLane, Mapping[str, Extent]]] = {}
        self._free: dict[tuple[NodeLane, str], Extents] = {}
        self._labels: dict[NodeLane, str] = {}
        self._count = 1

    def count(self, threads: int) -> int:
        """Return how many lanes a node has that many threads fold for: never fewer than it had.

        A worker that dies has fewer threads for a while. Lanes must not be put together then: the shards of each have
        places in files of its own, where others have theirs.
        """
        self._count = max(self._count, threads)
        return self._count

    def find(self, key: ShardKey) -> int | None:
        """Return the lane that a shard began in; None if it is new."""
        known = self._known.get(key)
        return None if known is None else known[0][1]

    def places(self, key: ShardKey, lane: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return where a shard's states begin in files of `LEVELS`: the same as long as it isn't let go of.

        Parameters
        ----------
        key
            The shard.
        lane
            Where it is folded.
        sizes
            Level to the bytes of one state.

        Raises
        ------
        BbflowError
            If a place that it has is too small.
        """
        known = self._known.get(key)
        if known is None:
            at = key.node, lane
            extents = {}
            for level, size in sizes.items():
                taken = self._free.setdefault((at, level), Extents(ENDLESS)).take(max(size, 1))
                assert taken is not None
                extents[level] = taken
            known = self._known[key] = at, extents
        for level, size in sizes.items():
            if size > (room := known[1][level][1]):
                raise BbflowError(f"{key.diagnostic}: a state of {size} bytes has a place of {room} bytes")
        return tuple(known[1][level][0] if level in known[1] else 0 for level in LEVELS)

    def label(self, lane: NodeLane) -> str:
        """Return what begins the names of a lane's files, and of no other's."""
        if lane not in self._labels:
            node = re.sub(r"[^A-Za-z0-9_]", "_", lane[0])[:64]
            self._labels[lane] = f"{self.run}-{self.epoch}-{node}-{lane[1] if lane[1] >= 0 else 'joined'}"
        return self._labels[lane]

    def is_own(self, path: str) -> bool:
        """Whether a file is of this analysis, and not of one that it continues."""
        return os.path.basename(path).startswith(f"{self.run}-{self.epoch}-")

    def let_go(self, keys: Iterable[ShardKey]) -> None:
        """Free the places of shards that have no states any more."""
        for key in keys:
            if (known := self._known.pop(key, None)) is not None:
                for level, extent in known[1].items():
                    self._free[known[0], level].give_back([extent])


def field_dtype(
    diagnostic: Diagnostic,
    forms: Mapping[str, Block | BlockForm],
    encoding: Callable[[str], Encoding],
    placement: Placement | None,
) -> DType:
    """Return the type of a field's values, before its transforms.

    Parameters
    ----------
    diagnostic
        What is computed.
    forms
        A block of each of its variables.
    encoding
        Gives how a variable's values are written.
    placement
        Where the field lies, if it has a `space`.
    """
    dtypes = {name: decoded_dtype(encoding(name), forms[name].dtype) for name in diagnostic.of_variables}
    like = max(dtypes, key=lambda name: len(forms[name].shape))
    dtype = dtypes[like] if diagnostic.of.is_plain else diagnostic.of_dtype(dtypes)
    return dtype if placement is None else placement.dtype(dtype)
