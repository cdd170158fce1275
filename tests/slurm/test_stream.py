"""A job's stream line on a real Slurm: BB nodes and the analysis on the job's hosts, or on the site's own."""

import os
import signal
import subprocess
import sys
import time

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr
import yaml
from batch import NODES
from site_of_jobs import BY_PLUGIN, BY_SCRIPTS, STREAMS, TASK, USER, left, site, submit, user_directory
from test_cluster_page import MODEL, STEPS

from testsupport.waiting import until

LAUNCH = (
    "stream_hosts: [c2]\nstream_launch: {folder}/launch {{host}} {folder}/bbflow-slurm --config {folder}/bbflow.yml\n"
)
BY = {
    "plugin": (BY_PLUGIN + STREAMS + TASK, ""),
    "scripts": (BY_SCRIPTS + STREAMS, ""),
    "plugin, set hosts": (BY_PLUGIN + TASK, LAUNCH),
    "scripts, set hosts": (BY_SCRIPTS, LAUNCH),
}


@pytest.fixture(scope="module", params=BY)
def slurm(request):
    more, settings = BY[request.param]
    with site(more, settings) as batch:
        if settings:
            write_launch(batch)
        yield batch


@pytest.fixture(scope="module")
def one():
    with site(*BY["plugin"]) as batch:
        yield batch


def write_launch(slurm):
    """What ssh is to a site: it runs words, read by a shell, on a host."""
    words = slurm.inside("HOST", "sh", "-c", 'exec sh -c "$*"', "sh")
    text = " ".join("'" + word.replace("'", "'\\''").replace("HOST", "'$host'") + "'" for word in words)
    (slurm.folder / "launch").write_text(f'#!/bin/sh\nhost=$1; shift\nexec {text} "$@"\n')
    (slurm.folder / "launch").chmod(0o755)


@pytest.fixture
def place():
    """A user's directory with a model, its XML and an analysis; its name needs quotes."""
    with user_directory() as directory:
        own = directory / "a run's"
        own.mkdir()
        os.chown(own, USER.pw_uid, USER.pw_gid)
        (own / "model").write_text(MODEL.format(python=sys.executable, steps=STEPS))
        (own / "model").chmod(0o755)
        (own / "model.xml").write_text(bbflow_adios2.engine_xml("weather"))
        write_analysis(own)
        yield own


def write_analysis(place, **more):
    content = {
        "stream": "weather",
        "output": "out",
        "operators": {"tas": ["mean", "max"]},
        "nodes": {"capacity": "4MiB"},
    }
    (place / "analysis.yml").write_text(yaml.safe_dump(content | more))


def script(place, ends="srun ./model model.xml", nodes=2):
    return (
        f"#SBATCH --nodes={nodes} --ntasks-per-node=3\n#BB_LUA pool=bb capacity=1MiB\n"
        f'#BB_LUA stream analysis="{place}/analysis.yml"\n{ends}\n'
    )


def results(place):
    found = xr.open_zarr(place / "out" / "results.zarr")
    return found.attrs["bbflow_status"], found


def running(slurm):
    """Return what runs on the nodes that isn't Slurm's."""
    here = 'ip netns pids "$(ip netns identify $$)" | xargs -n1 ps -ww -o args= -p'
    found = []
    for node in NODES:
        lines = slurm.run("sh", "-c", here, host=node, code=None).splitlines()
        found += [line for line in lines if "bbflow" in line and "slurmd" not in line and "identify" not in line]
    return found


def assert_nothing_left(slurm):
    until(lambda: not left(slurm), slurm.logs)
    until(lambda: not running(slurm), slurm.logs)
    memory = [path for node in NODES for path in (slurm.hosts.memory / node).rglob("*") if path.is_file()]
    assert memory == []


def said(place):
    return (place / "said").read_text() if (place / "said").exists() else ""


def test_a_job_has_its_analysis_beside_it(slurm, place):
    job = submit(slurm, place, script(place))
    assert slurm.wait_for(job) == ("COMPLETED", "0:0"), said(place) + slurm.logs()
    until(lambda: not left(slurm), slurm.logs)
    status, found = results(place)
    assert status == "complete"
    np.testing.assert_array_equal(found.tas_run_max.values[0], 100 * np.arange(6)[:, None] + np.zeros(6) + STEPS - 1)
    assert_nothing_left(slurm)


@pytest.mark.parametrize("way", ["scancel", "requeue", "node"])
def test_a_job_that_is_killed_leaves_results_that_say_so_and_nothing_else(one, place, way):
    written = place / "written"
    text = script(
        place, f'srun ./model model.xml\necho $SLURM_RESTART_COUNT >> "{written}"\nsleep ${{SLURM_RESTART_COUNT:-600}}'
    )
    job = submit(one, place, text)
    until(written.exists, one.logs)
    if way == "scancel":
        one.run("scancel", job)
        assert one.wait_for(job)[0] == "CANCELLED"
    elif way == "requeue":
        one.run("scontrol", "requeue", job)
        assert one.wait_for(job) == ("COMPLETED", "0:0"), said(place) + one.logs()
        assert len(written.read_text().splitlines()) == 2
    else:
        one.run("scontrol", "update", "NodeName=c2", "State=DOWN", "Reason=tried")
        until(
            lambda: len(written.read_text().splitlines()) == 2 or "PENDING" in one.run("scontrol", "show", "job", job),
            one.logs,
        )
        one.run("scontrol", "update", "NodeName=c2", "State=RESUME", code=None)  # it may be back
        assert one.wait_for(job)[0] == "COMPLETED", said(place) + one.logs()
    assert_nothing_left(one)
    assert results(place)[0] == "complete", "all steps had been written"


