"""A namespace changes by records only, and a request that waits or is refused has changed nothing in it."""

import ast
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import TABLES, Recorded, so
from test_master import NODE, ONE, ROOM, TWO, Bench

from bbflow.files import master
from bbflow.files.inodes import pack, unpack
from bbflow.files.master.namespace import Namespace
from bbflow.files.master.records import Stored

MODULES = sorted(Path(master.__file__).parent.glob("*.py"))
OWNERS = {"image.py", "namespace.py"}


@pytest.mark.parametrize("path", [path for path in MODULES if path.name not in OWNERS], ids=lambda path: path.name)
def test_nobody_else_reaches_into_the_namespace_or_stores_what_is_so(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    of_others = [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self"]
    assert not [ast.unparse(node) for node in of_others if node.attr in TABLES]
    changes = {node.attr for node in of_others if node.attr in ("apply", "store")}
    assert changes == ({"apply", "store"} if path.name == "core.py" else set())


def test_an_inode_and_an_open_file_are_values(tmp_path):
    bench = Bench(tmp_path)
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600)
    image = bench.master.core.image
    for value in (image.root, image.handles[made["handle"]]):
        with pytest.raises(AttributeError):
            value.ino = 7


def test_an_inode_is_stored_as_version_2_of_the_database_has_it():
    values = [
        "f",
        0o640,
        1,
        2,
        3,
        4,
        5,
        10,
        7,
        [[7, 10]],
        4096,
        ["a", "b"],
        2,
        "",
        "d/f",
        6,
        [9, "etag"],
        8,
        True,
        True,
    ]
    record = msgspec.msgpack.encode([*values, False, 0, True])
    inode = unpack(5, 1, "f", record)
    assert (inode.kind, inode.size, inode.version, inode.pieces) == ("f", 10, 7, ((7, 10),))
    assert (inode.ring, inode.stored_path, inode.facts, inode.is_cut) == (("a", "b"), "d/f", (9, "etag"), True)
    assert pack(inode) == record
    with pytest.raises(ValueError, match="an inode with"):
        unpack(5, 1, "f", msgspec.msgpack.encode(values))


NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "e/f/g"])
PROGRAMS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.booleans()),
        st.tuples(st.just("mkdir"), NAMES, st.booleans()),
        st.tuples(st.just("symlink"), NAMES, st.none()),
        st.tuples(st.just("unlink"), NAMES, st.none()),
        st.tuples(st.just("rmdir"), NAMES, st.none()),
        st.tuples(st.just("rename"), NAMES, st.tuples(NAMES, st.sampled_from(["", "noreplace", "exchange"]))),
        st.tuples(st.just("setattr"), NAMES, st.sampled_from([{"mode": 0o640}, {"size": 5}, {"size": 0, "mode": 1}])),
        st.tuples(st.just("open"), NAMES, st.booleans()),
        st.tuples(st.just("commit"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("close"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("nodes go"), st.none(), st.none()),
        st.tuples(st.just("nodes come"), st.none(), st.none()),
    ),
    max_size=25,
)


class Program:
    """What a client does, and what it has open."""

    def __init__(self, bench):
        self.bench, self.open = bench, []
        bench.enter(ONE)

    def do(self, op, name, how):
        """Ask for something; return the reply, or None while there is none."""
        entry = {"parent": self.bench.root, "name": name}
        if op in ("commit", "close"):
            return self._go_on(op, name, how)
        if op in ("open", "setattr"):
            ino = (self.bench.say(ONE, "lookup", **entry) or {}).get("attr", {"ino": 1 << 40})["ino"]
            keys = how if op == "setattr" else {"write": how, "wait_s": 0.0}
            return self._opened(self.bench.say(ONE, op, ino=ino, **keys))
        if op == "rename":
            keys = {"to_parent": self.bench.root, "to_name": how[0], "flags": how[1]}
        else:
            create, mkdir = {"mode": 0o644, "exclusive": how, "wait_s": 0.0}, {"mode": 0o755, "parents": how}
            keys = {"create": create, "mkdir": mkdir, "symlink": {"target": "t"}}.get(op, {})
        return self._opened(self.bench.say(ONE, op, **entry, **keys))

    def _opened(self, reply):
        if reply is not None and "handle" in reply:
            self.open.append([reply["handle"], reply.get("version", 0)])
        return reply

    def _go_on(self, op, number, how):
        if number >= len(self.open):
            return {"errno": 9}
        handle, version = self.open[number]
        if op == "close":
            del self.open[number]
            self.bench.say(ONE, "close", handle=handle, dirty=how)
            return {"ok": True}
        reply = self.bench.say(ONE, "commit", handle=handle, size=4 if how else 0, pieces=[[version, 4]] if how else [])
        self.open[number][1] = (reply or {}).get("version", version)
        return reply


