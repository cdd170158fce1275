"""What a worker does beside folding, in threads that yield to it: publishing what has ended, and making pages."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

from bbflow.transit.clusters.cluster import leave

YIELDING = 5
"""How much nicer such threads are than the worker is: they get a quarter of a core that a fold wants too."""


def aside(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a thread that yields; a task, which leaves its own thread to folds meanwhile."""
    leave()
    return _threads().submit(function, *arguments).result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "bbflow-aside", _yield)


def _yield() -> None:
    thread = threading.get_native_id()  # Linux has priorities for each thread
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + YIELDING)
