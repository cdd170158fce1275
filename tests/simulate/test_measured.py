"""A cloud's profile from the events of a run."""

import json
import time

import pytest

from bbflow.cli import main
from bbflow.cli.scenarios import find
from bbflow.errors import ConfigError
from bbflow.events import EVENTS_FILE, noted_task, read_events
from bbflow.simulate.measured import first_read_bytes, measured, profile_of_events, time_spent
from bbflow.simulate.rented_nodes import run_cloud
from bbflow.simulate.scenario import load_scenario


def ran(start, end, share, host="a", inputs=None, outputs=None):
    times = {"started_s": start, "ended_s": end, "user_s": share * (end - start)}
    return {"event": "ran", "task": "t", "host": host, **times, "inputs": inputs or {}, "outputs": outputs or {}}


def transfer(start, end, size):
    return {"event": "transfer", "url": "s3://b/x", "bytes": size, "started_s": start, "ended_s": end}


RUN = [
    transfer(0, 2, 30e6),
    transfer(1, 3, 30e6),
    ran(4, 8, 0.5, inputs={"/bb/in": 60_000_000}, outputs={"/bb/a": 20_000_000}),
    ran(4, 8, 0.5, inputs={"/bb/in": 60_000_000}, outputs={"/bb/b": 20_000_000}),
    ran(10, 14, 0.75, inputs={"/bb/a": 20_000_000, "/bb/b": 20_000_000}, outputs={"/bb/c": 40_000_000}),
]
"""60 MB in 3 s; two tasks side by side, then one."""


def written(directory, events):
    (directory / EVENTS_FILE).write_text("".join(json.dumps(event) + "\n" for event in events))
    return directory


def test_the_profile_is_what_the_tasks_did(tmp_path):
    profile, assumed = profile_of_events(RUN, tmp_path)
    assert assumed == []
    assert profile == {
        "input_bytes": 60e6,
        "buffered_bytes": 240e6,
        "compute_s": 5.0,
        "serial_share": 0.6,
        "node_bytes_per_s": 80e6,
        "cloud_bytes_per_s": 20e6,
    }


def test_one_node_of_each_kind_takes_as_long_as_the_run_that_was_measured(tmp_path):
    scenario = measured(load_scenario(find("cloudbb")), written(tmp_path, RUN))
    assert run_cloud(scenario.setting).total_s == pytest.approx(3 + 8)


def test_hosts_that_compute_side_by_side_count_each():
    spent = time_spent([ran(0, 4, 1.0, "a"), ran(0, 4, 1.0, "b"), ran(4, 5, 1.0, "b")])
    assert (spent.compute_s, spent.serial_s, spent.io_s) == (9.0, 1.0, 0.0)


def test_what_a_task_of_the_run_wrote_is_no_input():
    assert first_read_bytes(RUN[2:]) == 60_000_000


def test_a_run_that_staged_nothing_keeps_the_scenarios_throughput_and_says_so(tmp_path):
    scenario = measured(load_scenario(find("cloudbb")), written(tmp_path, RUN[2:]))
    assert scenario.setting.profile.cloud_bytes_per_s == 18e6
    assert scenario.assumed == ("cloud_bytes_per_s: nothing was staged in this run, so it is the scenario's",)


def test_events_without_tasks_are_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="has no tasks that say what they read and wrote"):
        measured(load_scenario(find("cloudbb")), written(tmp_path, RUN[:2]))


def test_a_profile_belongs_to_a_cloud(tmp_path):
    with pytest.raises(ConfigError, match="testbed isn't a cloud"):
        measured(load_scenario(find("testbed")), written(tmp_path, RUN))


def test_a_task_notes_its_times_and_the_files_that_are_there(tmp_path):
    (tmp_path / "in").write_bytes(b"12345")
    began_s = time.time()
    with noted_task(tmp_path / "events", "copy", [tmp_path / "in"], [tmp_path / "out", tmp_path / "none"]):
        (tmp_path / "out").write_bytes(b"123")
    (event,) = read_events(tmp_path / "events")
    assert (event["event"], event["task"]) == ("ran", "copy")
    assert event["inputs"] == {str(tmp_path / "in"): 5}
    assert event["outputs"] == {str(tmp_path / "out"): 3}
    assert began_s <= event["started_s"] <= event["ended_s"]
    assert event["user_s"] >= 0


def test_a_task_that_fails_notes_nothing(tmp_path):
    with pytest.raises(ValueError, match="no"), noted_task(tmp_path / "events", "bad", [], []):
        raise ValueError("no")
    assert not list(read_events(tmp_path / "events"))


def test_the_command_line_plans_from_a_run(tmp_path, capsys):
    assert main(["plan", "cloudbb", "--profile", str(written(tmp_path, RUN)), "--json"]) == 0
    chosen = json.loads(capsys.readouterr().out)["chosen"]
    assert [dict(each["knobs"])["rent.compute_nodes"] for each in chosen] == ["1", "2", "4"]
