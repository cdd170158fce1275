"""A client of the files from Python: paths in, attributes and open files out. It keeps nothing, so it is never behind.

A namespace of several masters is one here: a path goes to the master of the longest subtree that holds it.
"""

import errno
import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bbflow.errors import NodeError
from bbflow.files.names import is_within, split_path
from bbflow.files.opened import OpenFile
from bbflow.files.session import ClientSession
from bbflow.landing.contact import MasterAddress, read_masters
from bbflow.records import Message

FOREVER_S = -1.0
START_S = 5.0
"""How long a master that stands in the contact file and doesn't answer is tried."""
PAUSE_S = 0.05
FLUSH_S = 600.0
"""How long `end` waits for the shared storage."""


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


class FilesClient:
    """The files of a contact file.

    Parameters
    ----------
    contact
        The contact file.

    Raises
    ------
    NodeError
        If there are no files behind it, or no master answers.
    """

    def __init__(self, contact: str | Path) -> None:
        self._contact = Path(contact)
        self._sessions: dict[str, ClientSession] = {}
        self._lock = threading.Lock()
        self._masters: dict[str, MasterAddress] = {}
        self._read_ns = 0
        self._read_masters()
        self._session("/")

    def _read_masters(self) -> None:
        """Learn which masters there are, whenever the contact file was written anew."""
        with suppress(FileNotFoundError):
            changed_ns = self._contact.stat().st_mtime_ns
            if changed_ns == self._read_ns:
                return
            self._read_ns = changed_ns
        self._masters = {master.subtree: master for master in read_masters(self._contact)}

    def _find(self, subtree: str) -> MasterAddress:
        for master in read_masters(self._contact):
            if master.subtree == subtree:
                return master
        raise NodeError(f"there is no master of {subtree!r} in {self._contact}")

    def _session(self, subtree: str) -> ClientSession:
        with self._lock:
            if subtree not in self._sessions:
                self._sessions[subtree] = self._begin(subtree)
            return self._sessions[subtree]

    def _begin(self, subtree: str) -> ClientSession:
        """Begin a session with a master, which may just be starting."""
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                return ClientSession(self._find(subtree), self._find)
            except NodeError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(PAUSE_S)

    def place(self, path: str) -> tuple[ClientSession, str]:
        """Give the session that a path belongs to, and its rest below that session's root.

        Raises
        ------
        OSError
            If it is no path.
        """
        whole = "/" + "/".join(split_path(path))
        with suppress(NodeError):  # who is known is used while the others are being started again
            self._read_masters()
        subtree = max((s for s in self._masters if is_within(whole, s)), key=len, default="/")
        return self._session(subtree), whole[len(subtree) :].lstrip("/") if subtree != "/" else whole[1:]

    def stat(self, path: str, wait_s: float = 0.0) -> DirectoryEntry:
        """Tell what a path leads to; symbolic links are not followed.

        Parameters
        ----------
        path
            From the root.
        wait_s
            How long to wait for a file that isn't there yet, or not closed yet; -1 for ever.

        Raises
        ------
        OSError
            ENOENT and others, as POSIX says.
        """
        session, below = self.place(path)
        return _entry(path, session.call("lookup", parent=session.root, name=below, wait_s=wait_s)["attr"])

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
        session, below = self.place(path)
        ino = session.call("lookup", parent=session.root, name=below)["attr"]["ino"]
        found: list[DirectoryEntry] = []
        after, more = "", True
        base = path.rstrip("/")
        while more:
            reply = session.call("list", ino=ino, after=after, limit=10_000)
            found += [_entry(f"{base}/{name}", attr) for name, attr in reply["entries"]]
            after, more = (reply["entries"][-1][0] if reply["entries"] else ""), reply["more"]
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
            ENOENT, EEXIST, EACCES, EBUSY (somebody else writes it), EIO (it is lost) and others.
        """
        session, below = self.place(path)
        plain = mode.replace("b", "")
        if plain not in ("r", "w", "x", "a", "r+"):
            raise ValueError(f"mode {mode!r} is none of r, w, x, a and r+")
        waits = {} if wait_s is None else {"wait_s": wait_s}
        if plain in ("w", "x", "a"):
            told = session.call(
                "create",
                parent=session.root,
                name=below,
                mode=permissions & ~_umask(),
                exclusive=plain == "x",
                truncate=plain == "w",
                **waits,
            )
        else:
            found = session.call("lookup", parent=session.root, name=below, **waits)["attr"]
            told = session.call("open", ino=found["ino"], write=plain == "r+", **waits)
        truncated = plain == "w" or bool(told.get("created"))
        return OpenFile(session, path, told, writes=plain != "r", truncated=truncated, appends=plain == "a")

    def mkdir(self, path: str, *, parents: bool = False, permissions: int = 0o777) -> None:
        """Make a directory; with `parents` those above it, too, and it may be there already.

        Raises
        ------
        OSError
            EEXIST, ENOENT and others.
        """
        session, below = self.place(path)
        session.call("mkdir", parent=session.root, name=below, mode=permissions & ~_umask(), parents=parents)

    def symlink(self, target: str, path: str) -> None:
        """Make a symbolic link at a path."""
        session, below = self.place(path)
        session.call("symlink", parent=session.root, name=below, target=target)

    def readlink(self, path: str) -> str:
        """Give where a symbolic link points to."""
        session, below = self.place(path)
        ino = session.call("lookup", parent=session.root, name=below)["attr"]["ino"]
        return str(session.call("readlink", ino=ino)["target"])

    def unlink(self, path: str) -> None:
        """Remove a file or a symbolic link."""
        session, below = self.place(path)
        session.call("unlink", parent=session.root, name=below)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        session, below = self.place(path)
        session.call("rmdir", parent=session.root, name=below)

    def rename(self, path: str, to: str, flags: str = "") -> None:
        """Give something another path, in place of what has it, all at once.

        Raises
        ------
        OSError
            EXDEV from one master's subtree to another's, and as `renameat2`.
        """
        (session, old), (other, new) = self.place(path), self.place(to)
        if session is not other:
            raise OSError(errno.EXDEV, f"{path} and {to} are different masters'")
        session.call("rename", parent=session.root, name=old, to_parent=session.root, to_name=new, flags=flags)

    def setattr(self, path: str, **changes: int) -> DirectoryEntry:
        """Change attributes: any of `mode`, `owner`, `group`, `atime_ns`, `mtime_ns` and `size`."""
        session, below = self.place(path)
        ino = session.call("lookup", parent=session.root, name=below)["attr"]["ino"]
        return _entry(path, session.call("setattr", ino=ino, **changes)["attr"])

    def read(self, path: str) -> bytes:
        """Give all bytes of a file."""
        with self.open(path) as file:
            return file.pread(file.size, 0)

    def write(self, path: str, content: bytes) -> None:
        """Let a file have just these bytes."""
        with self.open(path, "w") as file:
            file.pwrite(content, 0)

    def masters(self) -> Iterable[ClientSession]:
        """Give a session with each master, that of ``/`` first."""
        return [self._session(subtree) for subtree in sorted(self._masters)]

    def each(self, op: str, path: str, **keys: Any) -> list[Message]:
        """Ask each master that has a part of what is below a path; give their replies."""
        whole = "/" + "/".join(split_path(path))
        session, below = self.place(path)
        replies = [session.call(op, path=below, **keys)]
        inside = (s for s in sorted(self._masters) if s != whole and is_within(s, whole) and s != "/")
        replies += [self._session(subtree).call(op, path="", **keys) for subtree in inside]
        return replies

    def flush(self, path: str = "/", wait_s: float = FOREVER_S) -> Message:
        """Write everything below a path back, and wait for that.

        Parameters
        ----------
        path
            A file or a directory.
        wait_s
            How long to wait at most; -1 for ever.

        Returns
        -------
        dict
            How many were `written` and are `left`, and `failed`: those that the storage refused so far, and why.
        """
        replies = self.each("flush", path, wait_s=wait_s)
        return {
            "written": sum(reply["written"] for reply in replies),
            "left": sum(reply["left"] for reply in replies),
            "failed": [failure for reply in replies for failure in reply["failed"]],
        }

    def prefetch(self, tasks: Iterable[str | Iterable[str]], slots: int = 0, lookahead: int = 1) -> int:
        """Let files come into memory, in this order, and stay until somebody has read them; give how many.

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
                session, below = self.place(path)
                _, told = parts.setdefault(session.subtree, (session, []))
                if session.subtree not in begun:
                    begun.add(session.subtree)
                    told.append([])
                told[-1].append(below)
        replies = [
            session.call("prefetch", tasks=told, at_once=slots, lookahead=lookahead) for session, told in parts.values()
        ]
        return sum(int(reply["files"]) for reply in replies)

    def status(self) -> list[Message]:
        """Give what each master says of itself."""
        return [session.call("status") for session in self.masters()]

    def end(self, *, force: bool = False) -> None:
        """Write everything back, and end the servers, which remove what they keep.

        Parameters
        ----------
        force
            Don't write anything back.

        Raises
        ------
        OSError
            EBUSY if files are left that the shared storage doesn't have.
        """
        for session in reversed(list(self.masters())):
            if not force and session.options["storage"]:
                session.call("flush", path="", wait_s=FLUSH_S)
            session.call("shutdown", force=force)

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()

    def __enter__(self) -> "FilesClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _entry(path: str, attr: Message) -> DirectoryEntry:
    names = ("kind", "mode", "uid", "gid", "size", "mtime_ns", "state", "version")
    return DirectoryEntry("/" + path.strip("/"), **{name: attr[name] for name in names})


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
