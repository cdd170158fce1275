"""Appended lines, in all orders: the real master's decisions, with mounts, the kernel and an IOnode as they act.

The mounts' steps are those of `bbflow/mount/native` (NodeFiles, OpenInode, KeptMetadata), the kernel's those of Linux'
`fs/fuse` (attributes that come with an older number than the inode's are left out; who appends does so at the size that
the kernel has). Each fault that was there, or would be without what holds it off, is found in a mount that has it.
"""

from pathlib import Path

import msgspec
import pytest

from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.master.opening import FileOpening
from bbflow.files.options import Options
from bbflow.files.requests import parse_heard
from testsupport.orders import Programs, search

NODE, ROOM = 1, 1 << 30
KERNEL = "the kernel says where the end is"


class World:
    """One master, an IOnode's pieces, and what is under way between all."""

    def __init__(self, programs, faults, **options):
        self.programs, self.faults, self.now_s, self.peers = programs, faults, 1000.0, NODE
        self.boxes, self.pieces, self.objects, self.said = {}, {}, {}, set()
        self.master = Master(Database(Path(":memory:")), Options(**options), lambda: self.now_s)
        told = dict.fromkeys(("host", "socket", "directory", "tcp", "tls"), "h")
        self.say(NODE, "ionode", name="io", capacity=ROOM, most=ROOM, last=True, keys=[], **told)
        programs.start(self.ionode(), is_background=True)

    def say(self, peer, op, **keys):
        """Hand the master something now."""
        self.master.handle(peer, parse_heard(msgspec.msgpack.encode({"op": op, **keys})))
        self.take()

    def take(self):
        for to, message in self.master.take_out():
            told = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
            self.boxes.setdefault(to, []).append(told)

    def peer(self):
        self.peers += 1
        return self.peers

    def receive(self, peer):
        """Wait for a message, and take it."""
        yield lambda: self.boxes.get(peer)
        return self.boxes[peer].pop(0)

    def ionode(self):
        while True:
            told = yield from self.receive(NODE)
            if "task" in told:
                self.programs.start(self.obey(told), is_background=True)

    def obey(self, told):
        """Do what the master commands, in a thread of its own."""
        yield
        gives = {}
        if told["op"] == "discard":
            for key in [key for key in self.pieces if key.startswith(f"{told['version']:x}.")]:
                del self.pieces[key]
            for key, size in told["cut"]:
                del self.pieces.get(key, bytearray())[size:]
        elif told["op"] == "drop":
            for key in told["keys"]:
                self.pieces.pop(key, None)
        elif told["op"] == "upload":
            content = self.content(told["pieces"], told["size"])
            yield
            self.objects[told["path"]] = content
            gives = {"facts": (len(content), str(len(content)))}
        elif told["op"] == "scan":
            gives = {"objects": [], "directories": []}
        self.say(NODE, "task", task=told["task"], **gives)

    def content(self, pieces, size):
        """Return the bytes of a version that is in memory; what a node lacks of it is missing."""
        if not pieces:
            return b""
        (version, count), *_ = pieces
        return bytes(self.pieces.get(f"{version:x}.0", b"")[: min(count, size)])


class Kernel:
    """What Linux knows of one file on one mount."""

    def __init__(self):
        self.size, self.number, self.count, self.is_locked = 0, 0, 0, False

    def told(self, asked_at, size):
        """Take attributes in, unless something newer is known (fuse_change_attributes)."""
        if self.number <= asked_at:
            self.size = size
            self.changed()

    def changed(self):
        self.count += 1
        self.number = self.count


