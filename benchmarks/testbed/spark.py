"""Real Spark in the test bed, in the place of the map job: Sort and Wordcount, by how their inputs come.

`python -m benchmarks.testbed.spark` needs, beside what the test bed needs, pyspark, a JDK, and Hadoop's S3A: jars of
Maven Central, whose names it prints where they are missing.
"""

import argparse
import json
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path

from bbflow_spark.classes import Spark, find_spark
from bbflow_workflows.spark.apps.random_text_writer import lines
from bbflow_workflows.spark.checking import parts_of, read_counts, sorted_content

from bbflow.errors import MissingToolError
from bbflow.host.belongings import remove
from benchmarks.testbed.bed import hpc_application, test_bed
from benchmarks.testbed.experiment import QUIET, Traffic, phases_within_s, rotated, undisturbed_s
from benchmarks.testbed.measuring import ended_by_signal
from benchmarks.testbed.needs import missing
from benchmarks.testbed.shaping import set_rate
from benchmarks.testbed.spark_runs import NAIVE, ON_DISK, WAYS, Load, SparkRun, Sparks

APPS = ("sort", "wordcount")
TRAFFICS = {"quiet": None, "sparse": Traffic("sparse phases", 4.0), "dense": Traffic("dense phases", 1.4)}
PHASE_BYTES = 32 << 20
"""Of all ranks: about 0.7 s on the free link."""
S3A = (
    "org.apache.hadoop:hadoop-aws",
    "software.amazon.awssdk:bundle",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3",
)
"""What Hadoop reads S3 with; Spark's own packages have none of it."""
_NUMBERS = count()


@dataclass(frozen=True)
class Measured:
    """One run beside one kind of traffic."""

    traffic: str
    """Its name."""
    run: SparkRun
    """What Spark's log tells."""
    phases_s: tuple[float, ...] = ()
    """How long each phase of the HPC application took meanwhile."""
    alone_s: tuple[float, ...] = ()
    """How long its phases took beside no run."""


def s3a_jars() -> str | None:
    """Find Hadoop's S3A where Maven keeps it; None if it isn't there."""
    folders = [Path.home() / ".m2/repository" / name.replace(".", "/").replace(":", "/") for name in S3A]
    found = [max(folder.glob("*/*.jar"), default=None) for folder in folders]
    return None if None in found else ":".join(map(str, found))


def measure_traffic(
    sparks: Sparks, traffic: Traffic | None, app: str, ways: Sequence[str], repeat: int
) -> list[Measured]:
    """Run an application every way, beside one HPC application or alone."""
    board = sparks.bed.folder / "board"
    board.mkdir(exist_ok=True)
    if traffic is None:
        return [Measured(QUIET, _checked_run(sparks, app, way, board)) for way in rotated(ways, repeat)]
    runs: list[SparkRun] = []
    with hpc_application(sparks.bed, PHASE_BYTES, traffic.pause_s, board) as hpc:
        hpc.await_phases(3)
        for way in rotated(ways, repeat):
            runs.append(_checked_run(sparks, app, way, board))
            hpc.await_phases(1)
        hpc.await_phases(1)
    alone_s = undisturbed_s(hpc.phases[1:], [run.span for run in runs])
    return [Measured(traffic.name, run, phases_within_s(hpc.phases[1:], run.span), alone_s) for run in runs]


def _checked_run(sparks: Sparks, app: str, way: str, board: Path) -> SparkRun:
    """Run once; a wrong result is an error."""
    folder = sparks.bed.folder / f"run-{next(_NUMBERS)}"
    run = sparks.run(app, way, folder, board)
    made = parts_of(folder / "output")
    times = len(sparks.load.keys)
    text = list(lines(1, sparks.load.input_bytes))
    if app == "sort":
        right = sorted_content(made).lines == times * len(text)
    else:
        right = read_counts(made).total() == times * sum(len(line.split()) for line in text)
    if not right:
        raise RuntimeError(f"{app}, {way}: the result is wrong; see {folder}")
    shutil.copytree(folder / "bb" / "notes", sparks.notes / f"{folder.name}-{app}-{way}", dirs_exist_ok=True)
    remove(folder)
    print(f"{app}, {way}: map {run.map_s:.1f} s, {run.ended_s - run.begun_s:.1f} s in all", file=sys.stderr, flush=True)
    return run


