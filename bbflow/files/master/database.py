"""What a master keeps on its storage: SQLite in WAL mode, written before anything is answered."""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bbflow.errors import CapacityError, ConfigError, NodeError
from bbflow.files.inodes import FileLayout, Inode, pack, unpack

SCHEMA = """
CREATE TABLE IF NOT EXISTS format (version INTEGER, epoch INTEGER);
CREATE TABLE IF NOT EXISTS master (subtree TEXT, number INTEGER);
CREATE TABLE IF NOT EXISTS inodes (ino INTEGER PRIMARY KEY, parent INTEGER, name TEXT, record BLOB);
CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, uid INTEGER, gid INTEGER);
CREATE TABLE IF NOT EXISTS writers (handle INTEGER PRIMARY KEY, session TEXT, ino INTEGER, version INTEGER,
    ring BLOB, replicas INTEGER, piece_bytes INTEGER);
CREATE TABLE IF NOT EXISTS doomed (path TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS replies (session TEXT, slot INTEGER, number INTEGER, reply BLOB,
    PRIMARY KEY (session, slot)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS locks (ino INTEGER, session TEXT, owner TEXT, kind TEXT, first INTEGER, behind INTEGER,
    pid INTEGER, PRIMARY KEY (ino, session, owner, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS transfers (path TEXT PRIMARY KEY, node TEXT, source TEXT);
"""
VERSION = 2
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
"""What SQLite says of a file system that is full, and of a quota that is used up."""


@dataclass(frozen=True, slots=True)
class WriterRow:
    """A handle for writing: it outlives the master, whose client goes on with it."""

    handle: int
    """Its number."""
    session: str
    """Whose it is."""
    ino: int
    """On which file."""
    version: int
    """What it writes."""
    layout: FileLayout
    """Where."""


@dataclass(frozen=True, slots=True)
class TransferRow:
    """What an IOnode was told to do to an object: it outlives the master, and may still be under way then."""

    path: str
    """Which object it makes or removes."""
    node: str
    """The IOnode."""
    source: str = ""
    """The object's name before, where it is moved."""


