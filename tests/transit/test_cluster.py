"""Dask workers that come later than the analysis, or not at all."""

import gc
import logging
import os
import signal
import socket
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

from bbflow.configuring.settings import WorkersConfig
from bbflow.errors import NodeError
from bbflow.net.certificate import ensure_certificate
from bbflow.transit.calling.calls import SpanCall
from bbflow.transit.clusters.cluster import TaskBatch, TaskLostError, take
from bbflow.transit.clusters.dask_cluster import DaskCluster, connected_cluster, dask_here
from bbflow.transit.clusters.local_cluster import local_cluster
from bbflow.zarr_store.growing import GrowingZarr
from testsupport.waiting import until


@pytest.fixture
def empty():
    """A Dask scheduler without workers, and the analysis' side of it."""
    with (
        LocalCluster(n_workers=0, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as dask,
        connected_cluster(dask.scheduler_address, look_s=0.1) as cluster,
    ):
        yield dask, cluster


def submit(cluster):
    return cluster.submit(socket.gethostname, host=socket.gethostname(), done=lambda: None)


def test_a_worker_that_starts_after_the_analysis_is_waited_for(empty):
    dask, cluster = empty
    with ThreadPoolExecutor(1) as pool:
        submitted = pool.submit(submit, cluster)
        dask.scale(1)
        assert submitted.result(300).result(300) == socket.gethostname()


def test_a_worker_that_does_not_come_is_named(empty):
    empty[1].worker_timeout_s = 0.1
    with pytest.raises(NodeError, match=rf"no Dask worker runs on {socket.gethostname()}.* none came within"):
        submit(empty[1])


def test_a_worker_that_is_gone_for_good_while_tasks_wait_is_named(empty):
    dask, cluster = empty
    dask.scale(1)
    assert submit(cluster).result(60) == socket.gethostname()
    dask.scale(0)
    cluster.worker_timeout_s = 0.1
    with pytest.raises(NodeError, match="workers are gone"):
        cluster.submit(time.sleep, 300, host=socket.gethostname(), done=lambda: None).result(60)


def test_a_worker_that_is_gone_for_good_before_its_result_is_fetched_is_named(empty):
    """Dask begins the task once more, which waits for that worker; the fold waited for the task."""
    dask, cluster = empty
    dask.scale(1)
    task = submit(cluster)
    until(task.done)
    dask.scale(0)
    until(lambda: not cluster.client.nthreads())
    cluster.worker_timeout_s = 0.1
    with pytest.raises(TaskLostError, match="workers are gone"):
        task.results([task])


def loaded(path):
    call = SpanCall(SimpleNamespace(results=("tas_day_mean",), window="day"), 1, path)
    return call.dataset()["tas_day_mean"].values.tolist()


def test_what_a_users_function_is_called_with_is_read_by_its_own_task(tmp_path):
    """Tasks of Dask's own for it would go to all workers."""
    store = GrowingZarr(tmp_path / "results.zarr")
    store.create("tas_day_mean", ("time_day", "x"), (0, 3), "f8", {})
    store.write("tas_day_mean", 0, np.arange(6.0).reshape(2, 3))
    store.commit()
    with local_cluster(WorkersConfig(processes=1)) as cluster:
        task = cluster.submit(loaded, tmp_path / "results.zarr", host=socket.gethostname(), done=lambda: None)
        assert task.result(60) == [3.0, 4.0, 5.0]
        ran = cluster.client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    assert all(name.startswith("loaded") for name in ran), ran


def note(path):
    """Note that this task runs, in this process."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    return os.getpid()


def test_what_was_taken_is_not_run_again_when_its_worker_dies(empty, tmp_path):
    """What it read may have been written over: a publication that ran again wrote what had come later."""
    dask, cluster = empty
    dask.scale(1)
    path, host = tmp_path / "log", socket.gethostname()
    future = cluster.submit(note, path, host=host, done=lambda: None)
    [first] = take([future])
    os.kill(first, signal.SIGKILL)
    [second] = take([cluster.submit(note, tmp_path / "other", host=host, done=lambda: None)])
    assert second != first
    take([cluster.submit(note, tmp_path / "other", host=host, done=lambda: None)])
    assert path.read_text().split() == [str(first)]


def test_a_worker_that_is_long_in_coming_back_is_not_given_up():
    """Dask's own patience ends when another death falls into it."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "0 s"}),
        local_cluster(WorkersConfig(processes=1)) as cluster,
    ):
        host = socket.gethostname()
        [first] = take([cluster.submit(os.getpid, host=host, done=lambda: None)])
        os.kill(first, signal.SIGKILL)
        [second] = take([cluster.submit(os.getpid, host=host, done=lambda: None)])
    assert second != first


