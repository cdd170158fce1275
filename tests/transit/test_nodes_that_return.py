"""Agents that are killed while an analysis runs: it waits for them, and isn't started again."""

import errno
import math
import os
import queue
import shutil
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import bbflow_adios2
import numpy as np
import psutil
import pytest

from bbflow import connect
from bbflow.drain.drain_task import Drained, DrainWork, write_next
from bbflow.errors import BbflowError, ConfigError, NodeError
from bbflow.events import read_events
from bbflow.landing.client import NodeClient, status_of, tell_node
from bbflow.landing.replies import AttachReply
from bbflow.landing.requests import AttachRequest, DropRequest, StopRequest
from bbflow.net.contact import NodeAddress
from bbflow.transit.output.decoding import open_results
from bbflow.view.lease import Lease
from bbflow.view.returning import Returning
from bbflow.view.stream_opening import Opening
from bbflow.view.watch import StreamWatch
from testsupport.ranks import field
from testsupport.waiting import until

STEPS = 60


@contextmanager
def writing(nodes, steps=STEPS, every_s=0.05):
    """Run two ranks, one for each node."""
    words = [sys.executable, "-m", "testsupport.ranks", "model", "2", str(steps), str(every_s)]
    words += ["RanksPerNode=1", "NodeLossTimeoutSecs=900"]
    process = psutil.Popen(words, env=os.environ | bbflow_adios2.environment(nodes.contact))
    try:
        yield process
    finally:
        with suppress(psutil.NoSuchProcess):
            for own in [*process.children(), process]:
                own.kill()
        process.wait()


def analysis_of(nodes, folder, back_s=300):
    config = {
        "stream": "model", "output": str(folder / "out"), "operators": {"tas": ["mean", "count"]},
        "windows": ["day", "run"], "workers": {"processes": 0, "batch_steps": 4}, "nodes": {"back_s": back_s},
    }  # fmt: skip
    return connect(nodes.contact).analyse(config)


def await_folds(folder, more=1):
    """Wait for further batches."""
    seen = folds(folder)
    until(lambda: folds(folder) >= seen + more)


def folds(folder):
    return sum(event["event"] == "fold" for event in read_events(folder / "out"))


def test_an_analysis_outlives_the_agents_of_its_nodes(faulty_nodes, tmp_path, capfd):
    nodes = faulty_nodes(2, "1MiB")
    with writing(nodes) as ranks, analysis_of(nodes, tmp_path) as analysis:
        for name in ("bb0", "bb1", "bb1"):  # rank 0, which alone tells times, lands on the first
            await_folds(tmp_path)
            nodes.kill(name)
            nodes.start(name)
        assert analysis.wait(300).complete
        assert ranks.wait(300) == 0
    truth = np.array([field(step, 2) for step in range(STEPS)])
    with open_results(tmp_path / "out/results.zarr") as results:
        np.testing.assert_allclose(results.tas_run_mean[0], truth.mean(axis=0, dtype="f8"), rtol=1e-6)
        np.testing.assert_array_equal(results.tas_run_count[0], STEPS)
        np.testing.assert_array_equal(results.tas_day_count[:, 0, 0], [24, 24, 12])
    assert "BB node bb0 doesn't answer: it has 300 s to be started again" in capfd.readouterr().err


@pytest.mark.parametrize("has_heard", [False, True], ids=["before", "after"])
def test_an_agent_that_is_killed_while_it_forgets_the_stream_is_asked_again(
    faulty_nodes, tmp_path, monkeypatch, has_heard
):
    nodes, request, killed = faulty_nodes(2, "1MiB"), NodeClient.request, []

    def request_and_kill(client, asked, kind):
        if isinstance(asked, DropRequest) and not killed:
            if has_heard:
                request(client, asked, kind)
            killed.append(client.node.name)
            nodes.kill(*killed)
            nodes.start(*killed)
        return request(client, asked, kind)

    monkeypatch.setattr(NodeClient, "request", request_and_kill)
    with writing(nodes) as ranks, analysis_of(nodes, tmp_path) as analysis:
        assert analysis.wait(300).complete
        assert ranks.wait(300) == 0
    assert killed
    assert not any(status_of(node).streams for node in nodes.nodes)


def test_a_node_that_does_not_come_back_in_time_ends_the_analysis(faulty_nodes, tmp_path):
    nodes = faulty_nodes(2, "1MiB")
    with writing(nodes), analysis_of(nodes, tmp_path, back_s=0.2) as analysis:
        await_folds(tmp_path)
        nodes.kill("bb1")
        with pytest.raises(NodeError, match="BB node bb1"):
            analysis.wait(300)


def test_a_node_that_comes_back_empty_ends_the_analysis(faulty_nodes, tmp_path):
    nodes = faulty_nodes(2, "1MiB")
    with writing(nodes), analysis_of(nodes, tmp_path) as analysis:
        await_folds(tmp_path)
        nodes.kill("bb1")
        (address,) = (node for node in nodes.nodes if node.name == "bb1")
        shutil.rmtree(address.directory)
        nodes.start("bb1")
        with pytest.raises(NodeError, match="BB node bb1"):
            analysis.wait(300)


