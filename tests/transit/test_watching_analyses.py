"""Who watches an analysis is told that no program has opened the stream only if none has."""

import subprocess
import threading
from contextlib import ExitStack

import numpy as np
import streams

from bbflow import start_nodes
from bbflow.transit.pipeline import Pipeline
from testsupport.waiting import PATIENCE_S


def test_a_stream_that_was_forgotten_at_its_end_is_not_taken_for_one_that_was_never_opened(tmp_path, monkeypatch):
    streams.store(tmp_path, {"tas": np.ones((3, 4))}, range(3), {"time/units": "days since 2001-01-01"})
    config = {"stream": "fields", "output": str(tmp_path / "out"), "workers": {"processes": 0, "threads": 1}}
    close, looked = Pipeline._close, threading.Event()
    monkeypatch.setattr(Pipeline, "_close", lambda self: (looked.wait(PATIENCE_S), close(self)))
    with ExitStack() as stack:
        program, buffer = stack.enter_context(subprocess.Popen(["true"])), stack.enter_context(start_nodes(1, "8MiB"))
        analysis = stack.enter_context(buffer.analyse(config | {"operators": {"tas": ["mean"]}}))
        stack.enter_context(streams.writing(tmp_path, buffer.contact, 1))
        for (status,) in analysis.watch(0.01, program=program):
            if "fields" not in status.streams:
                looked.set()
        assert analysis.wait(PATIENCE_S).complete
