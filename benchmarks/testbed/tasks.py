"""Map tasks: each reads its real input and computes for a fixed time."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.testbed.job import Job, Outcome

Read = Callable[[], int]
"""Reads a task's input once and returns its bytes."""
Await = Callable[[], Read]
"""Waits until an input may be read."""


def run_task(job: Job, key: str, await_input: Await) -> float:
    """Run one task; returns how long its slot stood without computing (s)."""
    begun_s = time.monotonic()
    read = await_input()
    stood_s = time.monotonic() - begun_s
    for _ in range(job.passes):
        begun_s = time.monotonic()
        size_bytes = read()
        stood_s += time.monotonic() - begun_s
        if size_bytes != job.input_bytes:
            raise RuntimeError(f"{key}: {size_bytes} bytes instead of {job.input_bytes}")
        time.sleep(job.compute_s / job.passes)
    return stood_s


def run_tasks(job: Job, submit: Callable[[str], Await], final: Callable[[str], object]) -> Outcome:
    """Submit all tasks in order, then run them on the job's slots."""

    def one(key: str) -> float:
        try:
            return run_task(job, key, awaited[key])
        finally:
            final(key)

    begun_s = time.monotonic()
    awaited = {key: submit(key) for key in job.keys}
    with ThreadPoolExecutor(job.slots) as slots:
        read_s = tuple(slots.map(one, job.keys))
    return Outcome(begun_s, time.monotonic(), read_s)
