import json
import os
import signal
import sys

import bbflow_adios2
import mainjob
import numpy as np
import psutil
import pytest
import xarray as xr
import yaml
from victims import descendants, find, finish, wait_for_folds, worker_of

from bbflow.cli import main
from bbflow.run.course import INCOMPLETE
from testsupport.waiting import until

STEPS = 130


@pytest.fixture(scope="module")
def truth(program, tmp_path_factory):
    return mainjob.oracle(program, tmp_path_factory.mktemp("oracle"), STEPS)


def slow_config(directory, processes=1):
    """Small batches and a small pool: the simulation can't be done before the analysis is."""
    workers = {"processes": processes, "batch_steps": 2}
    return mainjob.write_config(directory, nodes={"capacity": "512KiB"}, workers=workers, raw={"variables": ["tas"]})


def config_with_worker(directory):
    return mainjob.write_config(directory, workers={"processes": 1, "batch_steps": 8})


def write_thresholds(folder, limits):
    """Write thresholds by the number of the day, as the calendar of 365 days has them; they take their place whole."""
    days = ("dayofyear", np.arange(1, 366))
    xr.Dataset({"tx90": (("dayofyear", "lat", "lon"), limits[:365])}, {"dayofyear": days}).to_netcdf(folder / "new.nc")
    (folder / "new.nc").replace(folder / "tx90.nc")


def with_thresholds(config, limits):
    """Add what needs thresholds of a file."""
    write_thresholds(config.parent, limits)
    content = yaml.safe_load(config.read_text())
    content["operators"] |= {
        "warm": {"of": "tas", "operators": [{"TX90p": {"thresholds": "tx90.nc", "window": "run"}}]},
        "above": {"of": "tas - limit", "fields": {"limit": "tx90.nc"}, "operators": ["mean"], "windows": ["run"]},
    }
    config.write_text(yaml.safe_dump(content))
    return config


def assert_thresholds_are_those_of_the_begin(output, truth, limits):
    results, days = xr.open_zarr(output / "results.zarr"), truth.time.dt.dayofyear.values - 1
    mean = (truth.tas.values - limits[days]).mean(axis=0)
    np.testing.assert_allclose(results.above_run_mean[0], mean, rtol=1e-6, atol=1e-4)
    daily = truth.tas.groupby("time.dayofyear").max(skipna=False).values
    warm = 100 * (daily > limits[: len(daily)]).mean(axis=0)
    np.testing.assert_allclose(results.warm_run_TX90p[0], np.where(np.isnan(mean), np.nan, warm), rtol=1e-9)


@pytest.mark.parametrize("processes", [0, 1], ids=["threads", "processes"])
def test_results_survive_killed_workers_analyses_and_agents(program, tmp_path, truth, processes):
    limits = truth.tas.values.mean(axis=0) + np.linspace(-2, 2, 366)[:, np.newaxis, np.newaxis]
    config = with_thresholds(slow_config(tmp_path, processes), limits)
    process = mainjob.start_run(config, mainjob.simulation(program, 2, STEPS))

    def whoever_folds():
        analysis = find(process, "bbflow fold")
        return worker_of(analysis) if processes else analysis

    victims = {
        3: whoever_folds,
        10: lambda: find(process, "bbflow fold"),
        20: lambda: find(process, "bbflow node"),
        30: whoever_folds,
    }
    for count, victim in victims.items():
        wait_for_folds(process, tmp_path / "out", count)
        victim().kill()
        write_thresholds(tmp_path, limits + 100)  # what is held since the run began counts
    code, said = finish(process)
    assert code == 0, said
    mainjob.assert_equals_oracle(tmp_path / "out", truth)
    assert_thresholds_are_those_of_the_begin(tmp_path / "out", truth, limits[:365])
    raw = xr.open_zarr(tmp_path / "out" / "raw.zarr")
    assert raw.bbflow_step.values.tolist() == list(range(STEPS))
    assert (raw.tas.values == truth.tas.values.astype("f4")).all()


@pytest.mark.slow
def test_a_simulation_that_dies_in_a_step_leaves_results_of_the_committed_ones(program, tmp_path, truth):
    command = mainjob.simulation(program, 2, STEPS, die_at_step=100)
    code, said = mainjob.run(mainjob.write_config(tmp_path), command)
    assert code not in (0, None), said
    results = mainjob.assert_equals_oracle(tmp_path / "out", truth.isel(time=slice(100)))
    assert results.attrs["bbflow_status"] == "incomplete"
    assert results.attrs["bbflow_failure"] == "the simulation ended without closing the stream"
    events = [json.loads(line) for line in (tmp_path / "out" / "events.jsonl").read_text().splitlines()]
    assert events[-1]["status"] == "incomplete"


def test_an_interrupt_leaves_no_process_and_no_shared_memory(program, tmp_path):
    process = mainjob.start_run(config_with_worker(tmp_path), mainjob.simulation(program, 2, 100_000))
    wait_for_folds(process, tmp_path / "out", 5)
    children, seen = descendants(process), mainjob.in_memory(process)
    process.send_signal(signal.SIGINT)
    code, said = finish(process)
    assert code == 130, said
    _, alive = psutil.wait_procs(children, timeout=300)
    assert not alive
    assert any(name.startswith("bbflow-") for name in seen)
    assert not mainjob.left_behind(seen)
    assert xr.open_zarr(tmp_path / "out" / "results.zarr").attrs["bbflow_status"] == "incomplete"


