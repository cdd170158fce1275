"""What the shared storage has refused, and when it is tried again."""

import errno
import math
from collections.abc import Callable
from dataclasses import dataclass

from bbflow.files.commands import TaskAnswer

RETRY_S = 10.0
"""When something is tried again that the IOnode gave up on."""


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

    def ended(self, path: str, answer: TaskAnswer) -> bool:
        """Record how the last attempt has ended; return whether it has failed."""
        if answer.errno is None:
            self.pop(path, None)
            return False
        wait_s = 0.0 if answer.errno == errno.EHOSTDOWN else RETRY_S
        self.note(path, answer.error, self._clock() + wait_s)
        return True
