"""With a real pegasus-plan: waves within the planner, and waves of what it has planned, are the same."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from bbflow_pegasus.dag.nodes import parse_dag
from submitdirs import Planned, fan, sizes_of

pytestmark = pytest.mark.skipif(
    not (shutil.which("pegasus-plan") and shutil.which("condor_submit_dag")),
    reason="pegasus-plan and HTCondor aren't on PATH: make pegasus-suite says how",
)
PROGRAM = str(Path(sys.executable).with_name("bbflow-pegasus"))


def directory(kind, path):
    server = {"url": f"file://{path}", "operation": "all"}
    return {"type": kind, "path": str(path), "sharedFileSystem": False, "fileServers": [server]}


def write_workflow(path, jobs, sizes, missing=()):
    """Write a workflow with its catalogs, as a user would."""
    made = {file for job in jobs.values() for file in job.outputs}
    inputs = sorted({file for job in jobs.values() for file in job.inputs} - made)

    def use(name, kind, job):
        size = {"metadata": {"size": str(sizes[name])}} if name in sizes else {}
        out = {"stageOut": name in job.results, "registerReplica": False} if kind == "output" else {}
        return {"lfn": name, "type": kind, **size, **out}

    described = [
        {
            "type": "job",
            "name": "work",
            "id": name,
            "arguments": [name],
            "uses": [use(f, "input", job) for f in job.inputs] + [use(f, "output", job) for f in job.outputs],
        }
        for name, job in jobs.items()
    ]
    waiting = [
        {"id": name, "children": [c for c, other in jobs.items() if set(job.outputs) & set(other.inputs)]}
        for name, job in jobs.items()
    ]
    replicas = [
        {"lfn": name, "pfns": [{"site": "local", "pfn": f"file:///pfs/{name}"}]}
        for name in inputs
        if name not in missing
    ]
    sites = [
        {
            "name": "local",
            "directories": [directory("sharedScratch", path / "scratch"), directory("localStorage", path / "out")],
        },
        {
            "name": "condorpool",
            "directories": [],
            "profiles": {"condor": {"universe": "vanilla"}, "pegasus": {"style": "condor"}},
        },
        {
            "name": "bb",
            "directories": [directory("sharedScratch", path / "bb")],
            "profiles": {"pegasus": {"auxillary.local": "true"}},
        },
    ]
    work = {"name": "work", "sites": [{"name": "condorpool", "pfn": "/bin/true", "type": "installed"}]}
    contents = {
        "workflow.yml": {"name": "wf", "jobs": described, "jobDependencies": [w for w in waiting if w["children"]]},
        "replicas.yml": {"replicas": replicas},
        "sites.yml": {"sites": sites},
        "transformations.yml": {"transformations": [work]},
    }
    for name, content in contents.items():
        (path / name).write_text(yaml.safe_dump({"pegasus": "5.0", **content}, sort_keys=False))


def plan(path, folder, program, capacity_bytes, *words):
    """Plan, and return what was said and the submit directory, if there is one."""
    (path / "p.properties").write_text(
        f"pegasus.catalog.site.file={path}/sites.yml\npegasus.catalog.replica=YAML\n"
        f"pegasus.catalog.replica.file={path}/replicas.yml\n"
        f"pegasus.catalog.transformation.file={path}/transformations.yml\n"
        "pegasus.data.configuration=nonsharedfs\npegasus.transfer.bypass.input.staging=false\n"
        f"pegasus.bbflow.capacity={capacity_bytes}\npegasus.bbflow.slots=3\n"
    )
    options = ["--conf", "p.properties", "--sites", "condorpool", "--staging-site", "condorpool=bb"]
    options += ["--output-sites", "local", "--dir", folder, *words, "workflow.yml"]
    done = subprocess.run([*program, *options], cwd=path, capture_output=True, text=True)
    found = sorted((path / folder).rglob("braindump.yml")) if done.returncode == 0 else []
    return done.stdout + done.stderr, found[0].parent if found else None


def ours_of(submit):
    """Return what the waves are made of: entries of our jobs, and edges between jobs of ours and users'."""
    dag = parse_dag((submit / "wf-0.dag").read_text())
    names = [n for n in dag.nodes if re.match(r"stage_in_|stage_out_|noop_|clean_up_bb_wave|work_", n)]
    entries = {}
    for name in names:
        file = submit / (dag.submit_file(name).removesuffix(".sub") + ".in")
        if not name.startswith("work_") and file.exists():
            urls = [e["target"]["url"] if "target" in e else e["lfn"] for e in json.loads(file.read_text())]
            entries[name] = sorted(url.rpartition("/")[2] for url in urls)
    return entries, {edge for edge in dag.edges if set(edge) <= set(names)}


