import os
import subprocess
import sys
import tempfile
from pathlib import Path

import adios2
import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
import yaml

from bbflow.cli import COMMANDS, main
from testsupport.waiting import until
from testsupport.weather import weather


def bbflow(*words, code=0, **keywords):
    done = subprocess.run(
        [sys.executable, "-m", "bbflow", *map(str, words)], text=True, capture_output=True, timeout=300, **keywords
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def up(tmp_path):
    """Nodes with Dask, which leave nothing when they are taken down."""
    contact, scheduler = tmp_path / "contact.json", tmp_path / "scheduler.json"
    with tempfile.TemporaryDirectory(prefix="bb") as directory:  # a socket's path must be short
        words = ["--capacity", "4MiB", "--scheduler-file", scheduler, "--directory", directory]
        bbflow("up", "--contact", contact, *words, env=os.environ | {"TMPDIR": directory})
        yield contact, scheduler
        if contact.exists():
            bbflow("down", "--contact", contact, "--scheduler-file", scheduler, "--force")
        until(lambda: not os.listdir(directory), "the end of the Dask worker")


def write_config(directory, **changes):
    content = {"stream": "weather", "output": str(directory / "out"), "operators": {"tas": ["mean", "max"]}}
    content |= {"workers": {"processes": 0, "threads": 1}} | changes
    (directory / "analysis.yml").write_text(yaml.safe_dump(content))
    return directory / "analysis.yml"


def writer(directory):
    (directory / "weather.xml").write_text(bbflow_adios2.engine_xml("weather"))
    (directory / "writer.py").write_text(weather(40, calendar="360_day"))
    return [sys.executable, directory / "writer.py", directory / "weather.xml"]


@pytest.mark.parametrize("words", [["--nodes", "0"], ["--nodes", "-1"], ["--threads", "0"]])
def test_no_nodes_at_all_are_refused(tmp_path, capsys, words):
    assert main(["up", "--contact", str(tmp_path / "contact.json"), *words]) == os.EX_USAGE
    assert "--nodes and --threads must be 1 or more" in capsys.readouterr().err
    assert not (tmp_path / "contact.json").exists()


def test_nodes_serve_one_run_after_the_other(up, tmp_path):
    contact, scheduler = up
    config = write_config(tmp_path)
    for _ in range(2):
        words = ["run", config, "--contact", contact, "--scheduler", scheduler, "--overwrite", "--"]
        bbflow(*words, *writer(tmp_path))
        results = xr.open_zarr(tmp_path / "out" / "results.zarr")
        np.testing.assert_array_equal(results.tas_month_mean.values[:, 0, 0], [14.5, 34.5])
        assert (results.tas_run_max.values == 39).all()
    assert "weather" not in bbflow("status", "--contact", contact)


def test_steps_wait_on_the_nodes_for_an_analysis_that_comes_later(up, tmp_path):
    contact, scheduler = up
    environment = os.environ | bbflow_adios2.environment(contact)
    subprocess.run(writer(tmp_path), check=True, env=environment)
    assert "weather" in bbflow("status", "--contact", contact)
    bbflow("fold", write_config(tmp_path), "--contact", contact, "--scheduler", scheduler)
    results = xr.open_zarr(tmp_path / "out" / "results.zarr")
    assert results.steps_run.values == [40]


def test_down_refuses_to_lose_steps(up, tmp_path):
    contact, scheduler = up
    subprocess.run(writer(tmp_path), check=True, env=os.environ | bbflow_adios2.environment(contact))
    said = bbflow("down", "--contact", contact, code=os.EX_DATAERR)
    assert "still holds steps" in said
    bbflow("drop", "weather", "--contact", contact)
    bbflow("down", "--contact", contact, "--scheduler-file", scheduler)
    assert not contact.exists()
    assert not scheduler.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_with_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"bbflow {command}" in capsys.readouterr().out.partition("Example")[2]


def test_what_is_not_there_is_named(tmp_path):
    assert "there is no contact file" in bbflow("status", "--contact", tmp_path / "none.json", code=os.EX_NOHOST)
    assert "can't read" in bbflow("run", tmp_path / "none.yml", "--", "true", code=os.EX_USAGE)


def test_a_missing_engine_is_named(tmp_path, monkeypatch):
    library = bbflow_adios2.library_path()
    monkeypatch.setattr(bbflow_adios2, "LIBRARY", "not_built")
    with pytest.raises(FileNotFoundError, match="build it with"):
        bbflow_adios2.library_path()
    assert library.exists()


def test_the_wheel_of_adios2_is_the_one_the_engine_is_built_for():
    assert adios2.__version__.startswith("2.12.")
    assert Path(adios2.__file__).exists()
