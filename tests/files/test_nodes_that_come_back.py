"""IOnodes that count as lost and come back: what they still have is there again."""

import errno

import pytest
from test_master import NODE, ONE, ROOM, Bench

from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.options import Options

PEERS = {"a": NODE, "b": 5}
SIZE = 4


class Nodes(Bench):
    """One master with two IOnodes, ``a`` and ``b``."""

    def __init__(self, directory):
        self.directory, self.options = directory, Options(write_back_after_s=0.0, piece_bytes=4096)
        super().__init__(directory, piece_bytes=4096)

    def join(self, **_):
        self.has, self.verifiers = {"a": {}, "b": {}}, {"a": "of a", "b": "of b"}
        for name in self.has:
            self.come(name)

    def come(self, name):
        """Let a node come with what it has, and answer what it is asked; return the keys that it is told to drop."""
        told = dict.fromkeys(("host", "socket", "directory", "tcp", "tls"), "h") | {"verifier": self.verifiers[name]}
        keys, dropped = list(self.has[name].items()), []
        self.hear(PEERS[name], "ionode", name=name, capacity=ROOM, most=ROOM, last=True, keys=keys, **told)
        for peer, message in self.out():
            self.said[peer] = message
            if peer == PEERS[name] and message["op"] == "drop":
                dropped += message["keys"]
                self.hear(peer, "task", task=message["task"], ok=True)
        return dropped

    def lose(self, *names):
        """Let nodes be away until they count as lost."""
        for name in names:
            self.master.disconnect(PEERS[name])
        self.wait(61.0)

    def write(self, sizes):
        """Make a file with a piece of each of these sizes, round the nodes from ``a`` on; return its number."""
        made = self.say(ONE, "create", parent=self.root, name="f", mode=0o600, exclusive=True)
        pieces = [[made["version"], size] for size in sizes]
        for name in made["ring"]:
            self.say(ONE, "room", node=name, bytes=ROOM // 4)
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
        """Let another master continue, with no IOnode yet, and the client come back to it with an open file."""
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


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_written_and_has_gone_with_its_node_does_not_count(nodes, restarted):
    made = nodes.say(ONE, "create", parent=nodes.root, name="f", mode=0o600, exclusive=True)
    name = made["ring"][0]
    assert nodes.say(ONE, "room", node=name, bytes=8192)["ok"]
    keys = {"handle": made["handle"], "size": SIZE, "pieces": [[made["version"], SIZE]]}
    nodes.master.disconnect(PEERS[name])
    if restarted:
        nodes.restart([made["handle"], made["attr"]["ino"], made["version"], True], **{name: 8192})
    assert nodes.say(ONE, "commit", **keys) is None
    nodes.verifiers[name] = "another"
    nodes.come(name)
    assert nodes.said[ONE]["errno"] == errno.EIO
    assert "came back without what was written to 'f'" in nodes.said[ONE]["error"]
    emptied = nodes.say(ONE, "commit", handle=made["handle"], size=0, pieces=[])
    assert nodes.say(ONE, "commit", **keys | {"pieces": [[emptied["version"], SIZE]]})["ok"]
