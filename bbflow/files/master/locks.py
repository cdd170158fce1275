"""Locks on ranges of files, held by sessions (`fcntl`, and `flock` as one of the whole file). No I/O."""

import errno
from dataclasses import astuple, dataclass, replace

from bbflow.files.master.core import Answers, Call, Core
from bbflow.files.master.events import UnlockedEvent
from bbflow.files.master.sessions import Session
from bbflow.files.replies import ConflictReply, FileReply
from bbflow.files.requests import LockRequest
from bbflow.wire import MAX_INTEGER

FOREVER = MAX_INTEGER


@dataclass(frozen=True, slots=True)
class Lock:
    """One range."""

    session: str
    """Whose client."""
    owner: str
    """Which process there, as the client says."""
    kind: str
    """`r` or `w`."""
    start: int
    """First byte."""
    end: int
    """Behind the last byte."""
    pid: int
    """For `F_GETLK`."""

    def is_of(self, other: "Lock") -> bool:
        """Whether two have the same owner."""
        return (self.session, self.owner) == (other.session, other.owner)

    def conflicts(self, other: "Lock") -> bool:
        """Whether two can't be held at once."""
        if self.is_of(other) or "w" not in (self.kind, other.kind):
            return False
        return self.start < other.end and other.start < self.end


class Locks:
    """All locks of a master.

    Parameters
    ----------
    core
        The master's state.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._locks: dict[int, list[Lock]] = {}
        self.requests: Answers = {LockRequest: self._lock}
        """What changes nothing that others keep."""

    def _lock(self, call: Call[LockRequest]) -> FileReply:
        asked = call.asked
        inode = self._core.image.get(asked.ino)
        end = FOREVER if asked.end < 0 else asked.end
        wanted = Lock(call.session.name, asked.owner, asked.kind, asked.start, end, asked.pid)
        if wanted.kind not in ("r", "w", "u") or not 0 <= wanted.start < wanted.end:
            raise OSError(errno.EINVAL, "no such lock")
        held = self._locks.get(inode.ino, [])
        conflict = None if wanted.kind == "u" else next((lock for lock in held if lock.conflicts(wanted)), None)
        if asked.test:
            return _told(conflict)
        if conflict is not None:
            error = OSError(errno.EAGAIN, f"another process has locked {inode.name!r}")
            call.wait(UnlockedEvent(inode.ino), error, asked.wait_s, self._core.clock())
        self._hold(inode.ino, apply(held, wanted))
        own = [astuple(lock) for lock in self._locks.get(inode.ino, ()) if lock.is_of(wanted)]
        self._core.database.keep_locks(inode.ino, wanted.session, wanted.owner, own)
        self._core.happened(UnlockedEvent(inode.ino))
        return FileReply()

    def _hold(self, ino: int, locks: list[Lock]) -> None:
        if locks:
            self._locks[ino] = locks
        else:
            self._locks.pop(ino, None)

    def restore(self) -> None:
        """Take in what sessions hold since a master before this one."""
        core = self._core
        for ino, *values in core.database.locks():
            lock = Lock(*values)
            if ino in core.image.inodes and lock.session in core.sessions.by_name:
                self._locks.setdefault(ino, []).append(lock)
            else:
                core.database.keep_locks(ino, lock.session, lock.owner, ())

    def release_all(self, session: Session) -> None:
        """Release what a session holds; what is stored of it goes with the session."""
        for ino, held in list(self._locks.items()):
            left = [lock for lock in held if lock.session != session.name]
            if len(left) < len(held):
                self._core.happened(UnlockedEvent(ino))
            self._hold(ino, left)


def apply(held: list[Lock], wanted: Lock) -> list[Lock]:
    """Return what is held once an owner has locked, or unlocked (`u`), a range: its older locks there make way."""
    locks = []
    for lock in held:
        if not lock.is_of(wanted) or lock.end <= wanted.start or wanted.end <= lock.start:
            locks.append(lock)
            continue
        if lock.start < wanted.start:
            locks.append(replace(lock, end=wanted.start))
        if wanted.end < lock.end:
            locks.append(replace(lock, start=wanted.end))
    return locks if wanted.kind == "u" else [*locks, wanted]


def _told(conflict: Lock | None) -> ConflictReply:
    if conflict is None:
        return ConflictReply(kind="u")
    end = -1 if conflict.end == FOREVER else conflict.end
    return ConflictReply(kind=conflict.kind, start=conflict.start, end=end, pid=conflict.pid)
