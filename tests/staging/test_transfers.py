"""One file from its source to the burst buffer, by real servers that limp, lie and die."""

import hashlib
import os
import subprocess
import threading
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import fsspec
import pytest

from bbflow.errors import CapacityError, ConfigError, SourceError
from bbflow.staging import Decision, File, Gate, Retry
from bbflow.staging.gate import PAUSE_S, Closed
from bbflow.staging.shelf import Shelf
from bbflow.staging.transfers import Transfer, size_of, stage_out
from bbflow.stores.sources import Sources
from testsupport.connections import a_port
from testsupport.range_server import RangeServer, serving
from testsupport.waiting import until

QUICK = Retry(attempts=3, first_s=0.01)
PATIENT = Retry(attempts=1000, first_s=0.05, longest_s=0.2)
MiB = 1 << 20


@pytest.fixture
def copy(shelf):
    def copy(file, gate=None, retry=QUICK, options=None):
        return Transfer(file, Sources(options), shelf, gate or Gate(8), retry).run()

    return copy


def test_a_local_file_is_copied(make, as_file, copy):
    source = make("in.fits", 3 * MiB + 7)
    receipt = copy(as_file(source))
    assert receipt.path.read_bytes() == source.read_bytes()
    assert receipt.path.name == "in.fits"
    assert receipt.transferred_bytes == 3 * MiB + 7


def test_an_empty_file_is_copied(make, as_file, copy):
    assert copy(as_file(make("empty", 0))).path.read_bytes() == b""


def test_a_copy_of_the_same_version_is_taken_over_and_of_another_is_not(make, as_file, copy):
    source = make("in.dat", MiB)
    copy(as_file(source))
    assert copy(as_file(source)).transferred_bytes == 0
    source.write_bytes(os.urandom(MiB))
    os.utime(source, (1, 1))  # the file system's clock may not have ticked since
    again = copy(as_file(source))
    assert again.transferred_bytes == MiB
    assert again.path.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("ranges", [True, False])
def test_http_is_copied_with_and_without_ranges(make, copy, tmp_path, ranges):
    source = make("in.dat", 2 * MiB)
    with RangeServer(tmp_path / "source", ranges=ranges) as server:
        assert copy(File(f"{server.url}/in.dat")).path.read_bytes() == source.read_bytes()
        lengths = [length for _, _, length in server.gets]
        assert max(lengths) <= MiB if ranges else lengths == [2 * MiB, 2 * MiB], "one to ask for ranges, one for all"


def test_s3_is_copied_in_ranges(make, copy, tmp_path):
    source = make("in.dat", 2 * MiB)
    with RangeServer(tmp_path) as server:
        options = {"s3": {"endpoint_url": server.url, "anon": True, "region": "us-east-1"}}
        assert copy(File("s3://source/in.dat"), options=options).path.read_bytes() == source.read_bytes()


REFUSED = {
    "/nowhere/in.dat": "isn't there",
    "{http}/nothing": "isn't there",
    "{http}/forbidden": "no permission",
    "s3://source/nothing": "isn't there",
    "s3://source/forbidden": "no permission",
    "s3://source": "names no object",
    "nfs4://what": "nfs4",
    "{directory}": "is a directory",
}


@pytest.mark.parametrize(("url", "words"), REFUSED.items())
def test_a_source_that_cannot_be_had_is_one_clear_error(make, copy, tmp_path, url, words):
    make("in.dat", 10)
    with RangeServer(tmp_path) as server:
        options = {"s3": {"endpoint_url": server.url, "anon": True, "region": "us-east-1"}}
        with pytest.raises((SourceError, ConfigError), match=words):
            copy(File(url.format(http=server.url, directory=tmp_path)), options=options)
        assert len(server.requests) <= 2, "what is refused isn't tried again"


def test_an_unknown_option_for_s3_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'endpoint_url'"):
        Sources({"s3": {"endpoint": "http://localhost"}})


def test_a_given_checksum_is_checked(make, as_file, copy, shelf):
    source = make("in.dat", MiB)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert copy(File(str(source), MiB, f"sha256:{digest.upper()}")).size_bytes == MiB
    shelf.remove(str(source))
    with pytest.raises(SourceError, match="is damaged: its md5 is"):
        copy(File(str(source), MiB, "md5:" + "0" * 32))
    assert not shelf.path(str(source)).exists()
    assert not shelf.partial(str(source)).exists()
    with pytest.raises(ConfigError, match="'md6:0'"):
        copy(File(str(source), MiB, "md6:0"))


def test_an_object_that_is_not_what_its_etag_says_is_refused(make, copy, shelf, tmp_path):
    source = make("in.dat", MiB)
    told = Path(f"{source}.etag")
    told.write_text(hashlib.md5(source.read_bytes()).hexdigest())
    with RangeServer(tmp_path) as server:
        options = {"s3": {"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1"}}
        assert copy(File("s3://source/in.dat"), options=options).size_bytes == MiB
        told.write_text("0" * 32)
        with pytest.raises(SourceError, match=r"s3://source/in\.dat is damaged"):
            copy(File("s3://source/in.dat"), options=options)
    assert not shelf.path("s3://source/in.dat").exists()


