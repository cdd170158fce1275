"""One run of `bbflow run` with a fast writer: the CPU time that each process takes for a steady step."""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
import yaml

from bbflow.events import read_events
from benchmarks.ballast import make_ballast

Seen = TypeVar("Seen")
RUN_BYTES = 5 << 30
"""The most that a run takes: pool, states, results, and the fields of the writer."""
PARTS = {"bbflow node": "agent", "bbflow fold": "driver", "dask worker": "worker"}
"""Words of a process's command line, and what we call it."""
SAMPLE_S = 0.02
LOOK_S = 0.2
"""How often it is looked which processes there are, which takes ten times as long as a sample."""
Sample = tuple[float, dict[str, float]]
"""A time (seconds since the epoch), and the CPU time that each part has taken until then."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is written and folded."""

    variables: int
    """How many fields; each is folded to mean, std, min and max, of each `finest` window and of the run."""
    ranks: int
    """Writer ranks."""
    points: int
    """Values of one block, of four bytes."""
    steps: int
    """Steps of the stream."""
    nodes: int = 1
    """BB nodes."""
    capacity: str = "1GiB"
    """Of each node's pool."""
    raw: Mapping[str, Any] | None = None
    """What is drained."""
    finest: str = "month"
    """The window beside that of the run."""
    day_steps: int = 24
    """How many steps a day has."""
    rows: int = 1
    """Of a block."""
    processes: int = 1
    """Worker processes; with none, the driver folds in threads."""
    threads: int = 1
    """Of each worker that fold."""

    @property
    def step_bytes(self) -> int:
        """Bytes of one step."""
        return 4 * self.points * self.variables * self.ranks


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step costs, once the first batch is folded."""

    step_cpu_s: Mapping[str, float]
    """CPU time of agent, driver, worker and engine: the writer's beyond what it takes with the engine Null."""
    step_s: float
    """Wall time between the ends of the first batch's fold and the last one's."""
    batch_step_s: float
    """The same between the ends of two batches, as the median: without first touch of states and publications."""
    first_fold_s: float
    """From the command to the end of the first fold (seconds)."""
    publish_s: tuple[float, ...]
    """How long each window's publication took (seconds)."""
    longest_fold_s: float
    """The longest fold of one batch, without the first; where a window has ended it starts again in it (seconds)."""


