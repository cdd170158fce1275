"""Rates on one core: the median of repetitions."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def rate(action: Callable[[], object], points: int, repeat: int) -> float:
    """Give million points a second; `action` works through `points` of them."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return points / statistics.median(times) / 1e6


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process and its children on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
