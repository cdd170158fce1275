"""Real Snakemake in the test bed, in the place of the map job: by its own S3 and fs plugins, or prefetched by bbflow's.

`python -m benchmarks.testbed.snakemake` needs, beside what the test bed needs, snakemake and these two plugins; and for
the shared file system sshfs, socat, rsync and OpenSSH's sftp-server.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from bbflow.host.belongings import make, remove
from benchmarks.testbed.address import ACCESS_KEY, BUCKET, ENDPOINT, SECRET_KEY, environment
from benchmarks.testbed.bed import PART_S, ROOT, Bed, hpc_application, test_bed
from benchmarks.testbed.experiment import PHASE_BYTES, QUIET, SPARSE, phases_within_s, rotated, undisturbed_s
from benchmarks.testbed.job import Job
from benchmarks.testbed.measuring import ended_by_signal
from benchmarks.testbed.needs import missing
from benchmarks.testbed.shaping import CAP_BITS_PER_S, set_rate
from benchmarks.testbed.shared import MOUNT, mounted, shared_lacking, sharing

PEER = "naive"
"""Snakemake's own plugin for a store: inputs are retrieved when their jobs are about to start."""
S3, FS = "s3", "fs"
"""The bucket, and the same files as a file system that compute hosts have mounted."""
QUIET_WAYS = {S3: (PEER, "no-action"), FS: (PEER, "no-action")}
BUSY_WAYS = {S3: (PEER, "no-action", "full-delay", "partial-delay"), FS: (PEER, "no-action", "full-delay")}
SNAKEFILE = """
onstart:
    shell("cut -d' ' -f1 /proc/uptime > {notes}/begun")
rule all:
    input: expand("outputs/part-{{n:03d}}", n=range({tasks}))
rule map:
    input: "inputs/part-{{n}}"
    output: "outputs/part-{{n}}"
    shell: "cat {{input}} | wc -c > {{output}}; sleep {compute_s}; cut -d' ' -f1 /proc/uptime > {notes}/{{wildcards.n}}"
"""


@dataclass(frozen=True)
class Measured:
    """One run."""

    traffic: str
    """What the HPC application did beside it."""
    store: str
    """Where its inputs were."""
    way: str
    """How its inputs came."""
    begun_s: float
    """When Snakemake began to select jobs, on the monotonic clock."""
    ended_s: float
    """When the last job had computed."""
    phases_s: tuple[float, ...] = ()
    """How long each phase took meanwhile."""
    alone_s: tuple[float, ...] = ()
    """How long phases took beside no run."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is a repetition of."""
        return self.traffic, self.store, self.way

    @property
    def makespan_s(self) -> float:
        """From the first selection to the last job's end."""
        return self.ended_s - self.begun_s


def run_once(bed: Bed, store: str, job: Job) -> Measured:
    """Run the workflow on an empty BB; a job that reads too little is an error."""
    folder = Path(job.directory)
    make(folder, "**")
    notes = folder / "notes"
    notes.mkdir()
    text = SNAKEFILE.format(tasks=len(job.keys), compute_s=job.compute_s, notes=notes)
    (folder / "Snakefile").write_text(text)
    path = os.pathsep.join([str(ROOT / "snakemake-plugin"), str(ROOT)])
    told = os.environ | environment() | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")}
    words = [sys.executable, "-m", "snakemake", *_words(store, job, folder)]
    command = bed.hosts.inside("compute", *(mounted(bed, folder, words) if store == FS else words))
    done = subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=PART_S, check=False)
    if done.returncode:
        raise RuntimeError(f"Snakemake ended with {done.returncode}: {done.stderr[-3000:]}")
    # Jobs note the time since boot, which any shell can read; phases are told on Python's clock.
    shift_s = time.monotonic() - float(Path("/proc/uptime").read_text().split()[0])
    times = {path.name: float(path.read_text()) + shift_s for path in notes.iterdir()}
    remove(folder)
    begun_s = times.pop("begun")
    assert len(times) == len(job.keys)
    return Measured(QUIET, store, job.policy, begun_s, max(times.values()))


def _words(store: str, job: Job, folder: Path) -> list[str]:
    words = ["--cores", str(job.slots), "--nocolor", "--forceall", "--local-storage-prefix", str(folder / "bb")]
    words += ["--default-storage-prefix", str(folder / MOUNT) if store == FS else f"s3://{BUCKET}"]
    if (store, job.policy) == (FS, PEER):
        return [*words, "--default-storage-provider", "fs"]
    if job.policy == PEER:
        return [
            *(*words, "--default-storage-provider", "s3", "--storage-s3-endpoint-url", ENDPOINT),
            *("--storage-s3-access-key", ACCESS_KEY, "--storage-s3-secret-key", SECRET_KEY),
        ]
    words += ["--default-storage-provider", "bbflow", "--scheduler", "bbflow", "--storage-bbflow-policy"]
    words += [job.delay_policy, "--storage-bbflow-phases", job.board, "--storage-bbflow-fetchers", str(job.fetchers)]
    return [*words, "--storage-bbflow-capacity", str(job.capacity_bytes)]


