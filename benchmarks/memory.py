"""Memory: what a run holds beside what it said before its start, and while the number of steps grows."""

import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import bbflow_adios2
import psutil
import yaml
from bbflow_workflows import climate

from bbflow.configuring.config import parse_config
from bbflow.run.checks.memory import process_bytes
from bbflow.transit.states.footprint import bytes_per_point
from benchmarks.rows import Row
from benchmarks.scale_run import ended, watched

CAPACITY_MIB = 32
MONTHS = ["month", "run"]
CASES: dict[str, list[list[Any]]] = {
    "p90": [[{"percentiles": {"q": [90]}}]],
    "histogram": [[{"histogram": {"edges": list(range(-20, 21))}}]],
    "50 variables": [["mean", "std", "max"]] * 50,
}
"""What is computed of each variable."""
POINTS, STEPS = 1 << 17, 120
PAGES = 1 << 20
"""Room for the parts of pages that the files don't fill."""
WRITER = """
import sys
import adios2, numpy as np
count, points, steps = map(int, sys.argv[2:])
io = adios2.Adios(sys.argv[1]).declare_io("model")
dice = np.random.default_rng(1)
with adios2.Stream(io, "model", "w") as stream:
    for step in range(steps):
        stream.begin_step()
        stream.write("time", float(step))
        stream.write_attribute("time/units", "days since 2001-01-01")
        for number in range(count):
            stream.write(f"v{number}", 9 * dice.standard_normal(points, "f4"), [points], [0], [points])
        stream.end_step()
"""


@dataclass(frozen=True, slots=True)
class Held:
    """What a run said it may hold, and the most that it held at once."""

    said_memory: int
    """Bytes of pools and states."""
    said_processes: int
    """Bytes of its processes."""
    states: int
    """Bytes of the states, as they were said at the first step."""
    memory: int
    """Bytes of pools and states that there were."""
    processes: int
    """Private bytes of all its processes but the simulation."""


def held(folder: Path, variables: list[list[Any]], points: int, steps: int) -> Held:
    """Run with just as much room for states as they take, and look at what is held, again and again."""
    count = len(variables)
    capacity = 8 * (count * (4 * points + 4096) + 4096)
    content = {
        "stream": "model",
        "output": str(folder / "out"),
        "operators": {f"v{number}": operators for number, operators in enumerate(variables)},
        "windows": MONTHS,
        "workers": {"processes": 1},
    }
    each = parse_config(content).diagnostics.values()
    state_capacity = round(sum(map(bytes_per_point, each)) * points) + PAGES
    content["nodes"] = {"directory": str(folder / "nodes"), "capacity": capacity, "state_capacity": state_capacity}
    (folder / "nodes").mkdir(parents=True)
    (folder / "analysis.yml").write_text(yaml.safe_dump(content))
    (folder / "model.xml").write_text(bbflow_adios2.engine_xml("model"))
    (folder / "writer.py").write_text(WRITER)
    words = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--no-report", "--"]
    words += [sys.executable, "writer.py", "model.xml", *map(str, (count, points, steps))]
    looks = list(_looks(words, folder))
    config = parse_config(content)
    events = map(json.loads, (folder / "out" / "events.jsonl").read_text().splitlines())
    (states,) = (sum(event["bytes"].values()) for event in events if event["event"] == "states")
    return Held(
        capacity + state_capacity,
        process_bytes(config, state_capacity),
        states,
        max(memory for memory, _ in looks),
        max(processes for _, processes in looks),
    )


def _looks(words: list[str], folder: Path) -> Iterator[tuple[int, int]]:
    """Run a command, and give bytes of its nodes' files and private bytes of its processes as long as it runs."""
    with (folder / "said").open("wb") as said:
        run = psutil.Popen(words, cwd=folder, stdout=said, stderr=said)
    while run.poll() is None:
        processes = 0
        for process in [run, *_descendants(run)]:
            try:
                if "writer.py" not in process.cmdline()[1:2]:
                    processes += _private_bytes(process)
            except psutil.Error:
                continue
        files = [Path(place, name) for place, _, names in os.walk(folder / "nodes") for name in names]
        yield sum(dict(chain.from_iterable(map(_bytes_by_inode, files))).values()), processes
        time.sleep(0.02)
    assert run.returncode == 0, (folder / "said").read_text()


def _descendants(run: psutil.Process) -> list[psutil.Process]:
    try:
        return list(run.children(recursive=True))
    except psutil.Error:
        return []


def _bytes_by_inode(path: Path) -> Iterator[tuple[int, int]]:
    """Yield nothing for a file that is gone; a pool has two names, and counts once."""
    with suppress(FileNotFoundError):
        found = path.stat()
        yield found.st_ino, found.st_blocks * 512


def _said_and_held(quick: bool) -> list[Row]:
    """Compare what was said with what was held; ratios are to what was said."""
    rows = []
    for case, variables in CASES.items():
        points = POINTS // (8 if quick or len(variables) > 1 else 1)
        with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
            found = held(Path(name), variables, points, STEPS)
        for what, said, seen in (
            ("pools and states", found.said_memory, found.memory),
            ("processes", found.said_processes, found.processes),
        ):
            rows.append(Row(f"{case}: {what}, said", said / 2**20, "MiB", 1.0))
            rows.append(Row(f"{case}: {what}, held", seen / 2**20, "MiB", seen / said))
    return rows


def _peak_mib(command: list[str], folder: Path) -> dict[str, float]:
    """Largest private memory of the parts, and of the pool's files, while a run lasts (MiB)."""
    peaks = collections.defaultdict[str, float](float)
    run = psutil.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for held in watched(run, _private_bytes, 0.05):
        for part in {of for of, _ in held}:
            size = sum(own for (of, _), own in held.items() if of == part)
            peaks[part] = max(peaks[part], size / 2**20)
    ended(run, "the run", folder)
    return peaks


def _private_bytes(process: psutil.Process) -> int:
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


def measure(*, quick: bool) -> list[Row]:
    """Measure; ratios are to what was said, and to the shortest run."""
    rows = _said_and_held(quick)
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
                rows.append(Row(f"{part}, {steps} steps (private memory)", size, "MiB", size / first[part]))
    rows.append(Row("pool, whatever the number of steps", CAPACITY_MIB, "MiB", 1.0))
    return rows
