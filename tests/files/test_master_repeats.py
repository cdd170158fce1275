"""Requests that are sent again, since their reply was lost with a connection or a master, count once."""

import errno

import pytest
from test_master import LISTENER, ONE, TWO, Bench, two_clients


class Lossy(Bench):
    """A master that can be killed, and a client whose connections break."""

    def __init__(self, directory):
        self.directory, self.keys = directory, []
        super().__init__(directory)
        self.enter(ONE)

    def join(self, **_):
        super().join(keys=self.keys)

    def kill(self):
        """Kill the master; the next one has what was stored."""
        self.database.close()
        Bench.__init__(self, self.directory)

    def come_back(self, *slots, handles=(), room=None):
        """Bring the client back, which waits for the replies of some slots."""
        keys = {"resume": self.session["session"], "slots": slots, "handles": handles, "room": room or {}}
        return self.say(ONE, "session", host="h", pid=1, uid=0, gid=0, **keys)

    def once(self, number, op, **keys):
        return self.say(ONE, op, slot=0, number=number, **keys)

    def names(self):
        return [name for name, _ in self.say(ONE, "list", ino=self.root)["entries"]]

    def make(self, *names):
        for name in names:
            assert self.say(ONE, "mkdir", parent=self.root, name=name, mode=0o755)["ok"]


@pytest.fixture
def lossy(tmp_path):
    return Lossy(tmp_path)


@pytest.fixture(params=["connection", "master"])
def lose(request, lossy):
    """Lose a reply, with its connection or with the master."""

    def lost(**keys):
        if request.param == "master":
            lossy.kill()
        else:
            lossy.master.disconnect(ONE)
        assert lossy.come_back([0, 1], **keys)["ok"]

    return lost


def test_an_exclusive_create_whose_reply_was_lost_succeeds_and_its_file_can_be_written(lossy, lose):
    create = {"parent": lossy.root, "name": "f", "mode": 0o600, "exclusive": True}
    made = lossy.once(1, "create", **create)
    lose()
    again = lossy.once(1, "create", **create)
    assert (again["handle"], again["version"]) == (made["handle"], made["version"])
    lossy.say(ONE, "room", node="io", bytes=4)
    pieces = [[again["version"], 4]]
    assert lossy.say(ONE, "commit", handle=again["handle"], size=4, pieces=pieces)["ok"]
    assert lossy.once(2, "create", **create)["errno"] == errno.EEXIST


def test_an_exchange_is_not_exchanged_back(lossy, lose):
    lossy.make("a", "b")
    before = lossy.say(ONE, "lookup", parent=lossy.root, name="a")["attr"]["ino"]
    keys = {"parent": lossy.root, "name": "a", "to_parent": lossy.root, "to_name": "b", "flags": "exchange"}
    assert lossy.once(1, "rename", **keys)["ok"]
    lose()
    assert lossy.once(1, "rename", **keys)["ok"]
    assert lossy.say(ONE, "lookup", parent=lossy.root, name="b")["attr"]["ino"] == before


@pytest.mark.parametrize("op", ["mkdir", "rmdir", "rename", "symlink"])
def test_what_was_done_is_not_refused(lossy, lose, op):
    lossy.make("old")
    keys = {"mkdir": {"mode": 0o755}, "symlink": {"target": "x"}}.get(op, {})
    keys |= {"parent": lossy.root, "name": "new" if op in ("mkdir", "symlink") else "old"}
    if op == "rename":
        keys |= {"to_parent": lossy.root, "to_name": "new", "flags": "noreplace"}
    assert lossy.once(1, op, **keys)["ok"]
    there = lossy.names()
    lose()
    assert lossy.once(1, op, **keys)["ok"]
    assert lossy.names() == there


def test_a_name_that_someone_made_anew_is_not_removed(lossy, lose):
    lossy.make("d")
    assert lossy.once(1, "rmdir", parent=lossy.root, name="d")["ok"]
    lose()
    lossy.enter(TWO)
    assert lossy.say(TWO, "mkdir", parent=lossy.root, name="d", mode=0o755)["ok"]
    assert lossy.once(1, "rmdir", parent=lossy.root, name="d")["ok"]
    assert lossy.names() == ["d"]


def test_room_is_given_and_spent_once(lossy, lose):
    made = lossy.say(ONE, "create", parent=lossy.root, name="f", mode=0o600, exclusive=True)
    lossy.say(ONE, "room", node="io", bytes=8192)
    commit = {"handle": made["handle"], "size": 4, "pieces": [[made["version"], 4]]}
    assert lossy.once(1, "commit", **commit)["spent"] == {"io": 4096}
    lossy.keys = [[f"{made['version']:x}.0", 4]]
    handles = [[made["handle"], made["attr"]["ino"], made["version"], 1]]
    lose(handles=handles, room={"io": 8192})  # it doesn't know yet that the half of it is spent
    assert lossy.once(1, "commit", **commit)["spent"] == {"io": 4096}
    (node,) = lossy.say(ONE, "status")["nodes"]
    assert node["free_bytes"] == node["capacity"] - 8192


def test_a_request_that_is_under_way_is_answered_on_the_new_connection(lossy):
    two_clients(lossy)
    keys = {"parent": lossy.root, "name": "f"}
    lossy.session = lossy.enter(ONE)
    assert lossy.once(1, "unlink", **keys) is None
    forget = lossy.said[LISTENER]["seq"]
    other = LISTENER + 1
    lossy.say(other, "join", session=lossy.session["session"], listen=False)
    lossy.master.disconnect(ONE)
    assert lossy.say(other, "unlink", slot=0, number=1, **keys) is None
    lossy.say(LISTENER, "forgot", seq=forget)
    assert lossy.said[other]["ok"]
    assert ONE not in lossy.said


def test_what_an_abandoned_request_has_opened_is_closed(lossy):
    made = lossy.once(1, "create", parent=lossy.root, name="f", mode=0o600, exclusive=True)
    assert lossy.say(ONE, "open", ino=made["attr"]["ino"], write=True, wait_s=0)["errno"] == errno.EBUSY
    assert lossy.once(2, "stat", ino=lossy.root, abandoned=True)["ok"]
    assert lossy.say(ONE, "open", ino=made["attr"]["ino"], write=True, wait_s=0)["ok"]


def test_a_session_that_has_ended_is_not_taken_for_another_one(lossy):
    lossy.say(ONE, "bye")
    assert lossy.come_back()["errno"] == errno.ESTALE
