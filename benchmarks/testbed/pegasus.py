"""Pegasus in the test bed, in the place of the map job: its own ways of staging beside bbflow's waves and policies.

`python -m benchmarks.testbed.pegasus --repeat 3` needs, beside what the test bed needs, Pegasus 5 and HTCondor on PATH.
"""

import argparse
import json
import math
import shutil
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bbflow.host.belongings import make, remove
from benchmarks.testbed.bed import Bed, hpc_application, test_bed
from benchmarks.testbed.experiment import phases_within_s, rotated, undisturbed_s
from benchmarks.testbed.job import Job
from benchmarks.testbed.measuring import ended_by_signal
from benchmarks.testbed.needs import missing
from benchmarks.testbed.planned import OURS, PLAIN, Pegasus
from benchmarks.testbed.pool import pool
from benchmarks.testbed.shaping import queue_for_many, set_rate

LINK_BITS_PER_S = 160_000_000
"""Slow enough for a wave's inputs to take as long as a job of Pegasus, whose own doings take seconds."""
PHASE_BYTES, PAUSE_S = 80 << 20, 10.0
WAYS = (*PLAIN, *OURS)
PROGRAMS = ("pegasus-plan", "pegasus-run", "condor_master", "condor_status")


@dataclass(frozen=True)
class Measured:
    """One run."""

    way: str
    """How its inputs came."""
    makespan_s: float
    """From the first job's begin to the last task's end."""
    most_bytes: int
    """That lay on the burst buffer at once."""
    phases_s: tuple[float, ...]
    """How long each phase of the HPC application took meanwhile."""
    alone_s: tuple[float, ...]
    """How long its phases took beside no run."""


def repetition(bed: Bed, job: Job, number: int, ways: tuple[str, ...]) -> list[Measured]:
    """Run every way beside one HPC application."""
    runs = []
    with pool(bed.hosts, "compute", bed.folder / f"condor-{number}", job.slots) as environment:
        pegasus = Pegasus(bed, environment)
        with hpc_application(bed, PHASE_BYTES, PAUSE_S, Path(job.board)) as hpc:
            hpc.await_phases(3)
            for way in rotated(ways, number):
                folder = bed.folder / f"{number}-{way.replace(' ', '-')}"
                make(folder, "**")
                outcome, most_bytes = pegasus.run(way, job, folder)
                runs.append((way, outcome, most_bytes))
                print(f"{way}: {outcome.map_s:.1f} s, {most_bytes / 1e6:.0f} MB", file=sys.stderr, flush=True)
                remove(folder)
                hpc.await_phases(1)
    spans = [(outcome.begun_s, outcome.ended_s) for _, outcome, _ in runs]
    alone_s = undisturbed_s(hpc.phases[1:], spans)
    return [
        Measured(way, outcome.map_s, most_bytes, phases_within_s(hpc.phases[1:], span), alone_s)
        for (way, outcome, most_bytes), span in zip(runs, spans, strict=True)
    ]


def table(runs: list[Measured], job: Job) -> str:
    """Write the medians over the repetitions as a table in Markdown."""
    by_way: dict[str, list[Measured]] = defaultdict(list)
    for run in runs:
        by_way[run.way].append(run)
    theirs = [statistics.median(run.makespan_s for run in by_way[way]) for way in PLAIN if way in by_way]
    best_s = min(theirs, default=math.nan)
    lines = ["| | makespan (s) | to Pegasus's best | HPC phase to alone | most on the BB, of all inputs |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for way, found in by_way.items():
        makespan_s = statistics.median(run.makespan_s for run in found)
        phased = [run for run in found if run.phases_s and run.alone_s]
        ratios = [statistics.fmean(run.phases_s) / statistics.fmean(run.alone_s) for run in phased]
        phase = f"{statistics.median(ratios):.2f}" if ratios else ""
        share = max(run.most_bytes for run in found) / (len(job.keys) * job.input_bytes)
        lines.append(f"| {way} | {makespan_s:.0f} | {makespan_s / best_s:.2f} | {phase} | {share:.0%} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print the table and write every run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--waves", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--output", type=Path, default=Path("bench-out"))
    options = parser.parse_args()
    reason = missing() or next((f"{name} isn't on PATH" for name in PROGRAMS if shutil.which(name) is None), None)
    if reason:
        print(f"pegasus: left out: {reason}")
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    plain = Job("naive", 1, "", "", waves=options.waves, slots=4, input_bytes=64 << 20, compute_s=15.0)
    runs: list[Measured] = []
    with ended_by_signal(), test_bed(plain.keys, plain.input_bytes) as bed:
        set_rate(bed.hosts, LINK_BITS_PER_S)
        queue_for_many(bed.hosts)
        job = Job(**(vars(plain) | {"board": str(bed.folder / "board")}))
        for number in range(options.repeat):
            runs += repetition(bed, job, number, tuple(options.ways))
            text = json.dumps([vars(run) for run in runs])
            (options.output / "pegasus.json").write_text(text)
    print(table(runs, plain))
    return 0


if __name__ == "__main__":
    sys.exit(main())
