"""A master that is killed while IOnodes work at the shared storage: the next one knows what may be there."""

import errno
import os
from contextlib import nullcontext

import pytest
from test_master import NODE, ONE, Bench

from bbflow.errors import SourceError
from bbflow.files.ionode.storage import Storage
from bbflow.host.atomic import beside
from testsupport.stored import facts_of

SIZE = 4


class Killed(Bench):
    """One master after another on one database, with one IOnode, whose commands are answered by hand."""

    def __init__(self, directory, **options):
        self.directory, self.options, self.keys, self.busy = directory, options, [], {}
        self._start()

    def _start(self):
        self.commands = []
        super().__init__(self.directory, storage="file:///nowhere", **self.options)

    def join(self, **_):
        super().join(keys=self.keys, busy=self.busy)

    def _take(self):
        for peer, message in self.out():
            if peer == NODE and "task" in message:
                self.commands += [message] if message["op"] != "drop" else []
            else:
                self.said[peer] = message

    def command(self, op):
        """Take the one command of a kind that the IOnode has and has not answered."""
        (found,) = [message for message in self.commands if message["op"] == op]
        self.commands.remove(found)
        return found

    def answer(self, command, **keys):
        self.say(NODE, "task", task=command["task"], **{"ok": True, **keys})

    def scanned(self, *names):
        self.answer(self.command("scan"), objects=[[name, SIZE, "1", 1.0] for name in names], directories=[])

    def close_file(self, parent, name):
        """Write a new file, so that it is to be written back."""
        made = self.say(ONE, "create", parent=parent, name=name, mode=0o600, exclusive=True)
        if made is None:
            self.scanned()
            made = self.said[ONE]
        self.say(ONE, "room", node="io", bytes=SIZE)
        pieces = [[made["version"], SIZE]]
        assert self.say(ONE, "commit", handle=made["handle"], size=SIZE, pieces=pieces)["ok"]
        self.keys.append([f"{made['version']:x}.0", SIZE])
        self.say(ONE, "close", handle=made["handle"])

    def restart(self, handles=(), **busy):
        """Kill the master, and let the next one hear what the IOnode is still at work on, and what is open."""
        session, self.busy = self.session["session"], busy
        self.database.close()
        self._start()
        self.say(ONE, "session", host="h", pid=1, uid=0, gid=0, resume=session, handles=handles, room={})

    def rename(self, old, new):
        said = self.say(ONE, "rename", parent=self.root, name=old, to_parent=self.root, to_name=new)
        return said["ok"] if said else None

    def names(self, directory):
        return [name for name, _ in self.say(ONE, "list", ino=directory, after="", limit=100)["entries"]]


@pytest.fixture
def killed(tmp_path):
    bench = Killed(tmp_path)
    bench.enter(ONE)
    return bench


def uploaded(killed, path="f", parent=None):
    killed.close_file(parent or killed.root, path.rpartition("/")[2])
    upload = killed.command("upload")
    assert upload["path"] == path
    killed.answer(upload, facts=[SIZE, "1"])
    killed.wait(0.25)  # then it is stored


def test_an_object_whose_upload_nobody_noted_goes_when_its_file_has_another_name(killed):
    killed.close_file(killed.root, "f.part")
    killed.command("upload")
    assert killed.rename("f.part", "f")
    killed.restart()
    upload, delete = killed.command("upload"), killed.command("delete")
    assert (upload["path"], delete["path"]) == ("f", "f.part")
    killed.answer(upload, facts=[SIZE, "1"])
    killed.answer(delete)
    assert killed.commands == []


def test_an_upload_that_outlives_its_master_leaves_no_object_under_a_name_that_is_no_more(killed):
    killed.close_file(killed.root, "f.part")
    task = killed.command("upload")["task"]
    killed.restart(**{"f.part": task})
    assert killed.commands == []  # nobody else touches what the IOnode is at work on
    assert killed.rename("f.part", "f") is None
    killed.scanned("f.part")
    assert killed.said[ONE]["ok"]
    upload = killed.command("upload")
    assert upload["path"] == "f"
    killed.answer(upload, facts=[SIZE, "1"])
    assert killed.commands == []
    killed.say(NODE, "task", task=task, ok=True, facts=[SIZE, "1"])
    assert killed.command("delete")["path"] == "f.part"
    assert killed.names(killed.root) == ["f"]


def test_an_upload_that_outlives_its_master_counts_once_it_is_over(killed):
    killed.close_file(killed.root, "f")
    task = killed.command("upload")["task"]
    killed.restart(f=task)
    assert killed.commands == []
    killed.master.disconnect(NODE)
    killed.join()
    assert killed.commands == []
    killed.say(NODE, "task", task=task, ok=True, facts=[SIZE, "1"])
    assert killed.commands == []
    assert killed.say(ONE, "lookup", parent=killed.root, name="f")["attr"]["state"] == "clean"


