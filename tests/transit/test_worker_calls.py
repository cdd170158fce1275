"""Dask's workers are called past its scheduler, and what a call was lost for is done by a task."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from urllib.parse import urlparse

import pytest
from distributed import Client, LocalCluster, Scheduler, SpecCluster, Worker
from distributed.protocol import pickle

from bbflow.configuring.settings import WorkersConfig
from bbflow.transit.clusters import dask_calls
from bbflow.transit.clusters.cluster import CallLostError, TaskBatch
from bbflow.transit.clusters.dask_calls import CalledTask, CalledWorker, WorkerCalls
from bbflow.transit.clusters.dask_cluster import DaskCluster
from bbflow.transit.clusters.local_cluster import local_cluster
from bbflow.transit.states.files import LaneTurn, begun
from testsupport.processes import running
from testsupport.waiting import until

HOST = socket.gethostname()


def add(number, kept):
    """Add up; a number below 0 is refused."""
    if number < 0:
        raise ValueError("below 0")
    return number + kept


@pytest.fixture(scope="module")
def workers():
    """A client and the addresses of many workers."""
    with (
        LocalCluster(n_workers=12, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as dask,
        Client(dask, set_as_default=False) as client,
    ):
        addresses = sorted(client.nthreads())
        calls = WorkerCalls(client)
        until(lambda: calls.ready(addresses) == {*addresses})
        yield client, addresses


@pytest.fixture
def kept(workers):
    """A number at each of them, by its address."""
    client, addresses = workers
    made = {each: client.submit(int, at, workers=[each], pure=False) for at, each in enumerate(addresses)}
    client.gather(list(made.values()))
    return made


def call(kept, address, number):
    return address, False, [kept[address].key], pickle.dumps((add, [number]))


@pytest.mark.parametrize("fan", [1, 2, 3, 32])
def test_calls_go_down_a_tree_of_workers_and_each_answer_comes_to_its_call(workers, kept, fan, monkeypatch):
    monkeypatch.setattr(dask_calls, "FAN", fan)
    client, addresses = workers
    order = [*addresses[::-1], *addresses[3:5]]
    ended = []
    calls = [call(kept, each, 100 * at) for at, each in enumerate(order)]
    tasks = WorkerCalls(client).begin(calls, lambda lost: ended.append(list(lost)))
    assert CalledTask.results(tasks) == [100 * at + addresses.index(each) for at, each in enumerate(order)]
    until(lambda: ended == [[]])


def test_what_a_call_raises_is_raised_for_who_asks_for_it(workers, kept):
    client, addresses = workers
    calls = [call(kept, addresses[0], -1), call(kept, addresses[1], 1)]
    bad, good = WorkerCalls(client).begin(calls, lambda lost: None)
    with pytest.raises(ValueError, match="below 0"):
        bad.result()
    assert isinstance(bad.exception(), ValueError)
    assert (good.result(), good.exception()) == (2, None)


@pytest.mark.parametrize("fan", [1, 32])
def test_only_calls_behind_a_worker_that_is_gone_or_without_what_they_need_are_lost(workers, kept, fan, monkeypatch):
    monkeypatch.setattr(dask_calls, "FAN", fan)
    monkeypatch.setattr(dask_calls, "CONNECT_S", 0.2)
    client, addresses = workers
    gone = addresses[0].rsplit("/", 1)[0] + "/nobody"  # sorted behind all others
    calls = [call(kept, each, 1) for each in addresses[:3]]
    calls[1] = (addresses[1], False, [("no", 1)], calls[1][-1])
    lost = []
    tasks = WorkerCalls(client).begin([*calls, (gone, *calls[0][1:])], lost.extend)
    assert (tasks[0].result(), tasks[2].result()) == (1, 3)
    for task in (tasks[1], tasks[3]):
        with pytest.raises(CallLostError):
            task.result()
    until(lambda: sorted(lost) == [1, 3])


def test_a_call_of_a_worker_that_does_not_listen_yet_is_lost_and_ends(workers, kept):
    client, addresses = workers
    worker = next(each for each in client.cluster.workers.values() if each.address == addresses[2])
    serve, ended = worker.handlers.pop(CalledWorker.name), []
    try:
        tasks = WorkerCalls(client).begin([call(kept, each, 1) for each in addresses[1:4]], ended.append)
        assert tasks[0].result(60) == 2
        with pytest.raises(CallLostError):
            tasks[1].result(60)
        until(lambda: ended == [[1]])
    finally:
        worker.handlers[CalledWorker.name] = serve


def test_a_worker_is_called_that_its_scheduler_knows_by_another_address_than_it_does(workers, kept):
    client, addresses = workers
    worker = client.cluster.workers[0]
    address = worker.address
    worker._address = "tcp://name:1"  # as of --contact-address with a name, which the scheduler looks up
    try:
        [task] = WorkerCalls(client).begin([call(kept, address, 1)], lambda lost: None)
        assert task.result(60) == 1 + addresses.index(address)
    finally:
        worker._address = address


def test_only_who_could_not_be_called_is_not_called_for_a_while(workers, kept, monkeypatch):
    monkeypatch.setattr(dask_calls, "FAN", 1)
    client, addresses = workers
    calls, ended = WorkerCalls(client, again_s=1000), []
    until(lambda: calls.ready(addresses) == {*addresses})
    worker = next(each for each in client.cluster.workers.values() if each.address == addresses[1])
    serve = worker.handlers.pop(CalledWorker.name)
    try:
        calls.begin([call(kept, each, 1) for each in addresses[:3]], ended.append)
        until(lambda: ended == [[1, 2]])  # the last one was behind it
    finally:
        worker.handlers[CalledWorker.name] = serve
    assert calls.ready(addresses) == {*addresses} - {addresses[1]}


def test_who_could_not_be_called_is_told_to_listen_again_and_called_after_a_while(workers, kept):
    client, addresses = workers
    calls, ended = WorkerCalls(client, again_s=0), []
    until(lambda: calls.ready(addresses[:1]))
    calls.begin([(addresses[0], False, [("no", 1)], b"")], ended.append)
    until(lambda: ended == [[0]])
    until(lambda: calls.ready(addresses[:1]) == {addresses[0]})


def test_a_worker_that_hangs_keeps_no_other_one_from_being_told_to_listen(workers):
    client, addresses = workers
    worker = next(each for each in client.cluster.workers.values() if each.address == addresses[3])
    run, goes_on = worker.handlers["run"], asyncio.Event()

    async def hang(comm, **told):
        await goes_on.wait()
        return await run(comm, **told)

    worker.handlers["run"] = hang
    calls, patient = WorkerCalls(client, again_s=0, tell_s=0.5), WorkerCalls(client)
    try:
        until(lambda: calls.ready(addresses) == patient.ready(addresses) == {*addresses} - {addresses[3]})
    finally:
        worker.handlers["run"] = run
        client.loop.add_callback(goes_on.set)
    until(lambda: calls.ready(addresses) == patient.ready(addresses) == {*addresses})


release = threading.Event()


def wait(kept):
    """Wait for the test."""
    release.wait(60)


def test_calls_of_a_worker_that_the_scheduler_has_no_more_are_given_up(workers, kept):
    client, addresses = workers
    patient, calls, ended = WorkerCalls(client), WorkerCalls(client, patience_s=0), []
    packed = pickle.dumps((wait, []))
    [stays] = patient.begin([(addresses[1], False, [kept[addresses[1]].key], packed)], ended.extend)
    [task] = calls.begin([(addresses[0], False, [kept[addresses[0]].key], packed)], ended.extend)
    try:
        calls.give_up_without(addresses)
        assert calls.are_running
        patient.give_up_without([])  # one that has died ends by itself: what others do at a time with it stays
        calls.give_up_without(addresses[1:])
        with pytest.raises(CallLostError):
            task.result(60)
        assert ended == [0]
        assert not calls.are_running
        assert not stays.done()
        patient.give_up()
        with pytest.raises(CallLostError):
            stays.result(60)
    finally:
        release.set()


def host_of(dask_worker=None):
    """Return the host of a worker, as if each of its addresses were another's."""
    return "here" if dask_worker is None else urlparse(dask_worker.address).hostname


