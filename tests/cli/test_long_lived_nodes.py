import os
import socket
import subprocess
import sys
from contextlib import suppress
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
def up(tmp_path, short_path):
    """Nodes with Dask, which leave nothing when they are taken down."""
    contact, scheduler = tmp_path / "contact.json", tmp_path / "scheduler.json"
    words = ["--capacity", "4MiB", "--scheduler-file", scheduler, "--directory", short_path]
    bbflow("up", "--contact", contact, *words, env=os.environ | {"TMPDIR": str(short_path)})
    yield contact, scheduler
    if contact.exists():
        bbflow("down", "--contact", contact, "--scheduler-file", scheduler, "--force")
    until(lambda: not os.listdir(short_path), "the end of the Dask worker")


def write_config(directory, **changes):
    content = {"stream": "weather", "output": str(directory / "out"), "operators": {"tas": ["mean", "max"]}}
    content |= {"workers": {"processes": 0, "threads": 1}} | changes
    (directory / "analysis.yml").write_text(yaml.safe_dump(content))
    return directory / "analysis.yml"


def writer(directory):
    (directory / "weather.xml").write_text(bbflow_adios2.engine_xml("weather"))
    (directory / "writer.py").write_text(weather(40, calendar="360_day"))
    return [sys.executable, directory / "writer.py", directory / "weather.xml"]


def test_more_nodes_than_a_host_can_have_are_refused_at_once(tmp_path, capsys):
    assert main(["up", "--contact", str(tmp_path / "contact.json"), "--nodes", "9" * 30]) == os.EX_USAGE
    assert "one host has 1024 at most" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--nodes", "0"], ["--nodes", "-1"], ["--threads", "0"]])
def test_no_nodes_at_all_are_refused(tmp_path, capsys, words):
    assert main(["up", "--contact", str(tmp_path / "contact.json"), *words]) == os.EX_USAGE
    assert "--nodes and --threads must be 1 or more" in capsys.readouterr().err
    assert not (tmp_path / "contact.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--files-options=--relicas 2"], "unrecognized arguments: --relicas 2"),
        (["--files-options=--replicas 0"], "1 replica or more"),
        (["--files-options=--lease nan"], "'nan' must be a number of seconds, 0 or more"),
        (["--files-options=--piece none"], "'none' is not a size"),
        (["--files-policy", "full-dely"], "did you mean 'full-delay'?"),
        (["--subtree", "a/"], "'a/' isn't a subtree: write it like /a"),
    ],
)
def test_options_that_no_server_of_files_takes_are_refused_at_once(tmp_path, capsys, words, says):
    up = ["up", "--directory", str(tmp_path), "--contact", str(tmp_path / "contact.json"), "--files", "none"]
    with suppress(SystemExit):
        assert main([*up, *words]) == os.EX_USAGE
    assert says in capsys.readouterr().err
    assert not list(tmp_path.glob("bbflow-*"))


def test_a_node_whose_capacity_has_lost_its_unit_is_refused(tmp_path, capsys):
    words = ["--name", "a", "--contact", str(tmp_path / "contact.json"), "--directory", str(tmp_path)]
    assert main(["node", *words, "--capacity", "1.5"]) == os.EX_USAGE
    assert "'1.5' is less than a page of 4096 bytes" in capsys.readouterr().err


def test_nodes_that_cannot_all_be_up_are_ended_again(short_path, capsys):
    contact = short_path / "contact.json"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    up = ["up", "--nodes", "2", "--directory", str(short_path), "--contact", str(contact)]
    assert main([*up, "--listen", f"127.0.0.1:{port}"]) != 0
    assert "give another --listen" in capsys.readouterr().err
    assert not contact.exists()


def test_nodes_that_are_up_are_not_taken_for_others(up, tmp_path, short_path):
    contact, _ = up
    there = contact.read_bytes()
    told = bbflow("up", "--contact", contact, "--capacity", "8MiB", "--directory", short_path, code=os.EX_NOHOST)
    assert f"has node bb0 already: end it by 'bbflow down --contact {contact}'" in told
    assert contact.read_bytes() == there


def test_nodes_serve_one_run_after_the_other(up, tmp_path):
    contact, scheduler = up
    config = write_config(tmp_path)
    for _ in range(2):
        words = ["run", config, "--contact", contact, "--scheduler", scheduler, "--overwrite", "--no-report", "--"]
        bbflow(*words, *writer(tmp_path))
        results = xr.open_zarr(tmp_path / "out" / "results.zarr")
        np.testing.assert_array_equal(results.tas_month_mean.values[:, 0, 0], [14.5, 34.5])
        assert (results.tas_run_max.values == 39).all()
    assert "weather" not in bbflow("status", "--contact", contact)


@pytest.mark.slow
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
