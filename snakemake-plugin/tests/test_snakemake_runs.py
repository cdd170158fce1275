"""Workflows that Snakemake runs with the plugins, as they are."""

import hashlib
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bbflow.phases import io_phase
from testsupport.object_server import put_object
from testsupport.waiting import until


def digests(count, size=100_000):
    return "".join(f"{hashlib.sha256(bytes([n % 256]) * size).hexdigest()}  -\n" for n in range(count))


def test_inputs_are_fetched_in_waves_while_jobs_compute_within_the_capacity(flow):
    flow.make(10, then="sleep 0.4")
    ran = flow.run(capacity="500kB")
    assert ran.returncode == 0, ran.stderr
    assert flow.sum() == digests(10)
    assert not flow.left()
    transfers, tasks = flow.noted("transfer"), flow.noted("task")
    assert len(transfers) == 10, "each is fetched once"
    assert [Path(event["url"]).name for event in transfers].index("9.dat") > 4
    first_end_s = min(task["ended_s"] for task in tasks)
    before = [event for event in transfers if event["ended_s"] < first_end_s]
    assert 2 < len(before) <= 5, "the next wave comes while the first computes, and has room"


def test_a_file_that_jobs_of_several_waves_read_keeps_none_of_them_waiting(flow):
    flow.snakefile = flow.snakefile.replace('input: "in/{{n}}.dat"', 'input: "in/{{n}}.dat", "in/shared"')
    flow.snakefile = flow.snakefile.replace("< {{input}}", "< {{input[0]}}")
    flow.make(12)
    (flow.pfs / "in" / "shared").write_bytes(b"shared")
    ran = flow.run(capacity="450kB")
    assert ran.returncode == 0, ran.stderr
    assert flow.sum() == digests(12)
    assert not flow.left()


def test_it_works_with_any_scheduler(flow):
    flow.make(3)
    ran = flow.run(scheduler="greedy")
    assert ran.returncode == 0, ran.stderr
    assert flow.sum() == digests(3)
    assert not flow.left()


def test_a_set_that_cannot_fit_is_refused_in_a_line_or_comes_beyond_the_room(flow):
    flow.make(2)
    ran = flow.run(capacity="50kB")
    assert ran.returncode == 1
    said = [line for line in ran.stderr.splitlines() if "50 kB" in line or "48.8 KiB" in line]
    assert said
    assert not flow.left()
    assert flow.run(capacity="50kB", oversize="direct").returncode == 0
    assert flow.sum() == digests(2)


def test_a_job_that_fails_finds_its_inputs_when_it_is_tried_again(flow):
    flow.make(4, then="test {wildcards.n} != 2 -o -e tried || {{ touch tried; exit 1; }}")
    ran = flow.run("--retries", "1", capacity="250kB")
    assert ran.returncode == 0, ran.stderr
    assert flow.sum() == digests(4)
    assert len(flow.noted("transfer")) == 4


def test_the_room_of_failed_jobs_is_given_to_others(flow):
    flow.make(6, then="test {wildcards.n} -gt 1")
    ran = flow.run("--keep-going", capacity="250kB")
    assert ran.returncode == 1
    assert sorted(path.name for path in (flow.pfs / "mid").iterdir()) == [f"{n}.txt" for n in range(2, 6)]
    assert not flow.left()


def test_fetches_wait_for_another_applications_phase(flow, tmp_path):
    flow.make(2)
    phases = tmp_path / "phases"
    phases.mkdir()
    ended_s = []
    with ThreadPoolExecutor(1) as pool:
        with io_phase("hpc", phases):
            running = pool.submit(flow.run, policy="full-delay", phases=str(phases))
            time.sleep(10)
            assert not running.done()
            ended_s.append(time.time())
        ran = running.result()
    assert ran.returncode == 0, ran.stderr
    assert min(event["ended_s"] for event in flow.noted("transfer")) >= ended_s[0]


def test_objects_are_inputs_and_outputs(flow, known_endpoint):
    flow.make(3)
    for path in (flow.pfs / "in").iterdir():
        put_object(known_endpoint, f"run/in/{path.name}", path.read_bytes())
    flow.prefix = "s3://bucket/run"
    ran = flow.run()
    assert ran.returncode == 0, ran.stderr
    again = flow.run()
    assert "Nothing to be done" in again.stderr, again.stderr
    assert not flow.left()


def test_what_a_killed_run_has_fetched_is_used(flow):
    flow.make(4, size=1_000_000, then="test -e go || sleep 60")
    running = subprocess.Popen(
        flow.words(), cwd=flow.directory, env=flow.environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    until(lambda: (flow.events / "events.jsonl").exists() and len(flow.noted("transfer")) >= 4, poll_s=0.1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    (flow.directory / "go").touch()
    unlocked = flow.run("--unlock")
    assert unlocked.returncode == 0, unlocked.stderr
    ran = flow.run("--rerun-incomplete")
    assert ran.returncode == 0, ran.stderr
    assert flow.sum() == digests(4, 1_000_000)
    assert sum(event["bytes"] for event in flow.noted("transfer")) == 4_000_000, "nothing is copied twice"
    assert not flow.left()


def test_a_missing_source_is_named(flow):
    flow.make(2)
    (flow.pfs / "in" / "1.dat").unlink()
    ran = flow.run()
    assert ran.returncode == 1
    assert "in/1.dat" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_jobs_have_room_in_their_order_whichever_size_is_answered_first(flow):
    flow.make(12, size=1000)
    ran = flow.run(capacity="4kB")
    assert ran.returncode == 0, ran.stderr
    urls = [Path(event["url"]).name for event in flow.noted("transfer")]
    assert set(urls[:4]) == {"0.dat", "1.dat", "10.dat", "11.dat"}, "the first by their outputs' names"