def run(bench, program):
    """Run a program; after each request that is refused, or waits, nothing is so that wasn't before."""
    client = Program(bench)
    for op, name, how in program:
        if op == "nodes go":
            bench.master.disconnect(NODE)
        elif op == "nodes come":
            bench.join(keys=[])
        else:
            before = bench.so()
            reply = client.do(op, name, how)
            if reply is None or "errno" in reply:
                assert bench.so() == before, (op, name, how, reply)
                bench.wait(bench.master.core.options.node_loss_s + 1)  # what waits is refused, or done
    return client


@given(PROGRAMS)
def test_records_make_the_namespace_and_a_request_without_a_reply_makes_none(program):
    with tempfile.TemporaryDirectory() as folder:
        bench = Recorded(Path(folder), node_loss_s=5.0, piece_bytes=4096)
        bench.records.append(first := next(iter(bench.master.core.image.inodes.values())))
        bench.records.clear()
        run(bench, program)
        image = bench.master.core.image
        again, twice = (Namespace(0, has_storage=False) for _ in range(2))
        for namespace in (again, twice):
            namespace.restore([first])
        for record in (record for record in bench.records if not record.is_of_client):
            again.apply(record)
            for _ in range(1 + isinstance(record, Stored)):
                twice.apply(record)
        assert so(again) == so(image)
        assert so(twice) == so(image)
        bench.wait(1.0)
        assert {inode.ino: inode for inode in bench.database.inodes()} == dict(image.inodes)
        bench.database.close()


@given(PROGRAMS)
def test_what_is_stored_is_what_is_so_in_the_next_master(program):
    with tempfile.TemporaryDirectory() as folder:
        bench = Recorded(Path(folder), node_loss_s=5.0, piece_bytes=4096)
        run(bench, program)
        bench.wait(1.0)
        bench.database.close()
        tables = {"_inodes", "_entries", "_subdirectories", "_stored", "_doomed", "_busy", "_orphans", "_writers"}
        before = so(bench.master.core.image, TABLES - tables)
        after = so(Recorded(Path(folder), node_loss_s=5.0, piece_bytes=4096).master.core.image, TABLES - tables)
        for tables in (before, after):
            tables["_subdirectories"] = {ino: count for ino, count in tables["_subdirectories"].items() if count}
        assert after == before


@pytest.fixture
def stored(tmp_path):
    """A file that the shared storage has, and who has found it there."""
    bench = Recorded(tmp_path, storage="s3://b", piece_bytes=4096)
    bench.enter(ONE)
    scan = bench.order(ONE, "lookup", parent=bench.root, name="f")
    bench.say(NODE, "task", task=scan["task"], ok=True, objects=[["f", 10, "1", 1.0]], directories=[])
    return bench, bench.said[ONE]["attr"]["ino"]


def test_what_waits_for_bytes_has_changed_nothing_meanwhile(stored):
    bench, ino = stored
    mode = bench.master.core.image.inodes[ino].mode
    fill = bench.order(ONE, "setattr", ino=ino, size=5, mode=0o600)
    now = bench.master.core.image.inodes[ino]
    assert (fill["op"], now.size, now.mode, now.filling) == ("fill", 10, mode, True)
    assert unpack(ino, now.parent, now.name, pack(now)).is_cold
    bench.say(NODE, "task", task=fill["task"], ok=True)
    now = bench.master.core.image.inodes[ino]
    assert (now.size, now.mode, now.filling) == (5, 0o600, False)


def test_a_look_that_is_under_way_is_waited_for_by_all_who_need_it(tmp_path):
    bench = Bench(tmp_path, storage="s3://b")
    for peer in (ONE, TWO):
        bench.enter(peer)
    scan = bench.order(ONE, "lookup", parent=bench.root, name="f")
    assert bench.order(TWO, "lookup", parent=bench.root, name="f") is None
    bench.say(NODE, "task", task=scan["task"], ok=True, objects=[["f", 10, "1", 1.0]], directories=[])
    assert bench.said[ONE]["ok"]
    assert bench.said[TWO]["ok"]