class Database:
    """The master's storage; changes are collected and written with `commit`.

    Parameters
    ----------
    path
        The database's file.

    Raises
    ------
    ConfigError
        If it is of another version, or no such database.
    NodeError
        If another master has it open.
    CapacityError
        If its file system is full.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed: dict[int, Inode] = {}
        self._writers: dict[int, WriterRow | None] = {}
        self._replies: dict[tuple[str, int], tuple[int, bytes]] = {}
        self._statements: list[tuple[str, tuple[object, ...]]] = []
        self._connection = sqlite3.connect(path, isolation_level=None)
        try:
            # One master alone has it: to lock it anew with each commit takes a twentieth of the time of a create.
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode=WAL")
            # What was handed to the operating system outlives this process; a host that loses power loses memory too.
            self._connection.execute("PRAGMA synchronous=OFF")
            self._connection.executescript(SCHEMA)
            self.epoch = self._begin_epoch()
            """Goes up with each start: numbers that begin with it were never used before."""
        except sqlite3.DatabaseError as error:
            if _code(error) == sqlite3.SQLITE_BUSY:
                raise NodeError(f"another master has {path} open: end it, or give another directory") from None
            if _code(error) in NO_ROOM:
                raise self._full(error) from None
            raise ConfigError(f"{path} is no database of a master ({error}): give another directory") from None
        self._connection.execute("PRAGMA wal_autocheckpoint=4000")

    def _begin_epoch(self) -> int:
        row = self._connection.execute("SELECT version, epoch FROM format").fetchone()
        if row is None:
            self._connection.execute("INSERT INTO format VALUES (?, 1)", (VERSION,))
            return 1
        version, epoch = row
        if version != VERSION:
            raise ConfigError(f"{self._path} is of version {version}, not {VERSION}: give another directory")
        self._connection.execute("UPDATE format SET epoch = ?", (epoch + 1,))
        return int(epoch) + 1

    def number(self, subtree: str) -> int | None:
        """Return the number that a subtree's files have, which is in all their inodes' numbers; None if it is new.

        Raises
        ------
        ConfigError
            If it has another subtree's files.
        """
        row = self._connection.execute("SELECT subtree, number FROM master").fetchone()
        if row is None:
            return None
        if row[0] != subtree:
            raise ConfigError(f"{self._path} has the files of {row[0]}, not of {subtree}: give another directory")
        return int(row[1])

    def keep_number(self, subtree: str, number: int) -> None:
        """Store whose files it has, and their number."""
        if self.number(subtree) is None:
            self._connection.execute("INSERT INTO master VALUES (?, ?)", (subtree, number))

    def inodes(self) -> Iterator[Inode]:
        """Go through all inodes."""
        for row in self._connection.execute("SELECT ino, parent, name, record FROM inodes"):
            yield unpack(*row)

    def sessions(self) -> list[tuple[str, int, int]]:
        """Return the sessions that were there: name, user, group."""
        return list(self._connection.execute("SELECT session, uid, gid FROM sessions"))

    def writers(self) -> list[WriterRow]:
        """Return the handles for writing."""
        return [
            WriterRow(
                handle,
                session,
                ino,
                version,
                FileLayout(msgspec.msgpack.decode(ring, type=tuple[str, ...]), replicas, piece_bytes),
            )
            for handle, session, ino, version, ring, replicas, piece_bytes in self._connection.execute(
                "SELECT * FROM writers"
            )
        ]

    def replies(self) -> list[tuple[str, int, int, bytes]]:
        """Return the replies that clients may ask for again: session, slot, number, reply."""
        return list(self._connection.execute("SELECT session, slot, number, reply FROM replies"))

    def locks(self) -> list[tuple[Any, ...]]:
        """Return the locks: inode, session, owner, kind, first byte, byte behind the last one, process."""
        return list(self._connection.execute("SELECT * FROM locks"))

    def doomed(self) -> list[str]:
        """Return the names of objects that must go."""
        return [path for (path,) in self._connection.execute("SELECT path FROM doomed")]

    def transfers(self) -> list[TransferRow]:
        """Return what IOnodes were told to do to objects, and have not answered."""
        return [TransferRow(*row) for row in self._connection.execute("SELECT path, node, source FROM transfers")]

    def save(self, inode: Inode) -> None:
        """Store an inode as it will be at the next `commit`."""
        self._changed[inode.ino] = inode

    def remove(self, inode: Inode) -> None:
        """Forget an inode."""
        self._changed.pop(inode.ino, None)
        self._statements.append(("DELETE FROM inodes WHERE ino = ?", (inode.ino,)))

    def add_session(self, session: str, uid: int, gid: int) -> None:
        """Store a session."""
        self._statements.append(("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (session, uid, gid)))

    def remove_session(self, session: str) -> None:
        """Forget a session, its replies and its locks."""
        for key in [key for key in self._replies if key[0] == session]:
            del self._replies[key]
        self._statements.append(("DELETE FROM sessions WHERE session = ?", (session,)))
        self._statements.append(("DELETE FROM replies WHERE session = ?", (session,)))
        self._statements.append(("DELETE FROM locks WHERE session = ?", (session,)))

    def keep_reply(self, session: str, slot: int, number: int, reply: bytes) -> None:
        """Store a reply, in the place of the slot's last one."""
        self._replies[session, slot] = (number, reply)

    def keep_locks(self, ino: int, session: str, owner: str, locks: Iterable[tuple[Any, ...]]) -> None:
        """Store the locks that an owner holds on an inode, in the place of those before: session, owner, kind, ..."""
        gone = "DELETE FROM locks WHERE ino = ? AND session = ? AND owner = ?"
        self._statements.append((gone, (ino, session, owner)))
        self._statements += [("INSERT INTO locks VALUES (?, ?, ?, ?, ?, ?, ?)", (ino, *lock)) for lock in locks]

    def put_writer(self, row: WriterRow) -> None:
        """Store a handle for writing, or its new version."""
        self._writers[row.handle] = row

    def remove_writer(self, handle: int) -> None:
        """Forget a handle for writing."""
        self._writers[handle] = None

    def doom(self, paths: Iterable[str]) -> None:
        """Store that objects must go."""
        self._statements += [("INSERT OR REPLACE INTO doomed VALUES (?)", (path,)) for path in paths]

    def spare(self, path: str) -> None:
        """Store that an object is gone, or must not go any more."""
        self._statements.append(("DELETE FROM doomed WHERE path = ?", (path,)))

    def begin(self, row: TransferRow) -> None:
        """Store that an IOnode is told to do something to an object."""
        self._statements.append(("INSERT OR REPLACE INTO transfers VALUES (?, ?, ?)", (row.path, row.node, row.source)))

    def end(self, path: str) -> None:
        """Store that nothing is under way any more at an object."""
        self._statements.append(("DELETE FROM transfers WHERE path = ?", (path,)))

    def commit(self) -> None:
        """Write everything that has changed, all or nothing.

        Raises
        ------
        CapacityError
            If the file system is full; what has changed is kept for the next time.
        """
        if not (self._changed or self._statements or self._writers or self._replies):
            return
        try:
            self._write()
        except Exception as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if _code(error) in NO_ROOM:
                raise self._full(error) from None
            raise
        self._changed.clear()
        self._statements.clear()
        self._writers.clear()
        self._replies.clear()

    def _full(self, error: Exception) -> CapacityError:
        return CapacityError(f"{self._path}: {error}: free some of its file system")

    def _write(self) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        execute("BEGIN")
        for statement, values in self._statements:
            execute(statement, values)
        if self._changed:
            rows = [(inode.ino, inode.parent, inode.name, pack(inode)) for inode in self._changed.values()]
            many("INSERT OR REPLACE INTO inodes VALUES (?, ?, ?, ?)", rows)
        if gone := [(handle,) for handle, row in self._writers.items() if row is None]:
            many("DELETE FROM writers WHERE handle = ?", gone)
        if new := [_values(row) for row in self._writers.values() if row]:
            many("INSERT OR REPLACE INTO writers VALUES (?, ?, ?, ?, ?, ?, ?)", new)
        if self._replies:
            many("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", [(*k, *v) for k, v in self._replies.items()])
        execute("COMMIT")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _values(row: WriterRow) -> tuple[Any, ...]:
    layout = row.layout
    ring = msgspec.msgpack.encode(layout.ring)
    return row.handle, row.session, row.ino, row.version, ring, layout.replicas, layout.piece_bytes


def _code(error: Exception) -> int:
    """Return SQLite's code of an error; 0 if it isn't its own."""
    return getattr(error, "sqlite_errorcode", 0)