class Mount:
    """One mount's program, as far as one file is concerned."""

    def __init__(self, world):
        self.world, self.kernel = world, Kernel()
        self.kept, self.oldest = None, 0
        self.shown, self.is_dirty, self.is_locked = None, False, False
        self.size, self.pieces, self.version, self.may_append, self.writers = 0, [], 0, False, []
        self.is_dead = False
        self._listener, entering = world.peer(), world.peer()
        world.say(entering, "session", host="h", pid=1, uid=0, gid=0)
        session = world.boxes[entering].pop(0)
        self._peers, self.root, self._name = [entering], session["root"]["ino"], session["session"]
        world.say(self._listener, "join", session=self._name, listen=True)
        world.boxes[self._listener].clear()
        world.programs.start(self._listen(), is_background=True)

    def call(self, op, **keys):
        """Ask, on a connection of its own."""
        peer = self._peers.pop() if self._peers else self._join()
        yield
        self.world.say(peer, op, **keys)
        reply = yield from self.world.receive(peer)
        self._peers.append(peer)
        assert reply["ok"], reply
        return reply

    def _join(self):
        peer = self.world.peer()
        self.world.say(peer, "join", session=self._name, listen=False)
        self.world.boxes[peer].clear()
        return peer

    def _listen(self):
        while True:
            told = yield from self.world.receive(self._listener)
            if told["op"] != "forget":
                continue
            self.oldest = max(self.oldest, told["seq"])
            if self.ino in told["inos"]:
                self.kept = None
            yield
            self.kernel.changed()
            yield
            self.world.say(self._listener, "forgot", seq=told["seq"])

    # What a program's calls come to.

    def make(self):
        """Make the file, with one line."""
        told = yield from self.call("create", parent=self.root, name="log", mode=0o644)
        self.ino = told["attr"]["ino"]
        self._take(told)
        yield from self.write(b"0\n")
        yield from self.flush()
        yield from self.release(told["handle"])

    def know(self, ino):
        self.ino = ino
        yield from self.stat()

    def append(self, line):
        """Do as `echo line >> log` does, whose last step the kernel tells of when that is over."""
        yield from self.stat()
        handle = yield from self.open()
        yield from self.write(line)
        yield from self.flush()
        self.world.said.add(line)
        self.world.programs.start(self.release(handle))

    def stat(self):
        """LOOKUP or GETATTR: the answer is the kernel's, and that of the next listing."""
        asked_at = self.kernel.count
        size = yield from self.attributes()
        yield
        self.kernel.told(asked_at, size)

    def list(self):
        """OPENDIR, then READDIRPLUS."""
        yield
        size = yield from self.attributes()
        asked_at = self.kernel.count
        if "listed sizes are those of opendir" not in self.world.faults:
            size = yield from self.attributes()
        yield
        self.kernel.told(asked_at, size)

    def attributes(self):
        shows_last = "what is unwritten is looked at last" in self.world.faults
        shown = self.shown
        yield
        if self.kept is None:
            reply = yield from self.call("stat", ino=self.ino)
            self.keep(reply)
            size = reply["attr"]["size"]
        else:
            size = self.kept[0]
        yield
        shown = self.shown if shows_last else shown
        return size if shown is None else shown

    def keep(self, reply):
        is_newer = self.kept is None or reply["seq"] >= self.kept[1] or "late replies are kept" in self.world.faults
        if reply["seq"] >= self.oldest and is_newer:
            self.kept = reply["attr"]["size"], reply["seq"]

    def open(self):
        yield
        if self.writers:
            self.writers.append(self.writers[0])
            return self.writers[0]
        told = yield from self.call("open", ino=self.ino, write=True)
        self._take(told)
        yield
        self.keep(told)
        return told["handle"]

    def _take(self, told):
        if not self.is_dirty:
            self.size, self.pieces = told["attr"]["size"], [tuple(piece) for piece in told["pieces"]]
        self.version, self.may_append = told["version"], told["append"]
        self.writers.append(told["handle"])

    def write(self, line):
        yield lambda: not self.kernel.is_locked
        self.kernel.is_locked = True
        offset = self.kernel.size
        yield lambda: not self.is_locked
        self._write(line, offset if KERNEL in self.world.faults else self.size)
        yield
        self.kernel.changed()
        self.kernel.size = max(self.kernel.size, offset + len(line))
        self.kernel.is_locked = False

    def _write(self, line, offset):
        version, count = self.pieces[0] if self.pieces else (0, 0)
        files, key = self.world.pieces, f"{version:x}.0"
        if version == self.version:
            pass
        elif version and self.may_append and offset >= count:
            del files[key][count:]
        else:
            key = f"{self.version:x}.0"
            files[key] = files[f"{version:x}.0"][:count] if version else bytearray()
            version = self.version
        files[key][offset : offset + len(line)] = line
        self.size = self.shown = max(self.size, offset + len(line))
        self.pieces, self.is_dirty = [(version, max(count, offset + len(line)))], True

    def flush(self):
        yield lambda: not self.is_locked
        if not self.is_dirty or not self.writers:
            return
        self.is_locked = True
        told = yield from self.call("commit", handle=self.writers[0], size=self.size, pieces=self.pieces)
        self.version, self.may_append = told["version"], told["append"]
        self.is_dirty = False
        self.keep(told)
        yield
        self.shown, self.is_locked = None, False

    def release(self, handle):
        """RELEASE, which no program waits for."""
        yield
        if self.writers.count(handle) == 1:
            yield from self.flush()
        yield lambda: not self.is_locked
        self.writers.remove(handle)
        if handle not in self.writers:
            yield
            self.world.say(self._peers[0] if self._peers else self._join(), "close", handle=handle)

    def die(self):
        """Write a line, and be gone before it is closed: the session ends when its lease is over."""
        yield from self.open()
        yield from self.write(b"never closed\n")
        for peer in [*self._peers, self._listener]:
            self.world.master.disconnect(peer)
        self.world.now_s += 11
        self.world.master.expire()
        self.world.take()


