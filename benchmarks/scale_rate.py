"""Fold rates: what comes through from Put to the states, against the kernel's own rate on blocks of that size."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bbflow.operators import StateLayout, fold_steps
from bbflow.operators.configured import parse_diagnostics
from benchmarks.rates import rate
from benchmarks.rows import Row
from benchmarks.scale_run import Case, run_in_memory

CASES = {
    "1 MiB blocks": (Case(1, 1, 1 << 18, 4000), 512),
    "64 MiB blocks": (Case(1, 1, 1 << 24, 600, capacity="2GiB"), 16),
    "16 KiB blocks, 20 variables x 1,000 ranks": (Case(20, 1000, 1 << 12, 48, capacity="2GiB"), 4),
}
"""What is written, and how many steps the kernel alone takes at once: as many as the run's batches have, half a pool.

200 variables x 1,000 ranks of 16 KiB would need 26 GB for one set of states, so a tenth of them is measured.
"""
KERNEL_BYTES = 1 << 30
"""How many are folded in each repetition, of blocks that aren't in the cache."""


def measure(*, quick: bool) -> list[Row]:
    """Measure; mean, std, min and max, one thread that folds; for its CPU time in a process of its own."""
    return [row for name, (case, steps) in CASES.items() for row in _rows(name, case, steps, quick=quick)]


def _rows(name: str, case: Case, steps: int, *, quick: bool) -> list[Row]:
    if quick:
        case = Case(case.variables, max(case.ranks // 10, 1), case.points, case.steps // 4, capacity=case.capacity)
    repeat = 3 if quick else 7
    kernel, beside = kernel_rate(case.points, steps, repeat), rate_beside_a_copy(case.points, steps, repeat)
    apart, cost = run_in_memory(case), run_in_memory(replace(case, processes=0))
    worker = case.step_bytes / apart.step_cpu_s["worker"] / 1e9
    through, batch = (case.step_bytes / seconds / 1e9 for seconds in (cost.step_s, cost.batch_step_s))
    return [
        Row(f"{name}: the kernel alone (the ratio's 1)", kernel, "GB/s", 1.0),
        Row(f"{name}: the kernel beside a copy of as many bytes, wall time", beside, "GB/s", beside / kernel),
        Row(f"{name}: bytes folded to the worker's CPU time", worker, "GB/s", worker / kernel),
        Row(f"{name}: from Put to states, wall time", through, "GB/s", through / kernel),
        Row(f"{name}: from Put to states, the median batch", batch, "GB/s", batch / kernel),
    ]


def kernel_rate(points: int, steps: int, repeat: int) -> float:
    """Return GB/s of CPU time that the kernel folds of float32 blocks, from one state into another."""
    calls = _calls(points, steps)
    return 4e-3 * rate(lambda: [call() for call in calls], len(calls) * steps * points, repeat)


def rate_beside_a_copy(points: int, steps: int, repeat: int) -> float:
    """Return GB/s that the kernel folds while another process copies as much into shared memory."""
    calls = _calls(points, steps)
    words = [sys.executable, str(Path(__file__).with_name("scale_copier.py")), str(points)]
    seconds = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as copier:
        assert copier.stdin is not None
        assert copier.stdout is not None
        for _ in range(repeat + 1):
            began = time.perf_counter()
            for call in calls:
                print(steps, file=copier.stdin, flush=True)
                call()
                copier.stdout.readline()
            seconds.append(time.perf_counter() - began)
    return 4e-9 * len(calls) * steps * points / statistics.median(seconds[1:])


def _calls(points: int, steps: int) -> list[Callable[[], object]]:
    """Return calls of the kernel, each with other blocks, that were made once."""
    diagnostics = parse_diagnostics({"v": ["mean", "std", "min", "max"]}, ["run"])
    layout = StateLayout.of(diagnostics["v"].operators, dtype=np.dtype("f4"), points=points)
    count = max(KERNEL_BYTES // (4 * points) // steps, 1)
    blocks = np.random.default_rng(1).random((count, steps, points), "f4")
    states = [np.zeros(layout.nbytes, "u1") for _ in range(2)]
    layout.clear(states[0])
    calls = [partial(fold_steps, layout, states[0], states[1], list(own)) for own in blocks]
    for call in calls:
        call()
    return calls
