"""A BB node that no rank lands on holds nothing back, also when another analysis carries on."""

import os
import subprocess
import sys

import bbflow_adios2
import numpy as np

from bbflow import start_nodes
from bbflow.transit.output.decoding import open_results
from testsupport.waiting import until
from testsupport.weather import weather

STEPS = 20


def consumers(buffer):
    streams = [status.streams.get("weather") for status in buffer.status()]
    return [{} if stream is None else stream.consumers for stream in streams]


def is_done(buffer):
    """Whether fold and drain are past all steps, on both nodes."""
    return all(own.get(name) == STEPS - 1 for own in consumers(buffer) for name in ("fold", "drain"))


def test_an_analysis_carries_on_where_the_one_before_was(tmp_path):
    (tmp_path / "engine.xml").write_text(bbflow_adios2.engine_xml("weather"))
    config = {"stream": "weather", "output": str(tmp_path / "out"), "operators": {"tas": ["mean"]}, "raw": "all"}
    with start_nodes(2, capacity="8MiB") as buffer:
        environment = os.environ | bbflow_adios2.environment(buffer.contact)
        with buffer.analyse(config) as first:
            command = [sys.executable, "-c", weather(STEPS, at_end="sys.stdin.read()"), "engine.xml"]
            writer = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=subprocess.PIPE)
            until(lambda: is_done(buffer), lambda: str(consumers(buffer)))
            first.stop()
        with buffer.analyse(config) as second:
            writer.communicate()
            outcome = second.wait()
    assert (outcome.complete, outcome.steps) == (True, STEPS)
    with open_results(tmp_path / "out" / "results.zarr") as results, open_results(tmp_path / "out" / "raw.zarr") as raw:
        np.testing.assert_array_equal(results.tas_run_mean.values, np.full((1, 4, 6), (STEPS - 1) / 2))
        assert raw.tas.values[:, 0, 0].tolist() == list(range(STEPS))
        assert raw.sizes["time"] == STEPS
