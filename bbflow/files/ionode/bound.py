"""How much an IOnode may hold: all of its capacity, or what the streams of its node leave of that."""

from bbflow.store.shared_room import NodeRoom


class Bound:
    """What an IOnode tells its master that it may hold.

    Parameters
    ----------
    capacity
        Bytes at most.
    room
        What it shares with the pool of its node's streams; None if it shares nothing.
    """

    def __init__(self, capacity: int, room: NodeRoom | None) -> None:
        self._capacity, self._room = capacity, room
        self._told = -1

    def tell(self) -> int:
        """Return what it may hold now, which the master is told."""
        self._told = self._room.files_may(self._capacity) if self._room else self._capacity
        return self._told

    def has_changed(self) -> bool:
        """Whether the master must be told again."""
        return self._room is not None and self._room.files_may(self._capacity) != self._told

    def fits(self, size: int) -> None:
        """Take in that the master keeps to this number of bytes here, with all that it still gives.

        An answer to what it was told before the last time says nothing: it may have been allowed more since.
        """
        if self._room is not None and size == self._told:
            self._room.shrink_files(size)
