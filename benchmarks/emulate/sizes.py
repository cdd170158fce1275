"""Many emulated ranks on many real agents: what a real driver takes at the size of a machine."""

import tempfile
from pathlib import Path

from benchmarks.emulate.bed import Size, run
from benchmarks.emulate.figures import Figures, figures_of
from benchmarks.emulate.ranks import Job
from benchmarks.rows import Row

SIZES = [
    Size(10, Job("icon", 1_000, 1, 60, every_s=0.5)),
    Size(100, Job("icon", 10_000, 1, 60, every_s=0.5)),
    Size(300, Job("icon", 1_500, 1, 60, every_s=0.25)),
    Size(1_000, Job("icon", 2_000, 1, 48, every_s=0.5)),
]
"""No values are written, but blocks are folded as they lie: a few points each, so that what costs is their number."""
QUICK = 1
"""So many of them."""


def measure(*, quick: bool) -> list[Row]:
    """Measure; costs are the CPU time of the analysis' process, without its workers."""
    return [row for size in (SIZES[:QUICK] if quick else SIZES) for row in _rows(size)]


def _rows(size: Size) -> list[Row]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-") as folder:
        taken = run(size, Path(folder))
        found: Figures = figures_of(Path(folder) / "out", taken)
    job = size.job
    name = f"{size.nodes} nodes, {job.ranks:,} ranks ({job.decomposition}), {job.variables} variables"
    return [
        Row(f"{name}: driver until the first fold", found.first_cpu_s, "s"),
        Row(f"{name}: driver, a batch", 1e3 * found.batch_cpu_s, "ms"),
        Row(f"{name}: driver, a step, publications included", 1e3 * found.step_cpu_s, "ms"),
        Row(f"{name}: publication of a day", found.publish_s, "s"),
        Row(f"{name}: from a step's last commit to its fold's end, the median", found.wait_s, "s"),
        Row(f"{name}: the longest of these, without the first batch and ends of days", found.longest_wait_s, "s"),
        Row(f"{name}: driver's memory", found.memory_bytes / 2**20, "MiB"),
    ]
