import os
import subprocess
import sys
import time
from pathlib import Path

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import bbflow
from bbflow.errors import ConfigError, StreamError
from testsupport.weather import weather

DOCS = Path(__file__).parents[2] / "docs"
HOLD = "sys.stdin.read()  # the stream stays open until the test has looked"


def example_of_the_docs():
    return (DOCS / "python.md").read_text().split("```python\n")[1].split("```")[0]


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(weather(60))
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("weather"))
    names = {}
    exec(compile(example_of_the_docs(), "docs/python.md", "exec"), names)
    assert names["model"].wait() == 0
    assert names["outcome"].complete
    results = xr.open_zarr("out/results.zarr")
    np.testing.assert_array_equal(results.tas_month_mean.values[:, 0, 0], [15, 44.5, 59])


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [('"model.py"', '"nothing.py"', "ended with exit code 2"), ('"stream": "weather"', '"stream": "wether"', "code 0")],
)
def test_a_program_that_never_opens_the_stream_is_not_waited_for_forever(tmp_path, monkeypatch, old, new, how):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(weather(5))
    with pytest.raises(StreamError, match=rf"the program .*{how} and never opened stream"):
        exec(compile(example_of_the_docs().replace(old, new), "docs/python.md", "exec"), {})


def test_the_live_result_has_the_open_month_and_the_run_so_far(tmp_path):
    (tmp_path / "model.py").write_text(weather(40, at_end=HOLD))
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("weather"))
    config = {"stream": "weather", "output": str(tmp_path / "out"), "operators": {"tas": ["mean"]}}
    with bbflow.start_nodes(capacity="1MiB") as buffer, buffer.analyse(config) as analysis:
        environment = os.environ | bbflow_adios2.environment(buffer.contact)
        command = [sys.executable, tmp_path / "model.py", tmp_path / "model.xml"]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as model:
            wait_until_folded(buffer, 39)
            live = analysis.result()
            model.stdin.close()
        assert analysis.wait(300).complete
        final = analysis.result()
    for results in (live, final):
        assert results.steps_run.values == [40]
        np.testing.assert_array_equal(results.tas_month_mean.values[:, 0, 0], [15, 35])
        np.testing.assert_array_equal(results.tas_run_mean.values[:, 0, 0], [19.5])


def test_a_dask_client_of_ones_own_folds_and_stays_open(tmp_path):
    (tmp_path / "model.py").write_text(weather(40))
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("weather"))
    config = {"stream": "weather", "output": str(tmp_path / "out"), "operators": {"tas": ["mean"]}, "raw": "all"}
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        bbflow.start_nodes(capacity="1MiB") as buffer,
    ):
        with buffer.analyse(config, client=client) as analysis:
            environment = os.environ | bbflow_adios2.environment(buffer.contact)
            subprocess.run([sys.executable, tmp_path / "model.py", tmp_path / "model.xml"], env=environment, check=True)
            assert analysis.wait(300).complete
        assert client.submit(sum, [1, 2]).result() == 3
    with xr.open_zarr(tmp_path / "out" / "results.zarr") as results:
        np.testing.assert_array_equal(results.tas_run_mean.values[:, 0, 0], [19.5])


def test_a_client_that_cannot_be_used_is_refused_in_one_line(tmp_path):
    config = {"stream": "weather", "output": str(tmp_path / "out"), "operators": {"tas": ["mean"]}}
    with bbflow.start_nodes(capacity="1MiB") as buffer:
        with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster:
            client = Client(cluster, set_as_default=False)
            client.close()
        with pytest.raises(ConfigError, match=r"client: .* is closed: give one that is open"):
            buffer.analyse(config, client=client)
        with pytest.raises(ConfigError, match=r"isn't a dask\.distributed\.Client"):
            buffer.analyse(config, client="tcp://127.0.0.1:1")
        with pytest.raises(ConfigError, match="both a scheduler and a client"):
            buffer.analyse(config, "tcp://127.0.0.1:1", client=client)


def wait_until_folded(buffer, step):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        stream = buffer.status()[0].streams["weather"]
        if stream.status == "open" and stream.consumers["fold"] == step:
            return
        time.sleep(0.05)
    raise AssertionError("not folded in time")
