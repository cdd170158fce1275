"""Everything that the bed measures, written down while it goes: runs as JSON, the picture, the rows."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from benchmarks.rows import Row
from benchmarks.testbed.bed import Bed, TooSlowError, test_bed
from benchmarks.testbed.experiment import DENSE, SPARSE, Run, busy_runs, quiet_runs
from benchmarks.testbed.job import Job
from benchmarks.testbed.needs import missing, server_name
from benchmarks.testbed.picture import draw
from benchmarks.testbed.results import auto_to_better, figures, rows
from benchmarks.testbed.shaping import CAP_BYTES_PER_S

NAMES = {
    "naive": "NaiveBB (reading directly)",
    "no-action": "prefetch, NoAction",
    "full-delay": "prefetch, FullDelay",
    "partial-delay": "prefetch, PartialDelay",
    "auto": "prefetch, Auto",
}
REPEAT = 3


def measure(*, quick: bool, output: Path = Path("bench-out")) -> list[Row]:
    """Measure; application and read times are compared with reading directly, phases with those alone."""
    if reason := missing():
        print(f"testbed: left out: {reason}")
        return []
    try:
        with ended_by_signal():
            return _measure(1 if quick else REPEAT, output)
    except TooSlowError as error:
        print(f"testbed: left out: {error}")
        return []


def _measure(repeat: int, output: Path) -> list[Row]:
    output.mkdir(parents=True, exist_ok=True)
    plan = Job("naive", 2, "", "")
    repetitions: list[list[Run]] = []
    with test_bed(plan.keys, plan.input_bytes) as bed:
        rate = bed.probe(plan.keys[0])
        for number in range(repeat):
            repetitions.append(_repetition(bed, number))
            text = json.dumps([[asdict(run) for run in runs] for runs in repetitions])
            (output / "testbed.json").write_text(text)
    measured = figures(repetitions)
    draw(measured, NAMES, plan.passes, output / "testbed.png")
    probe = Row(
        f"probe: four readers of {server_name()}, to the link's cap", rate / 1e6, "MB/s", rate / CAP_BYTES_PER_S
    )
    compared = [
        Row(f"{traffic}: Auto's application time, to the better of FullDelay's and PartialDelay's", ratio, "", ratio)
        for traffic, ratio in auto_to_better(repetitions).items()
    ]
    return [probe, *rows(measured, NAMES), *compared]


def _repetition(bed: Bed, number: int) -> list[Run]:
    job = Job("naive", 2, str(bed.folder / "bb"), str(bed.folder / "board"))
    runs = list(quiet_runs(bed, job, number))
    for traffic in (SPARSE, DENSE):
        runs += busy_runs(bed, job, traffic, number)
    return runs


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """End the block by SIGTERM and Ctrl-C (which a shell's background jobs ignore), so that all is taken down."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
