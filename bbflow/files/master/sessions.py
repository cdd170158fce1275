"""Clients as a master sees them: what they have open, what room they have, what they may keep. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from bbflow.files.master.awaited_events import GraceEvent
from bbflow.files.master.permissions import Credentials
from bbflow.files.master.records import (
    NOTHING,
    Followed,
    GivenRecord,
    Record,
    ReplyRecord,
    SessionEndRecord,
    SessionRecord,
)


class Awaiting(Protocol):
    """A request that is under way."""

    peer: int
    """The connection on which its client waits."""


@dataclass(slots=True)
class ReplySlot:
    """The last request that came in one slot of a session."""

    number: int
    """The request's."""
    call: Awaiting | None = None
    """It, while it is under way."""
    reply: bytes = b""
    """What it was answered, if it went well, as it goes out."""


@dataclass(slots=True)
class Session:
    """One client."""

    name: str
    """A secret of master and client."""
    who: Credentials
    """The user as which it acts."""
    host: str = ""
    """Where it runs."""
    peers: set[int] = field(default_factory=set)
    """Its connections."""
    listener: int | None = None
    """The one on which it is told what to forget; without it, it keeps nothing."""
    holds: set[int] = field(default_factory=set)
    """Inodes that it may keep attributes of."""
    lists: set[int] = field(default_factory=set)
    """Directories that it may keep complete lists of."""
    room: dict[str, int] = field(default_factory=dict)
    """Bytes that it may still write, by node."""
    slots: dict[int, ReplySlot] = field(default_factory=dict)
    """Its last requests."""
    lost_s: float | None = None
    """Since when it has no connection; None while it has."""


class Sessions:
    """All sessions of a master, and who may keep what."""

    def __init__(self) -> None:
        self.by_name: dict[str, Session] = {}
        self.by_peer: dict[int, Session] = {}
        self._holders: dict[int, set[str]] = {}
        self._listers: dict[int, set[str]] = {}

    def apply(self, record: Record) -> Followed:
        """Take a record in, which has been stored before if it is to last; return what follows from it."""
        match record:
            case ReplyRecord() | GivenRecord():  # first, since one comes with each request
                if (session := self.by_name.get(record.session)) is not None:
                    slot = session.slots.get(record.slot)
                    if slot is None:
                        slot = session.slots[record.slot] = ReplySlot(record.number)
                    slot.reply = record.reply
            case SessionRecord():
                who = Credentials(record.uid, record.gid, frozenset(record.groups))
                self.by_name.setdefault(record.session, Session(record.session, who)).who = who
            case SessionEndRecord():
                if record.session in self.by_name:
                    self._remove(self.by_name.pop(record.session))
                return (GraceEvent(),), ()
        return NOTHING

    def are_lost(self, now_s: float) -> None:
        """Record that no session has a connection: its client has a lease to come back."""
        for session in self.by_name.values():
            session.lost_s = now_s

    def connect(self, session: Session, peer: int) -> None:
        """Record that a connection is a session's."""
        session.peers.add(peer)
        session.lost_s = None
        self.by_peer[peer] = session

    def disconnect(self, peer: int, now_s: float) -> Session | None:
        """Record that a connection is gone; return its session if it was the last one."""
        session = self.by_peer.pop(peer, None)
        if session is None:
            return None
        session.peers.discard(peer)
        if session.listener == peer:
            session.listener = None
            self.drop_kept(session)
        if session.peers:
            return None
        session.lost_s = now_s
        return session

    def _remove(self, session: Session) -> None:
        self.drop_kept(session)
        for peer in session.peers:
            self.by_peer.pop(peer, None)

    def drop_kept(self, session: Session) -> None:
        """Record that a session keeps nothing."""
        for table, held in ((self._holders, session.holds), (self._listers, session.lists)):
            for ino in held:
                _discard(table, ino, session.name)
            held.clear()

    def hold(self, session: Session, ino: int) -> None:
        """Record that a session may keep an inode's attributes."""
        if session.listener is not None and ino not in session.holds:
            session.holds.add(ino)
            self._holders.setdefault(ino, set()).add(session.name)

    def hold_list(self, session: Session, ino: int) -> None:
        """Record that a session may keep a directory's complete list."""
        if session.listener is not None:
            session.lists.add(ino)
            self._listers.setdefault(ino, set()).add(session.name)

    def forgetting(self, but: Session | None, changes: "Changes") -> dict[str, "Changes"]:
        """Return what sessions must forget after some changes, and record that they keep it no more."""
        told: dict[str, Changes] = {}
        if not changes or (but is not None and list(self.by_name) == [but.name]):
            return told

        def tell(name: str) -> Changes:
            return told.setdefault(name, Changes())

        own = "" if but is None else but.name
        for parent, entry, ino in changes.names:
            for name in self._take(self._holders, ino, own):
                tell(name).names.append((parent, entry, ino))
                self.by_name[name].holds.discard(ino)
        for ino in changes.inos:
            for name in self._take(self._holders, ino, own):
                tell(name).inos.add(ino)
                self.by_name[name].holds.discard(ino)
        for ino in changes.directories:
            for name in self._take(self._listers, ino, own):
                tell(name).directories.add(ino)
                self.by_name[name].lists.discard(ino)
        return told

    def _take(self, table: dict[int, set[str]], ino: int, but: str) -> list[str]:
        names = table.get(ino)
        if not names:
            return []
        others = [name for name in names if name != but]
        if but in names:
            table[ino] = {but}
        else:
            del table[ino]
        return others


class Changes(Struct):
    """What a request has changed, as far as other clients may keep it."""

    inos: set[int] = set()
    """Attributes, or bytes."""
    names: list[tuple[int, str, int]] = []
    """Names that are there no more: directory, name, inode."""
    directories: set[int] = set()
    """Directories with other names than before."""

    def __bool__(self) -> bool:
        return bool(self.inos or self.names or self.directories)

    def add(self, inos: Iterable[int] = (), directories: Iterable[int] = ()) -> None:
        """Add inodes and directories."""
        self.inos.update(inos)
        self.directories.update(directories)

    def with_those(self, others: "Changes") -> "Changes":
        """Return these and others."""
        names = [*self.names, *others.names]
        return Changes(self.inos | others.inos, names, self.directories | others.directories)


def _discard(table: dict[int, set[str]], ino: int, name: str) -> None:
    names = table.get(ino)
    if names is not None:
        names.discard(name)
        if not names:
            del table[ino]
