"""A master's decisions, without sockets and with a clock that stands still until it is told."""

import errno

import msgspec
import pytest

from bbflow.errors import ProtocolError
from bbflow.files.master.core import CutOff
from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.master.records import InodeRecord
from bbflow.files.options import Options
from bbflow.files.requests import parse_heard

NODE, ONE, TWO, LISTENER = 1, 2, 3, 4
ROOM = 1 << 20


def decoded(message):
    """Return a message as its peer sees it."""
    return message if isinstance(message, CutOff) else msgspec.msgpack.decode(msgspec.msgpack.encode(message))


class Bench:
    """One master and what it last said to each peer."""

    def __init__(self, directory, **options):
        self.now_s, self.user = 1000.0, None
        self.stopped = set()
        self.said = {}
        self.database = Database(directory / "metadata.db")
        self.master = Master(self.database, Options(**{"write_back_after_s": 0.0} | options), lambda: self.now_s)
        self.join(keys=[])

    def join(self, **keys):
        told = dict.fromkeys(("host", "socket", "directory", "tcp", "tls"), "h")
        self.say(NODE, "ionode", name="io", capacity=ROOM, most=ROOM, last=True, **keys, **told)

    def hear(self, peer, op, **keys):
        """Take a message in as it comes out of its frame."""
        self.master.handle(peer, parse_heard(msgspec.msgpack.encode({"op": op, **keys})), self.user)

    def say(self, peer, op, **keys):
        self.said.pop(peer, None)
        self.hear(peer, op, **keys)
        self._take()
        return self.said.get(peer)

    def order(self, peer, op, **keys):
        """Return what the node is told because of a request."""
        self.said.pop(NODE, None)
        self.say(peer, op, **keys)
        return self.said.pop(NODE, None)

    def out(self):
        """Return what goes out now, as its peers see it, but for what nodes answer at once: whether they are there."""
        out = [(peer, decoded(message)) for peer, message in self.master.take_out()]
        looks = [(peer, message) for peer, message in out if message != CutOff() and message.get("keys") == []]
        for peer, look in looks:
            if look["op"] == "have" and peer not in self.stopped:
                self.hear(peer, "task", task=look["task"], ok=True)
        return [said for said in out if said not in looks]

    def _take(self):
        self.said |= self.out()

    def enter(self, peer, uid=0):
        self.session = self.say(peer, "session", host="h", pid=1, uid=uid, gid=uid)
        self.root = self.session["root"]["ino"]
        return self.session

    def wait(self, seconds):
        self.now_s += seconds
        self.master.expire()
        self._take()


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def two_clients(bench):
    """One that changes things, and one that keeps what it was told of a file."""
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    bench.say(ONE, "close", handle=made["handle"])
    session = bench.enter(TWO)["session"]
    bench.say(LISTENER, "join", session=session, listen=True)
    return bench.say(TWO, "lookup", parent=bench.root, name="f")["attr"]["ino"]


@pytest.mark.parametrize("op", ["unlink", "rename", "setattr"])
def test_a_change_is_answered_when_all_have_forgotten_what_it_changes(bench, op):
    ino = two_clients(bench)
    keys = {"setattr": {"ino": ino, "mode": 0o640}}.get(op, {"parent": bench.root, "name": "f"})
    if op == "rename":
        keys |= {"to_parent": bench.root, "to_name": "g"}
    assert bench.say(ONE, op, **keys) is None
    told = bench.said[LISTENER]
    assert told["op"] == "forget"
    assert ino in told["inos"] or [bench.root, "f", ino] in told["names"]
    bench.say(LISTENER, "forgot", seq=told["seq"])
    assert bench.said[ONE]["ok"]


def test_who_does_not_answer_within_a_lease_is_cut_off_and_holds_nobody_up_for_longer(bench):
    two_clients(bench)
    assert bench.say(ONE, "unlink", parent=bench.root, name="f") is None
    bench.wait(9.0)
    assert ONE not in bench.said
    bench.wait(1.5)
    assert bench.said[ONE]["ok"]
    assert bench.said[TWO] == CutOff()


def test_what_nobody_keeps_is_changed_at_once(bench):
    two_clients(bench)
    assert bench.say(ONE, "mkdir", parent=bench.root, name="d", mode=0o755)["ok"]


