"""A client of the files from Python: paths in, attributes and open files out. It keeps nothing, so is never behind."""

import errno
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from bbflow.files.client.masters import Masters
from bbflow.files.client.opened import OpenFile
from bbflow.files.client.session import ClientSession
from bbflow.files.names import STREAMS_URL, check_name
from bbflow.files.replies import (
    AttrReply,
    EvictReply,
    FileReply,
    FlushReply,
    ListReply,
    OpenFileReply,
    OpenToWriteReply,
    OverviewReply,
    PrefetchReply,
    ReadlinkReply,
)
from bbflow.files.requests import (
    CreateRequest,
    EvictRequest,
    FlushRequest,
    ListRequest,
    LookupRequest,
    MkdirRequest,
    OpenFileRequest,
    OverviewRequest,
    PrefetchRequest,
    ReadlinkRequest,
    RefreshRequest,
    RenameRequest,
    RmdirRequest,
    SetattrRequest,
    ShutdownRequest,
    SymlinkRequest,
    UnlinkRequest,
)
from bbflow.files.wire import Attr

FOREVER_S = -1.0
FLUSH_S = 600.0
"""How long `end` waits for the shared storage."""
CLOSE_S = 60.0
"""How long programs are given to close what they write."""
CLOSING_S = 0.2
"""How often it is looked whether programs have closed what they write."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """What `stat` tells of a file, a directory or a symbolic link."""

    path: str
    """Its path, with a slash first."""
    kind: str
    """``f``, ``d`` or ``l``."""
    mode: int
    """Permission bits."""
    uid: int
    """Its owner."""
    gid: int
    """Its group."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Last change, in nanoseconds since the epoch."""
    state: str
    """Where its bytes are: clean, dirty, cold, scratch or lost."""
    version: int
    """Changes with the bytes."""


