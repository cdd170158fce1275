"""An ensemble whose members run on other hosts than the BB node, and are folded by workers of Dask."""

import json
import subprocess
import sys

import numpy as np
import pytest
from test_ensembles_from_python import catalog_in, model_in

import bbflow
from testsupport.hosts import hosts_with

ADDRESSES = {"bb": "10.77.8.1", "one": "10.77.8.2", "two": "10.77.8.3"}
hosts = hosts_with(ADDRESSES)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_members_of_other_hosts_are_folded_by_a_scheduler_s_workers(tmp_path, hosts):
    config = catalog_in(tmp_path, members=3)

    def on(host, *words):
        own = [sys.executable, "-m", "bbflow", *words]
        return subprocess.Popen(
            hosts.inside(host, *own), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(host, *words):
        process = on(host, *words)
        said = process.communicate(timeout=120)[0]
        assert process.returncode == 0, said

    run("bb", "up", "--contact", "contact.json", "--listen", ADDRESSES["bb"], "--scheduler-file", "scheduler.json")
    try:
        run("bb", "ensemble", "up", config.name, "--contact", "contact.json", "--scheduler", "scheduler.json")
        program = ["--", sys.executable, "lorenz96.py"]
        where = {"1": "one", "2": "two", "3": "one", "truth": "two"}
        members = [on(host, "run", config.name, "--member", name, *program, name) for name, host in where.items()]
        for member in members:
            assert member.communicate(timeout=120)[0] == b""
            assert member.returncode == 0
        run("bb", "ensemble", "wait", config.name)
    finally:
        run("bb", "down", "--contact", "contact.json")
    ran_on = {name: json.loads((tmp_path / f"lorenz96-ensemble/roster/{name}.1").read_text())["host"] for name in where}
    assert ran_on == where
    model = model_in(tmp_path)
    states = [model.begin(name) for name in ("1", "2", "3")]
    with bbflow.open_results(tmp_path / "lorenz96-ensemble" / "ensemble.zarr") as found:
        assert found.attrs["bbflow_status"] == "complete"
        for row in found.x_step_mean.values:
            np.testing.assert_allclose(row, np.mean(states, axis=0), rtol=1e-12)
            states = [model.step(x) for x in states]
