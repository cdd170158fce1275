"""A part of the ranks of an MPI program opens IOs, over several hosts that see nothing of each other's memory."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import bbflow_adios2
import numpy as np
import pytest

from testsupport.hosts import hosts_with, launcher
from testsupport.waiting import PATIENCE_S, until

ADDRESSES = {"h0": "10.77.0.1", "h1": "10.77.0.2", "h2": "10.77.0.3"}
STEPS, COLUMNS = 3, 5
SHOW = """
import json, sys
import xarray as xr
shown = {}
for stream in sys.argv[2:]:
    with xr.open_dataset(sys.argv[1], engine="bbflow", stream=stream) as dataset:
        shown[stream] = [dataset.attrs["bbflow_status"], dataset.field.values.tolist()]
print(json.dumps(shown))
"""

hosts = hosts_with(ADDRESSES)


def rows_of(ranks, files):
    """Return what `tasks` writes over a communicator of this many ranks."""
    steps, rows, columns = np.ogrid[: files * STEPS, :ranks, :COLUMNS]
    return 1000.0 * steps + 10.0 * rows + columns


class Job:
    """Runs `tasks` over the hosts, where BB nodes are."""

    def __init__(self, hosts, built, mpiexec, contact):
        self._hosts, self._built, self._mpiexec, self._contact = hosts, built, mpiexec, contact

    def run(self, *programs, select=True, **parameters):
        """Run programs under one mpiexec, whose ranks go round the hosts; return exit code and what they said.

        A program is how many ranks it has, and its words.
        """
        environment, named = launcher(self._hosts, ADDRESSES, self._contact.parent)
        rules = [{"io": "model-a", "Stream": "a"} | parameters, {"io": "model-*", "Stream": "b"}] if select else []
        environment |= bbflow_adios2.environment(self._contact, rules)
        words = [self._mpiexec, "-hosts", ",".join(ADDRESSES), "-ppn", 1]
        for number, (ranks, *rest) in enumerate(programs):
            words += [":"] * (number > 0) + ["-n", ranks, self._built / "program" / "tasks", *rest]
        done = subprocess.run(
            self._hosts.inside("h0", *map(str, [*named, *words])),
            env=os.environ | environment,
            cwd=self._contact.parent,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout

    def landed(self, *streams):
        """Return each stream's status and field."""
        words = self._hosts.inside("h0", sys.executable, "-c", SHOW, str(self._contact), *streams)
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return [(status, np.array(values)) for status, values in json.loads(done.stdout).values()]

    def check(self, *written):
        """Compare the streams `a`, `b` with what as many ranks have written in as many files."""
        for (status, field), (ranks, files) in zip(self.landed(*"ab"[: len(written)]), written, strict=True):
            assert status == "closed"
            np.testing.assert_array_equal(field, rows_of(ranks, files))


@contextmanager
def nodes_on(hosts, places, folder):
    """Start a BB node on each of these hosts; gives the contact file."""
    contact = folder / "contact.json"
    with ExitStack() as stack:
        for number, host in enumerate(places):
            words = [sys.executable, "-m", "bbflow", "node", "--capacity", "4MiB", "--contact", str(contact)]
            words += ["--name", f"bb{number}", "--listen", ADDRESSES[host]]
            process = stack.enter_context(subprocess.Popen(hosts.inside(host, *words)))
            stack.callback(process.kill)
        until(lambda: contact.exists() and len(json.loads(contact.read_text())["nodes"]) == len(places))
        yield contact


@pytest.fixture(params=["h0 h1 h2", "h0 h0 h2 h2", "h1", "h0 h1"])
def job(request, hosts, built, mpiexec, tmp_path):
    """Hosts with BB nodes: on all, several on some, one on one, on some."""
    with nodes_on(hosts, request.param.split(), tmp_path) as contact:
        yield Job(hosts, built, mpiexec, contact)


@pytest.mark.parametrize("where", ["adios", "open"])
def test_parts_of_the_ranks_write_where_ranks_and_hosts_alternate(job, where):
    """No rank of h1 opens anything; those of the second part are numbered backwards."""
    assert job.run([8, "-", where, 2, "a.aB.Ba."]) == (0, "")
    job.check((3, 2), (2, 2))


def test_several_programs_under_one_mpiexec_write_streams_of_their_own(job):
    words = ["-", "open", 2, "aa.bb.a"]
    assert job.run([3, *words], [1, *words], [3, *words]) == (0, "")
    job.check((3, 2), (2, 2))


def test_an_xml_selects_the_engine_for_a_part(job, tmp_path):
    config = tmp_path / "tasks.xml"
    config.write_text(bbflow_adios2.engine_xml("model-a", stream="a", KeepOpen="yes"))
    assert job.run([6, config, "adios", 2, "a.aa.a"], select=False) == (0, "")
    job.check((4, 2))


def test_groups_of_ranks_lie_across_hosts(job):
    assert job.run([6, "-", "adios", 1, "aaaaaa"], Groups="2", Stream="a-{group}") == (0, "")
    for group, (status, field) in enumerate(job.landed("a-0", "a-1")):
        own, expected = slice(3 * group, 3 * group + 3), np.full((STEPS, 6, COLUMNS), np.nan)
        expected[:, own] = rows_of(6, 1)[:, own]
        assert status == "closed"
        np.testing.assert_array_equal(field, expected)