class FilesClient(Masters):
    """The files of a contact file."""

    def stat(self, path: str, wait_s: float = 0.0) -> DirectoryEntry:
        """Return what a path leads to; symbolic links are not followed.

        Parameters
        ----------
        path
            From the root.
        wait_s
            How long to wait for a file that isn't there yet, or not closed yet; -1 forever.

        Raises
        ------
        OSError
            ENOENT and others, as POSIX says.
        """
        _, attr = self._lookup(path, wait_s)
        return _entry(path, attr)

    def _lookup(self, path: str, wait_s: float = 0.0) -> tuple[ClientSession, Attr]:
        session, below = self.session_of(path)
        asked = LookupRequest(parent=session.root, name=below, wait_s=wait_s)
        return session, session.call(asked, AttrReply).attr

    def exists(self, path: str) -> bool:
        """Whether there is something of this path."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def entries(self, path: str) -> list[DirectoryEntry]:
        """List a directory, in order of the names.

        Raises
        ------
        OSError
            ENOENT, ENOTDIR and others.
        """
        session, directory = self._lookup(path)
        found: list[DirectoryEntry] = []
        after, more = "", True
        base = path.rstrip("/")
        while more:
            reply = session.call(ListRequest(ino=directory.ino, after=after), ListReply)
            # a name of another master's must not lead out of where it is copied to
            found += [_entry(f"{base}/{check_name(name)}", attr) for name, attr in reply.entries]
            after, more = (reply.entries[-1][0] if reply.entries else ""), reply.more
        return found

    def open(self, path: str, mode: str = "r", wait_s: float | None = None, permissions: int = 0o644) -> OpenFile:
        """Open a file.

        Parameters
        ----------
        path
            From the root.
        mode
            ``r``, ``w`` (made, or emptied), ``x`` (made), ``a`` (made if need be), ``r+``; bytes always.
        wait_s
            How long to wait for a file that is still written, or expected; None for the master's default.
        permissions
            Mode bits of a new file; the process' umask applies.

        Raises
        ------
        OSError
            ENOENT, EEXIST, EACCES, EBUSY (someone else writes it), EIO (it is lost) and others.
        """
        plain = mode.replace("b", "")
        if plain not in ("r", "w", "x", "a", "r+"):
            raise ValueError(f"mode {mode!r} is none of r, w, x, a and r+")
        if plain in ("w", "x", "a"):
            session, below = self.session_of(path)
            asked = CreateRequest(
                parent=session.root,
                name=below,
                mode=permissions & ~_umask(),
                exclusive=plain == "x",
                truncate=plain == "w",
                wait_s=wait_s,
                pid=os.getpid(),
            )
            made = session.call(asked, OpenToWriteReply)
            truncated = plain == "w" or made.created is True
            return OpenFile(session, path, made, truncated=truncated, appends=plain == "a")
        session, attr = self._lookup(path, wait_s or 0.0)
        writes = plain == "r+"
        there = OpenFileRequest(ino=attr.ino, write=writes, wait_s=wait_s, pid=os.getpid())
        return OpenFile(session, path, session.call(there, OpenToWriteReply if writes else OpenFileReply))

    def mkdir(self, path: str, *, parents: bool = False, permissions: int = 0o777) -> None:
        """Make a directory; with `parents` those above it, too, and it may be there already.

        Raises
        ------
        OSError
            EEXIST, ENOENT and others.
        """
        session, below = self.session_of(path)
        mode = permissions & ~_umask()
        session.call(MkdirRequest(parent=session.root, name=below, mode=mode, parents=parents), AttrReply)

    def symlink(self, target: str, path: str) -> None:
        """Make a symbolic link at a path."""
        session, below = self.session_of(path)
        session.call(SymlinkRequest(parent=session.root, name=below, target=target), AttrReply)

    def readlink(self, path: str) -> str:
        """Return where a symbolic link points to."""
        session, attr = self._lookup(path)
        return session.call(ReadlinkRequest(ino=attr.ino), ReadlinkReply).target

    def unlink(self, path: str) -> None:
        """Remove a file or a symbolic link."""
        session, below = self.session_of(path)
        session.call(UnlinkRequest(parent=session.root, name=below), FileReply)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        session, below = self.session_of(path)
        session.call(RmdirRequest(parent=session.root, name=below), FileReply)

    def rename(self, path: str, to: str, flags: str = "") -> None:
        """Move something to another path, in place of what has it, atomically.

        Raises
        ------
        OSError
            EXDEV from one master's subtree to another's, and as `renameat2`.
        """
        (session, old), (other, new) = self.session_of(path), self.session_of(to)
        if session is not other:
            raise OSError(errno.EXDEV, f"{path} and {to} are different masters'")
        asked = RenameRequest(parent=session.root, name=old, to_parent=session.root, to_name=new, flags=flags)
        session.call(asked, AttrReply)

    def setattr(
        self,
        path: str,
        *,
        mode: int | None = None,
        owner: int | None = None,
        group: int | None = None,
        atime_ns: int | None = None,
        mtime_ns: int | None = None,
        size: int | None = None,
    ) -> DirectoryEntry:
        """Change attributes: those that are given."""
        session, attr = self._lookup(path)
        asked = SetattrRequest(
            ino=attr.ino, mode=mode, owner=owner, group=group, atime_ns=atime_ns, mtime_ns=mtime_ns, size=size
        )
        return _entry(path, session.call(asked, AttrReply).attr)

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        with self.open(path) as file:
            return file.pread(file.size, 0)

    def write(self, path: str, content: bytes) -> None:
        """Write a file of just these bytes."""
        with self.open(path, "w") as file:
            file.pwrite(content, 0)

    def flush(self, path: str = "/", wait_s: float = FOREVER_S) -> FlushReply:
        """Write everything below a path back, and wait for that.

        Parameters
        ----------
        path
            A file or a directory.
        wait_s
            How long to wait at most; -1 forever.

        Returns
        -------
        FlushReply
            How many were `written` and are `left`, `failed`: those that the storage refused so far, and why, and
            which are open for `writing`: what was written to them since the last ``fsync`` isn't there.
        """
        replies = self.each(path, FlushReply, lambda below: FlushRequest(path=below, wait_s=wait_s))
        return FlushReply(
            written=sum(reply.written for reply in replies),
            left=sum(reply.left for reply in replies),
            failed=tuple(failure for reply in replies for failure in reply.failed),
            writing=tuple(writer for reply in replies for writer in reply.writing),
        )

    def refresh(self, path: str = "/") -> None:
        """Look at the shared storage below a path again."""
        self.each(path, FileReply, lambda below: RefreshRequest(path=below))

    def evict(self, path: str = "/") -> int:
        """Evict what the shared storage has, below a path; return its bytes."""
        return sum(reply.bytes for reply in self.each(path, EvictReply, lambda below: EvictRequest(path=below)))

    def prefetch(self, tasks: Iterable[str | Iterable[str]], slots: int = 0, lookahead: int = 1) -> int:
        """Bring files into memory, in this order, to stay until someone has read them; return how many.

        Parameters
        ----------
        tasks
            A path, or the paths that a task reads: files or directories.
        slots
            Tasks that run at once. Their files come together, a task's all or none, and those of at most
            ``slots * (1 + lookahead)`` tasks lie in memory unread. With 0 each file comes as soon as there is room.
        lookahead
            Waves of tasks that may lie ahead of the one that runs.

        Raises
        ------
        OSError
            If a path isn't there.
        """
        parts: dict[str, tuple[ClientSession, list[list[str]]]] = {}
        for task in tasks:
            begun = set()
            for path in [task] if isinstance(task, str) else task:
                session, below = self.session_of(path)
                _, told = parts.setdefault(session.subtree, (session, []))
                if session.subtree not in begun:
                    begun.add(session.subtree)
                    told.append([])
                told[-1].append(below)
        replies = [
            session.call(
                PrefetchRequest(tasks=tuple(map(tuple, told)), at_once=slots, lookahead=lookahead), PrefetchReply
            )
            for session, told in parts.values()
        ]
        return sum(reply.files for reply in replies)

    def status(self) -> list[OverviewReply]:
        """Return what each master says of itself."""
        return [session.call(OverviewRequest(), OverviewReply) for session in self.masters()]

    def end(self, *, force: bool = False, wait_s: float | None = None) -> None:
        """Write everything back, and end the servers, which remove what they keep.

        Parameters
        ----------
        force
            Don't write anything back.
        wait_s
            How long to wait at most until all is written back, and programs have closed what they write; `FLUSH_S` for
            the one, then `CLOSE_S` for the other if None.

        Raises
        ------
        OSError
            EBUSY if files are left that the shared storage doesn't have, or that someone writes.
        """
        sessions = list(reversed(list(self.masters())))
        deadline_s = time.monotonic() + (FLUSH_S if wait_s is None else wait_s)
        for session in sessions if not force else ():
            while session.options.storage:
                left_s = max(deadline_s - time.monotonic(), 0.0)
                told = session.call(FlushRequest(path="", wait_s=left_s), FlushReply)
                if not told.writing or not left_s:
                    break
                if wait_s is None:
                    deadline_s, wait_s = time.monotonic() + CLOSE_S, CLOSE_S
                time.sleep(min(CLOSING_S, left_s))
        # Those of the files first: what they refuse must leave all as it is.
        for session in sorted(sessions, key=lambda one: one.options.storage.startswith(STREAMS_URL)):
            session.call(ShutdownRequest(force=force), FileReply)


def _entry(path: str, attr: Attr) -> DirectoryEntry:
    names = ("kind", "mode", "uid", "gid", "size", "mtime_ns", "state", "version")
    return DirectoryEntry("/" + path.strip("/"), **{name: getattr(attr, name) for name in names})


def _umask() -> int:
    """Return this process's mask without setting it, which other threads would see."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
