"""Run Spark so that its inputs come wave by wave, and its shuffles stay on the burst buffer.

What stands after -- is run with Spark's settings: spark-submit, spark-sql, pyspark, spark-shell get them as --conf, a
Python program by PYSPARK_SUBMIT_ARGS. The program stays as it is, and names its inputs as ever.

'serve' runs the prefetcher alone, for programs that are started elsewhere, and prints the settings that they need;
'report' writes a page about a run from its notes.

Example:
  bbflow spark --to /bb/job --capacity 64GiB -- spark-submit count.py /pfs/texts/part-*
  bbflow spark --to /bb/job --capacity 64GiB --policy auto --phases /pfs/phases -- spark-submit sort.py s3a://data/in
  bbflow spark serve --to /bb/job --capacity 64GiB --listen 0.0.0.0
  bbflow spark report /bb/job/notes --output report.html
"""

import argparse
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from bbflow_spark.classes import find_spark
from bbflow_spark.session import CONTACT, SPARK_EVENTS, Wanted, prefetching
from bbflow_spark.settings import SUBMITTING, environment_with, words_with
from bbflow_spark.spilling import default_place

from bbflow.cli.transfer_options import TRANSFER_OPTIONS, add_transfer_options, transfers_of
from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.events import EventLog
from bbflow.host.atomic import write_whole
from bbflow.net.listen import LOOPBACK, is_loopback
from bbflow.staging.stager import Stager
from bbflow.units import format_bytes, parse_bytes, parse_seconds

DIRECTORY_VARIABLE = "BBFLOW_BB"
OF_PROGRAM = ("to", "capacity", "slots", "spill", "no-shuffle", "scheme", "patience", "listen", "contact")
"""Options about a program of Spark, beside those of transfers."""
LEAST_BYTES = 1 << 20
"""With less that is free, a burst buffer counts as full."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "bbflow spark [serve | report NOTES] [options] [-- command of Spark]"
    parser.add_argument("action", nargs="?", choices=("run", "serve", "report"), default="run")
    parser.add_argument("of", nargs="?", type=Path, metavar="NOTES", help="with 'report': what a run noted")
    parser.add_argument("--to", type=Path, metavar="DIR", help=f"on the burst buffer (default ${DIRECTORY_VARIABLE})")
    parser.add_argument("--capacity", metavar="SIZE", help="room there, such as 64GiB (default: half of what is free)")
    parser.add_argument("--slots", type=int, help="tasks that run at once (default: the executors' cores)")
    add_transfer_options(parser)
    parser.add_argument("--notes", type=Path, metavar="DIR", help="what happened, for the report (default DIR/notes)")
    parser.add_argument("--spill", type=Path, metavar="DIR", help="for shuffles when DIR is full (default below /tmp)")
    parser.add_argument("--no-shuffle", action="store_true", help="leave shuffles and spills where Spark puts them")
    parser.add_argument("--scheme", action="append", default=[], help="of more URLs to prefetch, beside file and s3a")
    parser.add_argument(
        "--patience", type=parse_seconds, default=10.0, metavar="SECONDS", help="before a stuck block is read"
    )
    parser.add_argument("--listen", default=LOOPBACK, metavar="ADDRESS", help="for executors of other hosts")
    parser.add_argument("--contact", type=Path, metavar="FILE", help="which Spark's processes read (default in DIR)")
    parser.add_argument("--output", type=Path, default=Path("report.html"), help="of 'report' (default report.html)")
    parser.set_defaults(simulation=[])


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.action == "report":
        return _report(options)
    refuse(options, "without 'report'", "output")
    if options.of is not None:
        raise ConfigError(f"{str(options.of)!r} has no effect without 'report'; Spark's command stands after --")
    if options.no_shuffle:
        refuse(options, "with --no-shuffle", "spill")
    words = options.simulation
    if options.action == "run" and not words:
        raise ConfigError("no command is given: bbflow spark --to DIR -- spark-submit APP INPUT…")
    wanted = _wanted(options)
    transfers = transfers_of(options)

    def stager(directory: Path, slots: int, events: EventLog) -> Stager:
        return Stager(directory, wanted.capacity_bytes, slots, **transfers, oversize="direct", events=events)

    spark = find_spark(words[0] if words else None)
    with prefetching(wanted, spark, stager) as told:
        if options.action == "serve":
            return _serve(told)
        if Path(words[0]).name in SUBMITTING:
            # pip's scripts look for Spark by the first python3 on PATH, which may be another one.
            return _run(words_with(told, words), {"SPARK_HOME": str(spark.home), **os.environ})
        return _run(words, environment_with(told, os.environ))


def _wanted(options: argparse.Namespace) -> Wanted:
    to = options.to or (Path(os.environ[DIRECTORY_VARIABLE]) if os.environ.get(DIRECTORY_VARIABLE) else None)
    if to is None:
        raise ConfigError(f"no directory on the burst buffer: give --to DIR, or set {DIRECTORY_VARIABLE}")
    directory = to.absolute()
    return Wanted(
        directory=directory,
        notes=(options.notes or directory / "notes").absolute(),
        capacity_bytes=parse_bytes(options.capacity) if options.capacity else _half_of_the_rest(directory),
        slots=options.slots,
        lookahead=options.lookahead,
        listen=options.listen,
        contact=(options.contact or directory / CONTACT).absolute(),
        schemes=("s3a", *options.scheme),
        patience_s=options.patience,
        disk=None if options.no_shuffle else _disk(options),
    )


def _disk(options: argparse.Namespace) -> Path:
    if options.spill is None and not is_loopback(options.listen):
        raise ConfigError(
            "executors of other hosts read also those shuffles that have no room on the burst buffer: "
            "give --spill a directory that all hosts see under one path, or --no-shuffle"
        )
    return (options.spill or default_place()).absolute()


def _half_of_the_rest(directory: Path) -> int:
    free = shutil.disk_usage(_there(directory)).free
    if free < LEAST_BYTES:
        raise ConfigError(
            f"{directory} has {format_bytes(free)} left, of which half would be used: free some of it, "
            "give --to a directory with more room, or say with --capacity how much there is to be"
        )
    return free // 2


def _there(path: Path) -> Path:
    return path if path.exists() else _there(path.parent)


def _run(words: list[str], environment: dict[str, str]) -> int:
    try:
        with subprocess.Popen(words, env=environment) as process:
            signal.signal(signal.SIGTERM, lambda *_: process.terminate())
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    continue  # it got the signal too, and ends by itself
    except OSError as error:
        raise ConfigError(f"can't run {words[0]}: {error.strerror}") from None


def _serve(told: Mapping[str, str]) -> int:
    for name, value in told.items():
        print(f"{name} {value}", flush=True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    return 0


def _report(options: argparse.Namespace) -> int:
    refuse(options, "with 'report'", *OF_PROGRAM, *TRANSFER_OPTIONS, *(["notes"] if options.of else []))
    if options.simulation:
        raise ConfigError("'report' runs no program, so nothing may stand after --")
    from bbflow_spark.report import make_report  # it loads what draws

    notes: Path | None = options.of or options.notes
    if notes is None:
        raise ConfigError("no notes are given: bbflow spark report DIR/notes")
    write_whole(options.output, make_report(notes, notes / SPARK_EVENTS))
    print(options.output)
    return 0
