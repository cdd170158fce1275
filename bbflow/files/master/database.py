"""What a master keeps on its storage: SQLite in WAL mode, written before anything is answered."""

import sqlite3
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from bbflow.errors import CapacityError, ConfigError, NodeError
from bbflow.files.inodes import Inode, Striping, pack, unpack
from bbflow.files.master.records import (
    ClosedRecord,
    DoomRecord,
    ForgetRecord,
    Handle,
    HandleRecord,
    InodeRecord,
    Lock,
    LocksRecord,
    ObjectTransfer,
    ReplyRecord,
    SessionEndRecord,
    SessionRecord,
    SpareRecord,
    Stored,
    TouchRecord,
    TransferRecord,
    TransferredRecord,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS format (version INTEGER, epoch INTEGER);
CREATE TABLE IF NOT EXISTS master (subtree TEXT, number INTEGER);
CREATE TABLE IF NOT EXISTS inodes (ino INTEGER PRIMARY KEY, parent INTEGER, name TEXT, record BLOB);
CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, uid INTEGER, gid INTEGER);
CREATE TABLE IF NOT EXISTS writers (handle INTEGER PRIMARY KEY, session TEXT, ino INTEGER, version INTEGER,
    ring BLOB, replicas INTEGER, piece_bytes INTEGER, verifiers BLOB);
