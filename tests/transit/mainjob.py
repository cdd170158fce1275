"""Runs of the main job for tests: the example simulation, small, and its oracle."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import adios2
import numpy as np
import psutil
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


def start_run(config, command, *options, draws_report=False):
    """Start a run; drawing its report would take most of the run's time."""
    words = [*options, *([] if draws_report else ["--no-report"])]
    arguments = [sys.executable, "-m", "bbflow", "run", str(config), *words, "--", *command]
    # As a script starts it in the background: with SIGINT ignored.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, handler)


def run(config, command, *options, timeout=300):
    code, said, _ = watched_run(config, command, *options, timeout=timeout)
    return code, said


def watched_run(config, command, *options, timeout=300, draws_report=False):
    """Run to the end; give exit code, what was said, and what it had in shared memory."""
    process = start_run(config, command, *options, draws_report=draws_report)
    seen, end_s = set(), time.monotonic() + timeout
    while True:
        with suppress(psutil.NoSuchProcess):
            seen |= in_memory(process)
        try:
            said, _ = process.communicate(timeout=0.2)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < end_s, "the run doesn't end"
            continue
        return process.returncode, said, seen


def oracle(program, directory, steps, calendar="noleap"):
    """Return the same run's fields as BP5 has them, in float64 with NaN where values are missing."""
    output = directory / "oracle.bp"
    command = simulation(program, 1, steps, config=BP5, calendar=calendar, output=output)
    subprocess.run(command, check=True, cwd=directory, stdout=subprocess.DEVNULL)
    return load_oracle(output, calendar)


def load_oracle(output, calendar):
    """Load it."""
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


def in_memory(process):
    """Return what a run's processes have mapped in shared memory: others on this machine may use it too."""
    maps = "".join(maps_of(child.pid) for child in psutil.Process(process.pid).children(recursive=True))
    return set(re.findall(r"/dev/shm/([^/\s]+)", maps))


def maps_of(pid):
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:  # it has ended
        return ""


def left_behind(names, patience_s=300):
    """Return what of this still is in shared memory after a while."""
    end_s = time.monotonic() + patience_s
    while (left := names & set(os.listdir("/dev/shm"))) and time.monotonic() < end_s:
        time.sleep(0.1)
    return left


def assert_equals_oracle(output, truth):
    """Compare every published statistic with xarray's on the oracle."""
    results = xr.open_zarr(output / "results.zarr").load()
    groups = {"run": [truth], "month": [month for _, month in truth.groupby(_months(truth))]}
    if "steps_day" in results:
        groups["day"] = [day for _, day in truth.groupby(100 * _months(truth) + truth.time.dt.day)]
    checked = 0
    for window, parts in groups.items():
        assert results[f"steps_{window}"].values.tolist() == [part.sizes["time"] for part in parts]
        for number, part in enumerate(parts):
            for name in truth.data_vars:
                for statistic in ("mean", "std", "min", "max", "sum", "count"):
                    result = results.get(f"{name}_{window}_{statistic}")
                    if result is not None:
                        _compare(result[number].values, _statistic(part[name], statistic), statistic)
                        checked += 1
    assert checked >= 2 * len(groups["month"])
    return results


def assert_raw_equals_oracle(output, truth, every=3):
    """Compare the raw steps that were kept with the oracle's."""
    raw = xr.open_zarr(output / "raw.zarr").load()
    assert raw.bbflow_step.values.tolist() == list(range(0, truth.sizes["time"], every))
    for name in ("tas", "ta"):
        np.testing.assert_array_equal(raw[name].values, truth[name].values[::every].astype("f4"))


def means_in_space(directory):
    """Return operators of what is remapped, to boxes of eight by eight points, and averaged in space."""
    lat, lon = np.indices((FLAGS["nlat"], FLAGS["nlon"])).reshape(2, -1)
    size, (rows, columns) = lat.size, (FLAGS["nlat"] // 8, FLAGS["nlon"] // 8)
    new_lat, new_lon = np.indices((rows, columns)).reshape(2, -1)
    data = {
        "src_grid_dims": ("rank", np.array([FLAGS["nlon"], FLAGS["nlat"]])),
        "dst_grid_dims": ("rank", np.array([columns, rows])),
        "yc_a": ("n_a", (lat + 0.5) * 180 / FLAGS["nlat"] - 90, {"units": "degrees"}),
        "xc_a": ("n_a", lon * 360 / FLAGS["nlon"], {"units": "degrees"}),
        "yc_b": ("n_b", new_lat * 1.0, {"units": "degrees"}),
        "xc_b": ("n_b", new_lon * 1.0, {"units": "degrees"}),
        "area_b": ("n_b", np.ones(rows * columns)),
        "col": ("n_s", np.arange(size) + 1),
        "row": ("n_s", lat // 8 * columns + lon // 8 + 1),
        "S": ("n_s", np.full(size, 1 / 64)),
    }
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "weights.nc"
    xr.Dataset(data, attrs={"map_method": "Conservative remapping"}).to_netcdf(path)
    return {
        "boxes": {"of": "pr", "space": {"remapcon": str(path)}, "operators": ["mean", "sum", "count"]},
        "zones": {"of": "pr", "space": "zonmean", "operators": ["mean", "sum", "count"]},
    }


def with_means_in_space(truth):
    """Return the oracle with what `means_in_space` is of."""
    boxes = truth.pr.coarsen(lat=8, lon=8).mean()
    return truth.assign(boxes=boxes.rename(lat="boxes_lat", lon="boxes_lon"), zones=truth.pr.mean("lon"))


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


def assert_lacks_what_is_said(results, truth, lost):
    """Compare each half of the field with the steps that it is said to have."""
    first, end, after, before = map(int, re.match(r"tas\[(\d+):(\d+), .*from (\d+) to (\d+)", lost).groups())
    lacking = set(range(after, before + 1))
    halves = {True: slice(first, end), False: slice(end, None) if first == 0 else slice(0, first)}
    # Steps whose time was on the lost node are left out everywhere: those that it held when it was lost.
    untimed = set(range(before + 1 - results.attrs["bbflow_late_steps"], before + 1))
    for is_lost, rows in halves.items():
        steps = [step for step in range(truth.sizes["time"]) if step not in (lacking if is_lost else untimed)]
        own = truth.tas.values[steps][:, rows]
        np.testing.assert_array_equal(results.tas_run_count.values[-1, rows], np.isfinite(own).sum(0))
        np.testing.assert_allclose(results.tas_run_mean.values[-1, rows], own.mean(0), rtol=1e-6)
        np.testing.assert_array_equal(results.tas_run_max.values[-1, rows], own.max(0).astype("f4"))
