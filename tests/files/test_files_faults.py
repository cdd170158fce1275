"""Masters and IOnodes that are killed, hosts that are gone, nodes that are full."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from bbflow.files.client import calling, session
from bbflow.files.client.session import ClientSession
from bbflow.net import connection
from testsupport.processes import stop
from testsupport.relays import Relay
from testsupport.waiting import until


def lying_in(folder):
    """Return the pieces of a node, but for those that go meanwhile."""
    found = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            found[path.name] = path.read_bytes()
    return found


def test_what_is_closed_outlives_a_killed_master_and_what_is_not_closed_is_not_seen(servers):
    writer, reader = servers.start(storage=False), servers.client()
    writer.write("/closed", b"closed")
    file = writer.open("/open", "w")
    file.pwrite(b"half", 0)
    servers.restart("master")
    assert reader.read("/closed") == b"closed"
    file.pwrite(b"whole", 0)
    file.close()
    assert reader.read("/open") == b"whole"


WRITER = """
import sys
from bbflow.files.client.client import FilesClient
client = FilesClient(sys.argv[1])
files = [client.open(path, "w") for path in sys.argv[2:]]
for file in files:
    file.pwrite(b"half", 0)
print("written", flush=True)
sys.stdin.read()
"""


def test_a_new_file_of_a_client_that_died_is_no_more(servers):
    client = servers.start(storage=False, master=("--lease", "0.5"))
    client.write("/old", b"old")
    command = [sys.executable, "-c", WRITER, str(servers.contact), "/new", "/old"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dying:
        assert dying.stdout.readline() == b"written\n"
        dying.kill()
    until(lambda: not client.exists("/new"), "the end of the session")
    assert client.read("/old") == b"old"
    client.write("/old", b"newer")


def test_a_master_that_was_away_for_longer_than_a_client_waits_is_found_again(servers, monkeypatch):
    client = servers.start(storage=False)
    client.write("/f", b"kept")
    servers.kill("master")
    with monkeypatch.context() as patch:
        patch.setattr("bbflow.files.client.session.COME_BACK_S", 0)
        with pytest.raises(OSError, match="doesn't come back"):
            client.read("/f")
    servers.restart("master")
    assert client.read("/f") == b"kept"


def test_closed_files_outlive_a_killed_ionode(servers):
    client = servers.start(nodes=2, storage=False, master=("--piece", "64KiB"))
    content = os.urandom(300_000)
    client.write("/f", content)
    servers.restart("master-io0")
    assert client.read("/f") == content
    client.write("/g", content)
    assert client.read("/g") == content


def test_without_its_node_a_file_is_lost_by_name_unless_it_was_written_back_or_has_replicas(servers):
    options = ("--node-loss", "1", "--write-back", "end", "--scratch", "*.tmp")
    client = servers.start(nodes=1, master=options)
    for path in ("/dirty", "/clean", "/x.tmp"):
        client.write(path, path.encode())
    assert client.flush("/clean", 60).left == 0
    servers.kill("master-io0")
    until(lambda: client.status()[0].lost, "the list of what is lost")
    lost = client.status()[0].lost
    assert "x.tmp" in lost
    assert "clean" not in lost
    with pytest.raises(OSError, match="lost") as caught:
        client.open("/x.tmp")
    assert caught.value.errno == errno.EIO
    servers.spawn("other", "ionode", "--name", "other", "--capacity", "1MiB", "--storage", str(servers.storage))
    until(lambda: servers.up(client), "another node")
    assert client.read("/clean") == b"/clean"


def test_a_file_that_was_lost_with_its_node_is_there_again_with_it(servers):
    client = servers.start(storage=False, master=("--node-loss", "0.5"))
    client.write("/f", b"kept")
    servers.kill("master-io0")
    until(lambda: client.status()[0].lost, "the list of what is lost")
    servers.spawn(*servers.processes["master-io0"][1])
    until(lambda: not client.status()[0].lost, "the node with its files")
    assert client.read("/f") == b"kept"
    assert [node.pieces for node in client.status()[0].nodes] == [1]


def test_with_two_replicas_the_loss_of_a_node_loses_nothing(servers):
    options = ("--node-loss", "1", "--replicas", "2", "--piece", "64KiB")
    client = servers.start(nodes=3, storage=False, master=options)
    contents = {f"/f{number}": os.urandom(200_000) for number in range(4)}
    for path, content in contents.items():
        client.write(path, content)
    servers.kill("master-io1")
    until(lambda: servers.up(client) == 2, "the loss")
    assert {path: client.read(path) for path in contents} == contents
    assert not client.status()[0].lost


@pytest.mark.parametrize("nodes", [3, 4])
def test_the_nodes_that_are_left_take_over_the_copies_of_a_lost_one(servers, nodes):
    options = ("--node-loss", "1", "--replicas", "2", "--piece", "64KiB")
    client = servers.start(nodes=nodes, storage=False, master=options)
    contents = {f"/f{number}": os.urandom(300_000) for number in range(4)}
    for path, content in contents.items():
        client.write(path, content)
    servers.kill("master-io1")
    copies = 2 * 5 * len(contents)
    until(lambda: sum(node.pieces for node in client.status()[0].nodes if node.up) == copies, "the new copies")
    left = [servers.directory / f"master-io{number}/pieces" for number in range(nodes) if number != 1]

    def kept():
        return Counter(piece for folder in left for piece in lying_in(folder).items())

    until(lambda: list(kept().values()) == [2] * (copies // 2), "their bytes")
    servers.kill("master-io0")
    assert {path: client.read(path) for path in contents} == contents
    assert not client.status()[0].lost


def append(client, path, content):
    """Append to a file, if the node that is written to is there."""
    with suppress(OSError):
        with client.open(path, "a") as file:
            file.pwrite(content, 0)
        return True
    return False


def test_copies_that_a_node_has_missed_are_made_when_it_is_back(servers):
    client = servers.start(nodes=2, storage=False, master=("--replicas", "2", "--piece", "64KiB"))
    contents = {"/a": bytes(70_000), "/b": bytes(70_000), "/new": os.urandom(200_000)}
    for path in ("/a", "/b"):
        client.write(path, contents[path])
    servers.kill("master-io1")
    client.write("/new", contents["/new"])
    appended = [path for path in ("/a", "/b") if append(client, path, b"more")]
    assert len(appended) == 1  # the other one's last piece is written on the node that is away
    contents[appended[0]] += b"more"
    servers.spawn(*servers.processes["master-io1"][1])

    def kept():
        return [lying_in(servers.directory / f"master-io{number}/pieces") for number in (0, 1)]

    until(lambda: len(kept()[0]) == 8 and kept()[0] == kept()[1], "the copies")
    servers.kill("master-io0")
    assert {path: client.read(path) for path in contents} == contents


def test_an_ionode_whose_directory_is_removed_ends_and_what_lay_there_does_not_count(servers):
    client = servers.start(storage=False)
    client.write("/closed", b"lost")
    file = client.open("/f", "w")
    file.pwrite(b"lost", 0)
    shutil.rmtree(servers.directory / "master-io0")
    process, command = servers.processes["master-io0"]
    assert process.wait(60) == os.EX_NOHOST
    assert "master-io0 was removed while" in (servers.directory / "master-io0.log").read_text()
    servers.spawn(*command)
    with pytest.raises(OSError, match=r"came back without what was written to 'f'|has 0 of 4 bytes"):
        file.close()
    until(lambda: client.status()[0].lost == ("closed",), "the list of what is lost")


def test_a_full_node_evicts_what_is_clean_least_recently_used_first(servers):
    client = servers.start(capacity="1MiB")
    contents = {f"/f{number}": os.urandom(200_000) for number in range(12)}
    for path, content in contents.items():
        client.write(path, content)  # it waits while older files are written back and go
    assert {path: client.read(path) for path in contents} == contents
    (node,) = client.status()[0].nodes
    assert node.placed_bytes <= node.capacity == 1 << 20


def test_a_reader_goes_on_when_the_node_has_lost_what_it_opened(servers):
    client, content = servers.start(master=("--piece", "64KiB")), os.urandom(300_000)
    client.write("/f", content)
    assert client.flush(wait_s=60).left == 0
    with client.open("/f") as file:
        servers.kill("master-io0")
        until(lambda: not servers.up(client), "the end of the node")
        shutil.rmtree(servers.directory / "master-io0/pieces")
        servers.spawn(*servers.processes["master-io0"][1])
        until(lambda: servers.up(client), "the node again")
        assert file.pread(400_000, 0) == content
    assert client.read("/f") == content


def test_a_writer_fails_when_its_time_is_up_in_which_nothing_could_go(servers):
    client = servers.start(capacity="1MiB", storage=False, master=("--room-timeout", "0.5"))
    client.write("/a", bytes(900_000))
    with pytest.raises(OSError, match="full") as caught:
        client.write("/b", bytes(900_000))
    assert caught.value.errno == errno.ENOSPC


def test_a_writer_waits_until_something_goes(servers):
    client = servers.start(capacity="1MiB", storage=False, master=("--room-timeout", "600"))
    client.write("/a", bytes(900_000))
    removing = threading.Timer(0.1, client.unlink, ["/a"])
    removing.start()
    with servers.client() as other:
        other.write("/c", bytes(600_000))
    removing.join()


def test_what_is_given_up_keeps_no_room(servers):
    client = servers.start(capacity="8MiB", storage=False, master=("--room-timeout", "60"))
    for _ in range(3):
        file = client.open("/f", "w")
        file.pwrite(bytes(6_000_000), 0)
        file.abandon()
    client.write("/f", bytes(6_000_000))


def test_a_storage_that_refuses_is_tried_again_and_seen_in_the_status(servers):
    client = servers.start()
    client.mkdir("/d")
    servers.storage.mkdir(exist_ok=True)
    (servers.storage / "d").write_bytes(b"a file where a directory should be")
    client.write("/d/f", b"kept")
    until(lambda: client.status()[0].failed, "the failure")
    (servers.storage / "d").unlink()
    assert client.flush(wait_s=100).left == 0
    assert (servers.storage / "d/f").read_bytes() == b"kept"


def test_a_master_that_is_killed_while_it_writes_back_goes_on_with_it(servers):
    client = servers.start(nodes=2)
    contents = {f"/f{number}": os.urandom(50_000) for number in range(40)}
    for path, content in contents.items():
        client.write(path, content)
    servers.restart("master")
    servers.restart("master-io1")
    assert client.flush(wait_s=100).left == 0, [(s.failed, s.files, s.lost) for s in client.status()]
    assert {f"/{path.name}": path.read_bytes() for path in servers.storage.iterdir()} == contents


def test_a_second_master_of_one_directory_is_refused_and_the_first_one_goes_on(servers):
    client = servers.start(storage=False)
    client.write("/f", b"kept")
    process, command = servers.processes.pop("master")
    servers.spawn(*command)
    second, _ = servers.processes.pop("master")
    servers.processes["master"] = (process, command)
    assert second.wait(60)
    assert "another master has" in (servers.directory / "master.log").read_text()
    with servers.client() as other:
        assert other.read("/f") == b"kept"


def test_a_host_that_stands_still_holds_others_up_for_its_lease_only(servers):
    client = servers.start(storage=False, master=("--lease", "1"))
    client.write("/f", b"1")
    servers.processes["master-io0"][0].send_signal(signal.SIGSTOP)
    client.mkdir("/d")  # metadata doesn't need the node
    servers.processes["master-io0"][0].send_signal(signal.SIGCONT)
    assert client.read("/f") == b"1"


def stopped_node(servers, monkeypatch):
    """Return a client with an open file on an IOnode that is had by messages, and is stopped then."""
    monkeypatch.setattr(calling, "SILENCE_S", 0.5)
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(calling.Caller, "standstill_s", 1)
    client = servers.start(storage=False, capacity="128MiB")
    (servers.directory / "master-io0").chmod(0o777)
    file = client.open("/f", "w")
    file.pwrite(b"1", 0)
    stop(servers.processes["master-io0"][0])
    return file


@pytest.mark.parametrize("size", [1, 1 << 23], ids=["small", "large"])
def test_a_write_to_an_ionode_that_is_stopped_fails_by_its_name_and_goes_well_later(servers, monkeypatch, size):
    file = stopped_node(servers, monkeypatch)
    with pytest.raises(OSError, match="master-io0") as caught:
        file.pwrite(bytes(size), 0)
    assert caught.value.errno == errno.EHOSTDOWN
    monkeypatch.undo()  # who goes on may be slow
    servers.processes["master-io0"][0].send_signal(signal.SIGCONT)
    file.pwrite(b"2" * size, 0)
    file.close()
    with servers.client() as other:
        assert other.read("/f") == b"2" * size


def test_a_read_from_an_ionode_that_is_stopped_fails_by_its_name(servers, monkeypatch):
    file = stopped_node(servers, monkeypatch)
    with pytest.raises(OSError, match="master-io0") as caught:
        file.pread(1, 0)
    assert caught.value.errno == errno.EIO
    monkeypatch.undo()  # who goes on may be slow
    servers.processes["master-io0"][0].send_signal(signal.SIGCONT)
    assert file.pread(1, 0) == b"1"


def test_a_request_to_a_master_that_is_stopped_fails_by_its_name_and_goes_well_later(servers, monkeypatch):
    for where, limit in ((calling, "SILENCE_S"), (connection, "TIMEOUT_S"), (session, "COME_BACK_S")):
        monkeypatch.setattr(where, limit, 0.5)
    client = servers.start(storage=False)
    client.write("/f", b"1")
    master, _ = servers.processes["master"]
    stop(master)
    with pytest.raises(OSError, match=r"doesn't come back: the master .* has been silent") as caught:
        client.mkdir("/d")
    assert caught.value.errno == errno.EIO
    monkeypatch.undo()  # who goes on may be slow
    master.send_signal(signal.SIGCONT)
    assert client.read("/f") == b"1"
    client.mkdir("/e")


def test_a_master_that_is_slow_is_waited_for(servers, monkeypatch):
    monkeypatch.setattr(calling, "SILENCE_S", 0.1)
    servers.start(storage=False)
    relay = Relay(servers.directory / "master" / "master.sock")
    with closing(relay), servers.client() as client, ThreadPoolExecutor() as beside:
        with relay.slow():
            came, asked = relay.came(), beside.submit(client.mkdir, "/d")
            until(lambda: relay.came() > came + 2, "the third look")
        asked.result(60)
        assert client.exists("/d")


@pytest.mark.parametrize("harm", [Path.unlink, partial(Path.write_text, data="{")], ids=["removed", "damaged"])
def test_a_client_comes_back_to_its_master_whatever_became_of_the_contact_file(servers, harm):
    servers.start(storage=False)
    relay = Relay(servers.directory / "master" / "master.sock")
    with closing(relay), servers.client() as client:
        harm(servers.contact)
        relay.cut()
        client.mkdir("/d")
        assert client.exists("/d")


def test_an_ionode_that_is_slow_is_waited_for(servers, monkeypatch):
    monkeypatch.setattr(calling, "SILENCE_S", 0.1)
    servers.start(storage=False)
    (servers.directory / "master-io0").chmod(0o777)
    relay = Relay(servers.directory / "master-io0" / "ionode.sock")
    with closing(relay), servers.client().open("/f", "w") as file, ThreadPoolExecutor() as beside:
        file.pwrite(b"1", 0)
        with relay.slow():
            came, reading = relay.came(), beside.submit(file.pread, 1, 0)
            until(lambda: relay.came() > came + 2, "the third look")
        assert reading.result(60) == b"1"


def test_who_asks_for_room_before_a_new_masters_nodes_are_back_waits_for_them(servers):
    client = servers.start(storage=False)
    with client.open("/f", "w") as file:
        servers.kill("master-io0")
        servers.restart("master")
        servers.spawn(*servers.processes["master-io0"][1])
        file.pwrite(b"new", 0)
    assert client.read("/f") == b"new"


@pytest.mark.parametrize("left", [None, b"ke"], ids=["gone", "shorter"])
@pytest.mark.parametrize(("mode", "at"), [("a", 0), ("r+", 3)], ids=["append", "overwrite"])
def test_what_a_node_has_lost_of_a_file_is_not_made_up_with_zeros_by_the_next_write(servers, left, mode, at):
    client = servers.start(storage=False)
    client.write("/f", b"kept")
    (piece,) = (servers.directory / "master-io0/pieces").iterdir()
    piece.unlink() if left is None else os.truncate(piece, len(left))
    with client.open("/f", mode) as file, pytest.raises(OSError, match=f"{piece.name} has . of 4 bytes on its node"):
        file.pwrite(b"more", at)
    with pytest.raises(OSError, match="isn't where it should be"):
        client.read("/f")


@pytest.mark.parametrize("is_remote", [False, True], ids=["here", "elsewhere"])
def test_a_node_that_comes_back_empty_makes_no_zeros_of_what_is_written_to_it(servers, monkeypatch, is_remote):
    client = servers.start(storage=False)
    if is_remote:
        monkeypatch.setattr(ClientSession, "pieces", lambda *_: None)
    file = client.open("/f", "w")
    file.pwrite(b"lost", 0)
    servers.kill("master-io0")
    shutil.rmtree(servers.directory / "master-io0")
    servers.restart("master-io0")
    until(lambda: servers.up(client) == 1, "the IOnode")
    with pytest.raises(OSError, match="on its node"):
        file.pwrite(b"more", 4)
    said = "came back without what was written to 'f': write it again" if is_remote else "has 0 of 4 bytes on its node"
    with pytest.raises(OSError, match=said):
        file.close()
    assert client.read("/f") == b""


def test_a_piece_that_somebody_removes_while_it_is_written_does_not_count_and_is_written_again(servers):
    client = servers.start(storage=False)
    with client.open("/f", "w") as file:
        file.pwrite(b"lost", 0)
        (piece,) = (servers.directory / "master-io0/pieces").iterdir()
        piece.unlink()
        with pytest.raises(OSError, match=f"{piece.name} has 0 of 4 bytes on its node"):
            file.sync()
        file.truncate(0)
        file.pwrite(b"there", 0)
    assert client.read("/f") == b"there"
