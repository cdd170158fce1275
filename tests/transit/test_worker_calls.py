"""Dask's workers are called past its scheduler, and what a call was lost for is done by a task."""

import os
import signal
import socket
import threading
from collections import Counter

import pytest
from distributed import Client, LocalCluster
from distributed.protocol import pickle

from bbflow.configuring.settings import WorkersConfig
from bbflow.transit.clusters import dask_calls
from bbflow.transit.clusters.cluster import CallLostError
from bbflow.transit.clusters.dask_calls import CalledTask, CalledWorker, WorkerCalls
from bbflow.transit.clusters.local_cluster import local_cluster
from bbflow.transit.clusters.tasks import TaskBatch
from bbflow.transit.folding.states import LaneTurn, begun
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
        calls = WorkerCalls(client)
        until(lambda: calls.are_ready)
        yield client, sorted(client.nthreads())


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


def test_after_calls_were_lost_none_is_begun_for_a_while(workers, kept):
    client, addresses = workers
    calls, ended = WorkerCalls(client, again_s=1000), []
    until(lambda: calls.are_ready)
    gone = [(addresses[0], False, [("no", 1)], b"")]
    calls.begin([call(kept, addresses[0], 1)], ended.append)
    until(lambda: ended == [[]])
    assert calls.are_ready
    calls.begin(gone, ended.append)
    until(lambda: ended == [[], [0]])
    assert not calls.are_ready


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
        with begun(str(tmp_path), "lane", turn, ()) as is_wanted:
            wanted.append(is_wanted)
    assert wanted == [True, False, True, True, False, True]