def test_a_complete_list_is_forgotten_when_a_name_comes(bench):
    two_clients(bench)
    assert not bench.say(TWO, "list", ino=bench.root, after="", limit=10)["more"]
    assert bench.say(ONE, "mkdir", parent=bench.root, name="d", mode=0o755) is None
    assert bench.said[LISTENER]["directories"] == [bench.root]


def test_a_name_that_comes_while_a_directory_is_listed_in_parts_is_told_of(bench):
    two_clients(bench)
    bench.say(ONE, "mkdir", parent=bench.root, name="z", mode=0o755)
    assert bench.say(TWO, "list", ino=bench.root, after="", limit=1)["more"]
    assert bench.say(ONE, "mkdir", parent=bench.root, name="a", mode=0o755) is None
    assert bench.said[LISTENER]["directories"] == [bench.root]


def test_modes_and_owners_count(bench):
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="secret", mode=0o600, exclusive=True)
    bench.say(ONE, "close", handle=made["handle"])
    bench.enter(TWO, uid=54321)
    ino = made["attr"]["ino"]
    requests = [
        ("open", {"ino": ino, "write": False}, errno.EACCES),
        ("create", {"parent": bench.root, "name": "x", "mode": 0o644, "exclusive": True}, errno.EACCES),
        ("unlink", {"parent": bench.root, "name": "secret"}, errno.EACCES),
        ("setattr", {"ino": ino, "mode": 0o666}, errno.EPERM),
        ("setattr", {"ino": ino, "owner": 54321}, errno.EPERM),
    ]
    for op, keys, number in requests:
        assert bench.say(TWO, op, **keys)["errno"] == number
        assert bench.say(TWO, op, **keys, uid=0)["errno"] == number  # only root speaks for others


def test_a_mkdir_with_parents_searches_only_directories_that_it_may_and_that_are_this_masters(bench):
    bench.master.graft({"/": 0, "/sub": 1})
    bench.enter(ONE)
    made = bench.say(ONE, "mkdir", parent=bench.root, name="closed/open", mode=0o777, parents=True)
    closed = bench.say(ONE, "lookup", parent=bench.root, name="closed")["attr"]["ino"]
    assert bench.say(ONE, "setattr", ino=made["attr"]["ino"], mode=0o777)["ok"]
    assert bench.say(ONE, "setattr", ino=closed, mode=0o700)["ok"]
    bench.enter(TWO, uid=54321)

    def refusal(name):
        return bench.say(TWO, "mkdir", parent=bench.root, name=name, mode=0o777, parents=True).get("errno")

    assert refusal("closed/open") == errno.EACCES
    assert refusal("closed/open/new") == errno.EACCES
    assert refusal("sub/new") == errno.EXDEV
    assert refusal("sub") is None


def test_a_peer_that_claims_to_be_another_user_is_cut_off(bench):
    bench.user = 1000
    with pytest.raises(ProtocolError, match="user 1000 says it is user 0"):
        bench.enter(TWO)


def test_nothing_counts_that_was_written_without_room(bench):
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    pieces = [[made["version"], 8192]]
    refused = bench.say(ONE, "commit", handle=made["handle"], size=8192, pieces=pieces)
    assert refused["errno"] == errno.EDQUOT
    assert bench.say(ONE, "room", node="io", bytes=8192)["granted"] == {"io": 8192}
    assert bench.say(ONE, "commit", handle=made["handle"], size=8192, pieces=pieces)["ok"]
    assert bench.say(ONE, "statfs")["free"] == ROOM - 8192


def test_a_node_that_is_lost_has_no_room(bench):
    bench.enter(ONE)
    bench.master.disconnect(NODE)
    bench.wait(59.0)
    assert bench.say(ONE, "statfs")["capacity"] == ROOM, "it may be back"
    bench.wait(2.0)
    room = bench.say(ONE, "statfs")
    assert (room["capacity"], room["free"]) == (0, 0)


def test_a_commit_of_someone_elses_pieces_is_refused(bench):
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    with pytest.raises(ProtocolError, match="isn't its own"):
        bench.say(ONE, "commit", handle=made["handle"], size=10, pieces=[[made["version"] + 1, 10]])


