"""Hosts with a BB node and a Dask worker on each, ranks on another: what is slow, far or cut off, and its cost.

Two hosts, one of which is cut off for a while, or their scheduler's, are always tried; `make hosts-suite` tries all
with sixteen and 64 ranks, and says how long each took.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import bbflow_adios2
import numpy as np
import psutil
import pytest
import yaml

from bbflow.events import read_events
from bbflow.run.course import INCOMPLETE
from bbflow.transit.output.decoding import open_results
from testsupport.namespaces import joined_hosts, missing
from testsupport.nodes import count_nodes
from testsupport.ranks import field, shape_of
from testsupport.waiting import until

pytestmark = [pytest.mark.xdist_group("network namespaces"), pytest.mark.timeout(900)]

STEPS = 48
SMALL = 2
"""Hosts of the one test that is always run."""
HOSTS = int(os.environ.get("BBFLOW_HOSTS", "0"))
"""Of the others."""
RANKS_PER_HOST = 4
suite = pytest.mark.skipif(not HOSTS, reason="takes minutes: make hosts-suite")
PATIENCE_S = 600.0
CUT_S = 4.0
LEAST_TCP_S = 11
"""The shortest silence by which Dask can take a connection for broken."""
SLOW = "rate 2mbit burst 32kb latency 200ms"
FAR = ("0.005", "0.001", "0.005")
"""Delay and jitter (seconds), and the share of frames that is lost."""
STOPPED_S = 25.0
LOST = re.compile(r"tas\[(\d+):(\d+), .*\] lacks the steps from (\d+) (?:on|to (\d+)): BB node bbn\d+ was lost")
EXACT = ("min", "max", "count")


def plain(hosts, names, servers):
    """Harm nothing."""


def slow(hosts, names, servers):
    """Give one host's link a thousandth of what the others have."""
    hosts.run(names[1], f"tc qdisc add dev eth0 root tbf {SLOW}")
    hosts.run("bridge", f"tc qdisc add dev {names[1]} root tbf {SLOW}")


def far(hosts, names, servers):
    """Delay and lose packets on all links."""
    ends = [f"{name}={hosts.name(name)}" for name in ("compute", *names)]
    program = Path(__file__).with_name("far_links.py")
    command = hosts.inside("bridge", sys.executable, str(program), *FAR, *ends)
    links = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert links.stdout.readline()
    return links


def cut(hosts, names, servers):
    """Take one host's cable out for a while."""
    take_out(hosts, names[-1], CUT_S)


def behead(hosts, names, servers):
    """Take out that of the scheduler's host, for so long that all take it for gone."""
    take_out(hosts, "head", 2 * LEAST_TCP_S)


def take_out(hosts, name, duration_s):
    hosts.run("bridge", f"ip link set {name} down")
    time.sleep(duration_s)
    hosts.run("bridge", f"ip link set {name} up")


def stop(hosts, names, servers):
    """Stop what runs on one host for longer than a host may be silent; the host isn't."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in servers[names[-1]]:
            for each in (*psutil.Process(process.pid).children(recursive=True), process):
                each.send_signal(number)
        if number == signal.SIGSTOP:
            time.sleep(STOPPED_S)


def vanish(hosts, names, servers):
    """Take one host's cable out, and end what runs there: it never comes back."""
    hosts.run("bridge", f"ip link set {names[-1]} down")
    for process in servers[names[-1]]:
        process.kill()


@contextmanager
def many_hosts(count):
    """Yield hosts, the names of those with nodes, and all addresses."""
    if reason := missing():
        pytest.skip(reason)
    names = [f"bbn{number}" for number in range(count)]
    addresses = {name: f"10.77.0.{number}" for number, name in enumerate(["compute", "head", *names], 1)}
    with joined_hosts(addresses, own_memory=True) as hosts:
        yield hosts, names, addresses


def serve(stack, hosts, names, addresses, folder):
    """Start a node and a worker on each host; give contact and scheduler file, and the processes by their host."""
    contact, scheduler = folder / "contact.json", folder / "scheduler.json"
    dask, servers = ["--contact", contact, "--scheduler-file", scheduler], {}
    log = stack.enter_context((folder / "log").open("ab"))

    def start(host, *words):
        command = hosts.inside(host, sys.executable, "-m", "bbflow", *map(str, words))
        process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
        stack.callback(process.kill)
        servers.setdefault(host, []).append(process)

    start("head", "dask", "scheduler", *dask, "--listen", addresses["head"])
    for name in names:
        words = ["--name", name, "--capacity", "1MiB", "--contact", contact]
        start(name, "node", *words, "--listen", addresses[name])
    until(lambda: scheduler.exists() and count_nodes(contact) == len(names), "nodes and scheduler don't start")
    for name in names:
        words = ["--threads", 1, "--listen", addresses[name], "--", "--local-directory", folder / name]
        start(name, "dask", "worker", *dask, *words)
    return contact, scheduler, servers


