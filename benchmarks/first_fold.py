"""First fold: how long after `bbflow run` the first steps of a simulation have been folded."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bbflow_catalogs
import yaml
from bbflow_workflows import climate

from bbflow.events import EVENTS_FILE
from benchmarks.rows import Row

OPERATORS = Path(bbflow_catalogs.__file__).parent / "operators" / "climate.yml"
STEPS = 120
WORKERS: dict[str, dict[str, int]] = {
    "threads of the analysis (default)": {},
    "a worker process (processes: 1)": {"processes": 1},
}


def _first(events: Path, kind: str, key: str) -> float:
    return next(float(event[key]) for event in map(json.loads, events.open()) if event["event"] == kind)


def _run(program: Path, folder: Path, workers: dict[str, int]) -> tuple[float, float, float]:
    """Run the demo's job; seconds from `bbflow run` to its first step, to the first fold's end, and to its own end."""
    content: dict[str, Any] = yaml.safe_load(OPERATORS.read_text()) | {"output": str(folder / "out")}
    content["workers"] = content.get("workers", {}) | workers
    config = folder / "analysis.yml"
    config.write_text(yaml.safe_dump(content))
    words = [sys.executable, "-m", "bbflow", "run", str(config), "--overwrite", "--no-report", "--"]
    words += climate.command(program, 1, config=climate.DEFAULT_CONFIG, steps=STEPS, output=folder / "out.bp")
    began_s = time.time()
    subprocess.run(words, cwd=folder, env=_environment(), check=True, stdout=subprocess.DEVNULL)
    ended_s, events = time.time(), folder / "out" / EVENTS_FILE
    return (
        _first(events, "landed", "committed_s") - began_s,
        _first(events, "fold", "ended_s") - began_s,
        ended_s - began_s,
    )


def _environment() -> dict[str, str]:
    """Return this one, but for what lets each process compile what it imports."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _import() -> float:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy, distributed"], env=_environment(), check=True)
    return time.perf_counter() - began_s


def measure(*, quick: bool) -> list[Row]:
    """Measure, by turns; compared with a Python process that only imports what any analysis on Dask needs."""
    repeat = 5 if quick else 15
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        folder = Path(name)
        program = climate.build(folder / "build")
        imports: list[float] = []
        times: dict[str, list[tuple[float, ...]]] = {title: [] for title in WORKERS}
        for turn in range(repeat + 1):
            seconds = _import()
            found = {title: _run(program, folder, workers) for title, workers in WORKERS.items()}
            if turn:  # the first one fills caches
                imports.append(seconds)
                for title, values in found.items():
                    times[title].append(values)
    import_s = statistics.median(imports)
    rows = [Row("python -c 'import numpy, distributed'", import_s, "s", 1.0)]
    for title, runs in times.items():
        for what, column in zip(("first step", "first fold", "end"), zip(*runs, strict=True), strict=True):
            value = statistics.median(column)
            rows.append(Row(f"{what}, {title}", value, "s", value / import_s))
    return rows
