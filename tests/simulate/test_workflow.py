"""Workflows as graphs: how they are written, and what their planners make of them."""

import json

import pytest

from bbflow.cli import main
from bbflow.cli.plan import usual_knobs
from bbflow.cli.scenarios import find
from bbflow.errors import CapacityError, ConfigError
from bbflow.simulate.graph import Level, graph_of_levels
from bbflow.simulate.runs import run_once
from bbflow.simulate.scenario import load_scenario, parse_scenario
from bbflow.simulate.staging_graphs import graph_of_plan
from bbflow.simulate.workflow import split_way
from bbflow.staging.ahead import plan_ahead
from bbflow.staging.waves import Waves

LEVELS = {
    "project": {"tasks": 8, "input_bytes": "40MB", "compute_s": 1, "output_bytes": "20MB"},
    "fit": {"tasks": 8, "reads": "project:2", "compute_s": 0.5, "output_bytes": "1MB"},
    "model": {"tasks": 1, "reads": "fit:all", "compute_s": 1, "output_bytes": "1MB"},
    "add": {"tasks": 1, "reads": "project:all, model:all", "compute_s": 1, "output_bytes": "100MB"},
}


def content(capacity="1GB", **changes):
    written = {
        "kind": "workflow",
        "file_system": {"servers": 1, "server_bytes_per_s": "100 MB/s"},
        "burst_buffer": {"nodes": 1, "node_capacity_bytes": capacity, "link_bytes_per_s": "1 GB/s", "fetchers": 2},
        "workflow": {"nodes": 2, "slots": 4, "link_bytes_per_s": "1 GB/s"},
        "levels": LEVELS,
        "application": {"ranks": 2, "rank_bytes": "20MB", "pause_s": 1.0},
    }
    return {key: value for key, value in (written | changes).items() if value is not None}


def small(capacity="1GB", **changes):
    return parse_scenario("small", content(capacity, **changes))


def test_neighbours_share_files_and_one_task_reads_all():
    graph = graph_of_levels(
        {"a": Level(3, 1.0, 5, 5), "b": Level(3, 1.0, reads="a:2"), "c": Level(1, 1.0, reads="b:all")}
    )
    reads = {task.key: [file.url for file in task.inputs] for task in graph.tasks}
    assert reads["b-0"] == ["/a-0", "/a-1"]
    assert reads["b-2"] == ["/a-1", "/a-2"]
    assert reads["c-0"] == ["/b-0", "/b-1", "/b-2"]
    assert graph.parents["b-1"] == ("a-1", "a-2")


def test_the_scale_multiplies_all_but_what_is_one():
    graph = graph_of_levels({"a": Level(3, 1.0, 5, 5), "c": Level(1, 1.0, reads="a:all")}, scale=4)
    assert len(graph.tasks) == 13
    assert len(graph.tasks[-1].inputs) == 12


def test_pegasus_waves_are_those_of_the_real_planner(monkeypatch):
    asked = []

    def noted(*given):
        asked.append(given)
        return plan_ahead(*given)

    monkeypatch.setattr("bbflow.simulate.planned.plan_ahead", noted)
    run_once(small(), "pegasus", 0)
    ((tasks, parents, slots, capacity_bytes, lookahead),) = asked
    assert [task.key for task in tasks][:2] == ["project-0", "project-1"]
    assert parents["model-0"] == tuple(f"fit-{number}" for number in range(8))
    assert (slots, capacity_bytes, lookahead) == (4, 1_000_000_000, 1)


def test_parsl_tells_the_waves_in_program_order_of_what_no_task_makes(monkeypatch):
    told = []

    class Noted(Waves):
        def add(self, task, order=None):
            told.append((task.key, [file.url for file in task.inputs]))
            return super().add(task, order)

    monkeypatch.setattr("bbflow.simulate.stager.Waves", Noted)
    run_once(small(), "parsl", 0)
    assert told == [(f"project-{number}", [f"/pfs/project-{number}"]) for number in range(8)]


def test_inputs_that_come_ahead_keep_slots_from_standing():
    read_s = {way: run_once(small(), way, 0).read_s for way in ("naive", "parsl", "pegasus")}
    assert read_s["parsl"] < 0.5 * read_s["naive"]
    assert read_s["pegasus"] < 0.5 * read_s["naive"]


def test_full_delay_leaves_the_application_alone_while_inputs_come():
    slowdowns = {way: run_once(small(), f"parsl+{way}", 0).slowdown for way in ("no-action", "full-delay")}
    assert slowdowns["full-delay"] < slowdowns["no-action"]


