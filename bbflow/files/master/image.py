"""The namespace in memory: inodes, their names, and the ways from one to the other. No I/O."""

import errno
import time
from collections.abc import Iterator

from bbflow.files.inodes import DIRECTORY, FILE, LINK, Inode
from bbflow.files.master.permissions import SEARCH, SETGID, WRITE, Credentials, check_access, check_removal
from bbflow.files.names import check_name, check_new_name, split_path

MASTER_SHIFT = 48


class Image:
    """All inodes of one master.

    Parameters
    ----------
    number
        The master's; it makes the upper bits of its inode numbers.
    inodes
        What was stored; without a root, one is made.
    owner
        Whose the root is.
    piece_bytes
        How long the pieces of files are that have none yet.
    storage
        URL of the shared storage, whose objects could have all names; empty for none.
    """

    def __init__(
        self, number: int, inodes: Iterator[Inode], owner: Credentials, piece_bytes: int, storage: str = ""
    ) -> None:
        self._piece_bytes, self._storage = piece_bytes, storage
        self.root_ino = (number << MASTER_SHIFT) + 1
        self.inodes = {inode.ino: inode for inode in inodes}
        if self.root_ino not in self.inodes:
            now_ns = time.time_ns()
            times = (now_ns, now_ns, now_ns)
            self.inodes[self.root_ino] = Inode(
                self.root_ino, DIRECTORY, self.root_ino, "", 0o755, owner.uid, owner.gid, *times
            )
        self._next = max(self.inodes) + 1
        for inode in self.inodes.values():
            self._let_be_cut(inode)
            if inode.parent and inode.ino != self.root_ino:
                self._link(inode)

    @property
    def root(self) -> Inode:
        """The root directory."""
        return self.inodes[self.root_ino]

    def get(self, ino: int) -> Inode:
        """Return an inode by its number.

        Raises
        ------
        OSError
            ESTALE if it is gone.
        """
        try:
            return self.inodes[ino]
        except KeyError:
            raise OSError(errno.ESTALE, f"there is no inode {ino} any more") from None

    def directory(self, ino: int) -> Inode:
        """Return a directory by its number.

        Raises
        ------
        OSError
            ESTALE or ENOTDIR.
        """
        inode = self.get(ino)
        if inode.kind != DIRECTORY:
            raise OSError(errno.ELOOP if inode.kind == LINK else errno.ENOTDIR, f"{inode.name!r} is no directory")
        return inode

    def child(self, directory: Inode, name: str) -> Inode | None:
        """Return an entry; None if there is none."""
        ino = directory.entries.get(name)
        return None if ino is None else self.inodes[ino]

    def walk(self, start: int, path: str, who: Credentials) -> tuple[Inode, str]:
        """Follow a path but for its last name; return the directory and that name, which is empty for the start itself.

        Raises
        ------
        OSError
            ENOENT, ENOTDIR, ELOOP, EACCES and those of `check_name`.
        """
        if start not in self.inodes:
            raise FileNotFoundError(errno.ENOENT, "the directory was removed")
        directory = self.directory(start)
        if "/" not in path and path:  # what a mount asks
            check_access(directory, who, SEARCH)
            return directory, check_name(path)
        names = split_path(path)
        for name in names[:-1]:
            check_access(directory, who, SEARCH)
            child = self.child(directory, name)
            if child is None:
                raise MissingEntry(directory, name)
            directory = self.directory(child.ino)
            if directory.master:
                raise OSError(errno.EXDEV, f"{name!r} is another master's")
        check_access(directory, who, SEARCH)
        return directory, names[-1] if names else ""

    def find(self, start: int, path: str, who: Credentials) -> Inode:
        """Return what a path leads to.

        Raises
        ------
        OSError
            As `walk`.
        """
        directory, name = self.walk(start, path, who)
        if not name:
            return directory
        found = self.child(directory, name)
        if found is None:
            raise MissingEntry(directory, name)
        return found

    def path(self, inode: Inode) -> str:
        """Return an inode's path from the root, without a slash before it."""
        names: list[str] = []
        while inode.ino != self.root_ino:
            names.append(inode.name)
            inode = self.inodes[inode.parent]
        return "/".join(reversed(names))

    def top(self, inode: Inode) -> Inode:
        """Return the entry of the root that an inode is, or is below."""
        while inode.parent not in (self.root_ino, 0):
            inode = self.inodes[inode.parent]
        return inode

    def make(
        self, directory: Inode, name: str, kind: str, mode: int, who: Credentials, now_ns: int
    ) -> Inode:  # fmt: skip
        """Make an entry.

        Raises
        ------
        OSError
            EACCES, EEXIST, EILSEQ, ENOENT where the directory itself was removed.
        """
        check_access(directory, who, WRITE | SEARCH)
        check_new_name(name, self._storage)
        if name in directory.entries:
            raise FileExistsError(errno.EEXIST, f"there is a {name!r} already")
        if not directory.parent:
            raise FileNotFoundError(errno.ENOENT, "the directory was removed")
        gid = who.gid
        if directory.mode & SETGID:
            gid, mode = directory.gid, mode | (SETGID if kind == DIRECTORY else 0)
        inode = Inode(
            self._next, kind, directory.ino, name, mode & 0o7777, who.uid, gid, now_ns, now_ns, now_ns,
            expected=kind == FILE,
        )  # fmt: skip
        touch(directory, now_ns)
        return self._add(inode)

    def remove(self, directory: Inode, name: str, who: Credentials, now_ns: int, *, directories: bool) -> Inode:
        """Take an entry's name away; the inode stays.

        Raises
        ------
        OSError
            As `unlink`, or as `rmdir` with `directories`.
        """
        inode = self.child(directory, name)
        if inode is None:
            raise MissingEntry(directory, name)
        check_removal(directory, inode, who)
        if directories:
            self._check_empty(inode)
        elif inode.kind == DIRECTORY:
            raise IsADirectoryError(errno.EISDIR, f"{name!r} is a directory")
        self._unlink(inode)
        inode.parent, inode.ctime_ns = 0, now_ns
        touch(directory, now_ns)
        return inode

    def rename(
        self, old: tuple[Inode, str], new: tuple[Inode, str], who: Credentials, flags: str, now_ns: int
    ) -> tuple[Inode, Inode | None]:
        """Return an inode another name, all at once.

        Parameters
        ----------
        old, new
            Directory and name, before and after.
        who
            For whom.
        flags
            ``""``, ``"noreplace"`` or ``"exchange"``.
        now_ns
            The time.

        Returns
        -------
        Inode, Inode or None
            What was renamed; and what lost its name by it, or has the old one now.

        Raises
        ------
        OSError
            As `renameat2`; EILSEQ.
        """
        check_new_name(new[1], self._storage)
        moved, replaced = self.child(*old), self.child(*new)
        if moved is None:
            raise MissingEntry(*old)
        check_removal(old[0], moved, who)
        if replaced is not None:
            check_removal(new[0], replaced, who)
        check_access(new[0], who, WRITE | SEARCH)
        if not new[0].parent:
            raise FileNotFoundError(errno.ENOENT, "the directory was removed")
        if flags == "exchange" and replaced is None:
            raise MissingEntry(*new)
        if flags == "noreplace" and replaced is not None:
            raise FileExistsError(errno.EEXIST, f"there is a {new[1]!r} already")
        self._check_not_below(moved, new[0])
        if flags == "exchange" and replaced is not None:
            self._check_not_below(replaced, old[0])
        if moved is replaced:
            return moved, None
        if replaced is not None and flags != "exchange":
            self._check_replaceable(moved, replaced)
        self._unlink(moved)
        if replaced is not None:
            self._unlink(replaced)
            replaced.parent, replaced.ctime_ns = 0, now_ns
        moved.parent, moved.name, moved.ctime_ns = new[0].ino, new[1], now_ns
        self._link(moved)
        if replaced is not None and flags == "exchange":
            replaced.parent, replaced.name = old[0].ino, old[1]
            self._link(replaced)
        for directory in (old[0], new[0]):
            touch(directory, now_ns)
        return moved, replaced

    def adopt(self, directory: Inode, name: str, kind: str, mode: int, owner: tuple[int, int], at_ns: int) -> Inode:
        """Make an entry for what the shared storage has."""
        return self._add(Inode(self._next, kind, directory.ino, name, mode, *owner, at_ns, at_ns, at_ns))

    def disown(self, inode: Inode) -> None:
        """Take an inode's name away, without asking anybody."""
        self._unlink(inode)
        inode.parent = 0

    def forget(self, inode: Inode) -> None:
        """Let go of an inode that has no name."""
        self.inodes.pop(inode.ino, None)

    def below(self, inode: Inode) -> Iterator[Inode]:
        """Go through an inode and all that is below it, parents first."""
        waiting = [inode]
        while waiting:
            inode = waiting.pop()
            yield inode
            waiting += [self.inodes[ino] for ino in inode.entries.values()]

    def _add(self, inode: Inode) -> Inode:
        self._next += 1
        self._let_be_cut(inode)
        self.inodes[inode.ino] = inode
        self._link(inode)
        return inode

    def _let_be_cut(self, inode: Inode) -> None:
        """Say how long the pieces of a file are to be that has none: whoever opens it divides by that."""
        if inode.kind == FILE and not inode.piece_bytes:
            inode.piece_bytes = self._piece_bytes

    def _link(self, inode: Inode) -> None:
        directory = self.inodes[inode.parent]
        directory.entries[inode.name] = inode.ino
        directory.directories += inode.kind == DIRECTORY

    def _unlink(self, inode: Inode) -> None:
        directory = self.inodes[inode.parent]
        del directory.entries[inode.name]
        directory.directories -= inode.kind == DIRECTORY

    def _check_empty(self, inode: Inode) -> None:
        if inode.kind != DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, f"{inode.name!r} is no directory")
        if inode.entries:
            raise OSError(errno.ENOTEMPTY, f"{inode.name!r} isn't empty")
        if inode.master:
            raise OSError(errno.EBUSY, f"{inode.name!r} is another master's")

    def _check_replaceable(self, moved: Inode, replaced: Inode) -> None:
        if moved.kind == DIRECTORY:
            self._check_empty(replaced)
        elif replaced.kind == DIRECTORY:
            raise IsADirectoryError(errno.EISDIR, f"{replaced.name!r} is a directory")

    def _check_not_below(self, moved: Inode, directory: Inode) -> None:
        if moved.ino == self.root_ino or moved.master:
            raise OSError(errno.EBUSY, "a root can't be renamed")
        while moved.kind == DIRECTORY and directory.ino != self.root_ino:
            if directory is moved:
                raise OSError(errno.EINVAL, f"{moved.name!r} can't go below itself")
            directory = self.inodes[directory.parent]


class MissingEntry(FileNotFoundError):  # noqa: N818 - one of the built-in kind, whose names have no ending
    """A name that isn't there, and where it isn't: it may be waited for."""

    def __init__(self, directory: Inode, name: str) -> None:
        super().__init__(errno.ENOENT, f"there is no {name!r} in {directory.name or '/'!r}")
        self.directory = directory
        """Where it isn't."""
        self.missing = name
        """What isn't there."""


def touch(directory: Inode, now_ns: int) -> None:
    """Record that a directory's names have changed."""
    directory.mtime_ns = directory.ctime_ns = now_ns