@pytest.mark.parametrize("capacity_bytes", [1000, 1300, 100_000])
def test_the_refiner_and_wave_agree_in_jobs_files_and_edges(tmp_path, capacity_bytes):
    jobs = fan(8)
    write_workflow(tmp_path, jobs, sizes_of(jobs))
    said, refined = plan(tmp_path, "refined", [PROGRAM, "plan"], capacity_bytes)
    assert refined is not None, said
    said, planned = plan(tmp_path, "planned", ["pegasus-plan"], capacity_bytes)
    assert planned is not None, said
    subprocess.run([PROGRAM, "wave", str(planned)], check=True)
    waves = [json.loads((submit / "bbflow-waves.json").read_text()) for submit in (refined, planned)]
    assert waves[0] == waves[1]
    assert ours_of(refined) == ours_of(planned)


def test_names_have_the_prefix_that_the_plan_is_given(tmp_path):
    jobs = fan(8)
    write_workflow(tmp_path, jobs, sizes_of(jobs))
    said, submit = plan(tmp_path, "s", [PROGRAM, "plan"], 1000, "--job-prefix", "mine_")
    assert submit is not None, said
    dag = parse_dag((submit / "wf-0.dag").read_text())
    ours = [name for name in dag.nodes if re.match(r"stage_|noop_|clean_up_", name)]
    assert {re.sub(r"mine_bb.*", "", name) for name in ours} >= {"stage_in_local_", "stage_out_local_", "noop_"}
    assert any(name.startswith("clean_up_mine_bb_wave") for name in ours)


def test_a_job_without_room_ends_the_plan_with_one_line_that_has_both_numbers(tmp_path):
    jobs = fan(4)
    write_workflow(tmp_path, jobs, sizes_of(jobs))
    said, submit = plan(tmp_path, "s", [PROGRAM, "plan"], 150)
    assert submit is None
    assert "needs 600 B on the burst buffer at once, which has 150 B" in said


def test_a_missing_replica_is_named(tmp_path):
    jobs = fan(4)
    write_workflow(tmp_path, jobs, sizes_of(jobs), missing=["in_2"])
    said, submit = plan(tmp_path, "s", [PROGRAM, "plan"], 10_000)
    assert submit is None
    assert re.search(r"input file.*in_2", said)


def test_a_site_without_its_profile_is_named(tmp_path):
    jobs = fan(4)
    write_workflow(tmp_path, jobs, sizes_of(jobs))
    sites = yaml.safe_load((tmp_path / "sites.yml").read_text())
    del sites["sites"][2]["profiles"]
    (tmp_path / "sites.yml").write_text(yaml.safe_dump(sites))
    said, submit = plan(tmp_path, "s", [PROGRAM, "plan"], 10_000)
    assert submit is None
    assert "sites.yml: site 'bb' has no profile pegasus: auxillary.local: 'true'" in said.splitlines()[-1]


def test_a_workflow_without_inputs_is_planned_and_it_is_said(tmp_path):
    write_workflow(tmp_path, {"a": Planned((), ("x",)), "b": Planned(("x",), ("y",), ("y",))}, {})
    said, submit = plan(tmp_path, "s", [PROGRAM, "plan"], 10_000)
    assert submit is not None
    assert "bbflow: there are no waves: Pegasus stages nothing in to site 'bb'" in said


def test_waves_without_cleanup_are_refused(tmp_path):
    jobs = fan(4)
    write_workflow(tmp_path, jobs, sizes_of(jobs))
    said, submit = plan(tmp_path, "s", [PROGRAM, "plan"], 10_000, "--cleanup", "none")
    assert submit is None
    assert "plan without --cleanup none" in said


def test_asking_for_the_cleanup_that_waves_have_anyway_is_no_error(tmp_path):
    jobs = fan(4)
    write_workflow(tmp_path, jobs, sizes_of(jobs))
    said, submit = plan(tmp_path, "s", [PROGRAM, "plan"], 1000, "--cleanup", "inplace")
    assert submit is not None, said
    assert any(name.startswith("clean_up_bb_wave") for name in ours_of(submit)[0])
