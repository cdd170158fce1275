"""How long things take: the median of repetitions."""

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


def rate(action: Callable[[], object], points: int, repeat: int) -> float:
    """Return million points a second of CPU time; `action` works through `points` of them.

    CPU time, of this process and of the children that it waits for: who else is on the core doesn't matter then.
    """
    times = []
    for _ in range(repeat):
        start = _cpu_s()
        action()
        times.append(_cpu_s() - start)
    return points / statistics.median(times) / 1e6


def in_turn(ways: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Return the median seconds of each way; each is warm, and other work on the machine meets all alike."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeat + 1):
        for name, way in ways.items():
            started_s = time.perf_counter()
            way()
            if turn:
                taken[name].append(time.perf_counter() - started_s)
    return {name: statistics.median(own) for name, own in taken.items()}


def median_s(action: Callable[[], object], repeat: int) -> float:
    """Return the median seconds of one."""
    return in_turn({"": action}, repeat)[""]


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process and its children on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
