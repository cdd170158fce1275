"""Locks on ranges of files, held by sessions (`fcntl`, and `flock` as one of the whole file). No I/O."""

import errno
from collections.abc import Iterable

from msgspec.structs import replace

from bbflow.files.master.awaited_events import UnlockedEvent
from bbflow.files.master.core import Answers, Call, Core
from bbflow.files.master.records import Lock, LocksRecord
from bbflow.files.master.sessions import Session
from bbflow.files.replies import ConflictReply, FileReply
from bbflow.files.requests import LockRequest
from bbflow.reading.wire_types import MAX_INTEGER

FOREVER = MAX_INTEGER


class Locks:
    """All locks of a master.

    Parameters
    ----------
    core
        The master's state.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.requests: Answers = {LockRequest: self._lock}
        """What changes nothing that others keep."""

    def _lock(self, call: Call[LockRequest]) -> FileReply:
        asked = call.asked
        inode = self._core.image.get(asked.ino)
        end = FOREVER if asked.end < 0 else asked.end
        wanted = Lock(call.session.name, asked.owner, asked.kind, asked.start, end, asked.pid)
        if wanted.kind not in ("r", "w", "u") or not 0 <= wanted.start < wanted.end:
            raise OSError(errno.EINVAL, "no such lock")
        locks = self._core.image.locks.get(inode.ino, ())
        conflict = None if wanted.kind == "u" else next((lock for lock in locks if lock.conflicts(wanted)), None)
        if asked.test:
            return _told(conflict)
        if conflict is not None:
            error = OSError(errno.EAGAIN, f"another process has locked {inode.name!r}")
            call.wait(UnlockedEvent(inode.ino), error, asked.wait_s, self._core.clock())
        own = tuple(lock for lock in with_lock(locks, wanted) if lock.is_of(wanted))
        call.record(LocksRecord(inode.ino, wanted.session, wanted.owner, own))
        return FileReply()

    def restore(self) -> None:
        """Release what was held under a master before this one by sessions that are gone."""
        core = self._core
        for ino, locks in list(core.image.locks.items()):
            gone = [lock for lock in locks if ino not in core.image.inodes or lock.session not in core.sessions.by_name]
            core.commit(*_released(ino, gone))

    def release_all(self, session: Session) -> None:
        """Release what a session holds."""
        for ino, locks in list(self._core.image.locks.items()):
            self._core.commit(*_released(ino, [lock for lock in locks if lock.session == session.name]))


def _released(ino: int, locks: Iterable[Lock]) -> list[LocksRecord]:
    return [LocksRecord(ino, session, owner, ()) for session, owner in {(it.session, it.owner): None for it in locks}]


def with_lock(locks: Iterable[Lock], wanted: Lock) -> list[Lock]:
    """Return what is held once an owner has locked, or unlocked (`u`), a range: its older locks there make way."""
    left = []
    for lock in locks:
        if not lock.is_of(wanted) or lock.end <= wanted.start or wanted.end <= lock.start:
            left.append(lock)
            continue
        if lock.start < wanted.start:
            left.append(replace(lock, end=wanted.start))
        if wanted.end < lock.end:
            left.append(replace(lock, start=wanted.end))
    return left if wanted.kind == "u" else [*left, wanted]


def _told(conflict: Lock | None) -> ConflictReply:
    if conflict is None:
        return ConflictReply(kind="u")
    end = -1 if conflict.end == FOREVER else conflict.end
    return ConflictReply(kind=conflict.kind, start=conflict.start, end=end, pid=conflict.pid)
