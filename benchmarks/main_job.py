"""Main job: simulation plus analysis in transit, against writing BP5 and analysing it afterwards with xarray."""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import adios2
import bbflow_catalogs
import numpy as np
import xarray as xr
import yaml
from bbflow_workflows import climate

from bbflow.events import EVENTS_FILE
from benchmarks.rows import Row

VARIABLES = ("tas", "pr", "psl", "ta")
STATISTICS = ("mean", "std", "min", "max")
XML = Path(bbflow_catalogs.__file__).parent / "adios2"
START_UP_S = 1.0
"""How long after its first step a simulation may wait for the analysis to start."""


def _simulate(program: Path, folder: Path, config: Path, steps: int) -> tuple[list[str], Path]:
    output = folder / "out.bp"
    flags = {"nlat": 96, "nlon": 192, "levels": 8, "steps_per_day": 4, "calendar": "noleap", "output": output}
    return climate.command(program, 1, config=config, steps=steps, **flags), output


def _seconds_of(said: str) -> float:
    found = re.search(r"compute_s=(\S+) output_s=(\S+)", said)
    assert found is not None
    return float(found[1]) + float(found[2])


def _run(command: list[str], folder: Path) -> tuple[float, float]:
    """Wall time of a command, and the simulation's own time, in seconds."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - start, _seconds_of(done.stdout)


def _in_transit(program: Path, folder: Path, steps: int, on: str) -> tuple[float, float, float, float]:
    """Wall time, the simulation's own time, and its time for a step once the analysis has started, in seconds.

    The last is the bytes that have landed. On says who folds.
    """
    content = {
        "stream": "climate",
        "output": str(folder / "results"),
        "operators": {name: list(STATISTICS) for name in VARIABLES},
        "nodes": {"capacity": "128MiB"},
        "workers": {"threads": 1, "batch_steps": 32},
        "fold": {"on": on},
    }
    (folder / "analysis.yml").write_text(yaml.safe_dump(content))
    command, _ = _simulate(program, folder, climate.DEFAULT_CONFIG, steps)
    words = [sys.executable, "-m", "bbflow", "run", str(folder / "analysis.yml"), "--overwrite", "--no-report", "--"]
    wall_s, simulation_s = _run([*words, *command], folder)
    events = map(json.loads, (folder / "results" / EVENTS_FILE).read_text().splitlines())
    landed = [event for event in events if event["event"] == "landed"]
    return wall_s, simulation_s, _step_s(landed), sum(event["bytes"] for event in landed)


def _step_s(landed: Sequence[Mapping[str, Any]]) -> float:
    """Time for a step once the analysis has started; of a run that is over by then, in its second half."""
    started_s = landed[0]["began_s"] + START_UP_S
    committed_s = [event["committed_s"] for event in landed]
    later_s = [at for at in committed_s if at > started_s]
    committed_s = later_s if len(later_s) > 1 else committed_s[len(committed_s) // 2 :]
    return float(committed_s[-1] - committed_s[0]) / (len(committed_s) - 1)


def _afterwards(program: Path, folder: Path, steps: int) -> tuple[float, float]:
    command, output = _simulate(program, folder, XML / "climate-bp5.xml", steps)
    wall_s, simulation_s = _run(command, folder)
    start = time.perf_counter()
    _analyse(output)
    return wall_s + time.perf_counter() - start, simulation_s


def _analyse(output: Path) -> dict[str, np.ndarray]:
    fields: dict[str, list[np.ndarray]] = {name: [] for name in (*VARIABLES, "time")}
    with adios2.Stream(str(output), "r") as stream:
        for _ in stream.steps():
            for name, values in fields.items():
                values.append(np.array(stream.read(name)))
    months = np.floor(np.concatenate([np.ravel(value) for value in fields.pop("time")]) / 30.4375).astype(int)
    results = {}
    for name, values in fields.items():
        array = xr.DataArray(np.stack(values), dims=("time", *(f"d{axis}" for axis in range(values[0].ndim))))
        array = array.assign_coords(month=("time", months)).where(array != np.float32(1e20)).astype("f8")
        for statistic in STATISTICS:
            results[f"{name}_run_{statistic}"] = getattr(array, statistic)("time").values
            results[f"{name}_month_{statistic}"] = getattr(array.groupby("month"), statistic)().values
    return results


def measure(*, quick: bool) -> list[Row]:
    """Measure; wall times are compared with BP5 and xarray, the simulation's own with the engine Null."""
    steps, repeat = (360, 1) if quick else (1460, 3)
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        folder = Path(name)
        program = climate.build(folder / "build")
        times: dict[str, list[tuple[float, ...]]] = {"null": [], "node": [], "rank": [], "after": []}
        for _ in range(repeat):
            null, _ = _simulate(program, folder, XML / "climate-null.xml", steps)
            times["null"].append(_run(null, folder))
            for on in ("node", "rank"):
                times[on].append(_in_transit(program, folder, steps, on))
            times["after"].append(_afterwards(program, folder, steps))
    medians = {key: [statistics.median(column) for column in zip(*runs, strict=True)] for key, runs in times.items()}
    null_s = medians["null"][1]
    (transit_s, transit_own_s, transit_step_s, bytes_), (after_s, after_own_s) = medians["node"], medians["after"]
    started_s = transit_step_s * steps
    _, rank_own_s, _, rank_bytes = medians["rank"]
    return [
        Row("bbflow: simulation and analysis", transit_s, "s", transit_s / after_s),
        Row("BP5, then xarray", after_s, "s", 1.0),
        Row("the simulation's own time through bbflow", transit_own_s, "s", transit_own_s / null_s),
        Row("the same at its pace after the first second", started_s, "s", started_s / null_s),
        Row("the simulation's own time, folding by itself (fold: on: rank)", rank_own_s, "s", rank_own_s / null_s),
        Row("what lands, folded on the node", bytes_ / 1e6, "MB", 1.0),
        Row("what lands, folded by the simulation", rank_bytes / 1e6, "MB", rank_bytes / bytes_),
        Row("the simulation's own time through BP5", after_own_s, "s", after_own_s / null_s),
        Row("the simulation's own time, writing nothing (Null)", null_s, "s", 1.0),
    ]