def test_a_job_that_is_killed_while_it_writes_has_what_it_had_committed(one, place):
    endless = (place / "model").read_text().replace("end_step()", "end_step(); __import__('time').sleep(0.2)")
    (place / "model").write_text(endless.replace(f"range({STEPS})", "range(10**6)"))
    job = submit(one, place, script(place))
    until(lambda: (place / "out" / "results.zarr" / "zarr.json").exists(), one.logs)
    one.run("scancel", job)
    assert one.wait_for(job)[0] == "CANCELLED"
    assert_nothing_left(one)
    assert results(place)[0] == "incomplete"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"operators": {"tas": ["maen"]}}, "did you mean 'mean'"),
        ({"streams": 1}, "did you mean 'stream'"),
    ],
)
def test_an_analysis_that_is_wrong_is_told_before_the_job_begins(one, place, change, words):
    write_analysis(place, **change)
    job = submit(one, place, script(place, f'touch "{place}/began"'))
    until(lambda: words in one.run("scontrol", "show", "job", job), one.logs)
    one.run("scancel", "--hurry", job)
    assert_nothing_left(one)
    assert not (place / "began").exists()


def test_an_analysis_that_is_not_there_is_told_before_the_job_begins(one, place):
    job = submit(one, place, script(place).replace("analysis.yml", "none.yml"))
    until(lambda: "none.yml: No such file" in one.run("scontrol", "show", "job", job), one.logs)
    one.run("scancel", "--hurry", job)
    assert_nothing_left(one)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "#BB_LUA stream analysis=/a\n#BB_LUA stream analysis=/b\n",
            "line 3 of the job script: a job has one stream line",
        ),
        ("#BB_LUA stream analysis=a.yml\n", "write the whole path"),
        ("#BB_LUA stream analysis='/a\n", "No closing quotation"),
        ("#BB_LUA stream\n", "stream lacks analysis="),
    ],
)
def test_a_stream_line_that_cannot_be_meant_is_refused_when_it_is_submitted(one, place, lines, words):
    with pytest.raises(AssertionError) as refused:
        submit(one, place, lines + "true\n")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"nodes": {"capacity": "900TiB"}}, "the pool needs 900 TiB"),
        ({"output": "/proc/none/out"}, "/proc/none"),
    ],
)
def test_a_stream_that_cannot_be_had_ends_the_job_with_a_line_in_its_output(one, place, more, words):
    write_analysis(place, **more)
    job = submit(one, place, script(place, f'touch "{place}/began"'))
    assert one.wait_for(job)[0] == "FAILED", one.logs()
    assert said(place).startswith("bbflow-slurm: the job's stream: c")
    assert words in said(place)
    assert not (place / "began").exists()
    assert_nothing_left(one)


def test_results_of_another_run_are_kept_and_the_job_says_so(one, place):
    (place / "out").mkdir()
    (place / "out" / "results.zarr").mkdir()
    (place / "out" / "results.zarr" / "mine").touch()
    job = submit(one, place, script(place, f'touch "{place}/began"'))
    assert one.wait_for(job)[0] == "FAILED", one.logs()
    assert "--overwrite" in said(place) or "out" in said(place)
    assert (place / "out" / "results.zarr" / "mine").exists()
    assert not (place / "began").exists()
    assert_nothing_left(one)


def test_a_simulation_that_never_opened_its_stream_is_told_in_the_log(one, place):
    job = submit(one, place, script(place, "true"))
    assert one.wait_for(job) == ("COMPLETED", "0:0"), said(place) + one.logs()
    assert_nothing_left(one)
    assert "never opened stream 'weather'" in (place / f"out.{job}.log").read_text()


def test_a_controller_that_is_started_again_ends_the_stream_with_its_job(one, place):
    waits = f'for _ in $(seq 600); do [ -e "{place}/go" ] && break; sleep 0.2; done'
    job = submit(one, place, script(place, f'srun ./model model.xml\ntouch "{place}/written"\n{waits}'))
    until((place / "written").exists, one.logs)
    # One that is killed before it has stored that the job runs starts it again.
    asked_s, state = time.time(), one.folder / "state" / "job_state"
    one.run("scontrol", "update", f"JobId={job}", "Comment=stored")
    until(lambda: state.exists() and state.stat().st_mtime > asked_s, one.logs)
    os.kill(int((one.folder / "slurmctld.pid").read_text()), signal.SIGKILL)
    words = one.inside("login", "slurmctld", "-D", "-f", one.folder / "slurm.conf")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=one.environment) as again:
        try:
            until(lambda: one.run("scontrol", "ping", code=None).count("UP"), one.logs)
            (place / "go").touch()
            assert one.wait_for(job) == ("COMPLETED", "0:0"), said(place) + one.logs()
            assert_nothing_left(one)
            assert results(place)[0] == "complete"
        finally:
            again.kill()
