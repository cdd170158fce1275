"""The namespace and the shared storage behind it, in any order of what clients, others and an IOnode do."""

import errno
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded, so
from test_master import NODE, ONE

from bbflow.files.inodes import DIRECTORY, FILE, keys_of
from bbflow.files.master.namespace import Namespace
from bbflow.files.master.records import Stored

PIECE_BYTES = 4096


class Played(Recorded):
    """A master, a client, and an IOnode that is played here: it answers when the program says so."""

    def __init__(self, directory):
        self.objects, self.commands, self.open, self.made, self.replies = {}, [], [], 0, []
        super().__init__(directory, storage="s3://b", piece_bytes=PIECE_BYTES)
        for name in ("a", "d/a"):
            self.put(name, 5)
        self.enter(ONE)

    def _take(self):
        for peer, message in self.out():
            if peer == NODE and "task" in message:
                self.commands.append(message)
            elif peer == ONE:
                self.said[ONE] = message
                self.replies.append(message)
                if "handle" in message:
                    self.open.append([message["handle"], message.get("version", 0), message["pieces"]])

    def put(self, name, size):
        """Write an object as someone else."""
        self.made += 1
        self.objects[name] = (size, f"e{self.made}")
        return [size, f"e{self.made}"]

    def answer(self, number, *, fails=False):
        """Carry a command out as the IOnode, and say so; or say that the storage doesn't let it."""
        if not self.commands:
            return
        command = self.commands.pop(number % len(self.commands))
        answer = {"errno": errno.EIO, "error": "no"} if fails else self._done(command)
        self.say(NODE, "task", task=command["task"], **answer)

    def answer_all(self):
        """Carry out all commands that the IOnode has, and those that follow."""
        for _ in range(50):
            self.answer(0)

    def _done(self, command):
        op, path = command["op"], command.get("path", "")
        known = self.objects.get(path)
        if op == "scan":
            return self._scanned(path, command["below"])
        if op == "upload":
            return {"facts": self.put(path, command["size"])}
        if op == "fill" and (known is None or list(known) != list(command["facts"])):
            return {"errno": errno.ENOENT, "error": "it has changed"}
        if op == "delete":
            self.objects.pop(path, None)
        if op == "move" and known is None:
            return {"errno": errno.ENOENT, "error": "there is none"}
        if op == "move":
            self.objects[command["to"]] = self.objects.pop(path)
        return {}

    def _scanned(self, path, below):
        inside = {name[len(path) + 1 if path else 0 :]: facts for name, facts in self.objects.items()
                  if not path or name.startswith(f"{path}/")}  # fmt: skip
        there = {name: facts for name, facts in inside.items() if below or "/" not in name}
        objects = [[name, size, version, 1.0] for name, (size, version) in there.items()]
        return {"objects": objects, "directories": sorted({name.split("/")[0] for name in inside if "/" in name})}

    def ino(self, name):
        """Return the inode's number that a name has in the namespace, or one that nothing has."""
        image, inode = self.master.core.image, self.master.core.image.root
        for part in name.split("/"):
            inode = inode and image.child(inode.ino, part)
        return inode.ino if inode else 1 << 40

    def commit(self, number, size):
        handle = self.open[number % len(self.open)]
        pieces = [[handle[1], size]] if size else []
        self.say(ONE, "room", node="io", bytes=PIECE_BYTES)
        reply = self.say(ONE, "commit", handle=handle[0], size=size, pieces=pieces)
        handle[1] = (reply or {}).get("version", handle[1])


NAMES = st.sampled_from(["a", "a", "b", "d/a", "d"])
NUMBERS = st.integers(0, 5)
STEPS = {
    "create": (NAMES,), "look": (NAMES,), "mkdir": (NAMES,), "unlink": (NAMES,), "rmdir": (NAMES,),
    "open": (NAMES, st.booleans()),
    "rename": (NAMES, NAMES, st.sampled_from(["", "exchange"])), "resize": (NAMES, st.integers(0, 9)),
    "commit": (NUMBERS, st.integers(0, 9)), "close": (NUMBERS,), "evict": (), "refresh": (), "wait": (),
    "prefetch": (NAMES,), "answer": (NUMBERS,), "fail": (NUMBERS,), "put": (NAMES, NUMBERS), "take": (NAMES,),
}  # fmt: skip
AT_ONCE = st.integers(0, 4).map(bool)
PROGRAMS = st.lists(
    st.one_of(*(st.tuples(AT_ONCE, st.just(op), *keys) for op, keys in STEPS.items())), min_size=15, max_size=40
)