@pytest.mark.slow
def test_a_second_interrupt_at_the_very_end_of_the_analysis_ends_the_run(program, tmp_path):
    config = mainjob.write_config(tmp_path)
    process = mainjob.start_run(config, mainjob.simulation(program, 1, 100_000))
    wait_for_folds(process, tmp_path / "out", 2)
    process.send_signal(signal.SIGINT)
    until((tmp_path / "out" / "state.bbflow").exists, "the saved state, which comes last")
    process.send_signal(signal.SIGINT)
    code, said = finish(process, timeout=60)
    assert code == 130, said
    assert "the simulation continues" not in said


def test_a_killed_run_leaves_no_process_and_no_pool(program, tmp_path):
    xml = tmp_path / "climate.xml"  # the simulation waits no minute for the nodes to come back
    xml.write_text(bbflow_adios2.engine_xml("climate", NodeLossTimeoutSecs="1"))
    command = mainjob.simulation(program, 1, 100_000, config=xml)
    process = mainjob.start_run(config_with_worker(tmp_path), command)
    wait_for_folds(process, tmp_path / "out", 2)
    children, seen = descendants(process), mainjob.in_memory(process)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=300)
    assert not alive
    assert any(name.startswith("bbflow-") for name in seen)
    assert not mainjob.left_behind({name for name in seen if name.startswith("bbflow-")})


@pytest.mark.cold  # else the process that programs are forked from may begin in it, a child too
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operators": {"tas": ["maen"]}}, "did you mean 'mean'?"),
        ({"operator": {}}, "did you mean 'operators'?"),
        ({"time": {"calendar": "noleep"}}, "did you mean 'noleap'?"),
        ({"nodes": {"capacity": "900TB"}}, "pools and states need 819 TiB; lower nodes: capacity"),
    ],
)
def test_what_can_not_run_is_refused_before_anything_starts(tmp_path, capsys, changes, words):
    config, before = mainjob.write_config(tmp_path, **changes), psutil.Process().children()
    code = main(["run", str(config), "--", "touch", str(tmp_path / "started")])
    said = capsys.readouterr().err
    assert code not in (0, None), said
    assert words in said
    assert "Traceback" not in said
    assert psutil.Process().children() == before
    assert os.listdir(tmp_path) == [config.name]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stream": "weather"}, "never opened stream 'weather'"),
        ({"nodes": {"capacity": "16KiB"}}, "give the node more capacity"),
    ],
)
def test_what_does_not_fit_the_simulation_gives_one_clear_message(program, tmp_path, changes, words):
    config = mainjob.write_config(tmp_path, **changes)
    code, said, seen = mainjob.watched_run(config, mainjob.simulation(program, 1, 60))
    assert code not in (0, None), said
    assert words in said
    assert "Traceback" not in said
    assert not mainjob.left_behind(seen)


def test_a_simulation_that_cannot_start_is_named(tmp_path):
    code, said = mainjob.run(mainjob.write_config(tmp_path), ["./no-such-model"])
    assert code != 0
    assert "can't start the simulation './no-such-model'" in said


@pytest.mark.parametrize(
    ("way", "kept", "words"), [("exit 7", 7, "ended with exit code 7"), ("kill -SEGV $$", 139, "was killed by SIGSEGV")]
)
def test_the_simulations_exit_code_is_kept(tmp_path, way, kept, words):
    code, said = mainjob.run(mainjob.write_config(tmp_path), ["sh", "-c", way])
    assert code == kept, said
    assert f"{words} and never opened stream" in said


def test_the_simulation_goes_on_when_its_analysis_fails_and_every_step_is_rescued(program, tmp_path, truth):
    wrong = {"operators": {"tass": ["mean"]}, "time": {"variable": "no-such-time"}}
    config = mainjob.write_config(tmp_path, nodes={"count": 2, "capacity": "512KiB"}, **wrong)
    code, said, seen = mainjob.watched_run(config, mainjob.simulation(program, 2, STEPS))
    assert code == INCOMPLETE, said
    assert "Traceback" not in said
    assert not mainjob.left_behind(seen)
    assert f"{STEPS} of {STEPS} steps" in said
    assert "THE STATISTICS ARE INCOMPLETE" in said
    assert said.count("did you mean 'tas'?") == 1
    rescued = xr.open_zarr(tmp_path / "out" / "rescued" / "raw.zarr")
    assert {"tas", "pr", "psl", "ta"} <= set(rescued.data_vars)
    assert (rescued.tas.values == truth.tas.values.astype("f4")).all()
    again = mainjob.write_config(tmp_path, output=str(tmp_path / "again"), raw="none")
    raw = str(tmp_path / "out" / "rescued" / "raw.zarr")
    code, said = mainjob.run(again, [sys.executable, "-m", "bbflow", "replay", raw, "--stream", "climate"])
    assert code == 0, said
    mainjob.assert_equals_oracle(tmp_path / "again", truth)


def test_the_simulation_is_stopped_when_its_analysis_fails_if_the_user_wants_that(program, tmp_path):
    config = mainjob.write_config(tmp_path, operators={"tass": ["mean"]}, on_failure="stop")
    code, said = mainjob.run(config, mainjob.simulation(program, 1, 100_000))
    assert code not in (0, INCOMPLETE), said
    rescued = xr.open_zarr(tmp_path / "out" / "rescued" / "raw.zarr")
    assert rescued.sizes["time"] > 0


@pytest.mark.slow
def test_a_worker_that_dies_while_the_analysis_starts_costs_nothing(program, tmp_path, truth):
    process = mainjob.start_run(slow_config(tmp_path), mainjob.simulation(program, 2, STEPS))
    worker_of(find(process, "bbflow fold")).kill()
    code, said = finish(process)
    assert code == 0, said
    assert "Traceback" not in said
    mainjob.assert_equals_oracle(tmp_path / "out", truth)
