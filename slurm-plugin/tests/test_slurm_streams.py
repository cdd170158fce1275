"""What the hosts of a stream tell each other, without Slurm; tests/slurm has it all."""

import os
import subprocess
import sys
import threading

import pytest
import yaml
from bbflow_slurm.children import FailedError
from bbflow_slurm.hosts import Hosts
from bbflow_slurm.jobs import JobSpace
from bbflow_slurm.launching import end_everywhere
from bbflow_slurm.site import Site
from bbflow_slurm.streams import JobStream
from bbflow_slurm.user import Owner

from bbflow.errors import ConfigError
from testsupport.waiting import until


@pytest.fixture
def stream(tmp_path):
    found = JobStream(tmp_path, "7")
    found.want(tmp_path / "analysis.yml")
    return found


def stage_in(tmp_path, **content):
    analysis = tmp_path / "analysis.yml"
    analysis.write_text(yaml.safe_dump({"stream": "weather", "operators": {"tas": ["mean"]}} | content))
    (tmp_path / "script").write_text(f"#BB_LUA stream analysis={analysis}\n")
    space = JobSpace(Site(tmp_path / "bb"), "7")
    space.set_up(Owner(os.getuid(), os.getgid(), 0))
    space.stage_in(tmp_path / "script")
    return space


def test_a_job_has_a_stream_if_it_wants_one(tmp_path):
    space = stage_in(tmp_path)
    stream = JobStream(space.path, "7")
    assert space.noted.stream == "wanted"
    assert stream.is_wanted
    assert stream.analysis == tmp_path / "analysis.yml"
    space.tear_down()
    assert stream.is_over


def test_a_wrong_analysis_is_refused_before_the_job_begins(tmp_path):
    with pytest.raises(FailedError, match="did you mean 'mean'"):
        stage_in(tmp_path, operators={"tas": ["maen"]})


def test_what_an_analysis_needs_of_its_users_own_modules_is_not_imported_where_the_job_waits(tmp_path):
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\ndef look(field): return None\n")
    stage_in(tmp_path, functions={"look": {"call": "own:look", "of": ["tas"]}})
    assert not (tmp_path / "imported").exists()
    with pytest.raises(FailedError, match="did you mean 'stream'"):
        stage_in(tmp_path, functions={"look": {"call": "own:look", "of": ["tas"]}}, streem="weather")


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
            ending.wait(300)

    living = threading.Thread(target=live)
    living.start()
    assert until((stream.folder / "alive").exists, poll_s=0.1)
    threading.Timer(0.5, ending.set).start()
    stream.end()
    stream.await_done()
    assert ending.is_set()
    assert stream.is_done
    living.join()


def test_a_host_with_the_analysis_that_is_lost_is_not_waited_for(stream):
    (stream.folder / "alive").touch()
    stream.end()
    stream.await_done(lost_s=0.3)
    assert not stream.is_done


def test_one_thing_runs_on_a_host(stream):
    with (
        stream.held("c1"),
        pytest.raises(ConfigError, match="something runs on c1 for job 7 already"),
        stream.held("c1"),
    ):
        pass
    stream.await_end("c1")
    stream.await_end("never there")


def test_an_analysis_that_says_forever_that_it_lives_is_waited_for_as_long_as_the_site_lets_it(tmp_path):
    space = stage_in(tmp_path)
    ending = threading.Event()

    def live():
        with JobStream(space.path, "7").alive():
            ending.wait(60)

    living = threading.Thread(target=live)
    living.start()
    try:
        end_everywhere(Site(tmp_path / "bb", end_s=1.5), "7")
        assert not JobStream(space.path, "7").is_done
        assert JobStream(space.path, "7").is_over
    finally:
        ending.set()
        living.join()


HOLDER = """
import sys, time
from bbflow.host.locks import lock
descriptor = lock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_what_holds_a_jobs_lock_and_does_not_end_gets_no_signal(tmp_path):
    space = JobSpace(Site(tmp_path / "bb"), "7")
    space.set_up(Owner(os.getuid(), os.getgid(), 0))
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "bb/.bbflow-jobs/7.lock")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="are being copied already"):
            space.tear_down(end_s=0.5)
        assert holder.poll() is None
        holder.kill()
    space.tear_down()
    assert not space.path.exists()


def test_a_host_is_one_of_the_streams():
    assert Hosts("c1", ("c1", "c2")).is_first
    with pytest.raises(ConfigError, match="c3 is none of the stream's hosts: c1, c2"):
        Hosts("c3", ("c1", "c2"))
