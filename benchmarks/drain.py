"""Drain: raw steps that wait on a node go to a file system, against dd with 64 MiB blocks, BP5 and xarray's to_zarr."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import adios2
import bbflow_adios2
import numpy as np
import xarray as xr
import yaml

import bbflow
from bbflow.events import read_events
from benchmarks.ballast import make_ballast, write_zeros
from benchmarks.rows import Row

Array = np.ndarray[Any, np.dtype[np.float32]]
MIB = 1 << 20
BALLAST_BYTES = 4 << 30
"""More than the pool, what is written, and the processes need together."""
PAIRS = 5
"""How many times dd and the drain take turns."""
RAW: dict[str, dict[str, Any]] = {
    "zstd": {"compression": "zstd"},
    "blosc": {"compression": "blosc"},
    "keep_bits 10, blosc": {"compression": "blosc", "keep_bits": 10},
    "dedup": {"dedup": True},
}


class Steps:
    """Steps of smooth float32 fields with some noise.

    Parameters
    ----------
    count
        How many steps.
    shape
        Of a field.
    variables
        How many fields a step has.
    """

    def __init__(self, count: int, shape: tuple[int, int], variables: int) -> None:
        rows, columns = (np.linspace(0, 6, length, dtype="f4") for length in shape)
        smooth = 280 + 20 * np.sin(rows)[:, None] * np.cos(columns)
        noise = np.random.default_rng(1)
        self.count, self.shape = count, shape
        self.names = [f"v{number}" for number in range(variables)]
        self._fields = [smooth + noise.standard_normal(shape, "f4") / 8 for _ in range(5)]

    @property
    def bytes(self) -> int:
        """Of all fields of all steps."""
        return self.count * len(self.names) * self._fields[0].nbytes

    def field(self, step: int, variable: int) -> Array:
        """Return one field."""
        return self._fields[(step + variable) % 5]

    def write(self, xml: Path, path: str) -> None:
        """Write all through ADIOS2."""
        with adios2.Stream(adios2.Adios(str(xml)).declare_io("field"), path, "w") as stream:
            for step in range(self.count):
                stream.begin_step()
                stream.write("time", float(step))
                for number, name in enumerate(self.names):
                    stream.write(name, self.field(step, number), self.shape, (0, 0), self.shape)
                stream.end_step()


def measure(*, quick: bool) -> list[Row]:
    """Measure; every rate is compared with that of dd into the same file system."""
    scale = 4 if quick else 1
    cases = {
        "1 field of 64 MiB": Steps(16 // scale, (4096, 4096), 1),
        "4 fields of 72 KiB": Steps(2000 // scale, (96, 192), 4),
    }
    rows = []
    for where, parent, ways in (("tmpfs", "/dev/shm", RAW), ("disk", os.getcwd(), {"zstd": RAW["zstd"]})):
        for name, steps in cases.items():
            with tempfile.TemporaryDirectory(dir=parent, prefix="bbflow-bench-") as folder:
                rows += _compare(f"{where}, {name}", steps, ways, Path(folder))
    return rows


def _compare(title: str, steps: Steps, ways: Mapping[str, dict[str, Any]], folder: Path) -> list[Row]:
    def dd() -> None:
        write_zeros(steps.bytes, folder / "dd")

    pairs = [(_timed(dd, steps, folder), _drain(steps, {}, folder)) for _ in range(PAIRS)]
    reference = statistics.median(seconds for seconds, _ in pairs)
    rows = [Row(f"{title}: dd, blocks of 64 MiB (the ratio's 1)", steps.bytes / reference / 1e9, "GB/s", 1.0)]

    def add(name: str, seconds: float) -> None:
        rows.append(Row(f"{title}: {name}", steps.bytes / seconds / 1e9, "GB/s", reference / seconds))

    add("raw.zarr", statistics.median(done[0] for _, done in pairs))
    rows.append(Row(f"{title}: raw.zarr", pairs[0][1][2], "files"))
    for name, raw in ways.items():
        seconds, stored, _ = _drain(steps, raw, folder)
        add(f"raw.zarr, {name}", seconds)
        rows.append(Row(f"{title}: raw.zarr, {name}, stored of the bytes", 100 * stored / steps.bytes, "%"))
    add("BP5", _timed(lambda: _bp5(steps, folder), steps, folder))
    add("xarray's to_zarr", _timed(lambda: _to_zarr(steps, folder), steps, folder))
    return rows


def _timed(do: Callable[[], None], steps: Steps, folder: Path) -> float:
    """Return the seconds that something takes in an empty directory, which it leaves empty."""
    _use_memory(folder)
    began = time.perf_counter()
    do()
    seconds = time.perf_counter() - began
    _clear(folder)
    return seconds


def _use_memory(folder: Path) -> None:
    """Provide memory that was in use until now, as long as the system doesn't give it back to its host: two seconds."""
    ballast = make_ballast(BALLAST_BYTES, folder)
    os.sync()
    ballast.unlink()


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _drain(steps: Steps, raw: dict[str, Any], folder: Path) -> tuple[float, int, int]:
    """Drain steps that a node holds; return the seconds, the bytes on disk, and the number of files."""
    config = {"stream": "field", "output": str(folder / "out"), "operators": {"time": ["mean"]}, "windows": ["run"]}
    xml = folder / "bbflow.xml"
    with bbflow.start_nodes(capacity=steps.bytes + 64 * MIB) as buffer:
        os.environ |= bbflow_adios2.environment(buffer.contact)
        xml.write_text(bbflow_adios2.engine_xml("field"))
        steps.write(xml, "field")
        (folder / "analysis.yml").write_text(yaml.safe_dump(config | {"raw": raw or "all", "workers": {"threads": 1}}))
        words = [sys.executable, "-m", "bbflow", "fold", str(folder / "analysis.yml"), "--contact", str(buffer.contact)]
        _use_memory(folder)
        subprocess.run(words, check=True)
    drains = [event for event in read_events(folder / "out") if event["event"] == "drain"]
    assert sum(event["bytes"] for event in drains) == steps.bytes
    files = [path for path in (folder / "out" / "raw.zarr").rglob("*") if path.is_file()]
    stored = {path.stat().st_ino: path.stat().st_size for path in files}
    seconds = max(event["ended_s"] for event in drains) - min(event["started_s"] for event in drains)
    _clear(folder)
    return seconds, sum(stored.values()), len(files)


def _bp5(steps: Steps, folder: Path) -> None:
    xml = folder / "bp5.xml"
    xml.write_text('<adios-config><io name="field"><engine type="BP5"/></io></adios-config>')
    steps.write(xml, str(folder / "out.bp"))


def _to_zarr(steps: Steps, folder: Path) -> None:
    """Write a variable after the other, as much at once as 256 MiB; a chunk is a step."""
    for number, name in enumerate(steps.names):
        length = max(256 * MIB // steps.field(0, 0).nbytes, 1)
        for begin in range(0, steps.count, length):
            values = np.stack([steps.field(step, number) for step in range(begin, min(begin + length, steps.count))])
            dataset = xr.Dataset({name: (("time", "y", "x"), values)})
            encoding = {name: {"chunks": (1, *steps.shape), "compressors": ()}}
            how: dict[str, Any] = {"append_dim": "time"} if begin else {"encoding": encoding}
            dataset.to_zarr(folder / "x.zarr", mode="a", consolidated=False, zarr_format=3, **how)
