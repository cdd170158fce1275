"""Windows that end: a run whose windows are published, against the kernel alone and dd of what is published."""

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.configuring.config import load_config
from bbflow.configuring.settings import Config
from bbflow.models.rates import PAGE_BYTES, NodeRates, StreamBalance, StreamLoad, stream_balance
from bbflow.transit.states.footprint import bytes_per_point
from benchmarks.ballast import make_ballast, write_zeros
from benchmarks.rows import Row
from benchmarks.scale_rate import kernel_rate
from benchmarks.scale_run import PARTS, Case, ended, start, watched

CASES = {
    "1 field of 64 MiB, months of 124 steps": (
        Case(1, 1, 1 << 24, 300, capacity="2GiB", day_steps=4, rows=1 << 12, processes=0),
        16,
    ),
    "200 fields of 16 KiB, days of 24 steps": (
        Case(200, 1, 1 << 12, 200, capacity="1GiB", finest="day", processes=0),
        24,
    ),
}
"""What is written, and how many steps the kernel alone takes at once; the run itself is a window too."""
QUICK = {
    "1 field of 16 MiB, months of 124 steps": (
        Case(1, 1, 1 << 22, 300, capacity="512MiB", day_steps=4, rows=1 << 11, processes=0),
        16,
    ),
    "50 fields of 16 KiB, days of 24 steps": (
        Case(50, 1, 1 << 12, 200, capacity="256MiB", finest="day", processes=0),
        24,
    ),
}
BALLAST_BYTES = 6 << 30
"""More than pool, states, results, and the writer's fields take together."""
SAMPLE_S = 0.05


@dataclass(frozen=True, slots=True)
class Use:
    """What a process has used since it began."""

    user_s: float
    """CPU time of its own."""
    system_s: float
    """CPU time in the kernel."""
    faults: int
    """Page faults that needed no disk."""

    @classmethod
    def of(cls, pid: int) -> "Use":
        """Look at one that lives."""
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cls(int(values[11]) / 100, int(values[12]) / 100, int(values[7]))

    def __add__(self, other: "Use") -> "Use":
        return Use(self.user_s + other.user_s, self.system_s + other.system_s, self.faults + other.faults)


def measure(*, quick: bool) -> list[Row]:
    """Measure; mean, std, min and max of each field, for each window and for the run, one thread that folds."""
    return [row for name, own in (QUICK if quick else CASES).items() for row in _rows(name, *own, quick=quick)]


def _rows(name: str, case: Case, at_once: int, *, quick: bool) -> Iterator[Row]:
    kernel_s = case.steps * case.step_bytes / kernel_rate(case.points, at_once, 3) / 1e9
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as parent:
        folder = Path(parent)
        make_ballast(BALLAST_BYTES // (4 if quick else 1), folder).unlink()
        used, events = _run(case, folder)
        published = [event for event in events if event["event"] == "publish"]
        size = sum(event["bytes"] for event in published)
        began_s = time.perf_counter()
        write_zeros(size, folder / "dd")
        dd_s = time.perf_counter() - began_s
        foretold = _foretold(load_config(folder / "analysis.yml"), case, size, dd_s)
    yield Row(f"{name}: kernel and dd of {size / 1e9:.2f} GB that are published", kernel_s + dd_s, "s", 1.0)
    yield Row(f"{name}: of that dd", dd_s, "s")
    wall_s = max(event["ended_s"] for event in published) - _first(events)
    yield Row(f"{name}: from the first step to the last result", wall_s, "s", wall_s / (kernel_s + dd_s))
    told_s = kernel_s + foretold.first_touch_s + foretold.publish_s
    yield Row(f"{name}: the same as `bbflow.models` foretells it", told_s, "s", told_s / wall_s)
    for part, use in used.items():
        yield Row(f"{name}: {part}, user", use.user_s, "s")
        yield Row(f"{name}: {part}, system", use.system_s, "s")
        yield Row(f"{name}: {part}, page faults", use.faults / 1e6, "million")
    lasting = [event["ended_s"] - event["started_s"] for event in published]
    yield Row(f"{name}: publication, the longest of {len(lasting)}", 1e3 * max(lasting), "ms")
    yield from _batches(name, [event for event in events if event["event"] == "fold"])


def _foretold(config: Config, case: Case, published: int, dd_s: float) -> StreamBalance:
    """Return what the model says of pages and publications where dd writes as fast as it did."""
    points = case.points * case.ranks
    states = sum(map(bytes_per_point, config.diagnostics.values())) * points
    load = StreamLoad(case.step_bytes, 0, state_bytes=states, result_bytes=published)
    rates = NodeRates(1, 1, 1, page_s=dd_s / published * PAGE_BYTES, publish_bytes_per_s=published / dd_s)
    return stream_balance(load, rates)


def _first(events: list[dict[str, Any]]) -> float:
    return next(float(event["began_s"]) for event in events if event["event"] == "landed")


def _batches(name: str, folds: list[dict[str, Any]]) -> Iterator[Row]:
    """Compare batches by the time that each step takes: they aren't equally long."""
    gaps = [after["started_s"] - before["ended_s"] for before, after in itertools.pairwise(folds)]
    steps = [(fold["ended_s"] - fold["started_s"]) / (1 + fold["last_step"] - fold["first_step"]) for fold in folds[1:]]
    usual_s = statistics.median(steps)
    yield Row(f"{name}: gap between batches, median of {len(gaps)}", 1e3 * statistics.median(gaps), "ms")
    yield Row(f"{name}: gap between batches, the longest", 1e3 * max(gaps), "ms")
    yield Row(f"{name}: a step in a batch, median", 1e3 * usual_s, "ms", 1.0)
    yield Row(f"{name}: a step in the slowest batch but the first", 1e3 * max(steps), "ms", max(steps) / usual_s)


def _run(case: Case, folder: Path) -> tuple[Mapping[str, Use], list[dict[str, Any]]]:
    """Run it; what each part has used, and the run's events."""
    process, last = start(case, folder), dict[tuple[str, int], Use]()
    for seen in watched(process, lambda child: Use.of(child.pid), SAMPLE_S):
        last = seen
    of = {part: [use for (own, _), use in last.items() if own == part] for part in dict.fromkeys(PARTS.values())}
    return {part: sum(uses, Use(0, 0, 0)) for part, uses in of.items()}, ended(process, case, folder)[1]
