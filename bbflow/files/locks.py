"""Locks on ranges of files, held by sessions (`fcntl`, and `flock` as one of the whole file). No I/O."""

import errno
from dataclasses import dataclass, replace

from bbflow.files.core import Answers, Call, Core
from bbflow.files.replies import ConflictReply, FileReply
from bbflow.files.requests import LockRequest
from bbflow.files.sessions import Session

FOREVER = 1 << 63


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

    def conflicts(self, other: "Lock") -> bool:
        """Whether two can't be held at once."""
        if (self.session, self.owner) == (other.session, other.owner) or "w" not in (self.kind, other.kind):
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
        held = self._locks.setdefault(inode.ino, [])
        conflict = None if wanted.kind == "u" else next((lock for lock in held if lock.conflicts(wanted)), None)
        if asked.test:
            return _told(conflict)
        if conflict is not None:
            error = OSError(errno.EAGAIN, f"another process has locked {inode.name!r}")
            call.wait(("lock", inode.ino), error, asked.wait_s, self._core.clock())
        self._locks[inode.ino] = apply(held, wanted)
        self._core.happened("lock", inode.ino)
        return FileReply()

    def release_all(self, session: Session) -> None:
        """Release what a session holds."""
        for ino, held in list(self._locks.items()):
            left = [lock for lock in held if lock.session != session.name]
            if len(left) < len(held):
                self._core.happened("lock", ino)
            self._locks[ino] = left
            if not left:
                del self._locks[ino]


def apply(held: list[Lock], wanted: Lock) -> list[Lock]:
    """Give what is held once an owner has locked, or unlocked (`u`), a range: its older locks there make way."""
    locks = []
    for lock in held:
        is_own = (lock.session, lock.owner) == (wanted.session, wanted.owner)
        if not is_own or lock.end <= wanted.start or wanted.end <= lock.start:
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