def test_an_upload_that_fails_after_its_master_is_begun_anew_and_what_may_be_there_is_kept_beside(killed):
    killed.close_file(killed.root, "f")
    task = killed.command("upload")["task"]
    killed.restart(f=task)
    killed.say(NODE, "task", task=task, ok=False, errno=errno.EIO, error="no answer")
    upload = killed.command("upload")
    assert (upload["path"], upload["over"], upload["unsure"]) == ("f", None, True)
    assert killed.commands == []


def test_a_move_of_which_nobody_noted_the_end_is_done_again_before_all_else(killed):
    uploaded(killed)
    assert killed.rename("f", "g")
    killed.command("move")
    killed.restart()
    move = killed.command("move")
    assert (move["path"], move["to"], move["facts"]) == ("f", "g", [SIZE, "1"])
    assert killed.rename("g", "h") is None
    killed.scanned("g")
    assert killed.said[ONE]["ok"]
    assert killed.commands == []
    killed.answer(move, facts=[SIZE, "1"])
    move = killed.command("move")
    assert (move["path"], move["to"]) == ("g", "h")
    killed.answer(move, facts=[SIZE, "1"])
    assert killed.names(killed.root) == ["h"]


def test_a_move_that_outlives_its_master_with_its_file_gone_leaves_no_object(killed):
    uploaded(killed)
    assert killed.rename("f", "g")
    task = killed.command("move")["task"]
    assert killed.say(ONE, "unlink", parent=killed.root, name="g")["ok"]
    killed.restart(g=task)
    assert killed.commands == []
    killed.say(NODE, "task", task=task, ok=True, facts=[SIZE, "1"])
    deleted = {message["path"] for message in killed.commands if message["op"] == "delete"}
    assert deleted == {"f", "g"}


def test_a_name_that_is_removed_while_its_directory_is_looked_at_does_not_come_back(killed):
    directory = killed.say(ONE, "mkdir", parent=killed.root, name="d", mode=0o755)
    if directory is None:
        killed.scanned()
        directory = killed.said[ONE]
    directory = directory["attr"]["ino"]
    uploaded(killed, "d/f", directory)
    killed.restart()
    assert killed.say(ONE, "lookup", parent=directory, name="x") is None
    scan = killed.command("scan")
    assert killed.say(ONE, "unlink", parent=directory, name="f")["ok"]
    killed.answer(killed.command("delete"))
    killed.answer(scan, objects=[["f", SIZE, "1", 1.0]], directories=[])
    assert killed.names(directory) == []


def test_what_is_still_being_written_beside_its_place_is_no_object(tmp_path):
    (tmp_path / "whole").write_bytes(b"1234")
    beside(tmp_path / "late").write_bytes(b"12")
    (found,) = Storage(str(tmp_path)).scan("", below=False)
    assert [name for name, *_ in found.objects] == ["whole"]


def test_a_file_that_goes_while_its_directory_is_listed_takes_no_other_with_it(tmp_path, monkeypatch):
    (tmp_path / "kept").write_bytes(b"1234")
    (tmp_path / "going").write_bytes(b"12")
    scandir = os.scandir

    def late(path):
        with scandir(path) as entries:
            listed = list(entries)
        (tmp_path / "going").unlink()
        return nullcontext(listed)

    monkeypatch.setattr(os, "scandir", late)
    (found,) = Storage(str(tmp_path)).scan("", below=False)
    assert [name for name, *_ in found.objects] == ["kept"]


def test_an_object_that_was_moved_already_counts_as_moved_only_if_it_is_that_one(tmp_path):
    storage, old, new = Storage(str(tmp_path)), tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"1234")
    new.write_bytes(b"replaced")
    facts = facts_of(old)
    assert storage.move("old", "new", facts, facts_of(new))[0] == 4
    assert new.read_bytes() == b"1234"
    assert storage.move("old", "new", facts, None)[0] == 4
    with pytest.raises(SourceError, match="old isn't there"):
        storage.move("old", "new", (5, ""), None)
    with pytest.raises(SourceError, match="old isn't there"):
        storage.move("old", "nowhere", facts, None)
    new.write_bytes(b"them")
    with pytest.raises(SourceError, match="old isn't there"):
        storage.move("old", "new", facts, None)


def test_an_object_that_can_not_be_moved_is_told_to_have_its_old_name(tmp_path):
    (tmp_path / "old").write_bytes(b"1234")
    with pytest.raises(FileExistsError, match="File name too long"):
        Storage(str(tmp_path)).move("old", "x" * 300, facts_of(tmp_path / "old"), None)
