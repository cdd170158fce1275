"""A master of files for the fuzzer: a client and an IOnode that say whatever the dice say."""

import contextlib
import io
import tempfile
from pathlib import Path

from bbflow.errors import ProtocolError
from bbflow.files.commands import IonodeAddress
from bbflow.files.master.core import CutOff
from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.options import Options
from bbflow.files.requests import parse_heard
from bbflow.net.frames import encode, pack

CLIENT, LISTENER, NODE = 1, 2, 3
ROOT, MADE = 1, 2
"""Inodes: the root, and the first that is made."""
FIRST = 1 << 32
"""Numbers of handles, versions and tasks begin here."""
ROOM = 1 << 20
IONODE = dict.fromkeys(IonodeAddress.__struct_fields__, "h")
ENTRY = {"parent": ROOT, "name": "f", "uid": 0, "gid": 0, "groups": [2]}
CLIENTS = [
    {"op": "create", "mode": 0o600, "exclusive": False, "truncate": False, "wait_s": 0.0} | ENTRY,
    {"op": "mkdir", "mode": 0o700, "parents": True} | ENTRY | {"name": "d/e"},
    {"op": "symlink", "target": "f"} | ENTRY | {"name": "l"},
    {"op": "lookup", "wait_s": 0.0} | ENTRY,
    {"op": "unlink"} | ENTRY,
    {"op": "rmdir"} | ENTRY | {"name": "d"},
    {"op": "rename", "to_parent": ROOT, "to_name": "g", "flags": ""} | ENTRY,
    {"op": "stat", "ino": MADE},
    {"op": "list", "ino": ROOT, "after": "", "limit": 10},
    {"op": "readlink", "ino": MADE},
    {"op": "setattr", "ino": MADE, "mode": 0o640, "owner": 0, "group": 0, "atime_ns": 1, "mtime_ns": 1, "size": 4},
    {"op": "open", "ino": MADE, "write": True, "truncate": False, "wait_s": 0.0},
    {"op": "room", "node": "h", "bytes": 4096, "wish": 8192},
    {"op": "commit", "handle": FIRST + 1, "size": 4, "pieces": [[FIRST + 1, 4]], "mtime_ns": 1, "sync": True},
    {"op": "close", "handle": FIRST + 1, "room": {"h": 4096}, "dirty": True},
    {
        "op": "lock",
        "ino": MADE,
        "owner": "1",
        "kind": "w",
        "start": 0,
        "end": -1,
        "pid": 1,
        "wait_s": 0.0,
        "test": False,
    },
    {"op": "flush", "path": "f", "wait_s": 0.0},
    {"op": "prefetch", "tasks": [["f"]]},
    {"op": "refresh", "path": "d"},
    {"op": "evict", "path": ""},
    *({"op": op} for op in ("statfs", "status", "nodes", "ping", "bye")),
    {"op": "join", "session": "s", "listen": True},
    {"op": "forgot", "seq": 1},
]
SESSION = {"op": "session", "host": "h", "pid": 1, "uid": 0, "gid": 0, "groups": [1], "resume": "",
           "handles": [[FIRST + 1, MADE, 0, True]], "room": {"h": 4096}, "slots": [[0, 1]]}  # fmt: skip
NODES = [
    {"op": "ionode", "capacity": ROOM, "most": ROOM, "keys": [["1.0", 4]], "last": True, "busy": {"f": FIRST + 1}}
    | IONODE,
    *(
        {"op": "task", "task": FIRST + task, "ok": True, "done": True, "facts": [4, "1"], "keys": [["1.0", 4]],
         "objects": [["f", 4, "1", 1.0]], "directories": ["d"]}
        for task in range(1, 6)
    ),
    {"op": "capacity", "bytes": 1 << 16},
    {"op": "task", "task": FIRST + 2, "errno": 5, "error": "no", "done": False},
]  # fmt: skip


class Talk:
    """One master and who speaks to it."""

    def __init__(self, folder, storage):
        self.now_s = 1000.0
        options = Options(storage=storage)
        self.master = Master(Database(folder / "metadata.db"), options, lambda: self.now_s)
        self.say(NODE, NODES[0])
        self.say(CLIENT, SESSION | {"handles": [], "slots": []})

    def say(self, peer, message):
        """Say something; who says what the format doesn't know is cut off."""
        try:
            self.master.handle(peer, parse_heard(pack(message)))
        except ProtocolError:
            self.master.disconnect(peer)
        for _, out in self.master.take_out():
            if not isinstance(out, CutOff):
                encode(out)

    def wait(self, seconds):
        self.now_s += seconds
        self.master.expire()


def talk(dice):
    """Talk as a client and an IOnode; whatever the master takes for its own mistake is a bug."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="bbflow-fuzz-") as folder, contextlib.redirect_stderr(said):
        talking = Talk(Path(folder), dice.of(["", "file:///nowhere"]))
        while dice:
            who = dice.of([CLIENT, CLIENT, CLIENT, LISTENER, NODE, None])
            if who is None:
                talking.wait(dice.of([0.0, 1.0, 20.0, 100.0]))
                talking.say(CLIENT, SESSION if dice.throw(2) else dice.mutate(SESSION))
            else:
                message = dice.of(NODES if who == NODE else CLIENTS)
                if "handle" in message:  # which it is depends on what came before
                    message = message | {"handle": FIRST + 1 + dice.throw(8)}
                if "pieces" in message:
                    message = message | {"pieces": [[FIRST + 1 + dice.throw(8), 4]]}
                if dice.throw(3) == 0:  # one that counts once
                    message = message | {"slot": 0, "number": dice.throw(3), "abandoned": bool(dice.throw(2))}
                talking.say(who, dice.mutate(message))
    assert "Traceback" not in said.getvalue(), said.getvalue()
