"""Thousands of small files: in batches, by one read each, and with the same promises as large ones."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bbflow.errors import SourceError
from bbflow.events import EventLog, read_events
from bbflow.staging import Decision, File, Gate, Retry, Stager
from bbflow.staging.crew import FIRST_FILES, MOST_FILES, Crew
from bbflow.staging.fetchers import Fetchers
from bbflow.staging.fetching import MOST_BYTES, Receipt, SmallBatch
from bbflow.staging.gate import CHUNK_S, Closed
from bbflow.staging.small import copy_batch, copy_whole
from bbflow.stores.sources import Sources
from testsupport.moments import files_below
from testsupport.range_server import RangeServer
from testsupport.waiting import until

QUICK = Retry(attempts=2, first_s=0.01)


@pytest.fixture
def many(tmp_path):
    """Make many small files of different contents."""

    def many(count):
        (tmp_path / "many").mkdir()
        paths = [tmp_path / "many" / f"{n}.dat" for n in range(count)]
        for number, path in enumerate(paths):
            path.write_bytes(str(number).encode() * (1 + number % 300))
        return paths

    return many


def test_many_small_files_come_whole_and_each_is_noted(many, tmp_path):
    sources = many(700)
    events = EventLog(tmp_path)
    with Stager(tmp_path / "bb", 1 << 20, 1, events=events) as one:
        places = one.submit("t", [File(str(path)) for path in sources]).result(300)
        assert all(places[str(path)].read_bytes() == path.read_bytes() for path in sources)
        assert one.state().staged_bytes == sum(path.stat().st_size for path in sources)
        one.final("t")
    events.close()
    noted = [event for event in read_events(tmp_path) if event["event"] == "transfer"]
    assert sorted(event["url"] for event in noted) == sorted(map(str, sources))
    assert all(event["started_s"] <= event["ended_s"] for event in noted)
    with Stager(tmp_path / "bb", 1 << 20, 1) as one:
        one.submit("t", [File(str(path)) for path in sources]).result(300)
        assert one.state().staged_bytes == 0, "what an earlier life has copied isn't copied again"


LIFE = """
import sys
from pathlib import Path
from bbflow.staging import File, Stager
directory, source = map(Path, sys.argv[1:])
with Stager(directory, 1 << 22, 1) as one:
    one.submit("t", [File(str(path)) for path in sorted(source.iterdir())]).result(600)
    print(one.state().staged_bytes)
