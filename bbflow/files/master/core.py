"""What all parts of a master share: the namespace, its sessions and nodes, and how replies wait. No I/O of its own."""

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Generic, NoReturn, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from bbflow.files.commands import Command, CommandAnswer, DropCommand, IonodeAddress
from bbflow.files.inodes import DIRECTORY, FILE, Inode, Pieces, Striping
from bbflow.files.master.awaited_events import Event, RoomEvent
from bbflow.files.master.database import Database
from bbflow.files.master.image import Image
from bbflow.files.master.namespace import Namespace
from bbflow.files.master.permissions import Credentials
from bbflow.files.master.records import DoomRecord, ForgetRecord, Handle, InodeRecord, Record, Stored
from bbflow.files.master.room import Node, choose_ring
from bbflow.files.master.sessions import Changes, Session, Sessions
from bbflow.files.options import Options
from bbflow.files.replies import FileReply
from bbflow.files.requests import ClientRequest

R_co = TypeVar("R_co", bound=ClientRequest, covariant=True)
Then = Callable[[CommandAnswer], None]


class Blocked(Exception):  # noqa: N818 - it is a signal, not an error
    """A request can't be answered yet."""

    def __init__(self, event: Event, error: OSError, timeout_s: float) -> None:
        super().__init__()
        self.event, self.error, self.timeout_s = event, error, timeout_s


@dataclass(slots=True)
class SeenPieces:
    """Piece files of a commit that were seen on IOnodes after they were written."""

    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """By node and piece file, the node's verifier then: with another one it is there no more."""
    asked: set[tuple[str, str]] = field(default_factory=set)
    """Nodes that were asked what they have, with their verifier then."""
    are_copied: bool = False
    """Whether their further nodes were told to copy them."""


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
    records: list[Record] = field(default_factory=list)
    """What it decides: it goes when the request has to wait, or is refused."""
    changes: Changes = field(default_factory=Changes)
    """What others must forget because of that."""
    told: Changes | None = None
    """What they must forget of all that counts, before it is answered."""
    began_s: float = 0.0
    """When it came."""
    deadline_s: float = 0.0
    """When it no longer waits for what it waits for now."""
    blocked: Blocked | None = None
    """What it waits for."""
    begun: int = 0
    """How many files it was about when it came."""
    seen: "SeenPieces | None" = None
    """What IOnodes have said since it came, for a commit."""

    def record(self, *records: Record) -> None:
        """Decide that something is so from now on: it counts once the whole request is decided."""
        self.records += records

    def undecide(self) -> None:
        """Discard what was being decided."""
        self.records, self.changes = [], Changes()

    def wait(self, event: Event, error: OSError, timeout_s: float, now_s: float) -> NoReturn:
        """Retry the request when something has happened.

        Raises
        ------
        Blocked
            While there is time.
        OSError
            The error, once the time is up.
        """
        if timeout_s >= 0 and now_s - self.began_s >= timeout_s:
            raise error
        raise Blocked(event, error, timeout_s)


AnyCall = Call[ClientRequest]
"""One request, whatever it asks."""
Answers = dict[type[ClientRequest], Callable[[Any], FileReply | None]]
"""What answers a call of each kind of request; None where the format has no reply."""


class CutOff(Struct, frozen=True):
    """No message: its peer is to be cut off."""


class Deferred(Exception):  # noqa: N818
    """A request is decided, and answered later by who raised this."""


class Unfinished(Exception):  # noqa: N818
    """A part of a request is decided, and counts whatever becomes of the rest."""


