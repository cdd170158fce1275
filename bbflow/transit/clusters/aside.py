"""Threads that yield to the fold: those of tasks that run beside it."""

import os
import threading
from contextlib import suppress

YIELDING = 5
"""How much nicer such a thread is than its process: it gets a quarter of a core that a fold wants too."""


def yield_to_folds() -> None:
    """Make this thread yield to those that fold, for as long as it lives."""
    thread = threading.get_native_id()  # Linux has priorities for each thread
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + YIELDING)
