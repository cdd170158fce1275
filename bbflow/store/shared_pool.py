"""A pool that has pages only while streams need it: the rest of the time, the node's files have them."""

from pathlib import Path

from bbflow.errors import CapacityError
from bbflow.host.log import log
from bbflow.store.extents import Extents
from bbflow.store.pool import back_pool, check_pool, empty_pool, keep_backed
from bbflow.store.shared_room import NodeRoom

PART_BYTES = 256 << 20
"""How much is backed with pages at once: peers are answered in between."""
KEEP_S = 5.0
"""A pool stays this long after its last stream: the next one may follow soon, and pages cost time."""


class SharedPool:
    """Claims the pool from a node's room, and gives it back.

    Parameters
    ----------
    path
        The pool's file.
    extents
        What is free of it: nothing while it isn't there.
    room
        What it shares with the files.
    """

    def __init__(self, path: Path, extents: Extents, room: NodeRoom) -> None:
        self._path, self._extents, self._room = path, extents, room
        self._backed_bytes = 0
        self._is_wanted = False
        self._idle_since_s: float | None = None
        self._trouble = ""
        self.is_there = extents.free_bytes < extents.capacity
        """Whether streams may use it."""
        if self.is_there:  # an agent before this one has left steps in it
            check_pool(str(path))
            room.hold_pool(extents.capacity)
            keep_backed(path, extents.capacity)
            self._is_wanted = True
        else:
            self._leave()

    def is_settled(self, *, needed: bool) -> bool:
        """Whether `settle` has nothing to do."""
        return needed == self.is_there == self._is_wanted

    def settle(self, *, needed: bool, now_s: float) -> None:
        """Continue with claiming it while it is needed, or give it back some time after it was.

        Parameters
        ----------
        needed
            Whether a stream needs it.
        now_s
            The time (seconds).
        """
        if needed:
            self._idle_since_s = None
            if not self.is_there:
                self._claim()
            return
        if self._idle_since_s is None:
            self._idle_since_s = now_s
        if now_s - self._idle_since_s >= KEEP_S or not self.is_there:
            self._leave()

    def _claim(self) -> None:
        capacity, self._is_wanted = self._extents.capacity, True
        if not self._room.claim_pool(capacity):
            return
        part = min(PART_BYTES, capacity - self._backed_bytes)
        try:
            back_pool(self._path, self._backed_bytes, part)
        except CapacityError as error:
            self._complain(str(error))
            return
        self._backed_bytes += part
        if self._backed_bytes == capacity:
            self._extents.give_back([(0, capacity)])
            self.is_there = True

    def _complain(self, trouble: str) -> None:
        if trouble != self._trouble:
            log(f"bbflow node: streams wait for their pool: {trouble}")
        self._trouble = trouble

    def _leave(self) -> None:
        """Leave all to the files."""
        if self._extents.free_bytes:
            self._extents.take(self._extents.capacity)
        self.is_there, self._is_wanted, self._idle_since_s, self._backed_bytes = False, False, None, 0
        empty_pool(self._path, self._extents.capacity)
        self._room.give_pool_back()