def run_in_memory(case: Case) -> Cost:
    """Run it in a directory of its own in memory that the system has at hand, and return the costs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as folder:
        make_ballast(RUN_BYTES, Path(folder)).unlink()
        return run(case, Path(folder))


def run(case: Case, folder: Path) -> Cost:
    """Run it, and return the costs."""
    began_s = time.time()
    process = start(case, folder)
    taken = list(samples(process))
    return _cost(case, began_s, taken, *ended(process, case, folder))


def start(case: Case, folder: Path, *options: str, stream: str = "scale") -> psutil.Popen:
    """Start ``bbflow run`` of a case in a directory, with further options."""
    content = {
        "stream": stream,
        "output": "out",
        "operators": {f"v{number:03d}": ["mean", "std", "min", "max"] for number in range(case.variables)},
        "windows": [case.finest, "run"],
        "nodes": {"capacity": case.capacity, "count": case.nodes},
        "workers": {"processes": case.processes, "threads": case.threads},
    } | ({} if case.raw is None else {"raw": dict(case.raw)})
    (folder / "analysis.yml").write_text(yaml.safe_dump(content))
    words = [sys.executable, "-m", "bbflow", "run", "analysis.yml", "--overwrite", "--no-report", *options, "--"]
    return psutil.Popen(
        [*words, *writer(case, "bbflow", stream)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _cost(case: Case, began_s: float, samples: list[Sample], said: str, events: list[dict[str, Any]]) -> Cost:
    folds = [event for event in events if event["event"] == "fold"]
    landed = [event for event in events if event["event"] == "landed"]
    begin_s, end_s = folds[0]["ended_s"], folds[-1]["ended_s"]
    steps = folds[-1]["last_step"] - folds[0]["last_step"]
    spans = {
        "driver": (begin_s, steps),
        "worker": (begin_s, steps),
        "agent": (landed[0]["committed_s"], case.steps - 1),
    }
    cost = {part: _between(samples, part, since_s, end_s) / count for part, (since_s, count) in spans.items()}
    cost["engine"] = (_cpu_of_writer(said) - _without_engine(case)) / (case.steps - 1)
    published = tuple(event["ended_s"] - event["started_s"] for event in events if event["event"] == "publish")
    batches = [
        (after["ended_s"] - before["ended_s"]) / (after["last_step"] - before["last_step"])
        for before, after in itertools.pairwise(folds)
    ]
    longest_s = max(fold["ended_s"] - fold["started_s"] for fold in folds[1:])
    return Cost(cost, (end_s - begin_s) / steps, statistics.median(batches), begin_s - began_s, published, longest_s)


def writer(case: Case, engine: str, stream: str = "scale") -> list[str]:
    """Return the command that writes."""
    flags = {name: getattr(case, name) for name in ("ranks", "variables", "points", "steps", "day_steps", "rows")}
    words = itertools.chain.from_iterable((f"--{name}", str(value)) for name, value in flags.items())
    return [sys.executable, str(Path(__file__).with_name("scale_writer.py")), engine, "--stream", stream, *words]


def _without_engine(case: Case) -> float:
    done = subprocess.run(writer(case, "Null"), check=True, stdout=subprocess.PIPE, text=True)
    return _cpu_of_writer(done.stdout)


def _cpu_of_writer(said: str) -> float:
    line = next(line for line in said.splitlines() if line.startswith('{"cpu_s"'))
    return float(json.loads(line)["cpu_s"])


def samples(process: psutil.Popen) -> Iterator[Sample]:
    """Add up the CPU time of each part's processes again and again until the run ends."""
    for taken in watched(process, _cpu_s, SAMPLE_S):
        yield time.time(), {part: sum(own for (of, _), own in taken.items() if of == part) for part in PARTS.values()}


def _cpu_s(child: psutil.Process) -> float:
    times = child.cpu_times()
    return float(times.user + times.system)


def watched(
    process: psutil.Process, look: Callable[[psutil.Process], Seen], pause_s: float
) -> Iterator[dict[tuple[str, int], Seen]]:
    """Look at the processes of each part again and again until the run ends.

    Parameters
    ----------
    process
        The run's.
    look
        What of one of them is of interest.
    pause_s
        From one look to the next (seconds).

    Yields
    ------
    dict
        By part and number of the process what was seen of it last, also of those that have ended.
    """
    seen: dict[tuple[str, int], Seen] = {}
    known: dict[psutil.Process, str] = {}
    look_s = 0.0
    while process.poll() is None:
        if time.monotonic() >= look_s:
            known, look_s = parts_below(process), time.monotonic() + LOOK_S
        for child, part in known.items():
            with suppress(psutil.Error, FileNotFoundError, ProcessLookupError):  # it has ended
                seen[part, child.pid] = look(child)
        yield seen
        time.sleep(pause_s)


def ended(process: psutil.Popen, what: object, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Wait for a run's end; give what it said, and its events.

    Raises
    ------
    RuntimeError
        If it failed.
    """
    said = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"{what} ended with {process.returncode}: {said}")
    return said, list(read_events(folder / "out"))


def parts_below(process: psutil.Process) -> dict[psutil.Process, str]:
    """Return the processes below one that have a part, with it."""
    found: dict[psutil.Process, str] = {}
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            words = " ".join(child.cmdline())
            found.update((child, part) for key, part in PARTS.items() if key in words)
    return found


def _between(samples: list[Sample], part: str, begin_s: float, end_s: float) -> float:
    times, taken = zip(*((at, own[part]) for at, own in samples), strict=True)
    return float(np.interp(end_s, times, taken) - np.interp(begin_s, times, taken))