def test_a_commit_waits_until_the_copies_of_the_one_before_are_made(tmp_path):
    bench, other = Bench(tmp_path, replicas=2), 5
    told = dict.fromkeys(("host", "socket", "directory", "tcp", "tls"), "h")
    bench.say(other, "ionode", name="other", capacity=ROOM, most=ROOM, last=True, keys=[], **told)
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    for name in ("io", "other"):
        assert bench.say(ONE, "room", node=name, bytes=4096)["ok"]

    def commit(slot, size):
        """Commit; gives what is copied then."""
        pieces = [[made["version"], size]]
        bench.say(ONE, "commit", handle=made["handle"], size=size, pieces=pieces, slot=slot, number=1)
        return copied()

    def copied():
        orders = [bench.said.pop(node, {}) for node in (NODE, other)]
        return [(node, order) for node, order in zip((NODE, other), orders, strict=True) if order.get("op") == "fetch"]

    ((node, first),) = commit(0, 4)
    assert commit(1, 5) == [], "its client no longer waits for the first one, which isn't over"
    bench.say(node, "task", task=first["task"], ok=True)
    ((node, second),) = copied()
    assert (first["bytes"], second["bytes"]) == (4, 5)
    bench.say(node, "task", task=second["task"], ok=True)
    assert bench.said[ONE]["ok"]
    assert bench.say(ONE, "lookup", parent=bench.root, name="f")["attr"]["size"] == 5
    assert bench.say(ONE, "statfs")["free"] == 2 * ROOM - 8192


