"""What all parts of a master share: the namespace, its sessions and nodes, and how replies wait. No I/O of its own."""

import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Generic, NoReturn, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from bbflow.files.commands import Command, DropCommand, TaskAnswer
from bbflow.files.inodes import FileLayout, Inode, Pieces, keys_of, places_of
from bbflow.files.master.database import Database
from bbflow.files.master.image import Image
from bbflow.files.master.permissions import Credentials
from bbflow.files.master.room import Node
from bbflow.files.master.sessions import Changes, Handle, Session, Sessions
from bbflow.files.options import Options
from bbflow.files.replies import FileReply
from bbflow.files.requests import ClientRequest

R_co = TypeVar("R_co", bound=ClientRequest, covariant=True)
Then = Callable[[TaskAnswer], None]
Key = tuple[str, int | str]
"""What a request waits for: a kind of event, and on which thing."""


class Blocked(Exception):  # noqa: N818 - it is a signal, not an error
    """A request can't be answered yet."""

    def __init__(self, key: Key, error: OSError, timeout_s: float) -> None:
        super().__init__()
        self.key, self.error, self.timeout_s = key, error, timeout_s


@dataclass(slots=True)
class Call(Generic[R_co]):
    """One request under way."""

    peer: int
    """Who asked."""
    session: Session
    """Its session."""
    asked: R_co
    """What was asked."""
    who: Credentials
    """For whom."""
    changes: Changes = field(default_factory=Changes)
    """What others must forget before it is answered."""
    began_s: float = 0.0
    """When it came."""
    deadline_s: float = 0.0
    """When it no longer waits for what it waits for now."""
    blocked: Blocked | None = None
    """What it waits for."""
    begun: int = 0
    """How many files it was about when it came."""

    def wait(self, key: Key, error: OSError, timeout_s: float, now_s: float) -> NoReturn:
        """Let the request be tried again when something has happened.

        Raises
        ------
        Blocked
            While there is time.
        OSError
            The error, once the time is up.
        """
        if timeout_s >= 0 and now_s - self.began_s >= timeout_s:
            raise error
        raise Blocked(key, error, timeout_s)


AnyCall = Call[ClientRequest]
"""One request, whatever it asks."""
Answers = dict[type[ClientRequest], Callable[[Any], FileReply | None]]
"""What answers a call of each kind of request; None where the format has no reply."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """An object that nobody can open, since the namespace can't have its name."""

    directory: str
    """Where it was seen."""
    reason: str
    """Why."""


class CutOff(Struct, frozen=True):
    """No message: its peer is to be cut off."""


class Deferred(Exception):  # noqa: N818
    """A request is answered later, by who raised this."""


