"""More workers and threads: what a run comes to with them, and what the model says of a machine with enough cores."""

import math
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from bbflow.models.rates import NodeRates, StreamLoad, stream_balance
from benchmarks.rows import Row
from benchmarks.scale_rate import kernel_rate
from benchmarks.scale_run import Case, run_in_memory

CASE = Case(4, 4, 1 << 20, 300, capacity="2GiB", processes=0)
"""Four fields on four ranks in blocks of 4 MiB: each field is a lane's, so threads and processes share them."""
SHAPES = {"threads": (1, 2, 4, 8), "processes": (1, 2, 4)}
COPY_BYTES = 256 << 20
AT_ONCE = 32


def measure(*, quick: bool) -> list[Row]:
    """Measure; mean, std, min and max of each field, from Put to states, in one run for each number."""
    case = replace(CASE, steps=CASE.steps // 4) if quick else CASE
    kernel, copying, memory = kernel_rate(case.points, AT_ONCE, 3), _copy_rate(1), _copy_rate(os.cpu_count() or 1)
    rows = [
        Row("the kernel alone, one thread (the ratio's 1)", kernel, "GB/s", 1.0),
        Row("a copy, one thread", copying, "GB/s", copying / kernel),
        Row(f"a copy, {os.cpu_count()} threads: the memory", memory, "GB/s", memory / kernel),
    ]
    return rows + list(_runs(case, kernel, copying, memory))


def _runs(case: Case, kernel: float, copying: float, memory: float) -> Iterator[Row]:
    for kind, numbers in SHAPES.items():
        for number in numbers:
            step_s = run_in_memory(replace(case, **{kind: number})).step_s
            through = case.step_bytes / step_s / 1e9
            yield Row(f"{number} {kind}, measured on {os.cpu_count()} cores", through, "GB/s", through / kernel)
            told = _foretold(case, number * kernel, copying, memory)
            yield Row(f"{number} {kind}, foretold where each has a core", told, "GB/s", told / kernel)


def _foretold(case: Case, folding: float, copying: float, memory: float) -> float:
    """Return what comes through, in GB/s: one process writes, and what is read to be folded comes from memory once."""
    load = StreamLoad(case.step_bytes, 0.0, drained_share=0.0)
    rates = NodeRates(copying * 1e9, min(folding, memory) * 1e9, math.inf)
    return case.step_bytes / stream_balance(load, rates).steady_interval_s / 1e9


def _copy_rate(threads: int) -> float:
    """Return how many bytes are copied by some threads at once, in GB/s, to pages that are there."""
    arrays = [(np.ones(COPY_BYTES, "u1"), np.empty(COPY_BYTES, "u1")) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(2):  # the first touches the pages
            began_s = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), arrays))
            lasted_s = time.perf_counter() - began_s
    return threads * COPY_BYTES / lasted_s / 1e9