def closed_file(bench):
    """One that has just been closed; gives its number, and what the node is told of that."""
    bench.enter(ONE)
    scan = bench.order(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    bench.say(NODE, "task", task=scan["task"], ok=True, objects=[], directories=[])
    made = bench.said[ONE]
    assert bench.say(ONE, "room", node="io", bytes=4096)["ok"]
    assert bench.say(ONE, "commit", handle=made["handle"], size=10, pieces=[[made["version"], 10]])["ok"]
    return made["attr"]["ino"], bench.order(ONE, "close", handle=made["handle"])


def clean_file(bench):
    """One that the shared storage has, and the node too, and that nobody has open; gives its number."""
    ino, upload = closed_file(bench)
    assert upload["op"] == "upload"
    bench.say(NODE, "task", task=upload["task"], ok=True, facts=[10, "1"])
    return ino


def test_a_file_goes_to_the_storage_when_it_has_rested_under_the_name_that_it_has_then(tmp_path):
    bench = Bench(tmp_path, storage="s3://b", write_back_after_s=5.0)
    _, told = closed_file(bench)
    assert told is None
    keys = {"parent": bench.root, "name": "f", "to_parent": bench.root, "to_name": "g"}
    assert bench.say(ONE, "rename", **keys)["ok"]
    bench.wait(4.9)
    assert NODE not in bench.said
    bench.wait(0.2)
    assert (bench.said[NODE]["op"], bench.said[NODE]["path"]) == ("upload", "g")


def test_a_file_that_is_removed_while_it_rests_never_gets_to_the_storage(tmp_path):
    bench = Bench(tmp_path, storage="s3://b", write_back_after_s=5.0)
    closed_file(bench)
    assert bench.say(ONE, "unlink", parent=bench.root, name="f")["ok"]
    bench.said.clear()
    bench.wait(60.0)
    assert bench.said.get(NODE, {"op": ""})["op"] != "upload"


def test_a_file_that_is_written_again_and_again_rests_no_longer(tmp_path):
    bench = Bench(tmp_path, storage="s3://b", write_back_after_s=5.0)
    ino, _ = closed_file(bench)
    bench.wait(4.0)
    made = bench.say(ONE, "open", ino=ino, write=True)
    assert NODE not in bench.said
    bench.say(ONE, "close", handle=made["handle"])
    bench.wait(1.1)
    assert bench.said[NODE]["op"] == "upload"


def test_a_flush_does_not_wait_for_files_to_rest(tmp_path):
    bench = Bench(tmp_path, storage="s3://b", write_back_after_s=5.0)
    closed_file(bench)
    assert bench.order(ONE, "flush", path="", wait_s=9.0)["op"] == "upload"


def test_a_file_that_went_is_open_again_once_its_node_has_begun_to_have_it(tmp_path):
    bench = Bench(tmp_path, storage="s3://b")
    ino = clean_file(bench)
    drop = bench.order(ONE, "evict", path="f")
    assert drop["op"] == "drop"
    bench.enter(TWO)
    fill = bench.order(TWO, "open", ino=ino, write=False)
    assert fill["op"] == "fill"
    assert list(bench.say(ONE, "status")["files"]) == ["coming"]
    assert TWO not in bench.said
    bench.say(NODE, "task", task=drop["task"], ok=True)
    assert bench.say(TWO, "statfs")["free"] == ROOM - 4096, "what comes again is counted"
    bench.said.clear()
    bench.say(NODE, "task", task=fill["task"], ok=True, done=False)
    assert bench.said[TWO]["cold"]
    bench.say(NODE, "task", task=fill["task"], ok=True)
    bench.said.clear()
    assert bench.say(TWO, "open", ino=ino, write=False)["cold"] is False


def test_a_file_that_the_storage_refuses_at_once_is_an_error_and_not_tried_for_ever(tmp_path):
    bench = Bench(tmp_path, storage="s3://b")
    ino = clean_file(bench)
    drop = bench.order(ONE, "evict", path="f")
    bench.say(NODE, "task", task=drop["task"], ok=True)
    fill = bench.order(ONE, "open", ino=ino, write=False)
    bench.say(NODE, "task", task=fill["task"], errno=errno.EACCES, error="not yours")
    assert bench.said[ONE]["errno"] == errno.EIO
    assert "not yours" in bench.said[ONE]["error"]


def test_a_directory_of_which_the_storage_tells_nothing_is_named_until_it_does(tmp_path):
    bench = Bench(tmp_path, storage="s3://b")
    bench.enter(TWO)
    bench.enter(ONE)
    look = bench.order(ONE, "list", ino=bench.root)
    bench.say(NODE, "task", task=look["task"], errno=errno.EIO, error="no answer")
    assert bench.said[ONE]["errno"] == errno.EIO
    assert bench.say(TWO, "status")["unread"] == [["/", "no answer"]]
    bench.wait(1)
    look = bench.order(ONE, "list", ino=bench.root)
    bench.say(NODE, "task", task=look["task"], ok=True, objects=[], directories=[])
    assert bench.said[ONE]["ok"]
    assert bench.say(TWO, "status")["unread"] == []


@pytest.mark.parametrize("second", [ONE, TWO])
def test_an_open_for_writing_waits_a_moment_for_a_close_that_is_on_its_way(bench, second):
    bench.enter(ONE)
    if second == TWO:
        bench.enter(TWO)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    ino = made["attr"]["ino"]
    assert bench.say(second, "open", ino=ino, write=True, wait_s=0)["errno"] == errno.EBUSY
    assert bench.say(second, "open", ino=ino, write=True) is None
    bench.wait(1.0)
    assert second not in bench.said
    bench.hear(ONE, "close", handle=made["handle"])
    bench.wait(0.0)
    assert bench.said[second]["ok"]
    bench.enter(LISTENER)
    assert bench.say(LISTENER, "open", ino=ino, write=True) is None
    bench.wait(2.5)
    assert bench.said[LISTENER]["errno"] == errno.EBUSY


def test_room_that_was_promised_is_nobody_elses(bench):
    bench.enter(ONE)
    assert bench.say(ONE, "room", node="io", bytes=ROOM - 4096)["ok"]
    bench.enter(TWO)
    assert bench.say(TWO, "room", node="io", bytes=8192) is None
    bench.say(ONE, "bye")
    assert bench.said[TWO]["granted"] == {"io": 8192}


def test_who_had_to_wait_for_room_gets_no_more_than_it_needs(bench):
    bench.enter(ONE)
    assert bench.say(ONE, "room", node="io", bytes=4096, wish=ROOM)["granted"] == {"io": ROOM // 8}
    bench.enter(TWO)
    assert bench.say(TWO, "room", node="io", bytes=ROOM, wish=ROOM) is None
    bench.say(ONE, "bye")
    assert bench.said[TWO]["granted"] == {"io": ROOM}
    bench.enter(ONE)
    assert bench.say(ONE, "room", node="io", bytes=4096, wish=ROOM) is None
    bench.say(TWO, "bye")
    assert bench.said[ONE]["granted"] == {"io": 4096}


def test_who_begins_to_listen_is_told_which_nodes_have_come_meanwhile(bench):
    session = bench.enter(ONE)["session"]
    told = bench.say(LISTENER, "join", session=session, listen=True)
    assert told["op"] == "nodes"
    assert [node["name"] for node in told["nodes"]] == ["io"]


@pytest.mark.parametrize(
    ("op", "keys", "wrong"),
    [
        ("open", {}, "ino"),
        ("open", {"ino": "1"}, "ino"),
        ("create", {"parent": 1, "name": 5, "mode": 0o600}, "name"),
        ("commit", {"handle": 1, "size": 1, "pieces": [[1]]}, "pieces"),
        ("lookup", {"parent": 1, "name": "f", "wait_s": "long"}, "wait_s"),
        ("stat", {"ino": 1, "slot": 4096, "number": 1}, "slot"),
        ("write", {"key": "1.0"}, "write"),
    ],
)
def test_a_request_with_keys_of_a_wrong_kind_is_its_clients_mistake(bench, op, keys, wrong):
    bench.enter(ONE)
    with pytest.raises(ProtocolError, match=wrong):
        bench.hear(ONE, op, **keys)


def test_a_masters_own_mistake_is_told_as_such_and_costs_one_request(bench, monkeypatch, capsys):
    bench.enter(ONE)
    with monkeypatch.context() as patched:
        patched.setattr("bbflow.files.master.naming.check_access", lambda *_: {}["its own"])
        assert bench.say(ONE, "list", ino=bench.root)["errno"] == errno.EIO
    assert "its own" in capsys.readouterr().err
    assert bench.say(ONE, "list", ino=bench.root)["ok"]


@pytest.mark.parametrize("found", [[4], []])
def test_a_piece_that_a_node_did_not_tell_of_is_asked_for_before_it_counts_as_lost(bench, found):
    """A client on the node's host may have made it after the node had looked at what it has."""
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    bench.say(ONE, "room", node="io", bytes=4)
    assert bench.say(ONE, "commit", handle=made["handle"], size=4, pieces=[[made["version"], 4]])["ok"]
    bench.master.disconnect(NODE)
    told = dict.fromkeys(("host", "socket", "directory", "tcp", "tls"), "h")
    bench.hear(NODE, "ionode", name="io", capacity=ROOM, most=ROOM, last=True, keys=[], **told)
    (asked,) = [message for _, message in bench.out() if message.get("op") == "have"]
    assert bench.say(ONE, "stat", ino=made["attr"]["ino"])["attr"]["state"] != "lost"
    keys = [[key, size] for key, size in zip(asked["keys"], found, strict=False)]
    bench.say(NODE, "task", task=asked["task"], ok=True, keys=keys)
    assert bench.say(ONE, "stat", ino=made["attr"]["ino"])["attr"]["state"] == ("dirty" if found else "lost")


@pytest.mark.parametrize("restarts", [False, True])
def test_an_empty_object_that_is_made_longer_has_pieces_of_some_length(tmp_path, restarts):
    def scanned(op, **keys):
        scan = bench.order(ONE, op, **keys)
        bench.say(NODE, "task", task=scan["task"], ok=True, objects=[["f", 0, "1", 1.0]], directories=[])
        return bench.said[ONE]

    bench = Bench(tmp_path, storage="s3://b", piece_bytes=4096)
    bench.enter(ONE)
    ino = scanned("lookup", parent=bench.root, name="f")["attr"]["ino"]
    if restarts:  # where the master before this one has stored it without
        inode = bench.master.core.image.inodes[ino]
        bench.database.store(InodeRecord(msgspec.structs.replace(inode, piece_bytes=0)))
        bench.wait(1.0)
        bench.database.close()
        bench = Bench(tmp_path, storage="s3://b", piece_bytes=4096)
        bench.wait(10.0)
        bench.enter(ONE)
        assert scanned("open", ino=ino)["piece_bytes"] == 4096
    upload = bench.order(ONE, "setattr", ino=ino, size=1000)
    assert (upload["op"], upload["size"], upload["piece_bytes"]) == ("upload", 1000, 4096)