def ways(by_store: Mapping[str, Sequence[str]], stores: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a store and a way."""
    return [(store, way) for store in stores for way in by_store[store]]


def quiet_runs(bed: Bed, job: Job, stores: Sequence[str], repeat: int) -> Iterator[Measured]:
    """Run without HPC traffic."""
    for store, way in rotated(ways(QUIET_WAYS, stores), repeat):
        yield run_once(bed, store, replace(job, policy=way))


def busy_runs(bed: Bed, job: Job, stores: Sequence[str], repeat: int, pause_s: float) -> list[Measured]:
    """Run every way beside one HPC application, which is left alone before, between and after."""
    runs: list[Measured] = []
    with hpc_application(bed, PHASE_BYTES, pause_s, Path(job.board)) as hpc:
        hpc.await_phases(3)
        for store, way in rotated(ways(BUSY_WAYS, stores), repeat):
            runs.append(run_once(bed, store, replace(job, policy=way)))
            hpc.await_phases(1)
        hpc.await_phases(1)
    spans = [(run.begun_s, run.ended_s) for run in runs]
    alone_s = undisturbed_s(hpc.phases[1:], spans)
    phases = [phases_within_s(hpc.phases[1:], span) for span in spans]
    return [
        replace(run, traffic=SPARSE.name, phases_s=found, alone_s=alone_s)
        for run, found in zip(runs, phases, strict=True)
    ]


def table(repetitions: Sequence[Sequence[Measured]]) -> str:
    """Write medians; each ratio is within one repetition."""
    lines = [
        "| | makespan (s) | to Snakemake's plugin | HPC phase (s) | to alone | phases |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key in sorted({run.key for runs in repetitions for run in runs}):
        pairs = [
            (run, next(other for other in runs if other.key == (*key[:2], PEER)))
            for runs in repetitions
            for run in runs
            if run.key == key
        ]
        ratio = statistics.median(run.makespan_s / peer.makespan_s for run, peer in pairs)
        phased = [run for run, _ in pairs if run.phases_s and run.alone_s]
        phase = " | | "
        if phased:
            phase_s = statistics.median(statistics.fmean(run.phases_s) for run in phased)
            to_alone = statistics.median(
                statistics.fmean(run.phases_s) / statistics.fmean(run.alone_s) for run in phased
            )
            phase = f"{phase_s:.2f} | {to_alone:.2f} | {sum(len(run.phases_s) for run in phased)}"
        makespan_s = statistics.median(run.makespan_s for run, _ in pairs)
        lines.append(f"| {', '.join(key)} | {makespan_s:.1f} | {ratio:.2f} | {phase} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print the table and write every run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--waves", type=int, default=5)
    parser.add_argument("--link", type=int, default=CAP_BITS_PER_S // 10**6, help="Mbit/s in sum (%(default)s)")
    parser.add_argument("--input-bytes", type=int, default=32 << 20)
    parser.add_argument("--compute-s", type=float, default=1.4)
    parser.add_argument("--pause-s", type=float, default=SPARSE.pause_s, help="between phases (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("bench-out"))
    options = parser.parse_args()
    plugins = ("snakemake", "snakemake_storage_plugin_s3", "snakemake_storage_plugin_fs")
    reason = next((f"{name} is missing" for name in plugins if find_spec(name) is None), None) or missing()
    if reason:
        print(f"snakemake: left out: {reason}")
        return 0
    stores = [S3] if (lacking := shared_lacking()) else [S3, FS]
    if lacking:
        print(f"snakemake: the shared file system is left out: {lacking}")
    options.output.mkdir(parents=True, exist_ok=True)
    job = Job(PEER, 1, "", "", options.waves, input_bytes=options.input_bytes, compute_s=options.compute_s)
    repetitions: list[list[Measured]] = []
    with ended_by_signal(), test_bed(job.keys, job.input_bytes) as bed, sharing(bed):
        set_rate(bed.hosts, options.link * 1_000_000)
        job = replace(job, directory=str(bed.folder / "run"), board=str(bed.folder / "board"))
        for number in range(options.repeat):
            runs = [*quiet_runs(bed, job, stores, number), *busy_runs(bed, job, stores, number, options.pause_s)]
            repetitions.append(runs)
            told = [[asdict(run) for run in runs] for runs in repetitions]
            (options.output / "snakemake.json").write_text(json.dumps(told))
            (options.output / "snakemake.md").write_text(table(repetitions) + "\n")
    print(table(repetitions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
