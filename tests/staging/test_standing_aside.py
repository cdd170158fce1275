"""A source that is slow, hopeless or changed costs its own tasks something, and nobody else."""

import os
import socket
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress

import pytest

from bbflow.errors import BbflowError, SourceError
from bbflow.staging import File, Gate, Retry, Stager
from bbflow.staging.files import Task
from bbflow.staging.staging_plan import PlanStep
from bbflow.staging.task_commands import Commands, run_plan
from bbflow.staging.transfers import stage_out
from bbflow.stores.sources import Sources
from testsupport.waiting import until


@pytest.fixture
def silent():
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/f.dat"


def test_a_source_that_never_answers_holds_back_neither_later_tasks_nor_the_end(silent, make, as_file, tmp_path):
    with Stager(tmp_path / "bb", 1 << 20, 2) as stager:
        stuck = [stager.submit(f"stuck-{n}", [File(f"{silent}?{n}")]) for n in range(6)]
        user = stager.submit("user", [File("made")], [File("other")])
        source = make("a.dat", 100)
        places = stager.submit("good", [File(str(source))]).result(300)
        assert places[str(source)].read_bytes() == source.read_bytes()
        assert isinstance(user.exception(300), SourceError)
        assert not any(future.done() for future in stuck)
    for future in stuck:
        with pytest.raises((BbflowError, CancelledError)):
            future.result(300)


def test_a_slot_runs_what_is_ready_and_does_not_wait_for_a_late_task(silent, make, as_file, tmp_path):
    steps = [
        PlanStep(Task(key, (file,))) for key, file in (("late", File(silent)), ("good", as_file(make("a.dat", 100))))
    ]
    ran = []

    def stop(step):
        ran.append(step.task.key)
        raise InterruptedError

    with Stager(tmp_path / "bb", 1 << 20, 1) as stager, pytest.raises(InterruptedError):
        run_plan(stager, steps, 1, stop, Commands())
    assert ran == ["good"]


def test_who_uses_what_a_waiting_task_will_make_waits_with_it(silent, tmp_path):
    with Stager(tmp_path / "bb", 1 << 20, 2) as stager:
        stager.submit("maker", [File(silent)], [File("/pfs/made", 10)])
        user = stager.submit("user", [File("/pfs/made")])
        other = stager.submit("other", [], [File("/pfs/other", 10)])
        assert other.result(300)
        assert not user.done()


def test_closing_does_not_wait_for_a_source_that_is_tried_again(tmp_path):
    retry = Retry(attempts=99, first_s=600.0, longest_s=600.0)
    tried = set()

    def hang_up():
        with suppress(OSError):
            while True:
                peer, _ = rude.accept()
                tried.add(peer.recv(4096).split()[1])
                peer.close()

    with socket.create_server(("127.0.0.1", 0)) as rude:
        url = f"http://127.0.0.1:{rude.getsockname()[1]}"
        threading.Thread(target=hang_up, daemon=True).start()
        with Stager(tmp_path / "bb", 1 << 20, 1, retry=retry) as stager:
            stager.submit("unknown", [File(f"{url}/a")])
            stager.submit("known", [File(f"{url}/b", 10)])
            stager.stage_out(tmp_path / "bb" / "lock", f"{url}/c")
            until(lambda: tried >= {b"/a", b"/b"})  # each is tried again only after ten minutes
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 300
        rude.shutdown(socket.SHUT_RDWR)


def test_a_copy_that_nobody_used_for_a_while_is_compared_with_its_source(make, tmp_path):
    source = make("a.dat", 100)
    with Stager(tmp_path / "bb", 1 << 20, 1) as stager:

        def content(key, size_bytes=None):
            path = stager.submit(key, [File(str(source), size_bytes)]).result(300)[str(source)]
            found = path.read_bytes()
            stager.final(key)
            return found

        assert content("first") == source.read_bytes()
        assert content("same") == source.read_bytes()
        assert stager.state().staged_bytes == 100, "what didn't change isn't copied again"
        source.write_bytes(os.urandom(100))
        os.utime(source, (1, 1))  # the file system's clock may not have ticked since
        assert content("changed") == source.read_bytes()
        source.write_bytes(os.urandom(50))
        assert content("of another size") == source.read_bytes()
        assert stager.state().staged_bytes == 250


@pytest.mark.parametrize(
    ("name", "words"), [("a.dat/b", "can't be used"), ("folder", "Is a directory"), ("x" * 300, "name too long")]
)
def test_a_target_that_is_hopeless_is_not_tried_again(make, tmp_path, name, words):
    source = make("a.dat", 100)
    (tmp_path / "source" / "folder").mkdir()
    url = str(tmp_path / "source" / name)
    sleeps = []
    with pytest.raises(SourceError, match=words):
        stage_out(source, url, Sources(), Gate(1), Retry(), sleeps.append)
    assert not sleeps


def test_a_store_that_cannot_be_written_is_not_tried_again(make):
    sleeps = []
    with pytest.raises(SourceError, match="name another place"):
        stage_out(make("a.dat", 10), "http://127.0.0.1:9/a", Sources(), Gate(1), Retry(), sleeps.append)
    assert not sleeps