def table(measured: Sequence[Measured]) -> str:
    """Write the medians over the repetitions as a table in Markdown."""
    cases: dict[tuple[str, str], dict[str, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    for one in measured:
        cases[one.traffic, one.run.app][one.run.way].append(one)
    head = "| | map (s) | to NaiveBB | application (s) | to NaiveBB | HPC phase (s) | to alone |"
    written = [head, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for (traffic, app), ways in cases.items():
        base = ways.get(NAIVE)
        for way, found in ways.items():
            map_s, whole_s = _median_s(found, "map"), _median_s(found, "whole")
            maps = f"{map_s:.1f} | {map_s / _median_s(base, 'map'):.2f}" if base else f"{map_s:.1f} | "
            whole = f"{whole_s:.1f} | {whole_s / _median_s(base, 'whole'):.2f}" if base else f"{whole_s:.1f} | "
            written.append(f"| {traffic}, {app}: {way} | {maps} | {whole} | {_phase(found)} |")
    return "\n".join(written)


def _median_s(found: Sequence[Measured], what: str) -> float:
    return statistics.median(one.run.map_s if what == "map" else one.run.ended_s - one.run.begun_s for one in found)


def _phase(found: Sequence[Measured]) -> str:
    phased = [one for one in found if one.phases_s and one.alone_s]
    if not phased:
        return " | "
    mean_s = statistics.median(statistics.fmean(one.phases_s) for one in phased)
    ratio = statistics.median(statistics.fmean(one.phases_s) / statistics.fmean(one.alone_s) for one in phased)
    return f"{mean_s:.2f} | {ratio:.2f}"


def all_runs(sparks: Sparks, options: argparse.Namespace) -> Iterator[list[Measured]]:
    """Run everything that was asked for."""
    for number in range(options.repeat):
        for name in options.traffic:
            ways = [way for way in options.only if name != "quiet" or way in (NAIVE, "no-action")]
            ways += [ON_DISK] if name == "quiet" and "no-action" in ways else []
            for app in options.apps:
                yield measure_traffic(sparks, TRAFFICS[name], app, ways, number)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS), help="ways")
    parser.add_argument("--apps", nargs="+", choices=APPS, default=list(APPS))
    parser.add_argument("--traffic", nargs="+", choices=TRAFFICS, default=list(TRAFFICS))
    parser.add_argument("--link", type=int, default=400, help="Mbit/s of the storage host, in sum (%(default)s)")
    for field in fields(Load):
        kind = type(field.default)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    parser.add_argument("--output", type=Path, default=Path("bench-out"))
    return parser.parse_args()


def _reason() -> tuple[str | None, Spark | None]:
    try:
        spark = find_spark()
    except MissingToolError as error:
        return str(error), None
    if s3a_jars() is None:
        get = "mvn dependency:get -Dtransitive=false -Dartifact=NAME:VERSION"
        return f"no S3A: {get} for {', '.join(S3A)}; versions as Spark's Hadoop wants them", None
    return missing(), spark


def main() -> int:
    """Measure, print the table and write every run."""
    options = _parse()
    reason, spark = _reason()
    if reason or spark is None:
        print(f"spark: left out: {reason}")
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    load = replace(Load(), **{field.name: getattr(options, field.name) for field in fields(Load)})
    measured: list[Measured] = []
    with ended_by_signal(), test_bed(["probe"], 32 << 20) as bed:
        bed.run("storage", "texts", str(load.input_bytes), *load.keys)
        set_rate(bed.hosts, options.link * 1_000_000)
        sparks = Sparks(bed, spark, s3a_jars() or "", load, options.output / "spark-notes")
        for found in all_runs(sparks, options):
            measured += found
            told = [{**vars(one), "run": one.run.to_dict()} for one in measured]
            (options.output / "spark.json").write_text(json.dumps(told))
            (options.output / "spark.md").write_text(table(measured) + "\n")
    print(table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
