"""Which bytes of the pool are free: a first-fit allocator that joins what comes back."""

from bisect import bisect_left
from collections.abc import Sequence

# A page: memory is allocated, mapped and registered by whole ones.
ALIGNMENT_BYTES = 4096

Extent = tuple[int, int]
"""Offset and size, both multiples of the alignment."""


def align(size: int) -> int:
    """Round up to whole pages."""
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


class Extents:
    """The free list of one pool.

    Parameters
    ----------
    capacity
        Bytes of the pool.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        """Bytes that can be handed out."""
        self._free: list[Extent] = [(0, self.capacity)] if self.capacity else []

    @property
    def free_bytes(self) -> int:
        """Bytes that aren't held."""
        return sum(size for _, size in self._free)

    def take(self, size: int) -> Extent | None:
        """Hand out an extent of at least `size` bytes, or None if no hole is large enough."""
        wanted = align(size)
        for number, (offset, hole) in enumerate(self._free):
            if hole >= wanted:
                if hole == wanted:
                    del self._free[number]
                else:
                    self._free[number] = (offset + wanted, hole - wanted)
                return offset, wanted
        return None

    def has_hole(self, size: int) -> bool:
        """Whether `take` would succeed."""
        wanted = align(size)
        return any(hole >= wanted for _, hole in self._free)

    def can_take(self, sizes: Sequence[int], freed: Sequence[Extent] = ()) -> bool:
        """Whether `take` would succeed for each of these sizes, one after the other, with some extents freed before."""
        trial = Extents(0)
        trial._free = list(self._free)
        trial.give_back(freed)
        return all(trial.take(size) is not None for size in sizes)

    def take_at(self, extent: Extent) -> None:
        """Mark an extent as held, when an index is replayed.

        Raises
        ------
        ValueError
            If part of it is held already.
        """
        offset, size = extent
        for number, (start, hole) in enumerate(self._free):
            if start <= offset and offset + size <= start + hole:
                parts = [(start, offset - start), (offset + size, start + hole - offset - size)]
                self._free[number : number + 1] = [part for part in parts if part[1]]
                return
        raise ValueError(f"extent {extent} is held twice")

    def give_back(self, extents: Sequence[Extent]) -> None:
        """Take extents (or parts of them, in whole pages) back and join them with their neighbours."""
        for offset, size in extents:
            if not size:
                continue
            at = bisect_left(self._free, (offset, 0))
            self._free.insert(at, (offset, size))
            # Behind it first: what is joined there leaves the places before it as they are.
            self._join(at)
            if at:
                self._join(at - 1)

    def _join(self, at: int) -> None:
        if at + 1 < len(self._free):
            (offset, size), (following, more) = self._free[at : at + 2]
            if offset + size == following:
                self._free[at : at + 2] = [(offset, size + more)]