class Core:
    """The state of one master.

    Parameters
    ----------
    database
        What it stores.
    options
        How it keeps files.
    clock
        Gives seconds since the epoch.
    """

    def __init__(self, database: Database, options: Options, clock: Callable[[], float]) -> None:
        self.options, self.database, self.clock = options, database, clock
        owner = Credentials(os.getuid(), os.getgid())
        self.image = Image(options.number, database.inodes(), owner, options.piece_bytes, options.storage)
        database.save(self.image.root)
        self.sessions = Sessions()
        self.nodes: dict[str, Node] = {}
        self.handles: dict[int, Handle] = {}
        """What is open, by the handles' numbers."""
        self.finished: list[tuple[AnyCall, FileReply]] = []
        """Requests that were `Deferred` and have their reply now."""
        self.out: list[tuple[int, Struct | Raw]] = []
        """Messages to send once everything is stored: peer and message."""
        self.events: list[Key] = []
        """What has happened that requests may wait for."""
        self.stored: dict[str, int] = {
            inode.stored_path: inode.ino for inode in self.image.inodes.values() if inode.stored_path
        }
        """Objects in the shared storage that are some inode's."""
        self.doomed: dict[str, None] = dict.fromkeys(database.doomed())
        """Objects that must go."""
        self.busy: set[str] = set()
        """Objects that IOnodes are at work on: what is there is not known now."""
        self.hidden: dict[str, Hidden] = {}
        """Objects that can't be shown, by name; one that ends in ``/`` stands for all below."""
        self.scans = 0
        """How many looks at the shared storage are under way."""
        self.gone: set[str] = set()
        """Objects that went meanwhile, which these may have seen still."""
        self.orphans: set[int] = set()
        """Inodes without a name that are open still."""
        self.seq = 0
        """Number of the last change."""
        self.turn = 0
        """Goes up with each new file."""
        self.filling: dict[int, set[str]] = {}
        """Files that come from the shared storage, with the piece files that are still to come."""
        self.held: set[int] = set()
        """Files that were prefetched, or are to be, and that nobody has read yet."""
        self._numbers = database.epoch << 32
        self._tasks: dict[int, tuple[str, Command | None, Then]] = {}
        self._touched: dict[int, Inode] = {}
        self._used = 0

    def number(self) -> int:
        """Return a number that was never given before, also not before a restart."""
        self._numbers += 1
        return self._numbers

    def use(self, inode: Inode) -> None:
        """Record that a file was used just now."""
        self._used += 1
        inode.used = self._used

    def save(self, inode: Inode) -> None:
        """Store an inode with the next commit."""
        self.database.save(inode)

    def touched(self, directory: Inode) -> None:
        """Store a directory whose names have changed, before long: each of them is stored by itself."""
        self._touched[directory.ino] = directory

    def save_touched(self) -> None:
        """Store the directories' times."""
        for directory in self._touched.values():
            if directory.ino in self.image.inodes:
                self.database.save(directory)
        self._touched.clear()

    def now_ns(self) -> int:
        """Return the time in nanoseconds since the epoch."""
        return int(self.clock() * 1e9)

    def happened(self, kind: str, thing: int | str) -> None:
        """Wake requests that wait for this."""
        self.events.append((kind, thing))

    def take_out(self) -> list[tuple[int, Struct | Raw]]:
        """Return what is to be sent, once."""
        out, self.out = self.out, []
        return out

    def send(self, peer: int, message: Struct | Raw) -> None:
        """Send a message once everything is stored."""
        self.out.append((peer, message))

    # Commands to IOnodes.

    def command(self, node: str, command: Command, then: Then) -> int:
        """Have an IOnode do something; return the task's number.

        Parameters
        ----------
        node
            Which; if it is away, or goes away meanwhile, the answer is EHOSTDOWN.
        command
            What; it gets a number.
        then
            Called with the answer.
        """
        task = self.number()
        there = self.nodes.get(node)
        if there is None or there.peer is None:
            then(TaskAnswer(errno=errno.EHOSTDOWN, error=f"IOnode {node} is away"))
            return task
        self._tasks[task] = (node, command, then)
        self.send(there.peer, replace(command, task=task))
        return task

    def adopt(self, node: str, task: int, then: Then) -> None:
        """Take a command over that a master before this one gave."""
        self._tasks[task] = (node, None, then)

    def answered(self, answer: TaskAnswer) -> None:
        """Take an IOnode's answer to a command in."""
        found = self._tasks.pop(answer.task, None) if answer.done else self._tasks.get(answer.task)
        if found is not None:
            found[2](answer)

    def fail_tasks(self, node: str, *, but: Callable[[int, Command | None], bool]) -> None:
        """Answer the commands of an IOnode that is away, but for those of which this holds: task and command."""
        given = [(task, command) for task, (name, command, _) in self._tasks.items() if name == node]
        for task in [task for task, command in given if not but(task, command)]:
            _, _, then = self._tasks.pop(task)
            then(TaskAnswer(errno=errno.EHOSTDOWN, error=f"IOnode {node} went away"))

    def a_node(self) -> str | None:
        """Return some IOnode that is up: the one with the fewest tasks."""
        up = [node.name for node in self.nodes.values() if node.peer is not None]
        busy = [name for name, _, _ in self._tasks.values()]
        return min(up, key=lambda name: (busy.count(name), name), default=None)

    # Piece files.

    def place(self, places: dict[str, dict[str, int]]) -> None:
        """Record that piece files lie on their nodes."""
        for name, keys in places.items():
            node = self.nodes[name]
            for key, size in keys.items():
                node.place(key, size)

    def is_in_memory(self, inode: Inode) -> bool:
        """Whether all bytes of a file lie on nodes that are up."""
        places = places_of(inode.ring, inode.replicas, inode.pieces)
        nodes = {node.name: node.placed.keys() for node in self.nodes.values() if node.peer is not None}
        is_there = all(keys.keys() <= nodes.get(name, set()) for name, keys in places.items())
        return bool(inode.ring) and is_there and not inode.filling and not inode.lost

    def drop(self, keys: Iterable[str]) -> None:
        """Remove piece files wherever they are, unless somebody needs them; their room is free when they are gone."""
        unneeded = [key for key in keys if not self.sessions.pins.get(key)]
        for node in self.nodes.values():
            if there := [key for key in unneeded if key in node.placed]:
                self.drop_from(node, there)

    def drop_from(self, node: Node, keys: list[str]) -> None:
        """Remove piece files from one node; the same ones may be placed there again before they are gone."""
        size = sum(node.placed[key] for key in keys)
        node.leaving_bytes += size
        for key in keys:
            node.remove(key)

        def gone(_: TaskAnswer) -> None:
            node.leaving_bytes -= size  # what a node that is away still has is compared when it comes back
            self.happened("room", node.name)

        self.command(node.name, DropCommand(keys=tuple(keys)), gone)

    def stop_filling(self, inode: Inode) -> None:
        """Wait no more for a file's bytes from the shared storage: it has others now."""
        if self.filling.pop(inode.ino, None) is not None:
            inode.filling = False
            self.happened("filled", inode.ino)

    def replace(self, inode: Inode, pieces: Pieces) -> None:
        """Let a file have other pieces; those of before go once nobody needs them."""
        kept = set(keys_of(pieces))
        before = [key for key in keys_of(inode.pieces) if key not in kept]
        inode.pieces = pieces
        if before:
            self.drop(before)

    def unpin(self, pieces: Pieces, inode: Inode) -> None:
        """Let go of pieces that a handle or a transfer needed."""
        free = self.sessions.unpin(pieces)
        if free:
            kept = set(keys_of(inode.pieces)) if inode.ring else set()
            self.drop(key for key in free if key not in kept)

    # Handles.

    def open_handle(self, session: Session, inode: Inode, version: int, pieces: Pieces, layout: FileLayout) -> Handle:
        """Open a file for a session."""
        handle = Handle(self.number(), session.name, inode, version, pieces, self.clock(), layout)
        session.handles[handle.number] = self.handles[handle.number] = handle
        self.sessions.pin(handle.pieces)
        if version:
            inode.writer = handle.number
        else:
            inode.readers += 1
        return handle

    def forget_inode(self, inode: Inode) -> None:
        """Let go of an inode without a name, its bytes and its object, unless it is open still."""
        if inode.writer or inode.readers:
            self.orphans.add(inode.ino)
            self.save(inode)
            return
        self.orphans.discard(inode.ino)
        self.filling.pop(inode.ino, None)
        if inode.ino in self.held:
            self.happened("closed", inode.ino)
        pieces, inode.pieces = inode.pieces, ()
        self.drop(keys_of(pieces))
        self.image.forget(inode)
        self.database.remove(inode)

    def is_scratch(self, inode: Inode) -> bool:
        """Whether a file has a name that is never written back."""
        patterns = self.options.scratch
        if not patterns:
            return False
        path = self.image.path(inode)
        return any(
            fnmatchcase(path, pattern.removeprefix("/")) or fnmatchcase(inode.name, pattern) for pattern in patterns
        )

    def doom(self, inode: Inode) -> None:
        """Let an inode's object in the shared storage go."""
        if inode.stored_path and self.options.storage:
            self.stored.pop(inode.stored_path, None)
            self.doomed[inode.stored_path] = None
            self.database.doom([inode.stored_path])
            inode.stored_path, inode.stored_version = "", 0
            self.happened("storage", 0)

    def check_free(self, path: str) -> None:
        """Refuse a file whose object would take the place of one that can't be shown.

        Raises
        ------
        OSError
            EEXIST.
        """
        above = (f"{path[:at]}/" for at, letter in enumerate(path) if letter == "/")
        found = next((name for name in (path, *above) if name in self.hidden), None) if self.hidden else None
        if found is not None:
            what = f"the shared storage has an object {found!r} that isn't shown here: {self.hidden[found].reason}"
            raise FileExistsError(errno.EEXIST, f"{what}; rename or remove it there, then 'bbflow files refresh'")

    def uncover(self, path: str) -> bool:
        """Let objects be shown that a file hid which had their directory's name; return whether there are any."""
        found = [name for name in self.hidden if name.startswith(f"{path}/")]
        for name in found:
            del self.hidden[name]
        return bool(found)

    def vanished(self, path: str) -> None:
        """Record that an object is gone."""
        if self.scans:
            self.gone.add(path)
