"""Memory: what node, workers and analysis hold while the number of steps grows."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml
from bbflow_workflows import climate

from benchmarks.rows import Row

CAPACITY_MIB = 32


def _peak_mib(command: list[str], folder: Path) -> dict[str, float]:
    """Largest private memory of the parts, and of the pool's files, while a run lasts (MiB)."""
    peaks: dict[str, float] = {}
    run = psutil.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None:
        held: dict[str, float] = {}
        for child in run.children(recursive=True):
            try:
                words, memory = " ".join(child.cmdline()), child.memory_info()
            except psutil.Error:
                continue
            part = next((name for name in ("bbflow node", "bbflow fold", "dask worker") if name in words), None)
            if part:
                held[part] = held.get(part, 0.0) + (memory.rss - memory.shared) / 2**20
        for part, size in held.items():
            peaks[part] = max(peaks.get(part, 0.0), size)
        time.sleep(0.05)
    assert run.returncode == 0
    return peaks


def measure(*, quick: bool) -> list[Row]:
    """Measure; ratios are to the shortest run."""
    rows = []
    first: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        folder = Path(name)
        program = climate.build(folder / "build")
        content = {
            "stream": "climate",
            "output": "out",
            "operators": {"tas": ["mean", "std", "min", "max"]},
            "raw": {"variables": ["tas"], "every": 10},
            "nodes": {"capacity": f"{CAPACITY_MIB}MiB"},
        }
        (folder / "analysis.yml").write_text(yaml.safe_dump(content))
        for steps in (200, 1000) if quick else (200, 1000, 4000):
            model = climate.command(
                program, 1, config=climate.DEFAULT_CONFIG, steps=steps, nlat=24, nlon=48, levels=3, calendar="noleap"
            )
            words = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--overwrite", "--no-report", "--"]
            peaks = _peak_mib([*words, *model], folder)
            first = first or peaks
            for part, size in peaks.items():
                label = {"bbflow node": "agent", "bbflow fold": "analysis", "dask worker": "Dask worker"}[part]
                rows.append(Row(f"{label}, {steps} steps (private memory)", size, "MiB", size / first[part]))
    rows.append(Row("pool, whatever the number of steps", CAPACITY_MIB, "MiB", 1.0))
    return rows
