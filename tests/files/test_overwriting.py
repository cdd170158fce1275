"""Files that the shared storage has, while someone writes them anew or goes on from them."""

import errno

import pytest
from test_master import ONE
from test_master_restart import SIZE, killed  # noqa: F401 - a fixture

OLD = bytes(range(1, 251)) * 1000


@pytest.fixture
def client(servers):
    servers.storage.mkdir()
    (servers.storage / "f").write_bytes(OLD)
    return servers.start(master=("--piece", "64KiB"))


def opened(bench, *, truncate):
    """Open the one file of the storage for writing while it is on its way; the first open lets it come."""
    bench.say(ONE, "list", ino=bench.root, after="", limit=100)
    bench.scanned("f")
    ino = bench.say(ONE, "lookup", parent=bench.root, name="f")["attr"]["ino"]
    bench.say(ONE, "open", ino=ino, write=False)
    fill = bench.command("fill")
    bench.answer(fill, done=False)
    reader = bench.said[ONE]["handle"]
    writer = bench.say(ONE, "open", ino=ino, write=True, truncate=truncate)
    bench.say(ONE, "close", handle=reader)
    bench.say(ONE, "room", node="io", bytes=SIZE)
    return fill, writer


def commit(bench, writer, version):
    return bench.say(ONE, "commit", handle=writer["handle"], size=SIZE, pieces=[[version, SIZE]])


def test_what_is_written_anew_is_read_as_the_storage_has_it_until_it_is_committed(servers, client):
    file = client.open("/f", "w")
    assert client.stat("/f").state == "cold"
    assert servers.client().read("/f") == OLD
    file.pwrite(b"new", 0)
    file.close()
    assert client.read("/f") == b"new"


def test_what_was_opened_to_be_written_anew_and_never_closed_keeps_its_bytes(servers, client):
    client.open("/f", "w").abandon()
    with client.open("/f", "a") as file:
        file.pwrite(b"more", 0)
    assert client.flush(wait_s=60).left == 0
    assert (servers.storage / "f").read_bytes() == OLD + b"more"


def test_what_is_written_anew_counts_also_when_its_master_was_started_again(servers, client):
    file = client.open("/f", "w")
    servers.restart("master")
    file.pwrite(b"new", 0)
    file.close()
    assert servers.client().read("/f") == b"new"
    assert client.flush(wait_s=60).left == 0
    assert (servers.storage / "f").read_bytes() == b"new"


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_what_others_put_into_the_storage_meanwhile_takes_no_bytes_from_who_goes_on_from_them(servers, client, mode):
    file = client.open("/f", mode)
    assert client.read("/f") == OLD
    (servers.storage / "f").write_bytes(b"by someone else")
    client.refresh("/")
    file.pwrite(b"more", len(OLD))
    file.close()
    assert client.flush(wait_s=60).left == 0
    (ours,) = client.status()[0].conflicts
    assert client.read(f"/{ours}") == (servers.storage / ours).read_bytes() == OLD + b"more"
    assert client.read("/f") == (servers.storage / "f").read_bytes() == b"by someone else"


def test_a_file_that_was_overwritten_on_its_way_to_memory_is_written_back(killed):  # noqa: F811
    _, writer = opened(killed, truncate=True)
    assert commit(killed, writer, writer["version"])["ok"]
    killed.say(ONE, "close", handle=writer["handle"])
    assert killed.command("upload")["pieces"] == [[writer["version"], SIZE]]


def test_who_goes_on_from_bytes_that_never_came_is_told_so(killed):  # noqa: F811
    fill, writer = opened(killed, truncate=False)
    killed.answer(fill, errno=errno.EIO, error="not now")
    ((version, _),) = writer["pieces"]
    assert commit(killed, writer, version)["errno"] == errno.EIO
    assert commit(killed, writer, writer["version"])["ok"]  # all of it is its own


def test_who_goes_on_from_bytes_that_were_on_their_way_to_a_master_before_is_told_so(killed):  # noqa: F811
    _, writer = opened(killed, truncate=False)
    ((version, _),) = writer["pieces"]
    killed.restart(handles=[[writer["handle"], writer["attr"]["ino"], version, True]])
    assert commit(killed, writer, version)["errno"] == errno.EIO
