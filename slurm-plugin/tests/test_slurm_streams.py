"""What the hosts of a stream tell each other, without Slurm; tests/slurm has it all."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import yaml
from bbflow_slurm import jobs, streams
from bbflow_slurm.hosts import Hosts
from bbflow_slurm.jobs import JobSpace
from bbflow_slurm.site import Site
from bbflow_slurm.streams import JobStream
from bbflow_slurm.user import Owner

from bbflow.errors import ConfigError, NodeError
from bbflow.host.locks import lock


@pytest.fixture
def stream(tmp_path):
    found = JobStream(tmp_path, "7")
    found.want(tmp_path / "analysis.yml")
    return found


def stage_in(tmp_path, **content):
    analysis = tmp_path / "analysis.yml"
    analysis.write_text(yaml.safe_dump({"stream": "weather", "operators": {"tas": ["mean"]}} | content))
    space = JobSpace(Site(tmp_path / "bb"), "7")
    space.set_up(Owner(os.getuid(), os.getgid(), 0))
    space.stage_in((), analysis)
    return space


def test_a_job_has_a_stream_if_it_wants_one(tmp_path):
    space = stage_in(tmp_path)
    assert space.stream.is_wanted
    assert space.stream.analysis == tmp_path / "analysis.yml"
    assert space.is_stream_host(is_set=False)
    assert not space.is_stream_host(is_set=True)
    space.tear_down()
    assert space.stream.is_over


def test_a_wrong_analysis_is_refused_before_the_job_begins(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'mean'"):
        stage_in(tmp_path, operators={"tas": ["maen"]})


def test_the_first_reason_counts_and_none_after_the_begin(stream):
    stream.fail("first")
    stream.fail("second")
    assert stream.why_failed == "first"


def test_a_job_that_may_begin_does_not_fail_any_more(stream):
    stream.allow({"BBFLOW_CONTACT": "/a b/contact.json"})
    stream.fail("late")
    assert stream.why_failed is None
    assert (stream.folder / "ready").read_text() == "BBFLOW_CONTACT=/a b/contact.json\n"


def test_an_analysis_that_was_not_begun_is_not_waited_for(stream):
    stream.end()
    stream.await_done()


def test_an_analysis_is_waited_for_until_it_has_ended(stream):
    ending = threading.Event()

    def live():
        with stream.alive():
            ending.wait(20)

    living = threading.Thread(target=live)
    living.start()
    assert streams.wait_for((stream.folder / "alive").exists, 5)
    threading.Timer(0.5, ending.set).start()
    began_s = time.monotonic()
    stream.end()
    stream.await_done()
    assert 0.4 < time.monotonic() - began_s < 10
    living.join()


def test_a_host_with_the_analysis_that_is_lost_is_not_waited_for(stream, monkeypatch):
    monkeypatch.setattr(streams, "LOST_S", 0.3)
    (stream.folder / "alive").touch()
    stream.end()
    stream.await_done()
    assert not stream.is_done


def test_one_thing_runs_on_a_host(stream):
    with (
        stream.held("c1"),
        pytest.raises(ConfigError, match="something runs on c1 for job 7 already"),
        stream.held("c1"),
    ):
        pass
    stream.await_end("c1", 1.0)
    stream.await_end("never there", 1.0)


HOLDER = """
import signal, sys, time
from pathlib import Path
from bbflow_slurm.streams import held_by_number
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with held_by_number(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["deaf", "polite"])
def test_a_teardown_ends_what_copies_and_kills_what_takes_no_notice(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(jobs, "END_S", 0.5)
    space = JobSpace(Site(tmp_path / "bb"), "7")
    space.set_up(Owner(os.getuid(), os.getgid(), 0))
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "bb/.bbflow-jobs/7.lock"), kind]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        space.tear_down()
        assert holder.wait(10) == (-signal.SIGKILL if kind == "deaf" else -signal.SIGTERM)
    assert not space.path.exists()


def test_the_number_that_an_earlier_holder_has_left_gets_no_signal(tmp_path):
    path, sent = tmp_path / "lock", []
    path.write_text(f"{1:<20}")
    descriptor = lock(path)
    written = threading.Timer(0.05, os.pwrite, (descriptor, f"{os.getpid():<20}".encode(), 0))

    def send(process, _):
        sent.append(process)
        os.close(descriptor)

    written.start()
    assert streams.end_holder(path, signal.SIGTERM, 10, send)
    assert sent == [os.getpid()]


def test_what_runs_on_a_host_for_too_long_is_killed_with_all_that_it_has_started(stream):
    words = [sys.executable, "-c", HOLDER, str(stream.folder / "c1.lock"), "deaf"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(NodeError, match="didn't end within 0 s on c1: it was killed"):
            stream.await_end("c1", 0.1)
        assert holder.wait(10) == -signal.SIGKILL


def test_a_host_is_one_of_the_streams():
    assert Hosts("c1", ("c1", "c2")).is_first
    with pytest.raises(ConfigError, match="c3 is none of the stream's hosts: c1, c2"):
        Hosts("c3", ("c1", "c2"))
