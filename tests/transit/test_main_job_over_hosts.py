"""The main job with its parts on hosts of their own: the simulation on one, BB nodes and Dask workers on two others."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import mainjob
import pytest

from bbflow.errors import NodeError
from bbflow.landing.contact import read_contact
from benchmarks.namespaces import joined_hosts, missing

ADDRESSES = {"compute": "10.77.0.1", "bbn1": "10.77.0.2", "bbn2": "10.77.0.3"}
STEPS = 130
PATIENCE_S = 300.0


@pytest.fixture
def hosts():
    if reason := missing():
        pytest.skip(reason)
    with joined_hosts(ADDRESSES) as joined:
        yield joined


@contextmanager
def on(hosts, host, *words, log):
    """Run a program on a host until the end of the block."""
    with (
        log.open("ab") as file,
        subprocess.Popen(hosts.inside(host, *map(str, words)), stdout=file, stderr=file) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition):
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def count_nodes(contact):
    try:
        return len(read_contact(contact))
    except NodeError:
        return 0


@contextmanager
def cluster(hosts, folder):
    """Give the contact file of two BB nodes and the scheduler file of Dask with a worker beside each."""
    contact, scheduler = folder / "contact.json", folder / "scheduler.json"
    python, dask = (sys.executable, "-m"), ["--scheduler-file", scheduler, "--no-dashboard"]
    with ExitStack() as running:
        start = lambda host, *words: running.enter_context(on(hosts, host, *python, *words, log=folder / "log"))  # noqa: E731
        start("bbn1", "distributed.cli.dask_scheduler", *dask, "--host", ADDRESSES["bbn1"], "--port", 0)
        for host in ("bbn1", "bbn2"):
            words = ["--name", host, "--capacity", "4MiB", "--contact", contact, "--listen", ADDRESSES[host]]
            start(host, "bbflow", "node", *words)
        wait_until(lambda: scheduler.exists() and count_nodes(contact) == 2)
        for host in ("bbn1", "bbn2"):
            words = ["--nthreads", 1, "--memory-limit", 0, "--local-directory", folder / host]
            start(host, "distributed.cli.dask_worker", *dask, *words, "--host", ADDRESSES[host])
        nodes = read_contact(contact)
        yield contact, scheduler
    for node in nodes:
        shutil.rmtree(Path(node.directory).parent)


def test_results_of_a_job_over_several_hosts_equal_the_oracle(hosts, program, tmp_path):
    truth = mainjob.oracle(program, tmp_path, STEPS)
    config = mainjob.write_config(tmp_path, raw="none")
    with cluster(hosts, tmp_path) as (contact, scheduler):
        words = ["-m", "bbflow", "run", config, "--contact", contact, "--scheduler", scheduler, "--no-report", "--"]
        command = hosts.inside("compute", sys.executable, *map(str, words + mainjob.simulation(program, 2, STEPS)))
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ)
        assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "log").read_text()
    mainjob.assert_equals_oracle(tmp_path / "out", truth)
