"""What is killed during a run costs time, and never changes the result."""

import os
import signal
import subprocess

import pytest
from running import RUN_S, begin

from testsupport.waiting import until

SLOW = """
import sys, time
from pyspark import SparkContext
def slowly(lines):
    time.sleep(1.5)
    return [sum(int(line) for line in lines)]
sc = SparkContext()
lines = sc.textFile(sys.argv[1])
print("SUM", lines.mapPartitions(slowly).sum(), flush=True)
"""
FILES = 12


@pytest.fixture
def inputs(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:02}").write_text("".join(f"{n}\n" for n in range(number, 20_000, FILES)))
    return folder


def descendants(pid, word):
    """Return the processes below one whose command has a word in it."""
    said = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in said.splitlines()]
    below, found = {str(pid)}, []
    for _ in range(6):
        below |= {row[0] for row in rows if row[1] in below}
    for row in rows:
        if row[0] in below and len(row) > 2 and word in row[2]:
            found.append(int(row[0]))
    return found


def has_read(folder, times):
    notes = folder / "bb/notes/events.jsonl"
    return notes.exists() and notes.read_text().count('"event": "read"') >= times


def ended(process, folder):
    process.wait(RUN_S)
    return (folder / "log").read_text()


def test_an_executor_is_killed(tmp_path, inputs):
    # Two executors of one core: processes of their own, as on two hosts.
    process = begin(tmp_path, SLOW, inputs, master="local-cluster[2,1,1024]")
    until(lambda: has_read(tmp_path, 3), "it can be harmed", poll_s=0.2, of=process)
    os.kill(descendants(process.pid, "CoarseGrainedExecutorBackend")[-1], signal.SIGKILL)
    assert f"SUM {sum(range(20_000))}" in ended(process, tmp_path)


def test_the_prefetcher_is_killed(tmp_path, inputs):
    process = begin(tmp_path, SLOW, inputs)
    until(lambda: has_read(tmp_path, 3), "it can be harmed", poll_s=0.2, of=process)
    os.kill(process.pid, signal.SIGKILL)  # the wrapper is the prefetcher; Spark continues
    process.wait(RUN_S)
    wait_for_log(tmp_path, f"SUM {sum(range(20_000))}")


def wait_for_log(folder, text):
    log = folder / "log"
    until(lambda: text in log.read_text(), lambda: log.read_text()[-3000:], poll_s=0.5)


def test_the_driver_is_killed_and_its_blocks_may_go(tmp_path, inputs):
    process = begin(tmp_path, SLOW, inputs)
    until(lambda: has_read(tmp_path, 3), "it can be harmed", poll_s=0.2, of=process)
    for pid in descendants(process.pid, "org.apache.spark.deploy.SparkSubmit"):
        os.kill(pid, signal.SIGKILL)
    assert "SUM" not in ended(process, tmp_path)
    assert process.returncode != 0
    assert not (tmp_path / "bb/contact.json").exists()


def test_a_prefetcher_that_hangs_holds_nobody_for_long(tmp_path, inputs):
    process = begin(tmp_path, SLOW, inputs)
    until(lambda: has_read(tmp_path, 3), "it can be harmed", poll_s=0.2, of=process)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        wait_for_log(tmp_path, f"SUM {sum(range(20_000))}")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    process.wait(RUN_S)
