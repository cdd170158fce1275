"""Workers of `bbflow dask worker`: they come back to a scheduler that was lost, and end when they are told to."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlparse

import pytest

from bbflow.errors import NodeError
from bbflow.net.certificate import ensure_certificate
from bbflow.transit.clusters.dask_cluster import connected_cluster
from bbflow.transit.clusters.service import shut_down
from testsupport.waiting import PATIENCE_S, until


class Programs:
    """The scheduler and the worker of a directory."""

    def __init__(self, folder):
        self.certificate, self.file = ensure_certificate(folder / "contact.json"), folder / "scheduler.json"
        self._folder = folder

    @contextmanager
    def running(self, kind, *words):
        """Run one until the end of the block."""
        command = [sys.executable, "-m", "bbflow", "dask", kind, "--contact", self._folder / "contact.json"]
        command += ["--scheduler-file", self.file, "--listen", "127.0.0.1", *words]
        with (self._folder / kind).open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def worker_said(self):
        return (self._folder / "worker").read_text()

    @property
    def port(self):
        return str(urlparse(json.loads(self.file.read_text())["address"]).port)

    def fold(self):
        """Have a task done as folds are; return the process that has done it."""
        with connected_cluster(str(self.file), self.certificate) as cluster:
            return cluster.submit(os.getpid, host=socket.gethostname(), done=lambda: None).result(PATIENCE_S)


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


@contextmanager
def lost_worker(programs):
    """Yield the worker of a scheduler that was killed, and the one's process and the other's port."""
    with programs.running("scheduler") as scheduler:
        until(programs.file.exists, of=scheduler)
        with programs.running("worker") as worker:
            process, port = programs.fold(), programs.port
            scheduler.kill()
            until(lambda: "has lost its scheduler" in programs.worker_said, of=worker)
            yield worker, process, port


@pytest.mark.parametrize("is_same", [True, False], ids=["the same port", "another port"])
def test_a_worker_comes_back_to_a_scheduler_that_is_started_again_and_ends_with_it(programs, is_same):
    with lost_worker(programs) as (worker, process, port):
        with programs.running("scheduler", *(["--", "--port", port] if is_same else [])) as scheduler:
            until(lambda: "this worker is started again" in programs.worker_said, of=worker)
            assert programs.fold() != process
            assert (programs.port == port) is is_same
            shut_down(programs.certificate, programs.file)
            assert scheduler.wait(PATIENCE_S) == 0
        assert worker.wait(PATIENCE_S) == 0


def test_a_worker_that_looks_for_its_scheduler_ends_when_it_is_told_to(programs):
    with lost_worker(programs) as (worker, process, _):
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_S) == 0
        assert not os.path.exists(f"/proc/{process}")


def test_a_scheduler_whose_file_is_gone_is_not_waited_for(tmp_path):
    with pytest.raises(NodeError, match="isn't there: end a scheduler that still runs by hand"):
        shut_down(tmp_path / "contact.pem", tmp_path / "scheduler.json")