@pytest.fixture
def two_hosts(monkeypatch):
    """Workers of two hosts, by their addresses, and a cluster of them."""
    monkeypatch.setattr(socket, "gethostname", host_of)
    hosts = {number: f"127.0.0.{number}" for number in (1, 2)}
    spec = {number: {"cls": Worker, "options": {"host": host, "nthreads": 2}} for number, host in hosts.items()}
    scheduler = {
        "cls": Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"},
    }
    with (
        SpecCluster(spec, scheduler=scheduler) as dask,
        Client(dask, set_as_default=False) as client,
        DaskCluster(client) as cluster,
    ):
        yield dask, cluster


def test_the_hosts_whose_workers_answer_are_called_beside_tasks_of_the_others(two_hosts):
    dask, cluster = two_hosts
    works = [((text,), f"127.0.0.{1 + at % 2}") for at, text in enumerate(("a", "bc", "def", "ghij"))]
    submit = lambda done=lambda: None: cluster.submit_all(len, works, done, calls=True)  # noqa: E731
    until(lambda: {type(task) for task in submit()} == {CalledTask})
    [silent] = [each for each in dask.workers.values() if urlparse(each.address).hostname == "127.0.0.2"]
    silent.handlers.pop(CalledWorker.name)
    for is_mixed in (False, True):
        batch = TaskBatch(cluster, None, len, works, lambda: None, again=lambda work: work)
        assert [isinstance(task, CalledTask) for task in batch.tasks] == [True, not is_mixed] * 2
        until(batch.results)
        assert batch.results() == [1, 2, 3, 4]
    ended = []
    assert [task.result(60) for task in submit(lambda: ended.append(1))] == [1, 2, 3, 4]
    until(lambda: ended)
    assert ended == [1]  # once, when calls and tasks had ended


