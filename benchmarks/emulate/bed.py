"""Nodes, ranks and a driver on one host: what is emulated lies in `nodes.py` and `ranks.py`, all else is real."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml
from msgspec.json import encode

from bbflow.events import read_events
from benchmarks.emulate.ranks import Job

NODES_PER_PROCESS = 16
RANKS_PER_PROCESS = 12_500
"""A process may have 20,000 descriptors."""
SAMPLE_S = 0.05


@dataclass(frozen=True, slots=True)
class Size:
    """What is emulated."""

    nodes: int
    job: Job
    capacity: int = 8 << 20
    """Bytes of each node's pool."""
    operators: tuple[str, ...] = ("mean",)
    """Of each variable, each day and of the run."""
    processes: int = 1
    """Of workers; with none, the driver folds in threads."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the driver has used."""

    at_s: float
    cpu_s: float
    memory_bytes: int
    """Resident and its own."""


@contextmanager
def running_nodes(folder: Path, size: Size) -> Iterator[Path]:
    """Run the nodes; give their contact file."""
    contact = folder / "contact.json"
    with ExitStack() as stack:
        for first in range(0, size.nodes, NODES_PER_PROCESS):
            count = min(NODES_PER_PROCESS, size.nodes - first)
            words = [str(contact), str(first), str(count), str(size.capacity)]
            process = stack.enter_context(started("nodes", *words))
            assert process.stdin is not None
            stack.callback(process.stdin.close)
            await_word(process)
        yield contact


@contextmanager
def started(module: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a module of this package in a process of its own, to its end."""
    command = [sys.executable, "-m", f"benchmarks.emulate.{module}", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
        if process.wait():
            raise RuntimeError(f"{module} ended with {process.returncode}")
    except BaseException:
        process.kill()
        raise
    finally:
        process.wait()


def await_word(process: "subprocess.Popen[str]") -> None:
    """Wait until a process says that it has come so far."""
    assert process.stdout is not None
    if not process.stdout.readline():
        raise RuntimeError("a process of the emulation ended before its time")


@contextmanager
def running_driver(folder: Path, contact: Path, size: Size) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the analysis that folds the stream; it is killed if it is still there in the end."""
    content = {
        "stream": size.job.stream,
        "output": "out",
        "operators": {f"v{number:03d}": list(size.operators) for number in range(size.job.variables)},
        "windows": ["day", "run"],
        "workers": {"processes": size.processes},
        "open_timeout_s": 900,
    }
    config = folder / "analysis.yml"
    config.write_text(yaml.safe_dump(content))
    words = [sys.executable, "-m", "bbflow", "fold", config.name, "--contact", str(contact)]
    (folder / "out").mkdir()
    with (folder / "said").open("w") as said, subprocess.Popen(words, cwd=folder, stdout=said, stderr=said) as process:
        try:
            yield process
        finally:
            process.kill()


def run(size: Size, folder: Path) -> list[Sample]:
    """Emulate a job in a folder, in which the driver leaves `out`; give what the driver has used again and again."""
    taken: list[Sample] = []
    with running_nodes(folder, size) as contact, running_driver(folder, contact, size) as driver, ExitStack() as stack:
        parts = -(-size.job.ranks // RANKS_PER_PROCESS)
        waiting = [
            stack.enter_context(started("ranks", str(contact), encode(size.job).decode(), str(part), str(parts)))
            for part in range(parts)
        ]
        process = psutil.Process(driver.pid)
        while driver.poll() is None:
            taken += sample(process)
            if waiting and any(event["event"] == "fold" for event in read_events(folder / "out")):
                for ranks in waiting:
                    assert ranks.stdin is not None
                    ranks.stdin.close()
                waiting.clear()
            time.sleep(SAMPLE_S)
        if driver.returncode:
            raise RuntimeError(f"the driver ended with {driver.returncode}: {(folder / 'said').read_text()}")
    return taken


def sample(driver: psutil.Process) -> list[Sample]:
    """Look at what the driver has used; nothing if it has just ended."""
    try:
        times, memory = driver.cpu_times(), driver.memory_info()
    except psutil.Error:
        return []
    return [Sample(time.time(), times.user + times.system, memory.rss - memory.shared)]