def finish(programs, program):
    """Run one program to its end before others begin."""
    programs.start(program)
    programs.run()


def world_of(programs, faults, mounts, **options):
    world = World(Programs({}), faults, **options)
    ones = [Mount(world) for _ in range(mounts)]
    finish(world.programs, ones[0].make())
    for one in ones[1:]:
        finish(world.programs, one.know(ones[0].ino))
    # The search begins here: what has happened by now is the same in all orders.
    programs.__dict__.update(_all=world.programs._all, _background=world.programs._background)
    world.programs = programs
    return world, ones


def check(world, ino):
    """All lines whose programs were told that they are written are in the file, and nothing else."""
    inode = world.master.core.image.inodes[ino]
    lines = world.content(inode.pieces, inode.size).splitlines(keepends=True)
    assert sorted(lines) == sorted({b"0\n", *world.said}), lines


def two_programs(world, one):
    for line in (b"1\n", b"22\n"):
        world.programs.start(one.append(line))


def a_look_beside_an_append(world, one):
    def twice():
        yield from one.append(b"1\n")
        yield from one.append(b"22\n")

    one.kept = None
    world.programs.start(one.stat())
    world.programs.start(twice())


def a_listing_beside_a_logger(world, one):
    def log():
        handle = yield from one.open()
        for line in (b"1\n", b"22\n"):
            yield from one.write(line)
            world.said.add(line)
        yield from one.flush()
        yield from one.release(handle)

    world.programs.start(one.list())
    world.programs.start(log())


def attributes_that_others_change(world, one, two):
    world.programs.start(one.append(b"1\n"))
    world.programs.start(two.call("setattr", ino=one.ino, mode=0o600))
    world.programs.start(one.append(b"22\n"))


def two_mounts(world, one, two):
    world.programs.start(one.append(b"1\n"))
    world.programs.start(two.append(b"22\n"))


def a_mount_dies(world, one, two):
    world.programs.start(one.die())
    world.programs.start(two.append(b"22\n"))


SCENES = {
    two_programs: (1, {}),
    a_look_beside_an_append: (1, {"storage": "s3://b", "write_back_after_s": 0.0}),
    a_listing_beside_a_logger: (1, {}),
    attributes_that_others_change: (2, {"storage": "s3://b", "write_back": "close"}),
    two_mounts: (2, {"storage": "s3://b", "write_back_after_s": 0.0}),
    a_mount_dies: (2, {}),
}
FAULTS = [
    ("what is unwritten is looked at last", two_programs),
    ("late replies are kept", a_look_beside_an_append),
    ("listed sizes are those of opendir", a_listing_beside_a_logger),
    (KERNEL, two_mounts),
    ("what is to be cut off may be appended to", a_mount_dies),
]


def orders(scene, faults, most_turns, most_runs):
    mounts, options = SCENES[scene]

    def begin(programs):
        world, ones = world_of(programs, faults, mounts, **options)
        scene(world, *ones)
        return lambda: check(world, ones[0].ino)

    return search(begin, most_turns, most_runs)


@pytest.mark.parametrize("scene", SCENES)
def test_no_order_of_what_happens_loses_an_appended_line(scene):
    # What one mount tells its kernel must be right, though the mount doesn't depend on it.
    faults = set() if scene is two_mounts else {KERNEL}
    turns, wrong = orders(scene, faults, most_turns=2, most_runs=300)
    assert turns is None, wrong


@pytest.mark.parametrize(("fault", "scene"), FAULTS)
def test_the_search_finds_what_loses_lines(scene, fault, monkeypatch):
    if fault == "what is to be cut off may be appended to":
        discarded = FileOpening._discarded
        monkeypatch.setattr(FileOpening, "_discarded", lambda *what: discarded(*what)[:0])
    turns, _ = orders(scene, {fault, KERNEL}, most_turns=2, most_runs=3000)
    assert turns is not None
