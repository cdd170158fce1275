"""A Dask scheduler of the user's own that dies or hangs in mid-run, and another that takes its place."""

import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager

import bbflow_adios2
import numpy as np
import pytest
from dask import config as dask_config
from distributed import Client

from bbflow import start_nodes
from bbflow.errors import NodeError
from bbflow.events import read_events
from bbflow.transit.clusters.dask_cluster import DaskCluster, connected_cluster
from bbflow.transit.output.claiming import locked_output
from bbflow.transit.output.decoding import open_results
from benchmarks.many_workers import scheduler_of
from testsupport.processes import finish_well, running
from testsupport.waiting import PATIENCE_S, until
from testsupport.weather import weather

STEPS, HELD = 40, 20
"""So many are written, and so many before the scheduler dies."""


@contextmanager
def dask():
    """Yield a scheduler's process, and a client of it with a worker."""
    with scheduler_of(1) as (scheduler, address), Client(address, timeout=5, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=PATIENCE_S)
        yield scheduler, client


@contextmanager
def writer(folder, contact):
    """Write the first steps, and the others once there is a file `go`."""
    (folder / "weather.xml").write_text(bbflow_adios2.engine_xml("weather"))
    hold = f"while step == {HELD - 1} and not Path({str(folder / 'go')!r}).exists(): time.sleep(0.01)"
    (folder / "writer.py").write_text(weather(STEPS, hold))
    words = [sys.executable, folder / "writer.py", folder / "weather.xml"]
    with running(words, env=os.environ | bbflow_adios2.environment(contact)) as process:
        yield process


@pytest.mark.parametrize("is_idle", [True, False])
def test_an_analysis_without_its_scheduler_ends_and_says_so_and_the_next_goes_on_with_another(tmp_path, is_idle):
    out = tmp_path / "out"
    config = {"stream": "weather", "output": str(out), "operators": {"tas": ["mean", "max", "count"]}}
    with start_nodes(1, "4MiB") as buffer, writer(tmp_path, buffer.contact) as process:
        folded = lambda: [event["last_step"] for event in read_events(out) if event["event"] == "fold"]  # noqa: E731
        with dask() as (scheduler, client), buffer.analyse(config, client=client) as analysis:
            until(lambda: folded()[-1:] == [HELD - 1] if is_idle else folded(), "nothing is folded")
            scheduler.kill()
            until(lambda: not is_idle or client.status == "closed", "the client doesn't notice")
            (tmp_path / "go").touch()
            with pytest.raises(NodeError, match=r"Dask's scheduler (or workers are|is) gone"):
                analysis.wait(PATIENCE_S)
            with locked_output(out):
                pass  # nobody holds it any more
        with dask() as (_, client), buffer.analyse(config, client=client) as analysis:
            outcome = analysis.wait(PATIENCE_S)
        finish_well(process)
    assert outcome.complete
    with open_results(out / "results.zarr") as results:
        for name, value in (("mean", (STEPS - 1) / 2), ("max", STEPS - 1), ("count", STEPS)):
            np.testing.assert_array_equal(results[f"tas_run_{name}"].values[0], np.full((4, 6), value))


def test_a_scheduler_that_hangs_ends_who_waits_for_it_and_says_so():
    with dask() as (scheduler, client), DaskCluster(client, look_s=0.1) as cluster:
        clients = lambda: client.run_on_scheduler(lambda dask_scheduler: sorted(dask_scheduler.clients))  # noqa: E731
        before = clients()
        scheduler.send_signal(signal.SIGSTOP)
        cluster.silent_s = 1
        try:
            task = cluster.submit(socket.gethostname, host=socket.gethostname(), done=lambda: None)
            with pytest.raises(NodeError, match=r"gone \(the scheduler gives no answer for 1 s"):
                task.result(PATIENCE_S)
            late = connected_cluster(client.scheduler.address, connect_s=0.1)
            with pytest.raises(NodeError, match=r"no Dask scheduler answers at tcp://.* \(it says nothing\)"), late:
                pass
        finally:
            scheduler.send_signal(signal.SIGCONT)
        until(lambda: all(thread.name != "connect-dask" for thread in threading.enumerate()))
        until(lambda: clients() == before, "who came too late stays")


def test_who_asks_a_scheduler_that_has_just_died_is_told_so():
    with dask() as (scheduler, client), DaskCluster(client, look_s=0) as cluster:
        assert cluster.threads
        scheduler.kill()
        scheduler.wait(PATIENCE_S)
        quick, told = dask_config.set({"distributed.comm.timeouts.connect": 0.2}), r"scheduler (or workers are|is) gone"
        with quick, pytest.raises(NodeError, match=told):
            cluster.threads  # noqa: B018 - it asks