class Core:
    """The state of one master.

    Parameters
    ----------
    database, options, clock
        As `Master` has them.
    """

    def __init__(self, database: Database, options: Options, clock: Callable[[], float]) -> None:
        self.options, self.database, self.clock = options, database, clock
        self._namespace = Namespace(options.number, has_storage=bool(options.storage))
        self.image: Image = self._namespace
        """The namespace, as it is read; `commit` changes it."""
        self.sessions = Sessions()
        self._nodes: dict[str, Node] = {}
        self.nodes: Mapping[str, Node] = self._nodes
        """The IOnodes by name."""
        self._finished: list[tuple[AnyCall, FileReply]] = []
        self._out: list[tuple[int, Struct | Raw]] = []
        self._events: list[Event] = []
        self._seq = 0
        self._turn = 0
        # All numbers of masters before this one are below: none comes twice, and none needs to be stored.
        self._numbers = database.epoch << 32
        self._commands: dict[int, tuple[str, Command | None, Then]] = {}
        self._restore()

    def _restore(self) -> None:
        """Take in what a master before this one has stored; a new one has its root."""
        self._namespace.restore(map(self._cut, self.database.inodes()))
        for record in self.database.records():
            (self.sessions if record.is_of_client else self._namespace).apply(record)
        if self.image.root_ino not in self.image.inodes:
            ino, now_ns = self.image.root_ino, self.now_ns()
            self.commit(InodeRecord(
                Inode(ino, ino, "", DIRECTORY, 0o755, os.getuid(), os.getgid(), now_ns, now_ns, now_ns)
            ))  # fmt: skip

    def _cut(self, inode: Inode) -> Inode:
        """Return a file with a length of pieces, if it has none yet: clients that open it divide by that."""
        is_uncut = inode.kind == FILE and not inode.piece_bytes
        return replace(inode, piece_bytes=self.options.piece_bytes) if is_uncut else inode

    def commit(self, *records: Record) -> None:
        """Commit records: each is stored, if it is to last, and applied; no other code does that.

        What is stored reaches the disk before any message goes out that follows from it (`Master.take_out`).
        """
        for record in records:
            if isinstance(record, Stored):
                self.database.store(record)
            events, freed = (self.sessions if record.is_of_client else self._namespace).apply(record)
            if events:
                self._events += events
            if freed:
                self.drop(freed)

    def count(self, call: AnyCall) -> None:
        """Apply what a request has decided."""
        if call.records:
            # Taken out first: the next part of a request that is `Unfinished` must not let these count again.
            records, call.records = call.records, []
            self.commit(*records)
        if call.changes:
            changes, call.changes = call.changes, Changes()
            call.told = changes if call.told is None else call.told.with_those(changes)

    def number(self) -> int:
        """Return a number that was never given before, also not before a restart."""
        self._numbers += 1
        return self._numbers

    def now_ns(self) -> int:
        """Return the time in nanoseconds since the epoch."""
        return int(self.clock() * 1e9)

    def happened(self, event: Event) -> None:
        """Wake requests that wait for this."""
        self._events.append(event)

    def take_events(self) -> dict[Event, None]:
        """Return what has happened that requests may wait for, once."""
        events, self._events = dict.fromkeys(self._events), []
        return events

    def finish(self, call: AnyCall, reply: FileReply) -> None:
        """Reply to a request that was `Deferred`."""
        self._finished.append((call, reply))

    def take_finished(self) -> list[tuple[AnyCall, FileReply]]:
        """Return what was deferred and has its reply now, once."""
        finished, self._finished = self._finished, []
        return finished

    @property
    def is_unsettled(self) -> bool:
        """Whether something has happened that hasn't been dealt with yet."""
        return bool(self._events or self._finished)

    @property
    def has_out(self) -> bool:
        """Whether messages wait to be sent."""
        return bool(self._out)

    def take_out(self) -> list[tuple[int, Struct | Raw]]:
        """Return what is to be sent once everything is stored, peer and message, once."""
        out, self._out = self._out, []
        return out

    def send(self, peer: int, message: Struct | Raw) -> None:
        """Send a message once everything is stored."""
        self._out.append((peer, message))

    @property
    def seq(self) -> int:
        """Number of the last change."""
        return self._seq

    def next_seq(self) -> int:
        """Begin with a change, and return its number."""
        self._seq += 1
        return self._seq

    def node(self, name: str, address: IonodeAddress) -> Node:
        """Return an IOnode, which is there from now on if it wasn't."""
        return self._nodes.setdefault(name, Node(name, address, 0))

    # Commands to IOnodes.

    def command(self, node: str, command: Command, then: Then, task: int = 0) -> int:
        """Order an IOnode to do something; return the task's number.

        Parameters
        ----------
        node
            Which; if it is away, or goes away meanwhile, the answer is EHOSTDOWN.
        command
            What; it gets a number.
        then
            Called with the answer.
        task
            The number, if it has one already.
        """
        task = task or self.number()
        there = self.nodes.get(node)
        if there is None or there.peer is None:
            then(CommandAnswer(errno=errno.EHOSTDOWN, error=f"IOnode {node} is away"))
            return task
        self._commands[task] = (node, command, then)
        self.send(there.peer, replace(command, task=task))
        return task

    def adopt(self, node: str, task: int, then: Then) -> None:
        """Take a command over that a master before this one gave."""
        self._commands[task] = (node, None, then)

    def answered(self, answer: CommandAnswer) -> None:
        """Take an IOnode's answer to a command in."""
        found = self._commands.pop(answer.task, None) if answer.done else self._commands.get(answer.task)
        if found is not None:
            found[2](answer)

    def fail_commands(self, node: str, *, but: Callable[[int, Command | None], bool]) -> None:
        """Answer the commands of an IOnode that is away, except those that `but` holds for."""
        given = [(task, command) for task, (name, command, _) in self._commands.items() if name == node]
        for task in [task for task, command in given if not but(task, command)]:
            _, _, then = self._commands.pop(task)
            then(CommandAnswer(errno=errno.EHOSTDOWN, error=f"IOnode {node} went away"))

    @property
    def is_any_up(self) -> bool:
        """Whether some IOnode is up."""
        return any(node.peer is not None for node in self.nodes.values())

    def a_node(self) -> str | None:
        """Return some IOnode that is up: the one with the fewest commands."""
        up = [node.name for node in self.nodes.values() if node.peer is not None]
        busy = [name for name, _, _ in self._commands.values()]
        return min(up, key=lambda name: (busy.count(name), name), default=None)

    # Piece files.

    def place(self, places: dict[str, dict[str, int]]) -> None:
        """Record that piece files lie on their nodes."""
        for name, keys in places.items():
            node = self.nodes[name]
            for key, size in keys.items():
                node.place(key, size)

    def grant(self, session: Session, name: str, size: int) -> None:
        """Grant a session room on a node, or take some back (a negative size)."""
        session.room[name] = session.room.get(name, 0) + size
        if name in self.nodes:
            self.nodes[name].grant(size)

    def ring(self, near: str) -> tuple[str, ...]:
        """Return the nodes that the pieces of the next file go round on; its first one is at `near` if that matters."""
        self._turn += 1
        return choose_ring(self.nodes.values(), self._turn, near if self.options.near else "")

    def is_in_memory(self, inode: Inode) -> bool:
        """Whether all bytes of a file lie on nodes that are up."""
        nodes = {node.name: node.placed.keys() for node in self.nodes.values() if node.peer is not None}
        is_there = all(keys.keys() <= nodes.get(name, set()) for name, keys in inode.places.items())
        return bool(inode.ring) and is_there and not inode.filling and not inode.lost

    def drop(self, keys: Iterable[str]) -> None:
        """Remove piece files wherever they are, unless someone needs them; their room is free when they are gone."""
        unneeded = [key for key in keys if key not in self.image.pins]
        for node in self.nodes.values():
            if there := [key for key in unneeded if key in node.placed]:
                self.drop_from(node, there)

    def drop_from(self, node: Node, keys: list[str]) -> None:
        """Remove piece files from one node; the same ones may be placed there again before they are gone."""
        size = node.let_go(keys)

        def gone(_: CommandAnswer) -> None:
            node.has_freed(size)  # what a node that is away still has is compared when it comes back
            self.happened(RoomEvent(node.name))

        self.command(node.name, DropCommand(keys=tuple(keys)), gone)

    # What is decided in several places.

    def handle(self, session: Session, inode: Inode, version: int, pieces: Pieces, striping: Striping) -> Handle:
        """Return a new handle."""
        verifiers = self.verifiers(striping.ring) if version else ()
        return Handle(self.number(), session.name, inode.ino, version, pieces, striping, verifiers=verifiers)

    def verifiers(self, ring: tuple[str, ...]) -> tuple[str, ...]:
        """Return the verifiers of a ring's nodes; an empty one for who hasn't told yet."""
        return tuple([self.nodes[name].verifier if name in self.nodes else "" for name in ring])

    def without_name(self, inode: Inode) -> list[Record]:
        """Return what is so once an inode has lost its name: its object goes; it, too, unless it is open still."""
        doomed: list[Record] = [DoomRecord(inode.stored_path, inode.facts)] if self._is_stored(inode) else []
        if not self.image.is_open(inode.ino):
            return [*doomed, ForgetRecord(inode.ino)]
        return [*doomed, InodeRecord(replace(self.without_object(inode), parent=0, ctime_ns=self.now_ns()))]

    def without_object(self, inode: Inode) -> Inode:
        """Return an inode whose object goes: a `DoomRecord` has to say so."""
        return replace(inode, stored_path="", stored_version=0) if self._is_stored(inode) else inode

    def _is_stored(self, inode: Inode) -> bool:
        return bool(inode.stored_path and self.options.storage)

    def is_scratch(self, path: str) -> bool:
        """Whether a file of this path is never written back."""
        name = path.rpartition("/")[2]
        return any(
            fnmatchcase(path, pattern.removeprefix("/")) or fnmatchcase(name, pattern)
            for pattern in self.options.scratch
        )

    def check_free(self, path: str) -> None:
        """Refuse a file whose object would take the place of one that can't be shown.

        Raises
        ------
        OSError
            EEXIST.
        """
        hidden = self.image.hidden
        above = (f"{path[:at]}/" for at, letter in enumerate(path) if letter == "/")
        found = next((name for name in (path, *above) if name in hidden), None) if hidden else None
        if found is not None:
            what = f"the shared storage has an object {found!r} that isn't shown here: {hidden[found].reason}"
            raise FileExistsError(errno.EEXIST, f"{what}; rename or remove it there, then 'bbflow files refresh'")