def step(bench, at_once, op, *keys):
    """Do one thing; the IOnode does at once what follows, or later."""
    entry = {"parent": bench.root, "name": keys[0] if keys else ""}
    match op:
        case "create":
            bench.say(ONE, op, **entry, mode=0o644, wait_s=0.0)
        case "look":
            bench.say(ONE, "lookup", **entry)
        case "mkdir":
            bench.say(ONE, op, **entry, mode=0o755, parents=True)
        case "unlink" | "rmdir":
            bench.say(ONE, op, **entry)
        case "rename":
            bench.say(ONE, op, **entry, to_parent=bench.root, to_name=keys[1], flags=keys[2])
        case "open":
            bench.say(ONE, op, ino=bench.ino(keys[0]), write=keys[1], wait_s=0.0)
        case "resize":
            bench.say(ONE, "setattr", ino=bench.ino(keys[0]), size=keys[1])
        case "commit" if bench.open:
            bench.commit(*keys)
        case "close" if bench.open:
            bench.say(ONE, op, handle=bench.open.pop(keys[0] % len(bench.open))[0])
        case "evict" | "refresh":
            bench.say(ONE, op, path="")
        case "prefetch":
            bench.say(ONE, op, tasks=[[keys[0]]])
        case "wait":
            bench.wait(20.0)
        case "answer" | "fail":
            bench.answer(keys[0], fails=op == "fail")
        case "put":
            bench.put(*keys)
        case "take":
            bench.objects.pop(keys[0], None)
    if at_once:
        bench.answer_all()


def check(image):
    """All that is kept beside the inodes and handles follows from them."""
    inodes, handles = image.inodes.values(), image.handles.values()
    named = {inode.ino: inode for inode in inodes if inode.parent and inode.ino != image.root_ino}
    for directory in (inode for inode in inodes if inode.kind == DIRECTORY):
        inside = [inode for inode in named.values() if inode.parent == directory.ino]
        assert dict(image.entries(directory.ino)) == {inode.name: inode.ino for inode in inside}
        links = 2 + sum(inode.kind == DIRECTORY for inode in inside)
        assert image.attr(directory).nlink == links
    assert image.orphans == {inode.ino for inode in inodes if not inode.parent}
    files = [inode for inode in inodes if inode.kind == FILE]
    assert image.stored == {inode.stored_path: inode.ino for inode in files if inode.stored_path}
    assert image.misplaced.keys() == {
        inode.ino for inode in files if inode.parent and inode.stored_path and inode.stored_path != image.path(inode)
    }
    assert image.dirty.keys() == {inode.ino for inode in files if image.is_due(inode)}
    assert image.filling == {inode.ino for inode in files if inode.filling}
    assert image.busy == {path for transfer in image.transfers.values() for path in transfer.objects}
    assert image.pins == Counter(key for handle in handles for key in keys_of(handle.pieces))
    for inode in inodes:
        assert image.is_open(inode.ino) == any(handle.ino == inode.ino for handle in handles)
    for handle in handles:
        assert handle.ino in image.inodes


