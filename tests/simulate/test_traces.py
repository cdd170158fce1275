"""Workflows that are traces in WfFormat, with batch queues and outages: read in full, or refused in one line."""

import json
from dataclasses import replace

import pytest

from bbflow.cli import main
from bbflow.cli.scenarios import find
from bbflow.errors import ConfigError
from bbflow.simulate.runs import run_once
from bbflow.simulate.scenario import load_scenario, parse_scenario, with_trace
from bbflow.simulate.traces import graph_of_trace
from bbflow.simulate.workflow import run_workflow
from bbflow.simulate.world import StandstillError

TASKS = [
    {"id": "add", "parents": ["project_1", "project_2", "tell"], "inputFiles": ["p1", "p2"], "outputFiles": ["mosaic"]},
    {"id": "project_1", "inputFiles": ["raw1", "hdr"], "outputFiles": ["p1"]},
    {"id": "project_2", "inputFiles": ["raw2", "hdr"], "outputFiles": ["p2"]},
    {"id": "tell", "parents": ["project_1"]},
]
"""In an order in which they can't run, and with one that is waited for without a file."""
SIZES = {"raw1": 40_000_000, "raw2": 60_000_000, "hdr": 300, "p1": 20_000_000, "p2": 30_000_000, "mosaic": 45_000_000}
RUNTIMES = {"project_1": 4.0, "project_2": 6.5, "add": 3.0, "tell": 0.5}


def trace(tasks=TASKS, sizes=SIZES, runtimes=RUNTIMES, version="1.5"):
    whole = [{"name": task["id"], "parents": [], "children": []} | task for task in tasks]
    return {
        "name": "mosaic",
        "schemaVersion": version,
        "workflow": {
            "specification": {
                "tasks": whole,
                "files": [{"id": name, "sizeInBytes": size} for name, size in sizes.items()],
            },
            "execution": {
                "makespanInSeconds": 20,
                "executedAt": "2026-01-01T00:00:00Z",
                "tasks": [
                    {"id": key, "runtimeInSeconds": seconds, "coreCount": 1} for key, seconds in runtimes.items()
                ],
            },
        },
    }


@pytest.fixture
def written(tmp_path):
    def write(**changes):
        path = tmp_path / "mosaic.json"
        path.write_text(json.dumps(trace(**changes)))
        return path

    return write


def site(**changes):
    content = {
        "kind": "workflow",
        "file_system": {"servers": 1, "server_bytes_per_s": "100 MB/s"},
        "burst_buffer": {"nodes": 1, "node_capacity_bytes": "1GB", "link_bytes_per_s": "1 GB/s", "fetchers": 2},
        "workflow": {"nodes": 2, "slots": 4, "link_bytes_per_s": "1 GB/s"} | changes,
        "levels": {"work": {"tasks": 40, "input_bytes": "10MB", "compute_s": 10}},
    }
    return parse_scenario("site", content)


def test_a_trace_tells_files_sizes_runtimes_and_what_waits_for_what(written):
    graph = graph_of_trace(written())
    assert [task.key for task in graph.tasks] == ["project_1", "project_2", "tell", "add"]
    assert graph.compute_s == RUNTIMES
    assert graph.parents["add"] == ("project_1", "project_2", "tell")
    assert graph.parents["tell"] == ("project_1",)
    (first, *_) = graph.tasks
    assert [(file.url, file.size_bytes) for file in graph.sources(first)] == [("/raw1", 40_000_000), ("/hdr", 300)]
    assert graph.least_s(slots=4) == 9.5
    assert graph.least_s(slots=1) == sum(RUNTIMES.values())


@pytest.mark.parametrize("way", ["naive", "parsl", "pegasus"])
def test_every_planner_runs_a_trace_no_faster_than_its_longest_chain(written, way):
    scenario = with_trace(load_scenario(find("montage")), written())
    outcome = run_once(scenario, way, 0)
    assert outcome.job_s >= 9.5
    assert any("as long as it ran" in line for line in scenario.assumed)


