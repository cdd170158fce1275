"""Waiting for what nothing tells of: it is looked for again and again, for a limited time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T], patience_s: float, poll_s: float = 0.02) -> T:
    """Look again and again until what is seen is true, or the time is up.

    Parameters
    ----------
    look
        Returns what it sees; what it raises ends the waiting.
    patience_s
        How long this may take (seconds).
    poll_s
        From one look to the next (seconds).

    Returns
    -------
    T
        What was seen last: not true if the time is up.
    """
    end_s = time.monotonic() + patience_s
    # Looked at once at least, however little time there is.
    while not (seen := look()) and time.monotonic() < end_s:
        time.sleep(poll_s)
    return seen


class Lasting:
    """Tells whether something has been so for long enough, as often as it is looked at.

    Parameters
    ----------
    patience_s
        How long (seconds).
    clock
        Gives seconds that never run backwards.
    """

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s, self._clock = patience_s, clock
        self._since_s: float | None = None

    def is_enough(self, is_so: bool) -> bool:
        """Take in whether it is so now; return whether it has been since long enough."""
        if not is_so:
            self._since_s = None
            return False
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        return now_s >= self._since_s + self._patience_s