def test_a_node_that_has_ended_with_all_that_it_held_is_not_waited_for(faulty_nodes, tmp_path, capfd):
    nodes = faulty_nodes(2, "1MiB")
    with writing(nodes), analysis_of(nodes, tmp_path, back_s=3000) as analysis:
        await_folds(tmp_path)
        tell_node(nodes.nodes[1], StopRequest(force=True))
        with pytest.raises(NodeError, match="BB node bb1"):
            analysis.wait(300)
    assert "BB node bb1 has ended, and what it held is gone: it isn't waited for" in capfd.readouterr().err


def test_a_node_is_waited_for_while_neither_its_directory_nor_the_contact_file_can_be_looked_at(tmp_path, monkeypatch):
    returning, asked, error = Returning(tmp_path / "contact.json", 1, is_silent=True), [], NodeError("it is silent")

    def read(contact):
        asked.append(contact)
        returning.end()
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), contact)

    monkeypatch.setattr("bbflow.view.returning.read_contact", read)
    node = NodeAddress("bb0", socket.gethostname(), "none.sock", str(tmp_path / ("d" * 300)), "key")
    with pytest.raises(NodeError) as raised:
        returning.client(node, error, math.inf)
    assert raised.value is error
    assert asked


def test_an_analysis_ends_if_another_one_takes_the_stream_while_its_node_returns(faulty_nodes, tmp_path):
    nodes = faulty_nodes(1, "1MiB")
    with analysis_of(nodes, tmp_path) as analysis:
        until(lambda: "model" in status_of(nodes.nodes[0]).streams)
        nodes.kill("bb0")
        nodes.start("bb0")
        with NodeClient(nodes.nodes[0]) as other:
            taking = AttachRequest(stream="model", consumers=("fold",), owner="another", take_over=True)
            assert other.request(taking, AttachReply).epoch == 2
            # By that time it may have come back, or not yet.
            with pytest.raises(BbflowError, match=r"BB node bb0|another analysis has taken over"):
                analysis.wait(300)


@contextmanager
def watching(nodes, returning, patience_s=35.0):
    """Watch the only node, which has answered once; yield what comes of it then."""
    news = queue.SimpleQueue()
    watch = StreamWatch(nodes.nodes, "model", news, returning=returning, patience_s=patience_s)
    watch.start()
    try:
        news.get(timeout=60)
        yield news
    finally:
        returning.end()
        watch.stop()
        watch.join(60)


def test_a_contact_file_that_is_spoilt_while_a_node_is_waited_for_is_an_error(faulty_nodes):
    nodes = faulty_nodes(1, "1MiB")
    with watching(nodes, Returning(nodes.contact, 300)) as news:
        nodes.kill("bb0")
        nodes.contact.write_text("no contact file")
        name, error = news.get(timeout=60)
    assert name == "bb0"
    assert isinstance(error, ConfigError)


class Stopping(Returning):
    """Waits for a node that was started, and stops it then, once."""

    def __init__(self, nodes):
        super().__init__(nodes.contact, 300)
        self._nodes, self.started, self.stopped = nodes, threading.Event(), False

    def client(self, node, error, until_s):
        if self.stopped:
            raise error
        self.started.wait(60)
        found = super().client(node, error, until_s)
        self._nodes.signal(node.name, signal.SIGSTOP)
        self.stopped = True
        return found


def test_a_node_that_comes_back_and_is_stopped_before_it_answers_is_missed(faulty_nodes):
    nodes = faulty_nodes(1, "1MiB")
    returning = Stopping(nodes)
    try:
        with watching(nodes, returning, patience_s=6.0) as news:
            nodes.kill("bb0")
            nodes.start("bb0")
            returning.started.set()
            until(lambda: returning.stopped)
            name, error = news.get(timeout=60)
    finally:
        nodes.signal("bb0", signal.SIGCONT)
    assert name == "bb0"
    assert isinstance(error, NodeError)


def test_steps_are_held_again_and_drained_when_their_node_is_back(faulty_nodes):
    nodes = faulty_nodes(2, "1MiB")
    lease = Lease(nodes.contact, "model", Returning(nodes.contact, 300, is_silent=True))
    for node in nodes.nodes:
        with NodeClient(node) as client:
            client.request(AttachRequest(stream="model", consumers=("fold",)), AttachReply)
    with writing(nodes, steps=3):
        until(lambda: lease.pin("bb0", [0, 1]) == {0, 1})
        opening = Opening(nodes.contact, "model")
        opening.wait(lambda opening: bool(opening.steps), 300)
        steps = ({"bb0": opening.view.step("bb0", opening.steps[0])},)
        work = DrainWork("raw.zarr", 0, (0,), steps, (), nodes.contact, "model", back_s=300.0)
        nodes.kill("bb0")
        with ThreadPoolExecutor(2) as pool:
            pinned = pool.submit(lease.pin, "bb0", [1])
            drained = pool.submit(write_next, lambda _: Drained(1, 1, 0), work)
            nodes.start("bb0")
            assert pinned.result(300) == {1}  # of what was asked for, whatever else is held again
            assert drained.result(300) == Drained(1, 1, 0)
