"""Production scale: what a steady step costs each process, for many variables, ranks and nodes."""

import tempfile
from pathlib import Path

from benchmarks.rows import Row
from benchmarks.scale_run import Case, run

POINTS = 256
"""A block of 1 KiB: nearly all is cost that has nothing to do with its bytes."""
MATRIX = [(1, 1), (100, 1), (400, 1), (10, 16), (100, 16), (10, 64), (10, 256), (100, 256), (10, 1024), (200, 1024)]
"""Variables and ranks."""
QUICK = [(1, 1), (100, 1), (10, 16), (100, 16)]
ENDING = [(10, 16), (200, 256)]
"""The same where days end, of `DAYS`."""
DAYS = 3
BLOCKS = 2_000_000
"""About how many are written in each run."""
MOST_STEPS, LEAST_STEPS = 2000, 24
"""Of a run; begin and end count little beside as many as most runs have."""
CAPACITY = "1GiB"
"""Of a pool: room for the steps of a second, which make a batch. One begins before when an eighth of it is taken."""


def measure(*, quick: bool) -> list[Row]:
    """Measure; costs are CPU time."""
    cases = [
        Case(variables, ranks, POINTS, _steps(variables * ranks, quick=quick), 1, CAPACITY)
        for variables, ranks in (QUICK if quick else MATRIX)
    ]
    cases += [Case(10, 16, POINTS, 500, nodes, "256MiB") for nodes in ((2,) if quick else (2, 4, 8))]
    ending = [Case(*own, POINTS, 24 * DAYS, finest="day") for own in ENDING[: 1 if quick else None]]
    return [row for case in (*cases, *ending) for row in _rows(case)]


def _steps(blocks: int, *, quick: bool) -> int:
    return min(max(BLOCKS // blocks // (5 if quick else 1), LEAST_STEPS), MOST_STEPS)


def _rows(case: Case) -> list[Row]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as folder:
        cost = run(case, Path(folder))
    blocks = case.variables * case.ranks
    name = f"{case.variables} variables, {case.ranks} ranks, {case.nodes} nodes"
    if case.finest == "day":
        publication = Row(f"{name}, {DAYS} days: publication of a day", 1e3 * cost.publish_s[0], "ms")
        return [publication, Row(f"{name}, {DAYS} days: longest fold of a batch", 1e3 * cost.longest_fold_s, "ms")]
    rows = [Row(f"{name}: driver, a step", 1e3 * cost.step_cpu_s["driver"], "ms")]
    rows += [
        Row(f"{name}: {part}, a block", 1e6 * cost.step_cpu_s[part] / blocks, "us")
        for part in ("engine", "agent", "worker")
    ]
    return [*rows, Row(f"{name}: publication", 1e3 * max(cost.publish_s), "ms")]
