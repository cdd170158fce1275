"""A standalone cluster over several hosts, which only the network and a shared directory join."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest
from bbflow_spark.classes import find_spark
from running import RUN_S, Outcome, submit_words

from testsupport.namespaces import joined_hosts, missing

ADDRESSES = {"head": "10.77.0.1", "one": "10.77.0.2", "two": "10.77.0.3", "blind": "10.77.0.4"}
PORT = 7077
FILES = 18

PROGRAM = """
import json, socket, sys, time
from pyspark import SparkContext
def read(index, lines):
    found = sum(int(line) for line in lines)
    time.sleep(1)
    return [(index, socket.gethostname(), found)]
sc = SparkContext()
lines = sc.textFile(sys.argv[1], 1)
print("TASKS", json.dumps(lines.mapPartitionsWithIndex(read).collect()))
counts = lines.map(lambda line: (int(line) % 10, 1)).reduceByKey(lambda one, other: one + other, 4)
print("COUNTS", json.dumps(sorted(counts.collect())))
"""


@contextmanager
def cluster(folder):
    """Start a master and three workers; the last sees an empty directory where the others have the burst buffer."""
    spark_class, deploy = str(find_spark().home / "bin" / "spark-class"), "org.apache.spark.deploy"
    unseen = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder / "bb")]
    with (folder / "cluster.log").open("w") as log, ExitStack() as ended, joined_hosts(ADDRESSES) as hosts:

        def begin(host, *words):
            env = environment(folder, host)
            ended.enter_context(subprocess.Popen(hosts.inside(host, *words), env=env, stdout=log, stderr=log))

        master = ["--host", ADDRESSES["head"], "--port", str(PORT), "--webui-port", "0"]
        begin("head", spark_class, f"{deploy}.master.Master", *master)
        for host in ("one", "two", "blind"):
            work = ["--host", ADDRESSES[host], "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            words = [spark_class, f"{deploy}.worker.Worker", *work, "--work-dir", str(folder / host), url()]
            begin(host, *(unseen if host == "blind" else []), *words)
        yield hosts


def url():
    return f"spark://{ADDRESSES['head']}:{PORT}"


def environment(folder, host):
    own = {"SPARK_LOCAL_IP": ADDRESSES[host], "SPARK_LOCAL_DIRS": str(folder / "bb/shuffle")}
    return os.environ | own | {"SPARK_HOME": str(find_spark().home), "PYSPARK_PYTHON": sys.executable}


def told(said, word):
    return json.loads(said.partition(f"{word} ")[2].splitlines()[0])


def test_executors_of_several_hosts_are_served_and_one_without_the_burst_buffer_reads_the_source(tmp_path):
    if reason := missing():
        pytest.skip(reason)
    (tmp_path / "in").mkdir()
    (tmp_path / "bb").mkdir()
    for number in range(FILES):
        (tmp_path / "in" / f"{number:02}").write_text("".join(f"{n}\n" for n in range(number, 9000, FILES)))
    (tmp_path / "program.py").write_text(PROGRAM)
    conf = {"spark.cores.max": 3, "spark.scheduler.minRegisteredResourcesRatio": 1, "spark.executor.memory": "512m"}
    conf |= {"spark.scheduler.maxRegisteredResourcesWaitingTime": "120s", "spark.driver.host": ADDRESSES["head"]}
    options = ("--capacity", "64MiB", "--listen", ADDRESSES["head"])
    words = submit_words(tmp_path / "bb", *options, master=url(), conf=conf)
    with cluster(tmp_path) as hosts:
        command = hosts.inside("head", *words, str(tmp_path / "program.py"), str(tmp_path / "in"))
        env = environment(tmp_path, "head")
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    tasks = told(done.stdout, "TASKS")
    assert sum(found for _, _, found in tasks) == sum(range(9000))
    assert told(done.stdout, "COUNTS") == [[digit, 900] for digit in range(10)]
    assert {host for _, host, _ in tasks} == {"one", "two", "blind"}
    reads = [event for event in Outcome(0, "", tmp_path / "bb/notes").events("read") if event["stage"] == 0]
    assert all(event["staged"] for event in reads)
    assert {event["partition"] for event in reads} == {index for index, host, _ in tasks if host != "blind"}