def test_the_command_takes_a_trace_with_ways_and_variations(written, capsys):
    words = ["--way", "parsl", "--vary", "workflow.slots=1,4", "--json", "-"]
    assert main(["simulate", "--trace", str(written()), *words]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [row["knobs"]["workflow.slots"] for row in rows] == ["1", "4"]
    assert rows[0]["job_s"] > rows[1]["job_s"]
    assert main(["plan", "--trace", str(written()), "--way", "parsl", "--vary", "burst_buffer.nodes=1,2"]) == 0
    assert capsys.readouterr().out.startswith("take parsl, burst_buffer.nodes=1\n")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version": "1.4"}, "WfFormat '1.4', but 1.5 is read"),
        ({"tasks": []}, "has no tasks"),
        ({"tasks": [*TASKS, TASKS[1]]}, "two tasks 'project_1'"),
        ({"tasks": [*TASKS, {"id": "again", "outputFiles": ["p1"]}]}, "two makers of file 'p1'"),
        (
            {"tasks": [{"id": "a", "parents": ["nobody"]}], "runtimes": {"a": 1}},
            "parent 'nobody' of task 'a' isn't there",
        ),
        ({"runtimes": {"add": 1}}, "didn't run: it has no runtimeInSeconds"),
        ({"runtimes": RUNTIMES | {"add": -1}}, "isn't a trace in WfFormat 1.5: .* >= 0"),
        ({"sizes": {}}, "the file .* has no size"),
        (
            {"tasks": [{"id": "a", "parents": ["b"]}, {"id": "b", "parents": ["a"]}], "runtimes": {"a": 1, "b": 1}},
            "waits for itself",
        ),
    ],
)
def test_a_trace_that_cant_have_run_is_one_clear_error(written, changes, told):
    with pytest.raises(ConfigError, match=told):
        graph_of_trace(written(**changes))


def test_what_is_no_trace_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match=r"can't read the trace .*none.json"):
        graph_of_trace(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("kind: workflow")
    with pytest.raises(ConfigError, match="isn't a trace in WfFormat"):
        graph_of_trace(tmp_path / "text.json")
    with pytest.raises(ConfigError, match="a trace needs one of kind 'workflow'"):
        with_trace(load_scenario(find("testbed")), tmp_path / "text.json")


def test_nodes_that_wait_in_a_batch_queue_delay_the_workflow():
    direct, queued = (run_once(site(queue_wait_s=wait), "parsl", 1).job_s for wait in (0, 500))
    assert queued > direct
    assert run_once(site(queue_wait_s=500), "parsl", 1).job_s == queued


@pytest.mark.parametrize("way", ["naive", "parsl", "pegasus"])
def test_tasks_of_a_node_that_goes_down_run_again(way):
    quiet, troubled = run_once(site(), way, 1), run_once(site(node_mtbf_s=30, repair_s=20), way, 1)
    assert quiet.lost_tasks == 0 < troubled.lost_tasks
    assert troubled.job_s > quiet.job_s


def test_tasks_that_outlast_every_node_are_an_error_instead_of_a_wait_for_ever():
    with pytest.raises(StandstillError, match="tasks compute for longer than nodes stay up"):
        run_once(site(node_mtbf_s=0.1), "naive", 0)


def test_uploads_and_fetches_at_once_each_have_a_rank_of_their_own():
    """A fetch that was asked for after an upload had begun took its rank, and one of the two was forgotten."""
    levels = {
        "make": {"tasks": 60, "input_bytes": "1MB", "compute_s": 0.1, "output_bytes": "40MB"},
        "use": {"tasks": 60, "reads": "make:1", "input_bytes": "40MB", "compute_s": 0.1, "output_bytes": "40MB"},
    }
    content = site().content | {"levels": levels}
    content["burst_buffer"] = content["burst_buffer"] | {"node_capacity_bytes": "400MB"}
    assert run_once(parse_scenario("busy", content), "parsl", 0).job_s > 0


def test_outages_end_with_the_workflow_though_an_application_goes_on_beside_it(written):
    beside = with_trace(load_scenario(find("montage")), written()).setting
    assert beside.application is not None
    troubled = replace(beside, workflow=replace(beside.workflow, node_mtbf_s=3000, repair_s=60))
    assert run_workflow(troubled, "parsl+full-delay", 0).job_s > 0
