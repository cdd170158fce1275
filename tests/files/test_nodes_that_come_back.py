"""IOnodes that count as lost and come back: what they still have is there again."""

import errno

import pytest
from test_master import NODE, ONE, ROOM, Bench

from bbflow.files.master.core import CutOff
from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.options import Options

PEERS = {"a": NODE, "b": 5}
SIZE = 4


class Nodes(Bench):
    """One master with two IOnodes, ``a`` and ``b``."""

    def __init__(self, directory, **options):
        self.ordered, options = {}, {"piece_bytes": 4096} | options
        self.directory, self.options = directory, Options(write_back_after_s=0.0, **options)
        super().__init__(directory, **options)

    def join(self, **_):
        self.has, self.verifiers = {"a": {}, "b": {}}, {"a": "of a", "b": "of b"}
        for name in self.has:
            self.come(name)

    def come(self, name):
        """Bring a node with what it has, which answers what it is asked; return the keys that it is told to drop."""
        told = dict.fromkeys(("host", "socket", "directory", "tcp", "tls"), "h") | {"verifier": self.verifiers[name]}
        keys, dropped = list(self.has[name].items()), []
        self.hear(PEERS[name], "ionode", name=name, capacity=ROOM, most=ROOM, last=True, keys=keys, **told)
        for peer, message in self.out():
            self.said[peer] = message
            if peer == PEERS[name] and message["op"] == "drop":
                dropped += message["keys"]
                self.hear(peer, "task", task=message["task"], ok=True)
        return dropped

    def out(self):
        out = super().out()
        self.ordered |= {peer: message for peer, message in out if message != CutOff() and "task" in message}
        return out

    def answer(self, name, **keys):
        """Answer what a node was ordered last; return what that was."""
        order = self.ordered.pop(PEERS[name])
        self.say(PEERS[name], "task", task=order["task"], **keys)
        return order

    def come_empty(self, name):
        """Bring a node back without what lay there."""
        self.has[name], self.verifiers[name] = {}, self.verifiers[name] + ", emptied"
        self.come(name)

    def lose(self, *names):
        """Keep nodes away until they count as lost."""
        for name in names:
            self.master.disconnect(PEERS[name])
        self.wait(61.0)

    def made(self):
        """Make a file, with room on both nodes; return the reply."""
        made = self.say(ONE, "create", parent=self.root, name="f", mode=0o600, exclusive=True)
        for name in made["ring"]:
            self.say(ONE, "room", node=name, bytes=ROOM // 4)
        return made

    def write(self, sizes):
        """Make a file with a piece of each of these sizes, round the nodes from ``a`` on; return its number."""
        made = self.made()
        pieces = [[made["version"], size] for size in sizes]
        size = made["piece_bytes"] * (len(sizes) - 1) + sizes[-1]
        assert self.say(ONE, "commit", handle=made["handle"], size=size, pieces=pieces)["ok"]
        self.say(ONE, "close", handle=made["handle"])
        for index, size in enumerate(sizes):
            self.has[made["ring"][index % 2]][f"{made['version']:x}.{index:x}"] = size
        return made["attr"]["ino"]

    def holder(self):
        """Return the only node that has anything."""
        (name,) = (name for name, keys in self.has.items() if keys)
        return name

    def state(self, ino):
        return self.say(ONE, "stat", ino=ino)["attr"]["state"]

    def used(self):
        return {node["name"]: node["placed_bytes"] for node in self.say(ONE, "status")["nodes"]}

    def restart(self, handle, **room):
        """Continue by another master, with no IOnode yet; the client comes back to it with an open file."""
        self.database.close()
        self.database = Database(self.directory / "metadata.db")
        self.master = Master(self.database, self.options, lambda: self.now_s)
        has = {"handles": [handle], "room": room, "resume": self.session["session"]}
        assert self.say(ONE, "session", host="h", pid=1, uid=0, gid=0, **has)["handles"] == handle[:1]


@pytest.fixture
def nodes(tmp_path):
    bench = Nodes(tmp_path)
    bench.enter(ONE)
    return bench


def test_a_file_is_there_again_with_its_node(nodes):
    ino = nodes.write([SIZE])
    name = nodes.holder()
    nodes.lose(name)
    assert nodes.state(ino) == "lost"
    assert nodes.come(name) == []
    assert nodes.state(ino) == "dirty"
    assert nodes.say(ONE, "open", ino=ino)["ok"]
    assert nodes.used()[name] == 4096


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_striped_file_is_there_again_with_the_last_of_its_nodes(nodes, order):
    ino = nodes.write([4096, SIZE])
    nodes.lose("a", "b")
    assert nodes.state(ino) == "lost"
    assert nodes.come(order[0]) == []
    assert nodes.state(ino) == "lost"
    assert nodes.come(order[1]) == []
    assert nodes.state(ino) == "dirty"
    assert nodes.used() == {"a": 4096, "b": 4096}


def test_a_piece_that_is_shorter_than_what_was_committed_does_not_count(nodes):
    ino = nodes.write([SIZE])
    name = nodes.holder()
    nodes.lose(name)
    nodes.has[name] = dict.fromkeys(nodes.has[name], SIZE - 1)
    assert nodes.come(name) == list(nodes.has[name])
    assert nodes.state(ino) == "lost"
    assert nodes.say(ONE, "open", ino=ino)["errno"] == errno.EIO


def test_what_was_removed_while_its_node_counted_as_lost_goes(nodes):
    nodes.write([SIZE])
    name = nodes.holder()
    nodes.lose(name)
    assert nodes.say(ONE, "unlink", parent=nodes.root, name="f")["ok"]
    assert nodes.come(name) == list(nodes.has[name])
    assert nodes.used()[name] == 0


def commit_of(made, pieces=1):
    """Return a commit of whole pieces."""
    return {"handle": made["handle"], "size": pieces * SIZE, "pieces": [[made["version"], SIZE]] * pieces}


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_written_and_has_gone_with_its_node_does_not_count(nodes, restarted):
    made = nodes.made()
    name = made["ring"][0]
    nodes.master.disconnect(PEERS[name])
    if restarted:
        room = dict.fromkeys(made["ring"], ROOM // 4)
        nodes.restart([made["handle"], made["attr"]["ino"], made["version"], True], **room)
    assert nodes.say(ONE, "commit", **commit_of(made)) is None
    nodes.come_empty(name)
    assert nodes.answer(name, ok=True)["keys"] == [f"{made['version']:x}.0"]
    assert nodes.said[ONE]["errno"] == errno.EIO
    assert "came back without what was written to 'f'" in nodes.said[ONE]["error"]
    emptied = nodes.say(ONE, "commit", handle=made["handle"], size=0, pieces=[])
    assert nodes.say(ONE, "commit", **commit_of(made | emptied))["ok"]


def test_what_was_written_once_its_node_had_come_back_empty_counts(nodes):
    made = nodes.made()
    name = made["ring"][0]
    nodes.master.disconnect(PEERS[name])
    nodes.come_empty(name)
    assert nodes.say(ONE, "commit", **commit_of(made)) is None
    assert nodes.answer(name, ok=True, keys=[[f"{made['version']:x}.0", SIZE]])["op"] == "have"
    assert nodes.said[ONE]["ok"]


def test_a_node_that_is_emptied_again_while_it_is_asked_is_asked_again(nodes):
    made = nodes.made()
    name = made["ring"][0]
    nodes.master.disconnect(PEERS[name])
    nodes.come_empty(name)
    assert nodes.say(ONE, "commit", **commit_of(made)) is None
    nodes.master.disconnect(PEERS[name])
    nodes.come_empty(name)
    assert nodes.answer(name, ok=True)["op"] == "have"
    assert nodes.said[ONE]["errno"] == errno.EIO


def test_a_node_that_goes_away_while_it_is_asked_is_asked_again(nodes):
    made = nodes.made()
    name = made["ring"][0]
    nodes.master.disconnect(PEERS[name])
    nodes.come_empty(name)
    assert nodes.say(ONE, "commit", **commit_of(made)) is None
    nodes.master.disconnect(PEERS[name])
    nodes.come(name)
    nodes.answer(name, ok=True, keys=[[f"{made['version']:x}.0", SIZE]])
    assert nodes.said[ONE]["ok"]


def test_what_was_appended_where_a_node_has_lost_what_came_before_does_not_count(nodes):
    ino = nodes.write([SIZE])
    name = nodes.holder()
    appended = nodes.say(ONE, "open", ino=ino, write=True)
    nodes.master.disconnect(PEERS[name])
    nodes.come_empty(name)
    pieces = [[appended["pieces"][0][0], 2 * SIZE]]
    assert nodes.say(ONE, "commit", handle=appended["handle"], size=2 * SIZE, pieces=pieces)["errno"] == errno.EIO


def test_a_node_that_a_new_master_has_not_met_yet_is_asked_what_it_has(nodes):
    made = nodes.made()
    first, second = made["ring"]
    room = dict.fromkeys(made["ring"], ROOM // 4)
    nodes.restart([made["handle"], made["attr"]["ino"], made["version"], True], **room)
    nodes.come(first)
    on_first = nodes.say(ONE, "commit", handle=made["handle"], size=SIZE, pieces=[[made["version"], SIZE]])
    nodes.come(second)
    nodes.master.disconnect(PEERS[second])
    nodes.come_empty(second)
    pieces = [[made["version"], SIZE], [on_first["version"], SIZE]]
    assert nodes.say(ONE, "commit", handle=made["handle"], size=4096 + SIZE, pieces=pieces) is None
    assert nodes.answer(second, ok=True)["keys"] == [f"{on_first['version']:x}.1"]
    assert nodes.said[ONE]["errno"] == errno.EIO


@pytest.fixture
def twice(tmp_path):
    """A master that has two copies of each piece, and a new file of one."""
    bench = Nodes(tmp_path, replicas=2)
    bench.enter(ONE)
    return bench, bench.made()


@pytest.fixture
def committing(twice):
    """The same, with its two IOnodes, while the file's commit waits for the copy on the second."""
    nodes, made = twice
    first, second = made["ring"]
    assert nodes.say(ONE, "commit", **commit_of(made)) is None
    return nodes, made, first, second


def test_what_goes_with_its_node_before_it_is_copied_does_not_count(committing):
    nodes, _, first, second = committing
    nodes.master.disconnect(PEERS[first])
    nodes.come_empty(first)
    nodes.answer(second, ok=False, errno=errno.EHOSTDOWN, error="gone")
    nodes.answer(first, ok=True)
    assert nodes.said[ONE]["errno"] == errno.EIO
    assert nodes.used() == {"a": 0, "b": 0}


def test_what_was_not_copied_counts_when_its_node_is_back(committing):
    nodes, _, first, second = committing
    nodes.master.disconnect(PEERS[first])
    nodes.answer(second, ok=False, errno=errno.EHOSTDOWN, error="gone")
    assert ONE not in nodes.said
    nodes.come(first)
    assert nodes.said[ONE]["ok"]
    nodes.wait(1.0)
    assert nodes.answer(second, ok=True)["op"] == "fetch"
    assert nodes.used() == {"a": 4096, "b": 4096}


def test_what_was_copied_counts_without_its_node_and_is_copied_back(committing):
    nodes, _, first, second = committing
    nodes.master.disconnect(PEERS[first])
    nodes.come_empty(first)
    nodes.answer(second, ok=True)
    assert nodes.said[ONE]["ok"]
    assert nodes.used() == {first: 0, second: 4096}
    nodes.wait(1.0)
    assert nodes.answer(first, ok=True)["op"] == "fetch"
    assert nodes.used() == {"a": 4096, "b": 4096}


def test_a_file_is_lost_whose_last_node_goes_while_it_is_copied(committing):
    nodes, made, first, second = committing
    nodes.answer(second, ok=False, errno=errno.ENOSPC, error="full")
    assert nodes.said[ONE]["ok"]
    nodes.say(ONE, "close", handle=made["handle"])
    nodes.wait(1.0)
    nodes.lose(first)
    assert nodes.state(made["attr"]["ino"]) == "dirty"
    nodes.answer(second, ok=False, errno=errno.EHOSTDOWN, error="gone")
    nodes.wait(1.0)
    assert nodes.state(made["attr"]["ino"]) == "lost"


def test_nothing_of_a_file_that_is_lost_is_copied_to_another_node(twice, monkeypatch):
    nodes, made = twice
    first, second = made["ring"]
    pieces = [[made["version"], 4096], [made["version"], SIZE]]
    assert nodes.say(ONE, "commit", handle=made["handle"], size=4096 + SIZE, pieces=pieces) is None
    nodes.answer(second, ok=False, errno=errno.ENOSPC, error="full")
    nodes.answer(first, ok=True)
    assert nodes.said[ONE]["ok"]
    nodes.say(ONE, "close", handle=made["handle"])
    nodes.wait(1.0)
    nodes.lose(first)
    nodes.answer(second, ok=False, errno=errno.EHOSTDOWN, error="gone")
    monkeypatch.setitem(PEERS, "c", 6)
    nodes.has["c"], nodes.verifiers["c"] = {}, "of c"
    nodes.come("c")
    nodes.wait(1.0)
    assert nodes.state(made["attr"]["ino"]) == "lost"
    assert nodes.used()["c"] == 0


def test_a_commit_does_not_wait_for_ever_for_a_node_that_is_stopped(twice):
    nodes, made = twice
    _, second = made["ring"]
    assert nodes.say(ONE, "commit", **commit_of(made)) is None
    nodes.stopped.add(PEERS[second])
    nodes.wait(1.0)
    nodes.wait(10.0)
    nodes.wait(50.0)
    assert CutOff() not in nodes.said.values()
    nodes.wait(10.0)
    assert {peer for peer, said in nodes.said.items() if said == CutOff()} == {PEERS[second]}
    nodes.master.disconnect(PEERS[second])
    nodes.wait(0.0)
    assert nodes.said[ONE]["ok"]


def test_a_copy_that_is_missing_does_not_count_since_its_file_was_written_on(twice):
    nodes, made = twice
    first, second = made["ring"]
    assert nodes.say(ONE, "commit", **commit_of(made)) is None
    nodes.answer(second, ok=True)
    committed = nodes.said[ONE]
    nodes.has[first] = {f"{made['version']:x}.0": SIZE}
    nodes.master.disconnect(PEERS[second])
    nodes.come_empty(second)
    nodes.answer(second, ok=True)
    nodes.wait(1.0)
    assert nodes.answer(second, ok=False, errno=errno.EIO, error="no descriptor is free")["op"] == "fetch"
    pieces = [[made["version"], SIZE], [committed["version"], SIZE]]
    assert nodes.say(ONE, "commit", handle=made["handle"], size=4096 + SIZE, pieces=pieces) is None
    assert nodes.answer(second, ok=True, keys=[[f"{committed['version']:x}.1", SIZE]])["op"] == "have"
    assert nodes.answer(first, ok=True)["op"] == "fetch"
    assert nodes.used() == {first: 8192, second: 4096}
    nodes.wait(1.0)
    assert nodes.answer(second, ok=True)["key"] == f"{made['version']:x}.0"