def test_room_is_never_exceeded_and_too_little_of_it_is_parsls_matter_but_an_error_of_pegasus():
    outcome = run_once(small("200MB"), "parsl", 0)
    assert 0 < outcome.held_bytes <= 200_000_000
    with pytest.raises(CapacityError, match="give it more room"):
        run_once(small("200MB"), "pegasus", 0)


@pytest.mark.parametrize("way", ["naive", "parsl", "pegasus", "pegasus+full-delay"])
def test_a_seed_gives_the_same_figures_again(way):
    assert run_once(small(), way, 3) == run_once(small(), way, 3)


def test_a_plan_that_can_be_staged_can_be_simulated(tmp_path):
    made = [{"url": "/bb/a", "size": "1MB"}]
    steps = [
        {"task": "a", "inputs": [{"url": "/pfs/x", "size": "10MB"}], "outputs": made, "compute_s": 2},
        {"task": "b", "inputs": made, "compute_s": 3},
    ]
    (tmp_path / "plan.json").write_text(json.dumps(steps))
    (tmp_path / "mine.yml").write_text(
        json.dumps(content(levels=None, workflow=content()["workflow"] | {"plan": "plan.json"}))
    )
    scenario = load_scenario(tmp_path / "mine.yml")
    for way in ("naive", "parsl", "pegasus"):
        assert run_once(scenario, way, 0).job_s == pytest.approx(5, abs=1)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([{"task": "a", "inputs": ["/x"]}], "compute_s"),
        ([{"task": "a", "inputs": ["/x"], "compute_s": 1}], "/x has no size"),
        ([{"task": "a", "inputs": [{"url": "/x", "size": 1}], "compute_s": -1}], "isn't a number of seconds"),
        (
            [
                {"task": "a", "inputs": [{"url": "/m", "size": 1}], "compute_s": 1},
                {"task": "b", "outputs": [{"url": "/m", "size": 1}], "compute_s": 1},
            ],
            "'b' makes, which comes after it",
        ),
    ],
)
def test_a_plan_that_cant_be_simulated_is_one_clear_error(tmp_path, steps, told):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(steps))
    with pytest.raises(ConfigError, match=told):
        graph_of_plan(path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"levels": {"a": {"tasks": 1, "compute_s": 1, "reads": "z:1"}}}, "'z' isn't a level before"),
        ({"levels": LEVELS | {"fit": LEVELS["fit"] | {"reads": "project:9"}}}, "1 to 8 files"),
        ({"levels": None}, "one of the section 'levels', workflow.plan and workflow.trace"),
        ({"levels": {"a": {"tasks": 0, "compute_s": 1}}}, "levels.a: tasks: 0 is not a whole number from 1"),
        ({"ways": ["parsel"]}, "did you mean 'parsl'"),
        ({"ways": ["parsl+full-delai"]}, "did you mean 'full-delay'"),
        ({"workflow": content()["workflow"] | {"nodes": 0}}, "workflow: nodes: 0 is not a whole number from 1"),
    ],
)
def test_a_wrong_workflow_is_one_clear_error(changes, told):
    with pytest.raises(ConfigError, match=told):
        small(**changes)


def test_a_policy_needs_an_application():
    with pytest.raises(ConfigError, match="no application"):
        run_once(small(application=None), "pegasus+full-delay", 0)
    assert split_way("pegasus") == ("pegasus", "no-action")


@pytest.mark.parametrize("name", ["testbed", "eley-2", "abb-8", "montage"])
def test_a_plan_searches_capacity_and_nodes_and_what_the_scenario_has_besides(name):
    knobs = usual_knobs(load_scenario(find(name)))
    staged = {"burst_buffer.fetchers"} if name != "abb-8" else set()
    assert "burst_buffer.node_capacity_bytes" in knobs
    assert staged <= knobs.keys()
    assert any(key.endswith(".lookahead") for key in knobs) == bool(staged)


def test_half_and_double_of_a_capacity_are_sizes_again():
    knobs = usual_knobs(small("8 GiB"))
    assert knobs["burst_buffer.node_capacity_bytes"] == ("4 GiB", "8 GiB", "16 GiB")
    assert usual_knobs(small("1000001B"))["burst_buffer.node_capacity_bytes"] == ("500000", "1000001", "2000002")


def test_the_command_plans_a_workflow(tmp_path, capsys):
    path = tmp_path / "mine.yml"
    path.write_text(json.dumps(content(ways=["naive", "parsl", "pegasus"])))
    assert main(["plan", str(path), "--vary", "workflow.lookahead=1,2", "--json", "--most-slowdown", "9"]) == 0
    chosen = json.loads(capsys.readouterr().out)["chosen"]
    assert chosen[0]["way"] in ("parsl", "pegasus")
