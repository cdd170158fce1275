"""Sort and Wordcount by real Spark on the bed's compute host: inputs read from the PFS, or prefetched to the BB."""

import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bbflow_spark.classes import Spark
from bbflow_spark.eventlog import covered_s, find_logs, read_log

from bbflow.host.belongings import make
from benchmarks.testbed.address import BUCKET, ENDPOINT, environment
from benchmarks.testbed.bed import ROOT, Bed

NAIVE, ON_DISK = "naive", "no-action, shuffle on disk"
WAYS = (NAIVE, "no-action", "full-delay", "partial-delay", "auto")
DISK = "/var/tmp"
"""Where Spark's own temporary files would be."""
RUN_S = 600.0
"""No run may take longer."""
FOLDER = "texts"


@dataclass(frozen=True)
class Load:
    """What all runs have in common."""

    slots: int = 4
    """Tasks at once."""
    waves: int = 5
    """As many as in the paper (section III.A.3)."""
    input_bytes: int = 16 << 20
    """Of each object, which one task reads."""
    fetchers: int = 2
    """Fewer than slots, as in the paper."""
    slowdown_limit: float = 0.1
    """Of the HPC application's phase, under PartialDelay and Auto."""

    @property
    def keys(self) -> list[str]:
        """The inputs, in order."""
        return [f"{FOLDER}/part-{number:05d}" for number in range(self.waves * self.slots)]

    @property
    def capacity_bytes(self) -> int:
        """Of the BB: 1.6 times the inputs, as in the paper (256 GB for 160 GB), for inputs and shuffles."""
        return int(1.6 * self.waves * self.slots * self.input_bytes)

    def policy(self, way: str) -> str:
        """Name the delay policy as the stager takes it."""
        return f"{way}:limit={self.slowdown_limit}" if way in ("partial-delay", "auto") else way


@dataclass(frozen=True)
class SparkRun:
    """One run; times on the monotonic clock (s)."""

    app: str
    """Sort or Wordcount."""
    way: str
    """How its inputs came."""
    begun_s: float
    """When its SparkContext was made."""
    ended_s: float
    """When it was stopped."""
    map_s: float
    """How long stages ran that read inputs."""
    passes: int
    """How many such stages."""
    shuffled_bytes: int
    """Written for shuffles."""

    @property
    def span(self) -> tuple[float, float]:
        """Begin and end."""
        return self.begun_s, self.ended_s

    def to_dict(self) -> dict[str, object]:
        """Write it down."""
        return asdict(self)


@dataclass(frozen=True)
class Sparks:
    """Starts Spark on the bed's compute host."""

    bed: Bed
    """The bed."""
    spark: Spark
    """The installation."""
    jars: str
    """Hadoop's S3A, as a class path."""
    load: Load
    """What is run."""
    notes: Path
    """Where each run's notes are kept, for `bbflow spark report`."""

    def run(self, app: str, way: str, folder: Path, board: Path) -> SparkRun:
        """Run once on an empty BB; the output stays in the folder."""
        make(folder, "**")
        events = folder / "bb" / "notes" / "spark"
        events.mkdir(parents=True)
        program = ROOT / "workflows" / "spark" / "apps" / f"{app}.py"
        words = [*self._submit(), str(program), f"s3a://{BUCKET}/{FOLDER}/", "--output", f"file:{folder}/output"]
        if way == NAIVE:
            logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
            words[1:1] = _confs({"spark.local.dir": str(folder / "bb")} | logged)
            self._call(words, folder, {})
        else:
            with TemporaryDirectory(prefix="bbflow-spark-", dir=DISK) as disk:
                local = {"SPARK_LOCAL_DIRS": disk} if way == ON_DISK else {}
                self._call([*self._prefetched(way, folder / "bb", Path(disk), board), *words], folder, local)
        return self._measured(app, way, events)

    def _submit(self) -> list[str]:
        largest = self.load.input_bytes + (self.load.input_bytes >> 3)
        told = {
            "spark.driver.extraClassPath": self.jars,
            "spark.ui.enabled": "false",
            "spark.driver.memory": "3g",
            "spark.eventLog.compress": "false",
            "spark.sql.shuffle.partitions": str(2 * self.load.slots),
            "spark.sql.files.maxPartitionBytes": str(largest),
            "spark.sql.files.openCostInBytes": "0",
            "spark.hadoop.fs.s3a.endpoint": ENDPOINT,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        }
        submit = str(self.spark.home / "bin" / "spark-submit")
        return [submit, *_confs(told), "--master", f"local[{self.load.slots}]"]

    def _prefetched(self, way: str, directory: Path, disk: Path, board: Path) -> list[str]:
        words = [sys.executable, "-m", "bbflow", "spark", "--to", str(directory), "--spill", str(disk / "spilled")]
        words += ["--capacity", str(self.load.capacity_bytes), "--fetchers", str(self.load.fetchers)]
        if way == ON_DISK:
            return [*words, "--no-shuffle", "--"]
        return [*words, "--policy", self.load.policy(way), "--phases", str(board), "--"]

    def _call(self, words: list[str], folder: Path, local: dict[str, str]) -> None:
        here = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost", "SPARK_HOME": str(self.spark.home)}
        # Java asks for the address of this host's name.
        named = ["unshare", "--uts", "sh", "-c", 'hostname localhost && exec "$@"', "sh"]
        command = self.bed.hosts.inside("compute", *named, *words)
        with (folder / "log").open("w+") as log:
            told = os.environ | environment() | here | local
            done = subprocess.run(command, cwd=ROOT, env=told, stdout=log, stderr=log, timeout=RUN_S)
            if done.returncode:
                log.seek(0)
                raise RuntimeError(f"Spark ended with {done.returncode}: {log.read()[-3000:]}")

    def _measured(self, app: str, way: str, events: Path) -> SparkRun:
        ran = read_log(find_logs(events)[-1])
        shift_s = time.monotonic() - time.time()
        # Listing the inputs is a job too where they are many: only what reads all of them counts.
        maps = [stage for stage in ran.stages if len(stage.tasks) == len(self.load.keys) and stage.is_map]
        assert ran.ended_s is not None
        return SparkRun(
            app,
            way,
            ran.started_s + shift_s,
            ran.ended_s + shift_s,
            covered_s((stage.started_s, stage.ended_s) for stage in maps),
            len(maps),
            sum(task.shuffle_written_bytes for stage in ran.stages for task in stage.tasks),
        )


def _confs(told: dict[str, str]) -> list[str]:
    return [word for name, value in told.items() for word in ("--conf", f"{name}={value}")]
