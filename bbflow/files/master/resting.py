"""Which files may be written back now: those that have rested, and none that the storage has just refused."""

import errno
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from bbflow.files.commands import CommandAnswer
from bbflow.files.master.image import Image

WINDOW = 1000
"""How many are looked at at most; what is further back is when its turn comes."""
RETRY_S = 10.0
"""When something is tried again that the IOnode gave up on."""


class Resting:
    """The files that are to be written back, each of which rests for a while from when it became so.

    Those that a master before this one knew have rested.

    Parameters
    ----------
    image
        The namespace.
    after_s
        How long they rest (seconds).
    clock
        Gives the time (seconds).
    """

    def __init__(self, image: Image, after_s: float, clock: Callable[[], float]) -> None:
        self._image, self._after_s, self._clock, self._looked_s = image, after_s, clock, 0.0
        self._rested = {ino: image.inodes[ino].dirty_ns for ino in image.dirty}

    def _due_s(self, ino: int) -> float:
        inode = self._image.inodes.get(ino)
        if inode is None or self._rested.get(ino) == inode.dirty_ns:
            return 0.0
        return inode.dirty_ns / 1e9 + self._after_s

    def rested(self) -> Iterator[int]:
        """Iterate over those that have rested, the oldest first; they may end meanwhile."""
        looked_s = self._looked_s = self._clock()
        if not any(self._due_s(ino) <= looked_s for ino in islice(self._image.dirty, 1)):
            return iter(())  # so it is after nearly every change: the others needn't be gone through
        return takewhile(lambda ino: self._due_s(ino) <= looked_s, self.oldest())

    def oldest(self) -> list[int]:
        """Return all, rested or not, the oldest first."""
        return list(islice(self._image.dirty, WINDOW))

    def next_s(self) -> float | None:
        """When the next one has rested that hadn't when `rested` was asked; None if there is none."""
        due_s = map(self._due_s, self.oldest())
        return next((at_s for at_s in due_s if at_s > self._looked_s), None)


@dataclass(slots=True)
class Failure:
    """What the shared storage refused."""

    error: str
    """Why, in its words."""
    attempts: int
    """How often in a row."""
    again_s: float
    """When a master lets it be tried again; infinite while an IOnode tries by itself."""


class Failures(dict[str, Failure]):
    """Objects that couldn't be written, moved or removed.

    Parameters
    ----------
    clock
        Gives the time (seconds).
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock

    def rests(self, path: str) -> bool:
        """Whether an object isn't to be tried yet."""
        failure = self.get(path)
        return failure is not None and failure.again_s > self._clock()

    def try_again(self) -> None:
        """Retry all at once."""
        for failure in self.values():
            failure.again_s = min(failure.again_s, self._clock())

    def note(self, path: str, error: str, again_s: float = math.inf) -> None:
        """Record that an attempt has failed."""
        before = self.get(path)
        self[path] = Failure(error, (before.attempts if before else 0) + 1, again_s)

    def ended(self, path: str, answer: CommandAnswer) -> bool:
        """Record how the last attempt has ended; return whether it has failed."""
        if answer.errno is None:
            self.pop(path, None)
            return False
        wait_s = 0.0 if answer.errno == errno.EHOSTDOWN else RETRY_S
        self.note(path, answer.error, self._clock() + wait_s)
        return True
