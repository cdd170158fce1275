"""The room of a node that has files beside its streams: one bound for the pool and the files, which share it by need.

Two processes share it, the agent with the pool and the IOnode with the files. It stands in a file that each of them
changes under its lock; what one has said there holds when it is killed, too. Both hold it open: without its name it is
still theirs.
"""

import fcntl
import os
import struct
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from bbflow.host.atomic import PRIVATE, write_whole
from bbflow.store.pool import is_file

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
        The file.
    capacity
        Bytes of both from now on, and the file is made if need be; None for what was said before.

    Raises
    ------
    OSError
        If it can't be opened.
    """

    def __init__(self, path: Path, capacity: int | None = None) -> None:
        self._path, self._here = path, threading.Lock()
        self._descriptor = _opened(path, create=capacity is not None)
        self._closing = weakref.finalize(self, os.close, self._descriptor)
        if capacity is not None:
            with self._changing() as shares:
                shares.capacity = capacity

    def name_again(self) -> None:
        """Give the file its name again if it has that no more, for a side that is about to begin; the other is ours."""
        with self._here:
            if is_file(str(self._path), os.fstat(self._descriptor).st_ino):
                return
            write_whole(self._path, os.pread(self._descriptor, FORMAT.size, 0), PRIVATE)
            descriptor = _opened(self._path)  # first: if it is removed again meanwhile, this one stays
            self._closing()
            self._descriptor = descriptor
            self._closing = weakref.finalize(self, os.close, self._descriptor)

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
    def _changing(self) -> Iterator[Shares]:
        with self._here:
            # Beside the lock of threads: this one is the descriptor's, which they share.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                content = os.pread(self._descriptor, FORMAT.size, 0)
                shares = Shares(*FORMAT.unpack(content)) if len(content) == FORMAT.size else Shares()
                yield shares
                changed = FORMAT.pack(*astuple(shares))
                if changed != content:
                    os.pwrite(self._descriptor, changed, 0)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _opened(path: Path, *, create: bool = False) -> int:
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
