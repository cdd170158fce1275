"""Reading: how fast a 64 MiB step gets into a reader's memory, against memcpy, BP5 on tmpfs, and SST."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import bbflow_adios2

import bbflow
from benchmarks.landing import xml
from benchmarks.rows import Row

WRITER = Path(__file__).parent / "landing_writer.py"
READER = Path(__file__).parent / "reading_reader.py"
XARRAY = Path(__file__).parent / "reading_xarray.py"
STEPS = 12
SST = {"engine": "SST", "RendezvousReaderCount": "1", "QueueLimit": "4"}

Times = dict[str, list[float]]


def _command(program: Path, folder: Path, config: str, *words: str) -> list[str | Path]:
    path = folder / f"{program.stem}.xml"
    path.write_text(config)
    return [sys.executable, program, path, folder / "out.bp", *words]


def _run(folder: Path, written: str, read: str, environment: dict[str, str], *, at_once: bool) -> Times:
    """Write STEPS steps, then read them, or at once; return the reader's times."""
    everything = os.environ | environment
    write = _command(WRITER, folder, written, str(STEPS))
    with subprocess.Popen(write, env=everything, cwd=folder, stdout=subprocess.DEVNULL) as writer:
        if not at_once and writer.wait() != 0:
            raise RuntimeError(f"{WRITER.name} failed")
        done = subprocess.run(
            _command(READER, folder, read), env=everything, cwd=folder, check=True, stdout=subprocess.PIPE
        )
    subprocess.run(["rm", "-rf", folder / "out.bp"], check=True)
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def _through_bbflow(folder: Path, **parameters: str) -> Times:
    with bbflow.start_nodes(capacity="1GiB") as buffer:
        environment = bbflow_adios2.environment(buffer.contact)
        written, read = bbflow_adios2.engine_xml("field"), bbflow_adios2.engine_xml("field", **parameters)
        return _run(folder, written, read, environment, at_once=False)


def _through_xarray(folder: Path) -> Times:
    with bbflow.start_nodes(capacity="1GiB") as buffer:
        environment = os.environ | bbflow_adios2.environment(buffer.contact)
        write = _command(WRITER, folder, bbflow_adios2.engine_xml("field"), str(STEPS))
        subprocess.run(write, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([sys.executable, XARRAY, buffer.contact], check=True, stdout=subprocess.PIPE)
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def measure(*, quick: bool) -> list[Row]:
    """Measure; each engine's times are compared with memcpy in the same process."""
    del quick  # it is short already
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        folder = Path(name)
        bp5 = xml({"engine": "BP5"})
        runs = {
            "bbflow": _through_bbflow(folder),
            "bbflow through xarray": _through_xarray(folder),
            "bbflow over TCP, loopback": _through_bbflow(folder, Transport="tcp"),
            "BP5": _run(folder, bp5, bp5, {}, at_once=False),
            "SST": _run(folder, xml(SST), xml(SST), {}, at_once=True),
        }
    gigabytes = 64 * 2**20 / 1e9
    for engine, times in runs.items():
        warm = {key: statistics.median(values[len(values) // 4 :]) for key, values in times.items()}
        copy, get, most = (warm[key] for key in ("memcpy", "get", "max"))
        rows.append(Row(f"{engine}: Get", gigabytes / get, "GB/s", copy / get))
        if "step" in warm:
            rows.append(Row(f"{engine}: BeginStep to EndStep", gigabytes / warm["step"], "GB/s", copy / warm["step"]))
        rows.append(Row(f"{engine}: Get and a maximum over it", gigabytes / most, "GB/s", copy / most))
    rows.append(Row("memcpy into warm memory, same process (the ratio's 1)", gigabytes / copy, "GB/s", 1.0))
    return rows