BARE_WORKER = """
import sys
sys.modules["bbflow"] = None  # as where it isn't installed
from distributed.cli.dask_worker import main
main()
"""


def test_a_worker_without_bbflow_can_come_while_others_are_called_and_after_that():
    with (
        LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0") as dask,
        Client(dask, set_as_default=False) as client,
        ExitStack() as stack,
    ):

        def add_bare():
            known = set(client.nthreads())
            words = [sys.executable, "-c", BARE_WORKER, dask.scheduler_address, "--no-nanny", "--no-dashboard"]
            stack.enter_context(running(words))
            until(lambda: client.nthreads().keys() - known)
            [address] = client.nthreads().keys() - known
            assert client.submit(len, "ab", workers=[address], pure=False).result(60) == 2

        with DaskCluster(client) as cluster:
            submit = lambda: cluster.submit_all(len, [(("x",), HOST)], lambda: None, calls=True)  # noqa: E731
            until(lambda: isinstance(submit()[0], CalledTask))
            add_bare()
        add_bare()


def note(path, number, kept):
    """Note that this is done, and by which attempt; what is first to do 1 kills its worker."""
    with open(path, "a+") as file:
        file.seek(0)
        is_first = number % 10 == 1 and not any(line.startswith("1") for line in file)
        file.write(f"{number % 10} {number // 10}\n")
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    return number, kept


@pytest.mark.parametrize("processes", [1, 2])
def test_what_is_lost_with_a_worker_that_was_called_is_done_by_a_task(tmp_path, processes):
    with local_cluster(WorkersConfig(processes=processes)) as cluster:
        made = cluster.submit_all(str, [((at,), HOST) for at in range(2)], lambda: None)
        assert [task.result(60) for task in made] == ["0", "1"]
        until(lambda: isinstance(cluster.submit_all(len, [(("x",), HOST)], lambda: None, calls=True)[0], CalledTask))
        works = [((tmp_path / "log", at, made[at]), HOST) for at in range(2)]

        def again(work):
            (path, number, kept), host = work
            return (path, number + 10, kept), host

        batch = TaskBatch(cluster, None, note, works, lambda: None, again=again)
        is_called = all(isinstance(task, CalledTask) for task in batch.tasks)
        assert is_called or processes == 2
        until(lambda: batch.results() is not None, 120)
        (first, _), (second, kept) = batch.results()
    done = Counter((tmp_path / "log").read_text().splitlines())
    assert (first % 10, second % 10, kept) == (0, 1, "1")
    assert done["1 0"] >= 1
    if is_called:  # else Dask has both with one of two workers, and shares the tasks itself
        assert second == 11
        assert done["1 1"] == 1


def test_a_call_that_was_given_up_is_not_begun_after_what_is_done_in_its_place(tmp_path):
    turns = [LaneTurn(5, 1), LaneTurn(5, 0), LaneTurn(5, 1), LaneTurn(6, 2), LaneTurn(5, 3), LaneTurn(6, 2)]
    wanted = []
    for turn in turns:
        with begun(f"{tmp_path}/lane", turn, ()) as is_wanted:
            wanted.append(is_wanted)
    assert wanted == [True, False, True, True, False, True]
