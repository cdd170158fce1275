"""Main job: simulation plus analysis in transit, against writing BP5 and analysing it afterwards with xarray."""

import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import adios2
import bbflow_catalogs
import numpy as np
import xarray as xr
import yaml
from bbflow_workflows import climate

from benchmarks.rows import Row

VARIABLES = ("tas", "pr", "psl", "ta")
STATISTICS = ("mean", "std", "min", "max")
XML = Path(bbflow_catalogs.__file__).parent / "adios2"


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


def _in_transit(program: Path, folder: Path, steps: int) -> tuple[float, float]:
    content = {
        "stream": "climate",
        "output": str(folder / "results"),
        "operators": {name: list(STATISTICS) for name in VARIABLES},
        "nodes": {"capacity": "128MiB"},
        "workers": {"threads": 1, "batch_steps": 32},
    }
    (folder / "analysis.yml").write_text(yaml.safe_dump(content))
    command, _ = _simulate(program, folder, climate.DEFAULT_CONFIG, steps)
    words = [sys.executable, "-m", "bbflow", "run", str(folder / "analysis.yml"), "--overwrite", "--no-report", "--"]
    return _run([*words, *command], folder)


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
        times: dict[str, list[tuple[float, float]]] = {"null": [], "transit": [], "after": []}
        for _ in range(repeat):
            null, _ = _simulate(program, folder, XML / "climate-null.xml", steps)
            times["null"].append(_run(null, folder))
            times["transit"].append(_in_transit(program, folder, steps))
            times["after"].append(_afterwards(program, folder, steps))
    wall = {key: statistics.median(wall_s for wall_s, _ in pairs) for key, pairs in times.items()}
    own = {key: statistics.median(own_s for _, own_s in pairs) for key, pairs in times.items()}
    return [
        Row("bbflow: simulation and analysis", wall["transit"], "s", wall["transit"] / wall["after"]),
        Row("BP5, then xarray", wall["after"], "s", 1.0),
        Row("the simulation's own time through bbflow", own["transit"], "s", own["transit"] / own["null"]),
        Row("the simulation's own time through BP5", own["after"], "s", own["after"] / own["null"]),
        Row("the simulation's own time, writing nothing (Null)", own["null"], "s", 1.0),
    ]
