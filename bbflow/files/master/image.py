"""The namespace as all parts of a master see it: inodes, their names, and the ways from one to the other. No I/O.

Nothing here changes anything: this is the read-only part of `Namespace`, which does.
"""

import errno
from collections.abc import Iterator, Mapping, Set

from bbflow.files.inodes import DIRECTORY, FILE, LINK, Inode
from bbflow.files.master.permissions import SEARCH, Credentials, check_access
from bbflow.files.master.records import Handle, Hidden, Lock, ObjectTransfer
from bbflow.files.names import check_name, split_path
from bbflow.files.wire import Attr, Seen

# Inode numbers of several masters don't meet: the upper 16 bits are the master's.
MASTER_SHIFT = 48
NOTHING: Mapping[str, int] = {}


class Image:
    """What a master knows of its files.

    Parameters
    ----------
    number
        The master's; it makes the upper bits of its inode numbers.
    has_storage
        Whether there is a shared storage behind the files.
    """

    def __init__(self, number: int, *, has_storage: bool) -> None:
        self.root_ino = (number << MASTER_SHIFT) + 1
        self.has_storage = has_storage
        self._next = self.root_ino
        self._inodes: dict[int, Inode] = {}
        self.inodes: Mapping[int, Inode] = self._inodes
        """All inodes by number."""
        self._entries: dict[int, dict[str, int]] = {}
        self._subdirectories: dict[int, int] = {}
        self._stored: dict[str, int] = {}
        self.stored: Mapping[str, int] = self._stored
        """Objects in the shared storage that are some inode's."""
        self._doomed: dict[str, Seen] = {}
        self.doomed: Mapping[str, Seen] = self._doomed
        """Objects that must go, in the order in which that was said, as they are known; None if unknown."""
        self._transfers: dict[str, ObjectTransfer] = {}
        self.transfers: Mapping[str, ObjectTransfer] = self._transfers
        """What IOnodes are at work on, by the object that is made or removed."""
        self._busy: set[str] = set()
        self.busy: Set[str] = self._busy
        """Objects that IOnodes are at work on: what is there is not known now."""
        self._hidden: dict[str, Hidden] = {}
        self.hidden: Mapping[str, Hidden] = self._hidden
        """Objects that can't be shown, by name; one that ends in ``/`` stands for all below."""
        self._orphans: set[int] = set()
        self.orphans: Set[int] = self._orphans
        """Inodes without a name, which are open, or were when the master before this one ended."""
        self._handles: dict[int, Handle] = {}
        self.handles: Mapping[int, Handle] = self._handles
        """What is open, by the handles' numbers."""
        self._writers: dict[int, int] = {}
        self._readers: dict[int, int] = {}
        self._locks: dict[int, tuple[Lock, ...]] = {}
        self.locks: Mapping[int, tuple[Lock, ...]] = self._locks
        """The locks that are held on each file."""
        self._pins: dict[str, int] = {}
        self.pins: Mapping[str, int] = self._pins
        """How many handles need each piece file."""
        self._filling: set[int] = set()
        self.filling: Set[int] = self._filling
        """Files whose bytes are on their way from the shared storage."""
        self._dirty: dict[int, None] = {}
        self.dirty: Mapping[int, None] = self._dirty
        """Files that are to be written back, in the order in which they became so."""
        self._misplaced: dict[int, None] = {}
        self.misplaced: Mapping[int, None] = self._misplaced
        """Files whose object has, or may have, another name than the file, and is to be moved."""
        self._seen_s: dict[int, float] = {}
        self._used: dict[int, int] = {}
        self._looks = 0
        self._begun = 0
        self._anew: dict[int, int] = {}
        self._vanished: set[str] = set()
        self.vanished: Set[str] = self._vanished
        """Objects that went meanwhile, which looks at the shared storage may have seen still."""

    @property
    def root(self) -> Inode:
        """The root directory."""
        return self._inodes[self.root_ino]

    @property
    def next_ino(self) -> int:
        """The number of the inode that is made next."""
        return self._next

    def get(self, ino: int) -> Inode:
        """Return an inode by its number.

        Raises
        ------
        OSError
            ESTALE if it is gone.
        """
        try:
            return self._inodes[ino]
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
            raise OSError(errno.ELOOP if inode.kind == LINK else errno.ENOTDIR, f"{inode.name!r} isn't a directory")
        return inode

    def entries(self, ino: int) -> Mapping[str, int]:
        """Return a directory's names; none for what isn't a directory."""
        return self._entries.get(ino, NOTHING)

    def child(self, directory: int, name: str) -> Inode | None:
        """Return an entry of a directory; None if there is none."""
        ino = self.entries(directory).get(name)
        return None if ino is None else self._inodes[ino]

    def attr(self, inode: Inode) -> Attr:
        """Return what clients are told of an inode."""
        return inode.attr(self._subdirectories.get(inode.ino, 0))

    @property
    def looks_begun(self) -> int:
        """How many looks at the shared storage have begun: the number of the last one."""
        return self._begun

    def is_due_anew(self, ino: int, look: int) -> bool:
        """Whether a directory is to be looked at again, since something was done there after a look had begun."""
        return self._anew.get(ino, -1) >= look

    def seen_s(self, ino: int) -> float:
        """When the shared storage was last looked at for a directory, or a file's object written, moved or found there.

        0 for never.
        """
        return self._seen_s.get(ino, 0.0)

    def used(self, ino: int) -> int:
        """Return a number that is the higher, the later a file was opened, over all files."""
        return self._used.get(ino, 0)

    def writer(self, ino: int) -> Handle | None:
        """Return the handle that writes a file."""
        number = self._writers.get(ino)
        return None if number is None else self._handles[number]

    def is_open(self, ino: int) -> bool:
        """Whether any handle is open on a file."""
        return ino in self._writers or ino in self._readers

    def is_last(self, handle: Handle) -> bool:
        """Whether a handle is the only one on its file."""
        return (handle.ino in self._writers) + self._readers.get(handle.ino, 0) == 1

    def handle(self, session: str, number: int) -> Handle | None:
        """Return what a session has open by a number."""
        found = self._handles.get(number)
        return found if found is not None and found.session == session else None

    def handles_of(self, session: str) -> list[Handle]:
        """Return all that a session has open."""
        return [handle for handle in self._handles.values() if handle.session == session]

    def is_due(self, inode: Inode) -> bool:
        """Whether a file is to be written back."""
        is_newer = inode.stored_version != inode.version and not inode.scratch  # a lost one may be found again
        return self.has_storage and inode.kind == FILE and bool(inode.parent) and is_newer and not inode.expected

    def walk(self, start: int, path: str, who: Credentials) -> tuple[Inode, str]:
        """Follow a path but for its last name; return the directory and that name, which is empty for the start itself.

        Raises
        ------
        OSError
            ENOENT, ENOTDIR, ELOOP, EACCES and those of `check_name`.
        """
        if start not in self._inodes:
            raise FileNotFoundError(errno.ENOENT, "the directory was removed")
        directory = self.directory(start)
        if "/" not in path and path:  # what a mount asks
            check_access(directory, who, SEARCH)
            return directory, check_name(path)
        names = split_path(path)
        for name in names[:-1]:
            check_access(directory, who, SEARCH)
            child = self.child(directory.ino, name)
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
        found = self.child(directory.ino, name)
        if found is None:
            raise MissingEntry(directory, name)
        return found

    def path(self, inode: Inode) -> str:
        """Return an inode's path from the root, without a slash before it."""
        names: list[str] = []
        while inode.ino != self.root_ino:
            names.append(inode.name)
            inode = self._inodes[inode.parent]
        return "/".join(reversed(names))

    def path_of(self, directory: Inode, name: str) -> str:
        """Return the path that an entry of a directory has, or would have."""
        return f"{self.path(directory)}/{name}".lstrip("/")

    def top(self, inode: Inode) -> Inode:
        """Return the entry of the root that an inode is, or is below."""
        while inode.parent not in (self.root_ino, 0):
            inode = self._inodes[inode.parent]
        return inode

    def below(self, inode: Inode) -> Iterator[Inode]:
        """Iterate over an inode and all that is below it, parents first."""
        waiting = [inode]
        while waiting:
            inode = waiting.pop()
            yield inode
            waiting += [self._inodes[ino] for ino in self.entries(inode.ino).values()]

    def files_below(self, inode: Inode, path: str) -> Iterator[tuple[Inode, str]]:
        """Iterate over the files that an inode is, or has below it, and the paths that they have if it has this one."""
        waiting = [(inode, path)]
        while waiting:
            inode, path = waiting.pop()
            if inode.kind == FILE:
                yield inode, path
            waiting += [(self._inodes[ino], f"{path}/{name}") for name, ino in self.entries(inode.ino).items()]


class MissingEntry(FileNotFoundError):  # noqa: N818 - one of the built-in kind, whose names have no ending
    """A name that isn't there, and where it isn't: it may be waited for."""

    def __init__(self, directory: Inode, name: str) -> None:
        super().__init__(errno.ENOENT, f"there is no {name!r} in {directory.name or '/'!r}")
        self.directory = directory
        """Where it isn't."""
        self.missing = name
        """What isn't there."""