def job(folder, count, ranks, harm):
    """Run ranks and their analysis, and harm them once something is folded; give exit code and seconds."""
    config, output = folder / "analysis.yml", folder / "out"
    content = {
        "stream": "model", "output": str(output), "operators": {"tas": ["mean", "min", "max", "count"]},
        "windows": ["day", "run"], "safe_every_s": 1.0, "nodes": {"back_s": 20}, "workers": {"batch_steps": 4},
    }  # fmt: skip
    config.write_text(yaml.safe_dump(content))
    with ExitStack() as stack:
        hosts, names, addresses = stack.enter_context(many_hosts(count))
        contact, scheduler, servers = serve(stack, hosts, names, addresses, folder)
        words = ["bbflow", "run", config, "--contact", contact, "--scheduler", scheduler, "--no-report", "--"]
        words += [sys.executable, "-m", "testsupport.ranks", "model", ranks, STEPS, 0.2 if count == SMALL else 0.5]
        words += [f"RanksPerNode={ranks // count}", "NodeLossTimeoutSecs=15"]
        command = hosts.inside("compute", sys.executable, "-m", *map(str, words))
        environment = os.environ | bbflow_adios2.environment(contact)
        began_s = time.monotonic()
        with (folder / "said").open("wb") as said:
            process = stack.enter_context(subprocess.Popen(command, stdout=said, stderr=said, env=environment))
        stack.callback(process.kill)
        harm_after = lambda: any(event["event"] == "safe" for event in read_events(output))  # noqa: E731
        until(lambda: process.poll() is not None or harm_after(), "nothing is folded")
        if (beside := harm(hosts, names, servers)) is not None:
            stack.enter_context(beside)
            stack.callback(beside.kill)
        code = process.wait(PATIENCE_S)
        return code, time.monotonic() - began_s, (folder / "said").read_text() + (folder / "log").read_text()


def expected(ranks, first, last):
    steps = np.array([field(step, ranks) for step in range(first, last)])
    count = np.full(shape_of(ranks), last - first)
    return {"mean": steps.mean(axis=0, dtype="f8"), "min": steps.min(axis=0), "max": steps.max(axis=0), "count": count}


@pytest.mark.parametrize(
    ("count", "harm"),
    [
        (SMALL, cut),
        (SMALL, behead),
        *(pytest.param(HOSTS, harm, marks=suite) for harm in (plain, slow, far, cut, stop)),
    ],
)
def test_results_are_right_whatever_the_network_does(tmp_path, monkeypatch, count, harm):
    if harm is behead:
        monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP", f"{LEAST_TCP_S}s")
    ranks = RANKS_PER_HOST * count
    code, took_s, said = job(tmp_path, count, ranks, harm)
    assert code == 0, said
    assert harm is not behead or said.count("this worker is started again") >= count
    with open_results(tmp_path / "out" / "results.zarr") as results:
        for window, at, first, last in (("run", 0, 0, STEPS), ("day", 0, 0, 24), ("day", 1, 24, STEPS)):
            for name, values in expected(ranks, first, last).items():
                found = results[f"tas_{window}_{name}"].values[at]
                np.testing.assert_allclose(found, values, rtol=0 if name in EXACT else 1e-6)
    print(f"{count} hosts, {ranks} ranks, {harm.__name__}: {took_s:.0f} s")


@suite
def test_a_host_that_vanishes_costs_the_points_of_its_ranks_steps_and_others_nothing(tmp_path):
    ranks = RANKS_PER_HOST * HOSTS
    code, took_s, said = job(tmp_path, HOSTS, ranks, vanish)
    print(said)
    assert code == INCOMPLETE
    assert "never opened" not in said
    with open_results(tmp_path / "out" / "results.zarr") as results:
        lost = [LOST.fullmatch(text).groups() for text in results.attrs["bbflow_lost"]]
        counts = np.full(shape_of(ranks), STEPS)
        for begin, end, first, last in lost:
            counts[int(begin) : int(end)] -= (int(last) + 1 if last else STEPS) - int(first)
        np.testing.assert_array_equal(results.tas_run_count.values[0], counts)
        others = counts == STEPS
        assert others.sum() >= counts.size - counts.size // HOSTS
        for name, values in expected(ranks, 0, STEPS).items():
            found = results[f"tas_run_{name}"].values[0]
            np.testing.assert_allclose(found[others], values[others], rtol=0 if name in EXACT else 1e-6)
    print(f"{HOSTS} hosts, {ranks} ranks, vanish: {took_s:.0f} s")
