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
