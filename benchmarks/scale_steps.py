"""Memory over very many small steps: what each process holds after a tenth of them, and at the end."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.rows import Row
from benchmarks.scale_run import PARTS, Case, parts_below, start

SAMPLE_S = 0.5
Held = tuple[float, dict[str, int]]
"""A time (seconds since the epoch), and what the processes of each part hold then (bytes)."""


def measure(*, quick: bool) -> list[Row]:
    """Measure what 100,000 steps leave behind; a tenth of them if quick."""
    case = Case(1, 1, 256, 10_000 if quick else 100_000)
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as name:
        folder = Path(name)
        process = start(case, folder)
        held = list(sample(process))
        said = process.communicate()[0]
        if process.returncode:
            raise RuntimeError(f"the run ended with {process.returncode}: {said}")
        events = [json.loads(line) for line in (folder / "out" / "events.jsonl").read_text().splitlines()]
    folds = [event for event in events if event["event"] == "fold"]
    tenth = next(event for event in folds if event["last_step"] >= case.steps // 10)
    steps = folds[-1]["last_step"] - tenth["last_step"]
    rows = []
    for part in PARTS.values():
        first, last = (_at(held, part, event["ended_s"]) for event in (tenth, folds[-1]))
        rows.append(Row(f"{part}: memory of its own after {case.steps // 10} steps", first / 2**20, "MiB"))
        rows.append(Row(f"{part}: more for each step from there to {case.steps}", (last - first) / steps, "bytes"))
    return rows


def sample(process: psutil.Popen) -> Iterator[Held]:
    """Look again and again at what the processes below one hold, until it ends."""
    while process.poll() is None:
        yield time.time(), held_below(process)
        time.sleep(SAMPLE_S)


def held_below(process: psutil.Process) -> dict[str, int]:
    """Return what the processes below one hold for themselves, by part: not what they share, such as the pool."""
    held = dict.fromkeys(PARTS.values(), 0)
    for child, part in parts_below(process).items():
        with suppress(psutil.Error):  # it has ended
            memory = child.memory_info()
            held[part] += memory.rss - memory.shared
    return held


def _at(held: list[Held], part: str, time_s: float) -> int:
    return min(held, key=lambda item: abs(item[0] - time_s))[1][part]
