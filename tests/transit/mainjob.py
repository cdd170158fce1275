"""Runs of the main job for tests: the example simulation, small, and its oracle."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import adios2
import numpy as np
import xarray as xr
import yaml
from bbflow_workflows import climate

ROOT = Path(__file__).parents[2]
BP5 = ROOT / "catalogs" / "adios2" / "climate-bp5.xml"
FLAGS = {"nlat": 24, "nlon": 48, "levels": 3, "steps_per_day": 4, "seed": 3, "calendar": "noleap"}
FILL = 1e20


def write_config(directory, **changes):
    content = {
        "stream": "climate",
        "output": str(directory / "out"),
        "operators": {
            "tas": ["mean", "std", "min", "max", "sum", "count", {"filter": {"above": 300.0, "name": "hot"}}],
            "pr": ["mean", "max"],
            "ta": ["mean", "std", "min", "max", "count"],
        },
        "raw": {"variables": ["tas", "ta"], "every": 3},
        "nodes": {"capacity": "8MiB"},
        "workers": {"batch_steps": 8},
    } | changes
    path = directory / "analysis.yml"
    path.write_text(yaml.safe_dump(content))
    return path


def simulation(program, ranks, steps, config=climate.DEFAULT_CONFIG, **flags):
    return climate.command(program, ranks, config=config, steps=steps, **FLAGS | flags)


def start_run(config, command, *options):
    arguments = [sys.executable, "-m", "bbflow", "run", str(config), *options, "--", *command]
    # A shell that runs the tests in the background has them ignore SIGINT; a run must not inherit that.
    # Dask leaves this behind in a process that had workers, and renames who inherits it.
    environment = {key: value for key, value in os.environ.items() if key != "__DASK_PARENT_PID"}
    return subprocess.Popen(
        arguments,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(config, command, *options, timeout=300):
    process = start_run(config, command, *options)
    said, _ = process.communicate(timeout=timeout)
    return process.returncode, said


def oracle(program, directory, steps, calendar="noleap"):
    """Give the same run's fields as BP5 has them, in float64 with NaN where values are missing."""
    output = directory / "oracle.bp"
    command = simulation(program, 1, steps, config=BP5, calendar=calendar, output=output)
    subprocess.run(command, check=True, cwd=directory, stdout=subprocess.DEVNULL)
    fields = {"time": [], "tas": [], "pr": [], "psl": [], "ta": []}
    with adios2.Stream(str(output), "r") as stream:
        for _ in stream.steps():
            for name, values in fields.items():
                values.append(np.array(stream.read(name)))
    dims = ("time", "lat", "lon")
    variables = {
        name: (dims if name != "ta" else ("time", "plev", "lat", "lon"), _missing(np.stack(values)))
        for name, values in fields.items()
        if name != "time"
    }
    time = np.array(fields["time"]).ravel()
    units = {"units": "days since 2000-01-01 00:00:00", "calendar": calendar}
    return xr.decode_cf(xr.Dataset(variables, {"time": ("time", time, units)}))


def _missing(values):
    return np.where(values == np.float32(FILL), np.nan, values.astype("f8"))


def shared_memory():
    ours = ("bbflow-", "mpich_shm_", "sem.mp-")
    return {name for name in os.listdir("/dev/shm") if name.startswith(ours)}


def left_behind(before, kind="", patience_s=60):
    """Give what a run has left in shared memory: what is new there, and in no living process' use, and stays so."""
    end_s = time.monotonic() + patience_s
    while left := unused({name for name in shared_memory() - before if name.startswith(kind)}):
        if time.monotonic() > end_s:
            break
        time.sleep(0.1)
    return left


def unused(names):
    """Of what is in shared memory, give what no process has mapped: others on this machine may work beside us."""
    mapped = "".join(maps_of(path) for path in Path("/proc").glob("[0-9]*/maps")) if names else ""
    return {name for name in names if f"/dev/shm/{name}" not in mapped}


def maps_of(path):
    try:
        return path.read_text()
    except OSError:  # it has ended, or is another user's
        return ""


def assert_equals_oracle(output, truth, variables=("tas", "pr", "ta")):
    """Compare every published statistic with xarray's on the oracle."""
    results = xr.open_zarr(output / "results.zarr").load()
    groups = {"run": [truth], "month": [month for _, month in truth.groupby(_months(truth))]}
    checked = 0
    for window, parts in groups.items():
        assert results[f"steps_{window}"].values.tolist() == [part.sizes["time"] for part in parts]
        for number, part in enumerate(parts):
            for name in variables:
                for statistic in ("mean", "std", "min", "max", "sum", "count"):
                    result = results.get(f"{name}_{window}_{statistic}")
                    if result is not None:
                        _compare(result[number].values, _statistic(part[name], statistic), statistic)
                        checked += 1
    assert checked >= 2 * len(groups["month"])
    return results


def _months(dataset):
    return dataset.time.dt.year * 100 + dataset.time.dt.month


def _statistic(array, statistic):
    if statistic == "count":
        return array.count("time").values
    keywords = {"min_count": 1} if statistic == "sum" else {}
    return getattr(array, statistic)("time", **keywords).values


def _compare(result, truth, statistic):
    if statistic in ("min", "max", "count"):
        np.testing.assert_array_equal(result, truth.astype(result.dtype))
    else:
        scale = np.nanmax(np.abs(truth), initial=0.0) if statistic == "std" else 0.0
        np.testing.assert_allclose(result, truth, rtol=1e-6, atol=1e-9 * scale)
