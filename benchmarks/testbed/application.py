"""The map application on the compute host: each task reads its real input and computes for a fixed time."""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from benchmarks.testbed.job import Job, Outcome
from benchmarks.testbed.objects import open_store, read_in_ranges

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


def read_directly(job: Job) -> Outcome:
    """Run with every task reading the PFS itself: the paper's NaiveBB (section III.A.4)."""
    store = open_store()
    return run_tasks(job, lambda key: lambda: lambda: read_in_ranges(store, key, job.input_bytes), lambda key: None)


def main() -> None:
    """Run the job that is given as JSON and print its outcome."""
    job = Job(**json.loads(sys.argv[1]))
    if job.policy == "naive":
        outcome = read_directly(job)
    else:
        from benchmarks.testbed.staged import read_staged

        outcome = read_staged(job)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