def test_another_size_than_planned_is_refused(make, copy):
    source = make("in.dat", 100)
    with pytest.raises(SourceError, match="has 100 bytes, but 99 were expected"):
        copy(File(str(source), 99))


def stopped_gate():
    """A gate whose clock stands still, with a pace: after the first chunk none is ever due."""
    gate = Gate(1, clock=lambda: 1000.0)
    gate.apply(Decision(bytes_per_s=MiB))
    return gate


def test_a_source_that_changes_during_the_copy_is_copied_again(make, as_file, copy):
    source = make("in.dat", 4 * MiB)
    gate = stopped_gate()
    changed = os.urandom(4 * MiB)

    def change():
        until(lambda: gate.passed_bytes and not gate._in_flight)  # what was read before the change counts
        source.write_bytes(changed)
        os.utime(source, (1, 1))
        gate.apply(Decision())

    changing = threading.Thread(target=change)
    changing.start()
    receipt = copy(as_file(source), gate)
    changing.join()
    assert receipt.path.read_bytes() == changed
    assert receipt.transferred_bytes > 4 * MiB


def test_a_source_that_always_changes_is_given_up(make, as_file, copy):
    source = make("in.dat", MiB)
    times = count(1)

    class Meddling(Gate):
        """The source changes whenever a chunk of it passes."""

        @contextmanager
        def chunk(self, size_bytes, rank=None):
            with super().chunk(size_bytes, rank):
                if size_bytes:
                    os.utime(source, (0, next(times)))
                yield

    with pytest.raises(SourceError, match=r"gave up after 3 failures in a row .*changed while it was copied"):
        copy(as_file(source), Meddling(1))


def test_a_pause_lets_no_byte_be_asked_for_and_no_chunk_of_more_than_its_share_is_under_way(make, copy, tmp_path):
    source, bytes_per_s = make("in.dat", 8 * MiB), 10 * MiB
    with RangeServer(tmp_path / "source", allowed=12) as server:
        # The bytes that are asked for move the clock: the machine's own pace doesn't count.
        gate = Gate(1, clock=lambda: sum(length for _, _, length in server.gets) / bytes_per_s)
        thread = threading.Thread(target=copy, args=(File(f"{server.url}/in.dat"), gate))
        thread.start()
        until(lambda: len(server.gets) > 12)
        gate.apply(Decision(hold=True))
        server.allow()
        until(lambda: gate.waiting == 1)
        assert sum(length for _, _, length in server.gets if length > 1) == gate.passed_bytes < 8 * MiB
        gate.apply(Decision())
        thread.join()
        largest_bytes = max(length for _, _, length in server.gets)
    assert largest_bytes <= bytes_per_s * PAUSE_S, "a chunk takes longer than a pause may"
    assert copy(File(str(source))).path.read_bytes() == source.read_bytes()


def test_a_server_that_is_killed_and_comes_back_costs_no_byte_twice(make, copy, shelf, tmp_path):
    source = make("in.dat", 4 * MiB)
    gate = Gate(1)
    receipts = []
    with a_port() as port:
        file = File(f"http://127.0.0.1:{port}/in.dat")
        with serving(tmp_path / "source", port, 8):
            thread = threading.Thread(target=lambda: receipts.append(copy(file, gate, PATIENT)))
            thread.start()
            until(lambda: shelf.partial(file.url).exists() and shelf.partial(file.url).stat().st_size)
        assert not shelf.path(file.url).exists(), "half a file is seen"
        with serving(tmp_path / "source", port, "inf"):
            thread.join()
    assert receipts[0].path.read_bytes() == source.read_bytes()
    assert receipts[0].transferred_bytes == 4 * MiB


def test_a_server_that_stays_away_is_given_up(copy):
    with pytest.raises(SourceError, match="gave up after 3 failures in a row"):
        copy(File("http://127.0.0.1:9/in.dat"))


def test_a_closed_gate_leaves_the_partial_file_for_the_next_life(make, as_file, copy, shelf):
    source = make("in.dat", 4 * MiB)
    gate = stopped_gate()
    closing = threading.Thread(target=lambda: (until(lambda: gate.passed_bytes), gate.close()))
    closing.start()
    with pytest.raises(Closed):
        copy(as_file(source), gate)
    closing.join()
    left_bytes = shelf.partial(str(source)).stat().st_size
    assert left_bytes > 0
    receipt = copy(as_file(source))
    assert receipt.transferred_bytes == 4 * MiB - left_bytes
    assert receipt.path.read_bytes() == source.read_bytes()


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
def test_a_full_file_system_is_an_error_that_says_so(make, as_file, tmp_path):
    source = make("in.dat", 2 * MiB)
    (tmp_path / "small").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path / "small")], check=False)
    if mounted.returncode:
        pytest.skip("this machine doesn't let us mount")
    try:
        shelf = Shelf(tmp_path / "small" / "bb")
        with pytest.raises(CapacityError, match="is full, though"):
            Transfer(as_file(source), Sources(), shelf, Gate(1), QUICK).run()
        shelf.close()
    finally:
        subprocess.run(["umount", str(tmp_path / "small")], check=True)


