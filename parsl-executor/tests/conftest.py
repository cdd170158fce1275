"""Fixtures of the plugin's tests."""

import gc
import os
import sys
import threading
import warnings
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sites import Site


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    found = Site(tmp_path)
    yield found
    with warnings.catch_warnings():
        # Parsl forgets the pilot's process and the files of standard output without closing them.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    assert not list(found.bb.iterdir()), "a run leaves nothing on the burst buffer"


@pytest.fixture
def workers_find_the_apps(monkeypatch):
    here = Path(__file__).parent
    inherited = filter(None, [os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(here), str(here.parents[1]), *inherited]))


class Gate:
    """An HTTP server over a directory that gives a whole file only once it is opened; parts and sizes at once."""

    def __init__(self, directory):
        gate = self
        self.opened = threading.Event()
        self.asked = threading.Event()

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(directory))

            def do_GET(self):
                if "Range" not in self.headers:
                    gate.asked.set()
                    assert gate.opened.wait(300)
                super().do_GET()

            def log_message(self, *words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.opened.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def gate(site):
    found = Gate(site.pfs)
    yield found
    found.close()
