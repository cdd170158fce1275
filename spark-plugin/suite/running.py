"""Runs Spark programs through `bbflow spark`, and reads what was noted."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bbflow_spark.classes import find_spark
from bbflow_spark.eventlog import find_logs, read_log

RUN_S = 600.0


@dataclass
class Outcome:
    """What came of a program."""

    code: int
    said: str
    notes: Path

    @property
    def reads(self):
        """Where tasks read their own blocks: counts of staged (True) and not."""
        return Counter(event["staged"] for event in self.events("read"))

    @property
    def read_bytes(self):
        """What Spark says that its tasks have read."""
        ran = read_log(find_logs(self.notes / "spark")[-1])
        return sum(task.input_bytes for stage in ran.stages for task in stage.tasks)

    def events(self, kind):
        lines = (json.loads(line) for line in (self.notes / "events.jsonl").read_text().splitlines())
        return [event for event in lines if event["event"] == kind]


def submit_words(bb, *options, master="local[2]", conf=()):
    """Return the words that start spark-submit through bbflow, but for the program."""
    submit = find_spark().home / "bin" / "spark-submit"
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", **dict(conf)}
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    before = [sys.executable, "-m", "bbflow", "spark", "--to", str(bb), "--spill", f"{bb}-disk", *options, "--"]
    return [*before, str(submit), "--master", master, *confs]


def environment():
    return os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}


def submit(folder, program, *arguments, options=("--capacity", "64MiB"), **others):
    """Run a program's text to its end."""
    path = folder / "program.py"
    path.write_text(program)
    words = [*submit_words(folder / "bb", *options, **others), str(path), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, env=environment())
    return Outcome(done.returncode, done.stdout + done.stderr, folder / "bb" / "notes")


def begin(folder, program, *arguments, options=("--capacity", "64MiB"), **others):
    """Start a program's text; its output goes to a file."""
    path = folder / "program.py"
    path.write_text(program)
    words = [*submit_words(folder / "bb", *options, **others), str(path), *map(str, arguments)]
    with (folder / "log").open("w") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, env=environment(), start_new_session=True)
