"""A planned DAG gets waves: in whichever order DAGMan runs it, the burst buffer never holds more than it can."""

import json
import random
import re
from pathlib import Path

import pytest
from bbflow_pegasus.dag.nodes import parse_dag
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from submitdirs import Planned, Planner, fan, sizes_of, wave

from bbflow.host.belongings import MARK


def entries_of(path, dag, name):
    file = path / (dag.submit_file(name).removesuffix(".sub") + ".in")
    return json.loads(file.read_text()) if file.is_file() else []


class Burst:
    """Runs a DAG in any order that its edges allow, and watches what lies on the burst buffer."""

    def __init__(self, path, jobs, sizes, seed):
        self.dag = parse_dag((path / "wf-0.dag").read_text())
        self.path, self.jobs, self.sizes, self.random = path, jobs, sizes, random.Random(seed)
        self.here, self.out, self.order, self.most_bytes = set(), set(), [], 0

    def run(self):
        waiting = {name: set(parents) for name, parents in self.dag.parents().items()}
        children = self.dag.children()
        ready = [name for name, parents in waiting.items() if not parents]
        while ready:
            name = ready.pop(self.random.randrange(len(ready)))
            self._do(name)
            self.order.append(name)
            for child in children[name]:
                waiting[child].discard(name)
                if not waiting[child]:
                    ready.append(child)
        assert len(self.order) == len(self.dag.nodes), "jobs wait for each other"

    def _do(self, name):
        entries = entries_of(self.path, self.dag, name)
        if name.startswith("stage_in"):
            assert not self.here & {entry["lfn"] for entry in entries}, "a file came that was there"
            self.here |= {entry["lfn"] for entry in entries}
        elif name.startswith("stage_out"):
            assert {entry["lfn"] for entry in entries} <= self.here
            self.out |= {entry["lfn"] for entry in entries}
        elif name.startswith("clean_up"):
            gone = {entry["target"]["url"].rpartition("/")[2] for entry in entries}
            assert gone <= self.here, "a file was removed that wasn't there"
            self.here -= gone
        elif name in self.jobs:
            assert set(self.jobs[name].inputs) <= self.here, "a job lacked a file"
            self.here |= set(self.jobs[name].outputs)
        self.most_bytes = max(self.most_bytes, sum(self.sizes[file] for file in self.here))


def test_waves_come_one_after_the_other_and_only_stage_in_jobs_wait_for_a_gate(tmp_path):
    jobs = fan(6, results=False)
    inputs = {name: size for name, size in sizes_of(jobs).items() if not name.startswith(("out", "final"))}
    Planner(tmp_path / "s", jobs, inputs)
    assert wave(tmp_path / "s", "--capacity", "10kB", "--slots", "2") == 0
    dag = parse_dag((tmp_path / "s/wf-0.dag").read_text())
    gates = [name for name in dag.nodes if name.startswith("noop")]
    assert gates == [f"noop_bb_wave_{n}" for n in (2, 3)], "the first wave and the one ahead wait for nothing"
    assert all(dag.nodes[gate][0].endswith(" NOOP") for gate in gates)
    assert all(child.startswith(("stage_in", "noop")) for parent, child in dag.edges if parent in gates)
    before = set(dag.parents()["noop_bb_wave_3"])
    assert {"job_2", "job_3", "stage_in_local_bb_1_0", "noop_bb_wave_2"} <= before
    assert not any(name.startswith("stage_in_local_bb_2") for name in before), "the link is never at rest"


def test_a_wave_waits_for_the_room_that_an_earlier_one_leaves(tmp_path):
    jobs = fan(6)
    Planner(tmp_path / "s", jobs, sizes_of(jobs))
    assert wave(tmp_path / "s", "--capacity", "810", "--slots", "2") == 0
    dag = parse_dag((tmp_path / "s/wf-0.dag").read_text())
    assert any(name.startswith("clean_up_bb_wave") for name in dag.parents()["noop_bb_wave_3"])
    removed = [
        e["target"]["url"] for n in dag.nodes if n.startswith("clean_up") for e in entries_of(tmp_path / "s", dag, n)
    ]
    assert len(removed) == len(set(removed))


