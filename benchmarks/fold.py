"""Fold: million points a second on one core, against NumPy and CDO on the same steps."""

import mmap
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from bbflow.operators import StateLayout, fold_steps, parse_operators
from benchmarks.rows import Row

POINTS, STEPS, BATCH = 1 << 20, 64, 16
FOUR = ("mean", "std", "min", "max")
CDO = ("timmean", "timstd", "timmin", "timmax")


def _rate(action: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return POINTS * STEPS / statistics.median(times) / 1e6


def _folded(fields: np.ndarray, names: tuple[str, ...]) -> Callable[[], object]:
    layout = StateLayout.of(parse_operators(list(names)), dtype=np.dtype("f4"), points=POINTS)
    states = [mmap.mmap(-1, layout.nbytes), mmap.mmap(-1, layout.nbytes)]

    def fold() -> None:
        source = None
        for number, start in enumerate(range(0, STEPS, BATCH)):
            target = states[number % 2]
            fold_steps(layout, source, target, list(fields[start : start + BATCH]))
            source = target

    return fold


def _maximum(fields: np.ndarray) -> None:
    largest = fields[0].copy()
    for field in fields[1:]:
        np.maximum(field, largest, out=largest)


def _numpy_four(fields: np.ndarray) -> None:
    total, squares = np.zeros(POINTS), np.zeros(POINTS)
    least, largest = fields[0].copy(), fields[0].copy()
    for field in fields:
        total += field
        squares += np.square(field, dtype="f8")
        np.minimum(field, least, out=least)
        np.maximum(field, largest, out=largest)


def measure(*, quick: bool) -> list[Row]:
    """Measure; ratios are to CDO's fastest operator where CDO is there, else to np.maximum."""
    repeat = 3 if quick else 7
    fields = np.random.default_rng(0).normal(280, 10, (STEPS, POINTS)).astype("f4")
    rates = {"bbflow: " + "+".join(FOUR): _rate(_folded(fields, FOUR), repeat)}
    rates |= {f"bbflow: {name}": _rate(_folded(fields, (name,)), repeat) for name in FOUR}
    rates["NumPy: one np.maximum"] = _rate(lambda: _maximum(fields), repeat)
    rates["NumPy: mean+std+min+max"] = _rate(lambda: _numpy_four(fields), repeat)
    base = rates["NumPy: one np.maximum"]
    if shutil.which("cdo"):
        cdo = _cdo(fields, repeat)
        rates |= cdo
        base = max(cdo.values())
    else:
        print("fold: cdo is not installed (apt install cdo): its rows are left out")
    return [Row(name, rate, "Mpoints/s", rate / base) for name, rate in rates.items()]


def _cdo(fields: np.ndarray, repeat: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        path = Path(name) / "in.nc"
        field = ("time", "lat", "lon"), fields.reshape(STEPS, 1024, 1024)
        time_axis = ("time", np.arange(float(STEPS)), {"units": "days since 2000-01-01"})
        xr.Dataset({"tas": field}, {"time": time_axis}).to_netcdf(path, engine="scipy")
        return {
            f"CDO: {operator} (whole process, file in memory)": _rate(
                lambda operator=operator: subprocess.run(
                    ["cdo", "-s", "-P", "1", operator, path, path.with_name("out.nc")], check=True
                ),
                repeat,
            )
            for operator in CDO
        }
