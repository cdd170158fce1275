"""Many runs on BB nodes that stay: one after the other, then four at once; what nodes and Dask hold after each.

And many in one process, as in a notebook, whose nodes go with each: what that process holds, which drives them too.
"""

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from benchmarks.rows import Row
from benchmarks.scale_run import Case, start

CASE = Case(10, 2, 1024, 200)
AT_ONCE = 4
NOTEBOOK = "notebook"
MODEL = """
import sys
import adios2
import numpy as np
with adios2.Stream(adios2.Adios(sys.argv[1]).declare_io("weather"), "weather", "w") as stream:
    for _ in stream.steps(60):
        stream.write("tas", np.full((400, 600), stream.current_step(), "f4"), [400, 600], [0, 0], [400, 600])
"""
"""What a notebook's runs fold: 60 steps of a field of 1 MiB."""


def measure(*, quick: bool) -> list[Row]:
    """Measure 20 runs in sequence, and as many four at a time; 4 and 4 if quick."""
    count = 4 if quick else 20
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        folder = Path(name)
        here = ["--contact", str(folder / "contact.json")]
        _bbflow("up", *here, "--capacity", "256MiB", "--scheduler-file", str(folder / "scheduler.json"))
        try:
            started = _served(folder)
            rows = []
            for title, at_once in (("one after the other", 1), (f"{AT_ONCE} at once", AT_ONCE)):
                held = [_run(folder, f"{at_once}-{first}", at_once) for first in range(0, count, at_once)]
                rows += _rows(f"{count} runs, {title}", held)
            left = [path for process in started for path in _states(process)]
            rows.append(Row("files of states that are left", len(left), "files"))
        finally:
            _bbflow("down", *here, "--scheduler-file", str(folder / "scheduler.json"))
        words = [sys.executable, "-m", "benchmarks.scale_runs", NOTEBOOK, name, str(count)]
        said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    who = "the process that starts nodes and drives"
    return rows + _rows(f"{count} runs in one process", [tuple(held) for held in json.loads(said)], who)


def _run(folder: Path, name: str, at_once: int) -> tuple[int, int]:
    """Run some at once; gives what the processes that stay hold afterwards (bytes), and their open files."""
    processes = []
    for number in range(at_once):
        own = folder / f"{name}-{number}"
        own.mkdir()
        options = "--contact", str(folder / "contact.json"), "--scheduler", str(folder / "scheduler.json")
        processes.append(start(CASE, own, *options, stream=f"scale-{name}-{number}"))
    for process in processes:
        said = process.communicate()[0]
        if process.returncode:
            raise RuntimeError(f"a run ended with {process.returncode}: {said}")
    served = _served(folder)
    memory = [item.memory_info() for item in served]
    return sum(item.rss - item.shared for item in memory), sum(item.num_fds() for item in served)


def _in_one_process(folder: Path, count: int) -> list[tuple[int, int]]:
    """Start nodes and an analysis in this process again and again; gives what it holds after each, all mappings too."""
    import bbflow_adios2

    import bbflow

    model, held = folder / "model.xml", []
    model.write_text(bbflow_adios2.engine_xml("weather"))
    for _ in range(count):
        config: dict[str, Any] = {"stream": "weather", "output": str(folder / "out"), "time": "steps"}
        config |= {"operators": {"tas": ["mean", "max"]}, "windows": ["run"]}
        with bbflow.start_nodes(capacity="256MiB") as nodes, nodes.analyse(config) as analysis:
            environment = os.environ | bbflow_adios2.environment(nodes.contact)
            subprocess.run([sys.executable, "-c", MODEL, model], env=environment, check=True)
            analysis.wait()
        shutil.rmtree(folder / "out")
        gc.collect()
        own = psutil.Process()
        held.append((own.memory_info().rss, own.num_fds()))
    return held


def _rows(title: str, held: list[tuple[int, int]], who: str = "nodes, scheduler and worker") -> list[Row]:
    (first, files), (last, more_files) = held[min(1, len(held) - 1)], held[-1]
    return [
        Row(f"{title}: {who} hold after the second", first / 2**20, "MiB"),
        Row(f"{title}: after the last", last / 2**20, "MiB", last / first),
        Row(f"{title}: open files after the last", more_files, "files", more_files / files),
    ]


def _served(folder: Path) -> list[psutil.Process]:
    """Return the processes that serve these nodes: their logs lie beside the node's, whatever they call themselves."""
    logs = {process: _log_of(process) for process in psutil.process_iter()}
    (root,) = {log.parent for process, log in logs.items() if log and str(folder) in _words(process)}
    return [process for process, log in logs.items() if log and log.parent == root]


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) if "node" in process.cmdline() else ""
    except psutil.Error:
        return ""


def _log_of(process: psutil.Process) -> Path | None:
    try:
        path = Path(os.readlink(f"/proc/{process.pid}/fd/1"))
    except OSError:
        return None
    return path if path.suffix == ".log" else None


def _states(process: psutil.Process) -> list[Path]:
    words = process.cmdline()
    directory = Path(words[words.index("--directory") + 1]) if "--directory" in words else None
    return list(directory.glob("state/*.[01]")) if directory else []


def _bbflow(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "bbflow", *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":  # which `measure` runs
    assert sys.argv[1] == NOTEBOOK
    print(json.dumps(_in_one_process(Path(sys.argv[2]), int(sys.argv[3]))))