"""


def test_a_stager_killed_among_small_files_leaves_none_in_half_and_copies_none_twice(many, tmp_path):
    sources = many(3000)
    words = [sys.executable, "-c", LIFE, str(tmp_path / "bb"), str(tmp_path / "many")]
    for count in (100, 1000):
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as life:
            until(lambda: len(files_below(tmp_path / "bb" / "files")) > count or life.poll() is not None)  # noqa: B023
            life.send_signal(signal.SIGKILL)
    whole = files_below(tmp_path / "bb" / "files")
    assert all(path.read_bytes() == (tmp_path / "many" / path.name).read_bytes() for path in map(Path, whole))
    known_bytes = sum(os.stat(path).st_size for path in [*whole, *files_below(tmp_path / "bb" / "partial")])
    run = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    assert int(run.stdout) == sum(path.stat().st_size for path in sources) - known_bytes
    assert len(files_below(tmp_path / "bb" / "files")) == len(sources)


def test_a_small_object_costs_one_request(make, shelf, tmp_path):
    source = make("in.dat", 1000)
    with RangeServer(tmp_path) as server:
        options = {"s3": {"endpoint_url": server.url, "anon": True, "region": "us-east-1"}}
        receipt = copy_whole(File("s3://source/in.dat", 1000), Sources(options), shelf)
        assert receipt.path.read_bytes() == source.read_bytes()
        assert [method for method, *_ in server.requests] == ["GET"]


def test_what_is_not_simple_goes_the_long_way(make, as_file, shelf):
    def copied(file):
        return copy_whole(file, Sources(), shelf)

    small = make("small", 10)
    assert copied(File("/nowhere/in.dat", 10)) is None
    assert copied(File(str(small), 11)) is None, "of another size than planned"
    assert copied(File(str(small), 10, "md5:" + "0" * 32)) is None, "damaged"
    assert copied(as_file(make("large", MOST_BYTES + 1))) is None
    assert not files_below(shelf.directory / "files")
    assert copied(as_file(small)).transferred_bytes == 10
    assert copied(as_file(small)) is None, "it is there, and is to be compared"


def test_a_pipe_holds_nobody_up(tmp_path, shelf):
    os.mkfifo(tmp_path / "pipe")
    assert copy_whole(File(str(tmp_path / "pipe"), 0), Sources(), shelf) is None
    with pytest.raises(SourceError, match="isn't a regular file"):
        Sources().facts(str(tmp_path / "pipe"))


def test_a_small_file_that_cannot_be_had_is_the_same_error_as_a_large_one(make, many, tmp_path):
    sources = [*many(50), make("damaged", 10)]
    digest = "md5:" + hashlib.md5(b"another content").hexdigest()
    files = [File(str(path), path.stat().st_size, digest if path.name == "damaged" else None) for path in sources]
    with Stager(tmp_path / "bb", 1 << 20, 1, retry=QUICK) as one:
        ready = one.submit("t", files)
        with pytest.raises(SourceError, match="damaged is damaged: its md5 is"):
            ready.result(300)


def test_a_held_gate_lets_no_small_file_pass_and_a_closed_one_ends_the_batch(many, shelf):
    gate, ended = Gate(2), threading.Event()
    gate.apply(Decision(hold=True))
    files = [File(str(path), path.stat().st_size) for path in many(5)]

    def copy():
        with pytest.raises(Closed):
            copy_batch((copy_whole(file, Sources(), shelf) for file in files), 250, gate, 0)
        ended.set()

    threading.Thread(target=copy).start()
    until(lambda: gate.waiting or ended.is_set() or gate.passed_bytes)
    assert not ended.is_set()
    assert gate.passed_bytes == 0
    gate.close()
    assert ended.wait(300)
    assert not files_below(shelf.directory / "files")


@pytest.mark.parametrize(("pace", "most_bytes"), [(None, 8 << 20), (60_000, 4096), (6_000_000, 100_000)])
def test_a_batch_is_as_small_as_a_pace_wants_it(pace, most_bytes):
    gate = Gate(2)
    gate.apply(Decision(bytes_per_s=pace))
    assert gate.batch_bytes == most_bytes


def fetched(files, batch_bytes=1 << 20):
    """Copy by a thread that only notes what it is given."""
    given, done = [], []

    def note(batch, _):
        given.append([file.url for file in batch])
        return SmallBatch([Receipt(Path(file.url), 1, 1) for file in batch], [0.0] * len(batch), 0.0)

    def transfer(file, _):
        given.append(file.url)
        return 1

    one = Fetchers(1, transfer, note, lambda: batch_bytes, done.extend)
    for file in files:
        one.fetch(file, 0)
    until(lambda: len(done) == len(files))
    one.close()
    return given


def test_a_batch_holds_small_files_of_one_server_that_come_one_after_the_other():
    files = [File(f"/f{n}", 10) for n in range(20)]
    batches = fetched([*files, File("/large", 1 << 20), File("s3://b/k", 10), File("s3://b/l", 10), File("/unknown")])
    assert [url for batch in batches[:-4] for url in batch] == [file.url for file in files]
    assert batches[-4:] == ["/large", ["s3://b/k"], ["s3://b/l"], "/unknown"]


def test_a_batch_has_no_more_bytes_than_it_may():
    assert all(len(batch) <= 3 for batch in fetched([File(f"/f{n}", 10) for n in range(50)], batch_bytes=30))


def test_where_files_come_at_once_one_thread_copies_large_batches():
    crew = Crew.of("/a", 8, CHUNK_S)
    crew.begin()
    assert not crew.has_place, "of a server that nothing is known of"
    crew.end(FIRST_FILES, 0.0004, 0.0004)
    assert (crew.threads, crew.files) == (1, MOST_FILES)


def test_where_files_are_waited_for_more_threads_copy_small_batches():
    crew = Crew.of("/pfs/a", 8, CHUNK_S)
    crew.begin()
    crew.end(FIRST_FILES, 0.020, 0.005)
    assert (crew.threads, crew.files) == (4, 3)
    crew.begin()
    crew.begin()
    crew.end(3, 0.100, 0.003)
    assert crew.threads == 4, "it may have waited for the other thread"
    assert Crew.of("s3://bucket/a", 8, CHUNK_S).threads == 8