CREATE TABLE IF NOT EXISTS doomed (path TEXT PRIMARY KEY, size INTEGER, version TEXT);
CREATE TABLE IF NOT EXISTS replies (session TEXT, slot INTEGER, number INTEGER, reply BLOB,
    PRIMARY KEY (session, slot)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS locks (ino INTEGER, session TEXT, owner TEXT, kind TEXT, first INTEGER, behind INTEGER,
    pid INTEGER, PRIMARY KEY (ino, session, owner, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS transfers (path TEXT PRIMARY KEY, node TEXT, source TEXT, task INTEGER,
    ino INTEGER, version INTEGER);
"""
VERSION = 4
NAMES = msgspec.msgpack.Decoder(tuple[str, ...])
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
"""What SQLite says of a file system that is full, and of a quota that is used up."""


class Database:
    """The master's storage; records are collected and written with `commit`.

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
        self._touched: dict[int, Inode] = {}
        self._writers: dict[int, Handle | None] = {}
        self._replies: dict[tuple[str, int], tuple[int, bytes]] = {}
        self._statements: list[tuple[str, tuple[object, ...]]] = []
        self._rules: dict[type[Stored], Callable[[Any], None]] = {
            InodeRecord: self._put,
            TouchRecord: self._touch,
            ForgetRecord: self._forget,
            HandleRecord: self._open,
            ClosedRecord: self._close,
            DoomRecord: self._doom,
            SpareRecord: self._spare,
            TransferRecord: self._begin,
            TransferredRecord: self._end,
            SessionRecord: self._enter,
            SessionEndRecord: self._leave,
            ReplyRecord: self._reply,
            LocksRecord: self._lock,
        }
        # Whoever collects the garbage may be another thread than the master's, which alone works with it.
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise NodeError(
                f"{path} can't be made ({error}): see whether its file system is full or read-only"
            ) from None
        self.close = weakref.finalize(self, self._connection.close)
        """Closes the database, which is also closed when it is no longer referenced."""
        self._prepare()

    def _prepare(self) -> None:
        try:
            # One master alone has it: to lock it again with each commit takes a twentieth of the time of a create.
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode=WAL")
            # What was handed to the operating system outlives this process; a host that loses power loses memory too.
            self._connection.execute("PRAGMA synchronous=OFF")
            self._connection.executescript(SCHEMA)
            self.epoch = self._begin_epoch()
            """Goes up with each start: numbers that begin with it were never used before."""
        except sqlite3.DatabaseError as error:
            if _code(error) == sqlite3.SQLITE_BUSY:
                raise NodeError(f"another master has {self._path} open: end it, or give another directory") from None
            if _code(error) in NO_ROOM:
                raise self._full(error) from None
            raise ConfigError(f"{self._path} isn't a database of a master ({error}): give another directory") from None
        self._connection.execute("PRAGMA wal_autocheckpoint=4000")

    def _begin_epoch(self) -> int:
        row = self._connection.execute("SELECT version, epoch FROM format").fetchone()
        if row is None:
            self._connection.execute("INSERT INTO format VALUES (?, 1)", (VERSION,))
            return 1
        version, epoch = row
        if version != VERSION:
            raise ConfigError(f"{self._path} has version {version}, not {VERSION}: give another directory")
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
        """Iterate over all inodes."""
        for row in self._connection.execute("SELECT ino, parent, name, record FROM inodes"):
            yield unpack(*row)

    def writers(self) -> list[Handle]:
        """Return the handles for writing; what pieces they have follows from their files."""
        return [
            Handle(
                number, session, ino, version, (), Striping(NAMES.decode(ring), replicas, piece_bytes),
                verifiers=NAMES.decode(verifiers),
            )
            for number, session, ino, version, ring, replicas, piece_bytes, verifiers in self._connection.execute(
                "SELECT * FROM writers"
            )
        ]  # fmt: skip

    def records(self) -> Iterator[Stored]:
        """Iterate over all else that holds: clients, their replies and locks, and objects' fate."""
        for session in self._connection.execute("SELECT session, uid, gid FROM sessions"):
            yield SessionRecord(*session)
        for reply in self._connection.execute("SELECT session, slot, number, reply FROM replies"):
            yield ReplyRecord(*reply)
        locks: dict[tuple[int, str, str], list[Lock]] = {}
        for ino, *values in self._connection.execute("SELECT * FROM locks"):
            lock = Lock(*values)
            locks.setdefault((ino, lock.session, lock.owner), []).append(lock)
        for owner, held in locks.items():
            yield LocksRecord(*owner, tuple(held))
        for path, size, version in self._connection.execute("SELECT path, size, version FROM doomed"):
            yield DoomRecord(path, None if size is None else (size, version))
        for transfer in self._connection.execute("SELECT path, node, source, task, ino, version FROM transfers"):
            yield TransferRecord(ObjectTransfer(*transfer))

    def store(self, record: Stored) -> None:
        """Store a record with the next `commit`."""
        self._rules[type(record)](record)

    def _put(self, record: InodeRecord) -> None:
        self._changed[record.inode.ino] = record.inode
        self._touched.pop(record.inode.ino, None)

    def _touch(self, record: TouchRecord) -> None:
        inode = record.inode
        (self._changed if inode.ino in self._changed else self._touched)[inode.ino] = inode

    def store_touched(self) -> None:
        """Store the times of directories in which names have changed with the next `commit`."""
        self._changed |= self._touched
        self._touched.clear()

    def _forget(self, record: ForgetRecord) -> None:
        self._changed.pop(record.ino, None)
        self._touched.pop(record.ino, None)
        self._statements.append(("DELETE FROM inodes WHERE ino = ?", (record.ino,)))

    def _open(self, record: HandleRecord) -> None:
        if record.handle.version:
            self._writers[record.handle.number] = record.handle

    def _close(self, record: ClosedRecord) -> None:
        if record.handle.version:
            self._writers[record.handle.number] = None

    def _doom(self, record: DoomRecord) -> None:
        self._statements.append(
            ("INSERT OR REPLACE INTO doomed VALUES (?, ?, ?)", (record.path, *(record.facts or (None, None))))
        )

    def _spare(self, record: SpareRecord) -> None:
        self._statements.append(("DELETE FROM doomed WHERE path = ?", (record.path,)))

    def _begin(self, record: TransferRecord) -> None:
        it = record.transfer
        values = (it.path, it.node, it.source, it.task, it.ino, it.version)
        self._statements.append(("INSERT OR REPLACE INTO transfers VALUES (?, ?, ?, ?, ?, ?)", values))

    def _end(self, record: TransferredRecord) -> None:
        self._statements.append(("DELETE FROM transfers WHERE path = ?", (record.transfer.path,)))

    def _enter(self, it: SessionRecord) -> None:
        self._statements.append(("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (it.session, it.uid, it.gid)))

    def _leave(self, it: SessionEndRecord) -> None:
        # Replies are written behind all statements: these would come back after their session's rows have gone.
        for key in [key for key in self._replies if key[0] == it.session]:
            del self._replies[key]
        self._statements.append(("DELETE FROM sessions WHERE session = ?", (it.session,)))
        self._statements.append(("DELETE FROM replies WHERE session = ?", (it.session,)))

    def _reply(self, it: ReplyRecord) -> None:
        self._replies[it.session, it.slot] = (it.number, it.reply)

    def _lock(self, it: LocksRecord) -> None:
        gone = "DELETE FROM locks WHERE ino = ? AND session = ? AND owner = ?"
        self._statements.append((gone, (it.ino, it.session, it.owner)))
        new = "INSERT INTO locks VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._statements += [(new, (it.ino, *astuple(lock))) for lock in it.locks]

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
        # Not before: where there was no room, the next commit writes all of it.
        self._changed.clear()
        self._statements.clear()
        self._writers.clear()
        self._replies.clear()

    def _full(self, error: Exception) -> CapacityError:
        return CapacityError(f"{self._path}: {error}: free some of its file system")

    def _write(self) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        execute("BEGIN")
        # In the order in which they were decided: an object may be doomed, spared and doomed again in one commit.
        for statement, values in self._statements:
            execute(statement, values)
        if self._changed:
            rows = [(inode.ino, inode.parent, inode.name, pack(inode)) for inode in self._changed.values()]
            many("INSERT OR REPLACE INTO inodes VALUES (?, ?, ?, ?)", rows)
        if gone := [(handle,) for handle, row in self._writers.items() if row is None]:
            many("DELETE FROM writers WHERE handle = ?", gone)
        if new := [_values(row) for row in self._writers.values() if row]:
            many("INSERT OR REPLACE INTO writers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", new)
        if self._replies:
            many("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", [(*k, *v) for k, v in self._replies.items()])
        execute("COMMIT")


def _values(it: Handle) -> tuple[Any, ...]:
    ring, verifiers = msgspec.msgpack.encode(it.striping.ring), msgspec.msgpack.encode(it.verifiers)
    return it.number, it.session, it.ino, it.version, ring, it.striping.replicas, it.striping.piece_bytes, verifiers


def _code(error: Exception) -> int:
    """Return SQLite's code of an error; 0 if it isn't its own."""
    return getattr(error, "sqlite_errorcode", 0)
