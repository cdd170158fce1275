"""Files that are to be written back, in the order in which they may be."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile

WINDOW = 1000
"""How many are looked at at most; what is further back is when its turn comes."""


class Resting:
    """Inodes that each rest for a while from when they come.

    Parameters
    ----------
    inos
        Those that have rested already, the oldest first.
    after_s
        How long that is (seconds).
    clock
        Gives the time (seconds).
    """

    def __init__(self, inos: Iterable[int], after_s: float, clock: Callable[[], float]) -> None:
        self._due_s = dict.fromkeys(inos, 0.0)  # ascends
        self._after_s, self._clock, self._looked_s = after_s, clock, 0.0

    def __contains__(self, ino: object) -> bool:
        return ino in self._due_s

    def __iter__(self) -> Iterator[int]:
        return iter(self._due_s)

    def __len__(self) -> int:
        return len(self._due_s)

    def begin(self, ino: int) -> None:
        """Let an inode rest from now on that doesn't yet."""
        self._due_s[ino] = self._clock() + self._after_s

    def end(self, ino: int) -> None:
        """Forget an inode."""
        self._due_s.pop(ino, None)

    def rested(self) -> Iterator[int]:
        """Go through those that have rested, the oldest first; they may end meanwhile."""
        looked_s = self._looked_s = self._clock()
        return takewhile(lambda ino: self._due_s.get(ino, 0.0) <= looked_s, self.oldest())

    def oldest(self) -> list[int]:
        """Return all, rested or not, the oldest first."""
        return list(islice(self._due_s, WINDOW))

    def next_s(self) -> float | None:
        """When the next one has rested that hadn't when `rested` was asked; None if there is none."""
        return next((due_s for due_s in islice(self._due_s.values(), WINDOW) if due_s > self._looked_s), None)
