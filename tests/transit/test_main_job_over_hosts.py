"""The main job with its parts on hosts of their own: the simulation on one, BB nodes and Dask workers on two others.

No host sees another's shared memory.
"""

import subprocess
import sys
from contextlib import ExitStack, contextmanager

import mainjob
import numpy as np
import pytest
import xarray as xr

from testsupport.hosts import hosts_with
from testsupport.nodes import count_nodes
from testsupport.waiting import until

ADDRESSES = {"compute": "10.77.0.1", "bbn1": "10.77.0.2", "bbn2": "10.77.0.3"}
STEPS = 130
OPERATORS = {
    "tas": ["mean", "std", "min", "max", {"percentiles": {"q": [50]}}, {"filter": {"above": 300.0, "name": "hot"}}],
    "ta": ["mean", "count"],
    "global_tas": {"of": "tas", "space": "fldmean", "operators": ["mean", "max"]},
    "warmest": {"of": "tas", "each": {"day": "max"}, "operators": ["mean"]},
}
PATIENCE_S = 300.0


pytestmark = pytest.mark.xdist_group("network namespaces")
hosts = hosts_with(ADDRESSES)


@contextmanager
def on(hosts, host, folder, *words):
    """Run a program on a host until the end of the block."""
    with (
        (folder / "log").open("ab") as file,
        subprocess.Popen(hosts.inside(host, *map(str, words)), stdout=file, stderr=file) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def cluster(hosts, folder):
    """Yield the contact file of two BB nodes and the scheduler file of Dask with a worker beside each."""
    contact, scheduler = folder / "contact.json", folder / "scheduler.json"
    dask = ["--contact", contact, "--scheduler-file", scheduler]
    with ExitStack() as running:
        start = lambda host, *words: running.enter_context(on(hosts, host, folder, sys.executable, "-m", *words))  # noqa: E731
        start("bbn1", "bbflow", "dask", "scheduler", *dask, "--listen", ADDRESSES["bbn1"])
        for host in ("bbn1", "bbn2"):
            words = ["--name", host, "--capacity", "4MiB", "--contact", contact, "--listen", ADDRESSES[host]]
            start(host, "bbflow", "node", *words)
        until(lambda: scheduler.exists() and count_nodes(contact) == 2)
        for host in ("bbn1", "bbn2"):
            words = ["--threads", 1, "--listen", ADDRESSES[host], "--", "--local-directory", folder / host]
            start(host, "bbflow", "dask", "worker", *dask, *words)
        yield contact, scheduler


def test_results_of_a_job_over_several_hosts_equal_the_oracle(hosts, program, tmp_path):
    truth = mainjob.oracle(program, tmp_path, STEPS)
    config = mainjob.write_config(tmp_path, operators=OPERATORS, output="out")
    with cluster(hosts, tmp_path) as (contact, scheduler):
        words = ["bbflow", "run", config, "--contact", contact, "--scheduler", scheduler, "--no-report", "--"]
        words += mainjob.simulation(program, 2, STEPS)
        command = hosts.inside("compute", sys.executable, "-m", *map(str, words))
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "log").read_text()
        states = list(hosts.memory.glob("bbn*/**/state"))
        assert [list(state.iterdir()) for state in states] == [[], []]
    results = mainjob.assert_equals_oracle(tmp_path / "out", truth)
    global_tas = truth.tas.weighted(np.cos(np.deg2rad(results.lat))).mean(["lat", "lon"])
    for name, expected in (("mean", global_tas.mean()), ("max", global_tas.max())):
        np.testing.assert_allclose(results[f"global_tas_run_{name}"].values[0], expected, rtol=1e-6)
    warmest = truth.tas.resample(time="1D").max().mean("time")
    np.testing.assert_allclose(results["warmest_run_mean"].values[0], warmest, rtol=1e-6)
    hot = xr.open_zarr(tmp_path / "out" / "results.zarr", group="tas_hot")
    assert hot.sizes["point"] == (truth.tas > 300).sum() > 0
    assert (tmp_path / "out" / "state.bbflow").exists()
    mainjob.assert_raw_equals_oracle(tmp_path / "out", truth)
