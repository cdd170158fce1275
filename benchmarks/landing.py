"""Landing: how fast a 64 MiB step leaves the simulation, against memcpy, BP5 on tmpfs, and SST to a reader."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import bbflow_adios2

import bbflow
from benchmarks.rows import Row

ENGINES = {
    "BP5": {"engine": "BP5"},
    "BP5, StatsLevel=0": {"engine": "BP5", "StatsLevel": "0"},
    "SST to a reader": {"engine": "SST", "RendezvousReaderCount": "1", "QueueLimit": "4"},
}
WRITER = Path(__file__).parent / "landing_writer.py"
READER = Path(__file__).parent / "landing_reader.py"


def xml(parameters: dict[str, str]) -> str:
    """Return the XML of one of ADIOS2's own engines."""
    rest = "".join(f'<parameter key="{key}" value="{value}"/>' for key, value in list(parameters.items())[1:])
    return f'<adios-config><io name="field"><engine type="{parameters["engine"]}">{rest}</engine></io></adios-config>'


def _write(folder: Path, config: str, steps: int, environment: dict[str, str]) -> dict[str, list[float]]:
    (folder / "adios2.xml").write_text(config)
    command = [sys.executable, WRITER, folder / "adios2.xml", folder / "out.bp", str(steps)]
    done = subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.PIPE, cwd=folder)
    times: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return times


def _through_bbflow(folder: Path, steps: int, operators: dict[str, list[str]]) -> dict[str, list[float]]:
    config = {"stream": "field", "output": str(folder / "out"), "operators": operators, "windows": ["run"]}
    with bbflow.start_nodes(capacity="640MiB") as buffer, buffer.analyse(config) as analysis:
        times = _write(folder, bbflow_adios2.engine_xml("field"), steps, bbflow_adios2.environment(buffer.contact))
        analysis.wait()
    return times


def measure(*, quick: bool) -> list[Row]:
    """Measure; each engine's times are compared with memcpy in the same process."""
    steps = 30 if quick else 80
    rows: list[Row] = []
    runs = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        folder = Path(name)
        runs["bbflow, slots recycled"] = _through_bbflow(folder, steps, {"time": ["mean"]})
        runs["bbflow, mean+std+min+max attached"] = _through_bbflow(
            folder, steps, {"field": ["mean", "std", "min", "max"]}
        )
        for engine, parameters in ENGINES.items():
            reader = None
            if parameters["engine"] == "SST":
                reader = subprocess.Popen([sys.executable, READER, folder / "out.bp"], cwd=folder)
            runs[engine] = _write(folder, xml(parameters), 20 if quick else 30, {})
            if reader is not None:
                reader.wait()
            subprocess.run(["rm", "-rf", folder / "out.bp"], check=True)
    for engine, times in runs.items():
        warm = {key: values[len(values) // 4 :] for key, values in times.items()}
        copy, whole = (statistics.median(warm[key]) for key in ("memcpy", "step"))
        put = statistics.median(warm["put"])
        gigabytes = 64 * 2**20 / 1e9
        rows.append(Row(f"{engine}: Put to EndStep", gigabytes / put, "GB/s", copy / put))
        rows.append(Row(f"{engine}: with BeginStep", gigabytes / whole, "GB/s", copy / whole))
    rows.append(Row("memcpy into warm memory, same process (the ratio's 1)", gigabytes / copy, "GB/s", 1.0))
    return rows