def test_a_file_staged_out_appears_whole(make, tmp_path):
    source = make("out.dat", MiB)
    target = tmp_path / "pfs" / "deep" / "out.dat"
    assert stage_out(source, str(target), Sources(), Gate(1), QUICK) == MiB
    assert target.read_bytes() == source.read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["out.dat"]


def test_a_name_may_be_as_long_as_a_file_system_takes(make, tmp_path):
    target = tmp_path / "pfs" / ("é" * 127)
    stage_out(make("out.dat", 10), str(target), Sources(), Gate(1), QUICK)
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("kind", ["pipe", "link to nothing", "directory with one"])
def test_what_is_no_file_is_not_staged_out(tmp_path, kind):
    path = tmp_path / "made"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to nothing":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
        (path / "link").symlink_to("nowhere")
        assert size_of(path) == 0
    with pytest.raises(SourceError, match="is neither a file nor a directory"):
        stage_out(path, str(tmp_path / "out"), Sources(), Gate(1), QUICK)


def test_a_directory_does_not_replace_a_file(make, tmp_path):
    (tmp_path / "made").mkdir()
    with pytest.raises(SourceError, match=r"out\.dat can't be a directory: File exists"):
        stage_out(tmp_path / "made", str(make("out.dat", 10)), Sources(), Gate(1), QUICK)


@pytest.mark.parametrize("size", [10, MiB])
def test_a_copy_cannot_be_written_to_and_its_source_can(make, as_file, copy, size):
    source = make("in.dat", size)
    assert copy(as_file(source)).path.stat().st_mode & 0o222 == 0
    assert source.stat().st_mode & 0o222 != 0


@pytest.mark.parametrize("left", ["longer", "link"])
def test_what_cannot_be_the_beginning_of_a_file_is_begun_again(make, as_file, copy, shelf, tmp_path, left):
    source = make("in.dat", MiB)
    copy(as_file(source)).path.unlink()
    partial = shelf.partial(str(source))
    if left == "longer":
        partial.write_bytes(bytes(2 * MiB))
    else:
        (tmp_path / "victim").write_bytes(b"precious")
        partial.symlink_to(tmp_path / "victim")
    path = copy(as_file(source)).path
    assert path.read_bytes() == source.read_bytes()
    assert not path.is_symlink()
    assert left == "longer" or (tmp_path / "victim").read_bytes() == b"precious"


def test_a_copy_that_was_had_without_a_checksum_is_checked_against_one(make, as_file, copy):
    source = make("in.dat", MiB)
    path = copy(as_file(source)).path
    path.chmod(0o600)
    path.write_bytes(bytes(MiB))
    right = f"sha256:{hashlib.sha256(source.read_bytes()).hexdigest()}"
    assert copy(File(str(source), MiB, right)).path.read_bytes() == source.read_bytes()
    with pytest.raises(SourceError, match="is damaged"):
        copy(File(str(source), MiB, "md5:" + "0" * 32))


def test_what_cannot_be_staged_out_is_an_error(make):
    with pytest.raises(SourceError):
        stage_out(make("out.dat", 10), "/proc/nowhere/out.dat", Sources(), Gate(1), QUICK)


def test_a_directory_is_staged_out_to_a_path_and_to_another_store(tmp_path):
    (tmp_path / "made" / "deep" / "empty").mkdir(parents=True)
    for name in ("one", "deep/a#b"):
        (tmp_path / "made" / name).write_text(name)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other").write_text("stays")
    assert stage_out(tmp_path / "made", f"{tmp_path}/out", Sources(), Gate(1), QUICK) == 11
    assert sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*")) == [
        "deep",
        "deep/a#b",
        "deep/empty",
        "one",
        "other",
    ]
    memory = fsspec.filesystem("memory")
    try:
        stage_out(tmp_path / "made", "memory://made", Sources(), Gate(1), QUICK)
        assert memory.cat("/made/deep/a#b") == b"deep/a#b"
    finally:
        memory.rm("/made", recursive=True)
    (tmp_path / "made" / "pipe").symlink_to("nowhere")
    with pytest.raises(SourceError, match="pipe is neither a file nor a directory"):
        stage_out(tmp_path / "made", f"{tmp_path}/out", Sources(), Gate(1), QUICK)
