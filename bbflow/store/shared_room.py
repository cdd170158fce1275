"""The room of a node that has files beside its streams: one bound for the pool and the files, which share it by need.

Two processes share it, the agent with the pool and the IOnode with the files. It stands in a file that each of them
changes under its lock; what one has said there holds when it is killed, too.
"""

import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from bbflow.host.locks import lock

FORMAT = struct.Struct("<4Q")


@dataclass(slots=True)
class Shares:
    """Who has how much of a node."""

    capacity: int = 0
    """What both have together at most."""
    wanted_bytes: int = 0
    """What the pool wants; files take no more than what that leaves."""
    pool_bytes: int = 0
    """What the pool has: all that it wants, or nothing."""
    files_bytes: int = 0
    """What files may take."""


class NodeRoom:
    """What is left to each side of a node. Both together never have more than its capacity.

    Parameters
    ----------
    path
        The file. It lies in the files' directory, and is there as long as that.
    capacity
        Bytes of both from now on; None for what was said before.
    """

    def __init__(self, path: Path, capacity: int | None = None) -> None:
        self._path = path
        if capacity is not None:
            with self._changing(create=True) as shares:
                shares.capacity = capacity

    def claim_pool(self, size: int) -> bool:
        """Want room for the pool; return whether files have left it, so that it is the pool's now."""
        with self._changing() as shares:
            shares.wanted_bytes = size
            if shares.files_bytes + size <= shares.capacity:
                shares.pool_bytes = size
            return shares.pool_bytes == size

    def hold_pool(self, size: int) -> None:
        """Take room for a pool that holds steps already, whatever files have."""
        with self._changing() as shares:
            shares.wanted_bytes = shares.pool_bytes = size

    def give_pool_back(self) -> None:
        """Leave all to the files; nothing lies in the pool any more."""
        with self._changing() as shares:
            shares.wanted_bytes = shares.pool_bytes = 0

    def files_may(self, most: int) -> int:
        """Return how much files may take from now on; if it is less than before, they have it until `shrink_files`.

        Parameters
        ----------
        most
            What they take at most, however much is there.
        """
        with self._changing() as shares:
            may = max(min(most, shares.capacity - max(shares.wanted_bytes, shares.pool_bytes)), 0)
            # Never less here: until their master has let some go, what lies there is still theirs.
            shares.files_bytes = max(shares.files_bytes, may)
            return may

    def shrink_files(self, size: int) -> None:
        """Take in that files take no more than this any longer."""
        with self._changing() as shares:
            shares.files_bytes = min(shares.files_bytes, size)

    @contextmanager
    def _changing(self, *, create: bool = False) -> Iterator[Shares]:
        try:
            descriptor = lock(self._path, create=create)
        except FileNotFoundError:  # with its directory goes all that files had
            yield Shares(capacity=sys.maxsize)
            return
        assert descriptor is not None
        try:
            content = os.pread(descriptor, FORMAT.size, 0)
            shares = Shares(*FORMAT.unpack(content)) if len(content) == FORMAT.size else Shares()
            yield shares
            changed = FORMAT.pack(*astuple(shares))
            if changed != content:
                os.pwrite(descriptor, changed, 0)
        finally:
            os.close(descriptor)