def test_directories_are_made_one_by_one_where_a_file_hid_what_is_below(tmp_path):
    bench = Recorded(tmp_path, storage="s3://b", piece_bytes=4096)
    bench.enter(ONE)
    for op, keys, directories in (
        ("lookup", {"parent": bench.root, "name": "d"}, []),
        ("refresh", {"path": ""}, ["d"]),
    ):
        bench.wait(1.0)
        scan = bench.order(ONE, op, **keys)
        answer = {"objects": [["d", 10, "1", 1.0]], "directories": directories}
        bench.say(NODE, "task", task=scan["task"], ok=True, **answer)
    assert list(bench.master.core.image.hidden) == ["d/"]
    assert bench.say(ONE, "unlink", parent=bench.root, name="d")["ok"]
    scan = bench.order(ONE, "mkdir", parent=bench.root, name="d/e", mode=0o755, parents=True)
    assert (scan["op"], scan["path"], ONE in bench.said) == ("scan", "d", False)
    bench.say(NODE, "task", task=scan["task"], ok=True, objects=[["e", 3, "1", 1.0]], directories=[])
    assert bench.said[ONE]["errno"] == 20


def test_directories_however_deep_are_made_at_once(tmp_path):
    bench = Recorded(tmp_path)
    bench.enter(ONE)
    path = "/".join("d" * 1500)
    assert bench.say(ONE, "mkdir", parent=bench.root, name=path, mode=0o755, parents=True)["ok"]
    assert bench.say(ONE, "lookup", parent=bench.root, name=path)["attr"]["kind"] == "d"


def test_the_room_of_a_session_is_what_its_node_has_promised(tmp_path):
    bench = Bench(tmp_path, piece_bytes=4096)
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600)
    granted = bench.say(ONE, "room", node="io", bytes=8192)["granted"]["io"]
    core = bench.master.core
    bench.say(ONE, "commit", handle=made["handle"], size=4, pieces=[[made["version"], 4]])
    (session,) = core.sessions.by_name.values()
    assert core.nodes["io"].granted_bytes == session.room["io"] == granted - 4096
    assert core.nodes["io"].free_bytes == ROOM - granted


def test_who_comes_back_to_the_next_master_has_the_groups_that_it_had(tmp_path):
    bench = Bench(tmp_path)
    bench.enter(ONE)
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o640, exclusive=True)
    bench.say(ONE, "close", handle=made["handle"])
    ino = made["attr"]["ino"]
    assert bench.say(ONE, "setattr", ino=ino, group=7)["ok"]
    client = {"host": "h", "pid": 1, "uid": 5, "gid": 5, "groups": [7]}
    session = bench.say(TWO, "session", **client)["session"]
    bench.wait(1.0)
    bench.database.close()
    bench = Bench(tmp_path)
    assert bench.say(TWO, "session", **client, resume=session)["session"] == session
    assert bench.say(TWO, "open", ino=ino)["ok"]


def test_locks_are_what_they_were_in_the_next_master_unless_their_session_is_over(tmp_path):
    bench = Recorded(tmp_path)
    names = [bench.enter(peer)["session"] for peer in (ONE, TWO)]
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o640, exclusive=True)
    lock = {"ino": made["attr"]["ino"], "kind": "r", "start": 0}
    for peer, owner, end in ((ONE, "1", 10), (ONE, "2", 20), (TWO, "1", -1)):
        assert bench.say(peer, "lock", **lock, owner=owner, end=end)["ok"]
    assert bench.say(ONE, "lock", **{**lock, "start": 4, "kind": "u"}, owner="1", end=6)["ok"]
    held = bench.master.core.image.locks
    assert [len(locks) for locks in held.values()] == [4]
    bench.wait(1.0)
    bench.database.close()
    after = Recorded(tmp_path)
    assert set(after.master.core.image.locks[made["attr"]["ino"]]) == set(held[made["attr"]["ino"]])
    assert after.say(TWO, "session", host="h", pid=1, uid=0, gid=0, resume=names[1])["ok"]
    assert after.say(TWO, "bye")["ok"]
    assert {one.session for locks in after.master.core.image.locks.values() for one in locks} == {names[0]}