def test_who_needs_the_room_of_inputs_waits_for_no_copies_of_results(tmp_path):
    jobs = {f"job_{n}": Planned((f"in_{n}",), (f"out_{n}",), (f"out_{n}",)) for n in range(8)}
    sizes = {name: 1 if name.startswith("out") else 100 for name in sizes_of(jobs)}
    Planner(tmp_path / "s", jobs, sizes)
    assert wave(tmp_path / "s", "--capacity", "410", "--slots", "2") == 0
    dag = parse_dag((tmp_path / "s/wf-0.dag").read_text())
    parents = dag.parents()
    assert set(parents["clean_up_bb_wave_1_0"]) == {"job_2", "job_3"}
    assert "clean_up_bb_wave_1_0" in parents["noop_bb_wave_3"]
    assert not any(name.startswith("stage_out_local_bb_1") for name in ahead_of("noop_bb_wave_3", parents))


def ahead_of(name, parents):
    """Return all that a job waits for."""
    found, waiting = set(), [name]
    while waiting:
        new = set(parents[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize("spare_bytes", [0, 50, 100, 400, 10_000])
def test_down_to_the_largest_set_room_is_enough_in_any_order_of_the_jobs(tmp_path, spare_bytes):
    jobs = fan(8)
    sizes = sizes_of(jobs)
    largest = max(sum(sizes[file] for file in (*job.inputs, *job.outputs)) for job in jobs.values())
    Planner(tmp_path / "s", jobs, sizes)
    assert wave(tmp_path / "s", "--capacity", str(largest + spare_bytes), "--slots", "3") == 0
    for seed in range(20):
        burst = Burst(tmp_path / "s", jobs, sizes, seed)
        burst.run()
        assert burst.most_bytes <= largest + spare_bytes
        assert burst.out == {file for job in jobs.values() for file in job.results}


@st.composite
def workflows(draw):
    """Return jobs that read inputs and what earlier ones made, and sizes: of all files, or of inputs only."""
    jobs, made = {}, []
    inputs = [f"in_{n}" for n in range(6)]
    for n in range(draw(st.integers(1, 9))):
        read = draw(st.sets(st.sampled_from(inputs), max_size=3))
        if made:
            read |= draw(st.sets(st.sampled_from(made), max_size=2))
        results = (f"out_{n}",) if draw(st.booleans()) else ()
        jobs[f"job_{n}"] = Planned(tuple(sorted(read)), (f"out_{n}",), results)
        made.append(f"out_{n}")
    return jobs, {name: draw(st.integers(1, 9)) for name in inputs + (made if draw(st.booleans()) else [])}


@settings(max_examples=40)
@given(workflows(), st.integers(1, 3), st.integers(0, 2), st.integers(0, 12), st.integers(0, 99))
def test_any_workflow_runs_to_its_end_within_its_room(tmp_path_factory, workflow, slots, lookahead, spare, seed):
    jobs, sizes = workflow
    assume(any(file.startswith("in_") for job in jobs.values() for file in job.inputs))
    path = tmp_path_factory.mktemp("planned") / "s"
    Planner(path, jobs, sizes)
    largest = max(sum(sizes.get(file, 0) for file in (*job.inputs, *job.outputs)) for job in jobs.values())
    capacity_bytes = max(1, largest + spare)
    options = ("--capacity", str(capacity_bytes), "--slots", str(slots), "--lookahead", str(lookahead))
    if wave(path, *options):
        # What jobs make must be kept for later ones, and that may be more than fits; of inputs it never is.
        assert "out_0" in sizes
        return
    burst = Burst(path, jobs, dict.fromkeys((file for job in jobs.values() for file in job.outputs), 0) | sizes, seed)
    burst.run()
    assert burst.most_bytes <= capacity_bytes


def test_the_same_command_again_changes_nothing_and_undo_puts_back_every_byte(tmp_path):
    jobs = fan(5)
    Planner(tmp_path / "s", jobs, sizes_of(jobs))
    before = content(tmp_path / "s")
    wave(tmp_path / "s", "--capacity", "900", "--slots", "2")
    waved = content(tmp_path / "s")
    assert waved != before
    wave(tmp_path / "s", "--capacity", "900", "--slots", "2")
    assert content(tmp_path / "s") == waved
    assert wave(tmp_path / "s", "--undo") == 0
    assert content(tmp_path / "s") == before


def content(path):
    files = (file for file in path.rglob("*") if file.is_file() and file.name != MARK)
    return {file.relative_to(path): file.read_bytes() for file in files}


def test_what_a_user_keeps_beside_the_waves_files_stays(tmp_path):
    jobs = fan(5)
    Planner(tmp_path / "s", jobs, sizes_of(jobs))
    before = content(tmp_path / "s")
    wave(tmp_path / "s", "--capacity", "900", "--slots", "2")
    notes = {Path("bbflow/notes.txt"): b"mine", Path("bbflow/without-waves/notes.txt"): b"mine too"}
    for path, text in notes.items():
        (tmp_path / "s" / path).write_bytes(text)
    wave(tmp_path / "s", "--capacity", "900", "--slots", "2")
    assert wave(tmp_path / "s", "--undo") == 0
    assert content(tmp_path / "s") == before | notes


def test_a_users_directory_of_the_same_name_is_left_alone(tmp_path, capsys):
    jobs = fan(5)
    Planner(tmp_path / "s", jobs, sizes_of(jobs))
    (tmp_path / "s/bbflow/without-waves").mkdir(parents=True)
    (tmp_path / "s/bbflow/without-waves/wf-0.dag").write_text("mine")
    before = content(tmp_path / "s")
    assert wave(tmp_path / "s", "--capacity", "900", "--slots", "2") != 0
    assert "isn't empty, and bbflow didn't make it" in capsys.readouterr().err
    wave(tmp_path / "s", "--undo")
    assert content(tmp_path / "s") == before


def test_of_pegasus_files_only_the_dag_the_list_of_jobs_and_where_checksums_come_from_change(tmp_path):
    jobs = fan(5)
    Planner(tmp_path / "s", jobs, sizes_of(jobs))
    before = content(tmp_path / "s")
    wave(tmp_path / "s", "--capacity", "900", "--slots", "2")
    after = content(tmp_path / "s")
    assert {str(file) for file in before if after[file] != before[file]} == {
        "wf-0.dag",
        "wf-0.static.bp",
        *(f"00/00/{job}.sub" for job in jobs),
    }


def test_checksums_come_from_the_jobs_that_bring_the_files_now(tmp_path):
    jobs = fan(4)
    Planner(tmp_path / "s", jobs, sizes_of(jobs))
    wave(tmp_path / "s", "--capacity", "10kB", "--slots", "2", "--transfers", "1")
    text = (tmp_path / "s/00/00/job_3.sub").read_text()
    metas = re.findall(r"\$\(wf_submit_dir\)/([^\s,]+\.meta)", text)
    assert sorted(metas) == ["bbflow/stage_in_local_bb_0_0.meta", "bbflow/stage_in_local_bb_1_0.meta"]
    out = (tmp_path / "s/bbflow/stage_out_local_bb_1_0.sub").read_text()
    assert re.findall(r"\$\(wf_submit_dir\)/00/00/([^\s,]+)\.meta", out) == ["job_3"]


def test_the_monitoring_daemon_is_told_of_every_job_and_edge(tmp_path):
    jobs = fan(4)
    Planner(tmp_path / "s", jobs, sizes_of(jobs))
    wave(tmp_path / "s", "--capacity", "900", "--slots", "2")
    dag = parse_dag((tmp_path / "s/wf-0.dag").read_text())
    told = (tmp_path / "s/wf-0.static.bp").read_text()
    assert re.findall(r'event=job.info .*? job.id="(\S+)"', told) == list(dag.nodes)
    assert re.findall(r'parent.job.id="(\S+)" child.job.id="(\S+)"', told) == list(dag.edges)
    assert all(f'submit_file="{dag.submit_file(name)}"' in told for name in dag.nodes)


def test_a_job_that_has_no_room_is_named_with_both_numbers_and_nothing_is_changed(tmp_path, capsys):
    jobs = {"small": Planned(("a",)), "large": Planned(("a", "b"))}
    Planner(tmp_path / "s", jobs, {"a": 1000, "b": 2000})
    before = content(tmp_path / "s")
    assert wave(tmp_path / "s", "--capacity", "2kB", "--slots", "2") != 0
    assert "'large' needs 2.93 KiB on the burst buffer at once, which has 1.95 KiB" in capsys.readouterr().err
    assert content(tmp_path / "s") == before


def test_without_sizes_waves_are_by_count_and_it_is_said(tmp_path, capsys):
    jobs = {f"job_{n}": Planned((f"in_{n}",)) for n in range(4)}
    Planner(tmp_path / "s", jobs, {})
    assert wave(tmp_path / "s", "--capacity", "1GB", "--slots", "2") == 0
    assert "none of 4 inputs has a known size: waves are by count" in capsys.readouterr().out
    waves = json.loads((tmp_path / "s/bbflow-waves.json").read_text())["waves"]
    assert [each["jobs"] for each in waves] == [["job_0", "job_1"], ["job_2", "job_3"]]


def test_a_size_that_nobody_said_is_that_of_the_file_itself(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(b"x" * 3000)
    Planner(tmp_path / "s", {"job": Planned(("a",))}, {}, source=f"file://{tmp_path}/in")
    assert wave(tmp_path / "s", "--capacity", "2kB", "--slots", "1") != 0
    assert "'job' needs 2.93 KiB" in capsys.readouterr().err


def test_limits_come_from_the_properties_of_the_plan(tmp_path):
    jobs = {f"job_{n}": Planned((f"in_{n}",)) for n in range(4)}
    properties = ["pegasus.bbflow.capacity=1 GB", "pegasus.bbflow.slots=1", "pegasus.bbflow.lookahead=2"]
    Planner(tmp_path / "s", jobs, sizes_of(jobs), properties=properties)
    assert wave(tmp_path / "s") == 0
    waves = json.loads((tmp_path / "s/bbflow-waves.json").read_text())["waves"]
    assert [each["over"] for each in waves] == [0, 0, 0, 1]


def test_a_workflow_without_inputs_stays_as_it_is_and_it_is_said(tmp_path, capsys):
    Planner(tmp_path / "s", {"job": Planned((), ("out",))}, {})
    assert wave(tmp_path / "s", "--capacity", "1GB", "--slots", "2") == 0
    assert "Pegasus stages nothing in to site 'bb'" in capsys.readouterr().out
    assert not (tmp_path / "s/bbflow").exists()


def test_a_workflow_that_has_been_started_is_left_alone(tmp_path, capsys):
    Planner(tmp_path / "s", {"job": Planned(("a",))}, {"a": 1})
    (tmp_path / "s/wf-0.dag.dagman.out").touch()
    assert wave(tmp_path / "s", "--capacity", "1GB", "--slots", "2") != 0
    assert "has been started" in capsys.readouterr().err


def test_an_older_pegasus_is_named(tmp_path, capsys):
    Planner(tmp_path / "s", {"job": Planned(("a",))}, {"a": 1}, version="4.9.3")
    assert wave(tmp_path / "s", "--capacity", "1GB", "--slots", "2") != 0
    assert "was planned by Pegasus 4.9.3: plan it with 5.0 or later" in capsys.readouterr().err
    assert wave(tmp_path, "--capacity", "1GB", "--slots", "2") != 0
    assert "isn't a submit directory of Pegasus 5" in capsys.readouterr().err


def test_room_that_is_needed_but_that_no_cleanup_job_gives_back_is_an_error(tmp_path, capsys):
    jobs = {f"job_{n}": Planned((f"in_{n}",)) for n in range(4)}
    planner = Planner(tmp_path / "s", jobs, sizes_of(jobs))
    dag = parse_dag((tmp_path / "s/wf-0.dag").read_text())
    dag.remove([name for name in planner.nodes if name.startswith("clean_up")])
    (tmp_path / "s/wf-0.dag").write_text(dag.text())
    assert wave(tmp_path / "s", "--capacity", "150", "--slots", "2") != 0
    assert "in_0 must leave the burst buffer for later waves" in capsys.readouterr().err