@given(PROGRAMS)
def test_what_follows_from_records_does_so_whatever_happens_at_the_storage(program):
    with tempfile.TemporaryDirectory() as folder:
        bench = Played(Path(folder))
        first, image = bench.master.core.image.root, bench.master.core.image
        for each in program:
            step(bench, *each)
            check(image)
        assert not [reply for reply in bench.replies if "the master failed" in reply.get("error", "")]
        again, twice = (Namespace(0, has_storage=True) for _ in range(2))
        for namespace in (again, twice):
            namespace.restore([first])
        for record in (record for record in bench.records if not record.is_of_client):
            again.apply(record)
            for _ in range(1 + isinstance(record, Stored)):
                twice.apply(record)
        assert so(again) == so(image)
        assert so(twice) == so(image)
        bench.database.store_touched()
        bench.database.commit()
        there = {inode.ino: inode for inode in bench.database.inodes()}
        assert {ino: inode for ino, inode in image.inodes.items() if not inode.filling} == {
            ino: inode for ino, inode in there.items() if ino not in image.filling
        }
        bench.database.close()


@given(PROGRAMS)
def test_it_comes_to_rest_and_the_storage_has_what_the_namespace_says(program):
    with tempfile.TemporaryDirectory() as folder:
        bench = Played(Path(folder))
        for each in program:
            step(bench, *each)
        for asked in ({"op": "flush", "wait_s": 0.0}, {"op": "refresh"}):
            bench.say(ONE, **asked, path="")
            for _ in range(20):
                while bench.open:
                    bench.say(ONE, "close", handle=bench.open.pop()[0])
                bench.answer_all()
                bench.wait(10.0)
        image = bench.master.core.image
        assert (dict(image.dirty), dict(image.misplaced), set(image.busy), set(image.orphans)) == ({}, {}, set(), set())
        files = [inode for inode in image.inodes.values() if inode.kind == FILE]
        assert {inode.ino for inode in files if inode.lost} <= bench.master._write_back.losses.keys()
        shown = {inode.stored_path: inode.facts for inode in files if not inode.lost}
        hidden = {name for name in bench.objects if any(name == one or (one.endswith("/") and name.startswith(one))
                                                        for one in image.hidden)}  # fmt: skip
        assert shown == {name: facts for name, facts in bench.objects.items() if name not in hidden}
        bench.database.close()


def written(bench, name):
    """Write a file whose upload is the IOnode's next command."""
    bench.say(ONE, "create", parent=bench.root, name=name, mode=0o644, wait_s=0.0)
    bench.answer_all()
    bench.commit(-1, 5)
    bench.say(ONE, "close", handle=bench.open.pop()[0])
    bench.wait(20.0)
    assert [command["op"] for command in bench.commands] == ["upload"]


def begin_to_look(bench):
    """Look at the storage; returns the IOnode's answer, which is on its way."""
    bench.say(ONE, "refresh", path="")
    (scan,) = (command for command in bench.commands if command["op"] == "scan")
    bench.commands.remove(scan)
    told = bench._done(scan)
    return lambda: bench.say(NODE, "task", task=scan["task"], **told)


def test_a_look_that_is_under_way_does_not_bring_back_what_was_kept_beside(tmp_path):
    """An upload was cut off, its file has another name, and the object of the first name goes."""
    bench = Played(tmp_path)
    written(bench, "b.part")
    bench.say(ONE, "rename", parent=bench.root, name="b.part", to_parent=bench.root, to_name="b", flags="")
    bench.put("b.part", 5)
    bench.answer(0, fails=True)
    bench.wait(20.0)
    end_look = begin_to_look(bench)
    bench.answer_all()
    assert "b.part" not in bench.objects
    end_look()
    bench.answer_all()
    assert bench.ino("b.part") == bench.ino("nothing")
    bench.database.close()


def test_what_someone_writes_while_a_look_is_under_way_is_seen_by_the_next(tmp_path):
    """A file gives way to it, and the look that began before can't have seen it."""
    bench = Played(tmp_path)
    written(bench, "b")
    end_look = begin_to_look(bench)
    facts = bench.put("b", 7)
    (upload,) = bench.commands
    bench.commands.clear()
    bench.say(NODE, "task", task=upload["task"], errno=errno.ENOTUNIQ, error="someone else's is there")
    end_look()
    bench.say(ONE, "lookup", parent=bench.root, name="b")
    bench.answer_all()
    image = bench.master.core.image
    assert list(image.inodes[bench.ino("b")].facts) == facts
    bench.database.close()
