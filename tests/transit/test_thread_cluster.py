"""Tasks in threads of the analysis: as on Dask's workers, but for what can't happen there."""

import gc
import os
import socket
import subprocess
import sys
import threading
import weakref

import pytest

from bbflow.configuring.settings import WorkersConfig
from bbflow.errors import NodeError
from bbflow.transit.clusters.cluster import YIELDING, take
from bbflow.transit.clusters.local_cluster import local_cluster
from bbflow.transit.clusters.thread_cluster import ThreadCluster
from testsupport.waiting import until

HOST = socket.gethostname()
LIMIT_S = 60
MOST_NICE = 19
gates: dict[str, threading.Event] = {}
begun = threading.Semaphore(0)


@pytest.fixture
def cluster():
    with ThreadCluster(1) as cluster:
        yield cluster


@pytest.fixture
def gate(request):
    """An event that tasks can wait for; it is named, since tasks get copies."""
    while begun.acquire(blocking=False):
        pass
    gates[request.node.name] = threading.Event()
    yield request.node.name
    gates.pop(request.node.name).set()


def submit(cluster, function, *arguments, done=lambda: None, beside=False):
    return cluster.submit(function, *arguments, host=HOST, done=done, beside=beside)


def wait_for(gate):
    begun.release()
    assert gates[gate].wait(LIMIT_S)
    return gate


def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def append_to(items, item):
    items.append(item)
    return items


def fail():
    raise ValueError("as it must")


def test_a_run_without_worker_processes_has_threads_of_its_own():
    with local_cluster(WorkersConfig(threads=3)) as cluster:
        assert isinstance(cluster, ThreadCluster)
        assert (cluster.threads, cluster.processes(HOST), cluster.has(HOST), cluster.has("elsewhere")) == (
            3,
            1,
            True,
            False,
        )


def test_a_dashboard_is_dasks():
    with local_cluster(WorkersConfig(dashboard="127.0.0.1:0")) as cluster:
        assert cluster.client.dashboard_link
        assert take([submit(cluster, socket.gethostname)]) == [HOST]


@pytest.mark.cold
def test_nothing_of_dask_is_imported_for_threads():
    """It would take longer than all else before a first fold."""
    code = (
        "import sys, bbflow.api, bbflow.cli.fold, bbflow.run.course, bbflow.transit.clusters.local_cluster as local\n"
        "from bbflow.configuring.settings import WorkersConfig\n"
        "with local.local_cluster(WorkersConfig()): pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'dask', 'distributed', 'tornado', 'xarray'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.strip() == "[]"


class Large:
    """What a task comes to, and nobody should keep."""


@pytest.mark.parametrize("beside", [False, True])
def test_a_thread_that_waits_keeps_nothing_of_what_its_task_has_come_to(cluster, beside):
    task = submit(cluster, Large, beside=beside)
    known = weakref.ref(task.result(LIMIT_S))
    del task
    until(lambda: gc.collect() >= 0 and known() is None)


def test_a_task_gets_what_others_have_come_to(cluster):
    first = submit(cluster, append_to, [1], 2)
    second = submit(cluster, append_to, [0], first)
    assert take([first, second]) == [[1, 2], [0, [1, 2]]]


def test_what_fails_is_raised_where_its_result_is_taken_and_in_what_needs_it(cluster):
    ended = threading.Event()
    first = submit(cluster, fail)
    second = submit(cluster, append_to, [], first, done=ended.set)
    with pytest.raises(ValueError, match="as it must"):
        second.result(LIMIT_S)
    assert isinstance(first.exception(), ValueError)
    assert ended.wait(LIMIT_S)  # of one that has failed, too
    assert take([submit(cluster, socket.gethostname)]) == [HOST]


def test_tasks_beside_the_folds_hold_up_none_and_yield_to_them(cluster, gate):
    waiting = [submit(cluster, wait_for, gate, beside=True) for _ in range(6)]
    nice = submit(cluster, niceness, beside=True).result(LIMIT_S), submit(cluster, niceness).result(LIMIT_S)
    assert nice[0] == min(nice[1] + YIELDING, MOST_NICE)
    assert submit(cluster, socket.gethostname).result(LIMIT_S) == HOST
    assert not any(task.done() for task in waiting)
    gates[gate].set()
    assert take(waiting) == [gate] * 6


def test_a_thread_beside_the_folds_takes_the_next_task_too(cluster):
    def run_one():
        ended = threading.Event()
        thread = submit(cluster, threading.get_ident, beside=True, done=ended.set).result(LIMIT_S)
        assert ended.wait(LIMIT_S)
        return thread

    assert len({run_one() for _ in range(5)}) == 1


def test_as_many_run_at_once_as_fold_and_one_more(cluster, gate):
    busy = [submit(cluster, wait_for, gate) for _ in range(2)]
    third = submit(cluster, socket.gethostname)
    with pytest.raises(TimeoutError):
        third.result(0.2)
    gates[gate].set()
    assert take([*busy, third]) == [gate, gate, HOST]


def test_another_host_is_refused_with_what_starts_a_worker_there(cluster):
    with pytest.raises(NodeError, match=r"no worker runs on elsewhere.*bbflow dask worker.*--scheduler"):
        cluster.submit(fail, host="elsewhere", done=lambda: None)


def test_closing_waits_for_what_runs_and_drops_what_has_not_begun(gate):
    with ThreadCluster(1) as cluster:
        running = [submit(cluster, wait_for, gate, beside=True), *(submit(cluster, wait_for, gate) for _ in range(2))]
        waiting = submit(cluster, socket.gethostname)
        assert all(begun.acquire(timeout=LIMIT_S) for _ in running)
        threading.Timer(0.2, gates[gate].set).start()
    assert [task.result(0) for task in running] == [gate] * 3
    assert waiting.cancelled()