def test_a_scheduler_without_tls_is_refused_where_there_is_a_certificate(tmp_path):
    certificate = ensure_certificate(tmp_path / "contact.json")
    with (
        LocalCluster(n_workers=0, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as dask,
        pytest.raises(NodeError, match="encryption required"),
        connected_cluster(dask.scheduler_address, certificate),
    ):
        pass


@pytest.mark.parametrize(("threads", "folding"), [(1, 1), (2, 1), (3, 2)])
def test_of_several_threads_one_is_left_for_what_does_not_fold(threads, folding):
    with (
        LocalCluster(n_workers=2, threads_per_worker=threads, processes=False, dashboard_address="127.0.0.1:0") as dask,
        connected_cluster(dask.scheduler_address) as cluster,
    ):
        assert cluster.threads == 2 * folding


def test_a_cluster_of_a_run_has_the_threads_that_are_asked_for_and_one_more():
    with local_cluster(WorkersConfig(processes=1, threads=2)) as cluster:
        assert cluster.threads == 2
        assert set(cluster.client.nthreads().values()) == {3}


def test_nobody_is_warned_of_large_tasks(recwarn):
    with dask_here(WorkersConfig()) as cluster:
        assert cluster.submit(len, bytes(11 << 20), host=socket.gethostname(), done=lambda: None).result() == 11 << 20
    assert [str(item.message) for item in recwarn if "large graph" in str(item.message)] == []


def test_a_cluster_of_a_run_rests_while_nothing_is_to_be_done():
    with dask_here(WorkersConfig()) as cluster:
        (of_worker,) = cluster.client.run(periods_ms).values()
        periods = of_worker | cluster.client.run_on_scheduler(periods_ms)
    assert {name: period_ms for name, period_ms in periods.items() if period_ms < 200} == {}
    assert {"tick", "monitor"} < periods.keys()


def periods_ms(dask_worker=None, dask_scheduler=None):
    callbacks = (dask_worker or dask_scheduler).periodic_callbacks
    return {name: callback.callback_time for name, callback in callbacks.items()}


@pytest.mark.parametrize("processes", [0, 1])
def test_many_tasks_that_are_submitted_at_once_get_what_those_before_have_come_to(processes):
    host, done = socket.gethostname(), []
    with local_cluster(WorkersConfig(processes=processes)) as cluster:
        first = cluster.submit_all(divmod, [((number, 3), host) for number in range(20)], lambda: done.append(1))
        then = cluster.submit_all(max, [((other, each), host) for each, other in pairwise(first)], lambda: None)
        assert take(then) == [max(divmod(number, 3), divmod(number - 1, 3)) for number in range(1, 20)]
        until(lambda: done)
        assert cluster.submit_all(divmod, [], lambda: done.append(2)) == []
        assert done == [1, 2]  # once, when all had ended
        cluster.worker_timeout_s = 0.1  # Dask's; threads know at once
        with pytest.raises(NodeError, match=r"no .*worker runs on elsewhere"):
            cluster.submit_all(divmod, [((1, 2), host), ((1, 2), "elsewhere")], lambda: None)


def test_dasks_loggers_are_given_back_as_they_were_with_the_last_of_several_clusters():
    levels = lambda: [logging.getLogger(name).level for name in ("distributed", "distributed.client")]  # noqa: E731
    with LocalCluster(n_workers=0, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as dask:
        first, second, before = ExitStack(), ExitStack(), levels()
        for stack in (first, second):
            stack.enter_context(connected_cluster(dask.scheduler_address))
        first.close()
        assert levels() == [logging.CRITICAL] * 2
        second.close()
        assert levels() == before


class Batch:
    """Stands for many steps."""


def test_a_batch_is_let_go_of_as_soon_as_its_tasks_have_ended():
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as local,
        Client(local, set_as_default=False) as client,
        DaskCluster(client) as cluster,
    ):
        host, batch = socket.gethostname(), Batch()
        held = weakref.ref(batch)
        gc.collect()
        gc.disable()
        try:
            tasks = TaskBatch(cluster, batch, len, [(("a",), host), (("bc",), host)], lambda: None)
            until(tasks.results)
            assert tasks.results() == [1, 2]
            del batch, tasks
            until(lambda: held() is None, "it is held until garbage is collected")
        finally:
            gc.enable()
