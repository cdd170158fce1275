"""What clients ask of names and attributes."""

import errno
from collections.abc import Callable

from msgspec.structs import replace

from bbflow.files.inodes import DIRECTORY, FILE, LINK, Inode
from bbflow.files.master.awaited_events import ClosedEvent, NamedEvent
from bbflow.files.master.core import Answers, AnyCall, Call, Core, Unfinished
from bbflow.files.master.image import MissingEntry
from bbflow.files.master.name_checks import Place, made, removed, renamed, touched
from bbflow.files.master.permissions import (
    READ,
    SEARCH,
    WRITE,
    check_access,
    check_chown,
    check_owner,
    mode_after_chmod,
    mode_after_write,
)
from bbflow.files.master.records import InodeRecord, SeenRecord, ShowRecord, TouchRecord
from bbflow.files.master.scanning import Scanning
from bbflow.files.master.writeback import WriteBack
from bbflow.files.names import check_name
from bbflow.files.replies import AttrReply, FileReply, ListReply, ReadlinkReply
from bbflow.files.requests import (
    EntryRequest,
    ListRequest,
    LookupRequest,
    MkdirRequest,
    ReadlinkRequest,
    RenameRequest,
    RmdirRequest,
    SetattrRequest,
    StatRequest,
    SymlinkRequest,
    UnlinkRequest,
)

# More entries of a directory would hold up all other requests, and make a frame of megabytes.
MAX_ENTRIES = 10_000
MAX_TARGET_BYTES = 4095
"""As symlink(2) takes it: a path with its zero byte has 4096."""


class Naming:
    """The namespace's requests.

    Parameters
    ----------
    core
        The master's state.
    truncate
        Gives a file another size.
    scanning, write_back
        Its other parts.
    """

    def __init__(
        self,
        core: Core,
        truncate: Callable[[AnyCall, Inode, int], Inode],
        scanning: Scanning,
        write_back: WriteBack,
    ) -> None:
        self._core, self._truncate, self._scanning, self._write_back = core, truncate, scanning, write_back
        self.requests: Answers = {
            LookupRequest: self._lookup,
            StatRequest: self._stat,
            ListRequest: self._list,
            ReadlinkRequest: self._readlink,
        }
        """What changes nothing."""
        self.changes: Answers = {
            MkdirRequest: self._mkdir,
            SymlinkRequest: self._symlink,
            UnlinkRequest: self._unlink,
            RmdirRequest: self._rmdir,
            RenameRequest: self._rename,
            SetattrRequest: self._setattr,
        }
        """What changes something."""

    def _lookup(self, call: Call[LookupRequest]) -> AttrReply:
        wait_s = call.asked.wait_s
        try:
            inode = self._core.image.find(call.asked.parent, call.asked.name, call.who)
        except MissingEntry as error:
            self._scanning.look(call, error.directory)
            if wait_s:
                call.wait(NamedEvent(error.directory.ino), error, wait_s, self._core.clock())
            raise
        if wait_s and inode.expected:
            missing = FileNotFoundError(errno.ENOENT, f"{inode.name!r} isn't closed yet")
            call.wait(ClosedEvent(inode.ino), missing, wait_s, self._core.clock())
        return self._told(call, inode)

    def _told(self, call: AnyCall, inode: Inode) -> AttrReply:
        self._core.sessions.hold(call.session, inode.ino)
        return AttrReply(attr=self._core.image.attr(inode))

    def _stat(self, call: Call[StatRequest]) -> AttrReply:
        return self._told(call, self._core.image.get(call.asked.ino))

    def _list(self, call: Call[ListRequest]) -> ListReply:
        directory = self._core.image.directory(call.asked.ino)
        check_access(directory, call.who, READ)
        self._scanning.look(call, directory)
        after, limit = call.asked.after, min(call.asked.limit, MAX_ENTRIES)
        image = self._core.image
        entries = image.entries(directory.ino)
        names = sorted(name for name in entries if name > after)
        inodes = [image.inodes[entries[name]] for name in names[:limit]]
        for inode in inodes:
            self._core.sessions.hold(call.session, inode.ino)
        # From the first part on: else a name that comes between two parts would be missing in what is kept.
        self._core.sessions.hold_list(call.session, directory.ino)
        told = tuple((inode.name, image.attr(inode)) for inode in inodes)
        return ListReply(entries=told, more=len(names) > limit)

    def _readlink(self, call: Call[ReadlinkRequest]) -> ReadlinkReply:
        inode = self._core.image.get(call.asked.ino)
        if inode.kind != LINK:
            raise OSError(errno.EINVAL, f"{inode.name!r} isn't a symbolic link")
        return ReadlinkReply(target=inode.target)

    def _place(self, call: Call[EntryRequest]) -> tuple[Inode, str]:
        """Return directory and name of an entry that is to be made, once it is known what the storage has there."""
        try:
            directory, name = self._core.image.walk(call.asked.parent, call.asked.name, call.who)
        except MissingEntry as error:
            self._scanning.look(call, error.directory)
            raise
        if not name:
            raise FileExistsError(errno.EEXIST, "that is the root")
        if name not in self._core.image.entries(directory.ino):
            self._scanning.look(call, directory)
        return directory, name

    def _mkdir(self, call: Call[MkdirRequest]) -> AttrReply:
        if call.asked.parents:
            return self._make_all(call)
        inode = self._new_directory(call, *self._place(call))
        self._core.sessions.hold_list(call.session, inode.ino)
        return self._told(call, inode)

    def _new_directory(self, call: Call[MkdirRequest], directory: Inode, name: str) -> Inode:
        core = self._core
        inode = self._new(call, directory, name, DIRECTORY, call.asked.mode)
        # A file had its name, and hid objects that are below it: they are shown, once they are looked for.
        inside = f"{core.image.path_of(directory, name)}/" if core.image.hidden else ""
        covered = [path for path in core.image.hidden if path.startswith(inside)]
        call.record(*map(ShowRecord, covered), SeenRecord(inode.ino, 0.0 if covered else core.clock()))
        return inode

    def _make_all(self, call: Call[MkdirRequest]) -> AttrReply:
        names = [check_name(name) for name in call.asked.name.split("/") if name]
        directory = self._core.image.directory(call.asked.parent)
        for number, name in enumerate(names):
            check_access(directory, call.who, SEARCH)
            if directory.master:
                raise OSError(errno.EXDEV, f"{directory.name!r} is another master's")
            if name not in self._core.image.entries(directory.ino):
                self._scanning.look(call, directory)
                inode = self._new_directory(call, directory, name)
                if number == len(names) - 1:
                    return self._told(call, inode)
                raise Unfinished  # what is below it may have to be looked for before the next one is made
            directory = self._core.image.directory(self._core.image.entries(directory.ino)[name])
        return self._told(call, directory)

    def _new(self, call: AnyCall, directory: Inode, name: str, kind: str, mode: int, target: str = "") -> Inode:
        """Decide that there is a new entry, and return it."""
        core, now_ns = self._core, self._core.now_ns()
        inode = made(core.image, directory, name, kind, mode, call.who, now_ns, core.options.storage)
        inode = replace(inode, target=target, size=len(target.encode()))
        if kind == DIRECTORY:
            self._scanning.made(core.image.path_of(directory, name))
        call.record(InodeRecord(inode), TouchRecord(touched(directory, now_ns)))
        call.changes.add(directories=(directory.ino,))
        return inode

    def _symlink(self, call: Call[SymlinkRequest]) -> AttrReply:
        target = call.asked.target
        if not 0 < len(target.encode()) <= MAX_TARGET_BYTES:
            raise OSError(errno.ENAMETOOLONG if target else errno.ENOENT, "no target for a symbolic link")
        directory, name = self._place(call)
        return self._told(call, self._new(call, directory, name, LINK, 0o777, target))

    def _unlink(self, call: Call[UnlinkRequest]) -> FileReply:
        return self._remove(call, directories=False)

    def _rmdir(self, call: Call[RmdirRequest]) -> FileReply:
        return self._remove(call, directories=True)

    def _remove(self, call: Call[EntryRequest], *, directories: bool) -> FileReply:
        image = self._core.image
        try:
            directory, name = image.walk(call.asked.parent, call.asked.name, call.who)
            if not name:
                raise OSError(errno.EBUSY, "the root stays")
            child = image.child(directory.ino, name)
            if child is None:
                raise MissingEntry(directory, name)
            if directories and child.kind == DIRECTORY:
                # Empty here isn't empty there: the storage may have objects below it that were never looked for.
                self._scanning.look(call, child)
            inode = removed(image, directory, name, call.who, directories=directories)
        except MissingEntry as error:
            self._scanning.look(call, error.directory)
            raise
        self._gone(call, directory, inode)
        if inode.kind == DIRECTORY:
            self._scanning.left(image.path(inode))
        call.record(TouchRecord(touched(directory, self._core.now_ns())))
        return FileReply()

    def _gone(self, call: AnyCall, directory: Inode, inode: Inode) -> None:
        """Decide that an inode loses its name."""
        call.changes.names.append((directory.ino, inode.name, inode.ino))
        call.changes.add(directories=(directory.ino,))
        call.record(*self._core.without_name(inode))

    def _rename(self, call: Call[RenameRequest]) -> AttrReply:
        asked, image = call.asked, self._core.image
        flags = asked.flags
        if flags not in ("", "noreplace", "exchange"):
            raise OSError(errno.EINVAL, f"rename with {flags!r}")
        now_ns, storage = self._core.now_ns(), self._core.options.storage
        try:
            old = image.walk(asked.parent, asked.name, call.who)
            new = image.walk(asked.to_parent, asked.to_name, call.who)
            if not old[1] or not new[1]:
                raise OSError(errno.EBUSY, "the root can't be renamed")
            for directory, name in (old, new):
                if name not in image.entries(directory.ino):
                    self._scanning.look(call, directory)
            # What isn't known yet would be found under the old name later, and bring the directory back.
            self._look_below(call, old, new)
            self._check_free(old, new)
            if flags == "exchange":
                self._check_free(new, old)
            moved, other = renamed(image, old, new, call.who, flags, now_ns, storage)
        except MissingEntry as error:
            self._scanning.look(call, error.directory)
            raise
        call.changes.names.append((old[0].ino, old[1], moved.ino))
        call.changes.add(directories=(old[0].ino, new[0].ino))
        if (moved.parent, moved.name) == (old[0].ino, old[1]):  # both are names of one file
            return self._told(call, moved)
        if other is not None and flags != "exchange":
            self._gone(call, new[0], other)
        moved = self._moved(call, moved, new)
        if other is not None and flags == "exchange":
            call.changes.names.append((new[0].ino, new[1], other.ino))
            self._moved(call, other, old)
        for directory in {old[0].ino: old[0], new[0].ino: new[0]}.values():
            call.record(TouchRecord(touched(directory, now_ns)))
        return self._told(call, moved)

    def _moved(self, call: AnyCall, inode: Inode, place: Place) -> Inode:
        """Decide that an inode has another name, and what follows from it for all below; return it."""
        if inode.kind == DIRECTORY:
            self._scanning.left(self._core.image.path(self._core.image.inodes[inode.ino]))
            self._scanning.made(self._core.image.path_of(*place))
        inode, records = self._write_back.renamed(inode, *place)
        call.record(*records)
        return inode

    def _check_free(self, old: Place, new: Place) -> None:
        """Refuse to give files names of objects that aren't shown."""
        core = self._core
        moved = core.image.child(old[0].ino, old[1]) if core.image.hidden else None
        for _, path in core.image.files_below(moved, core.image.path_of(*new)) if moved is not None else ():
            core.check_free(path)

    def _look_below(self, call: AnyCall, old: Place, new: Place) -> None:
        """Look up all objects below directories that are renamed or replaced."""
        for directory, name in (old, new):
            inode = self._core.image.child(directory.ino, name)
            if inode is not None and inode.kind == DIRECTORY:
                self._scanning.look(call, inode, below=True)

    def _setattr(self, call: Call[SetattrRequest]) -> AttrReply:
        asked, who = call.asked, call.who
        inode = self._core.image.get(asked.ino)
        if asked.mode is not None:
            check_owner(inode, who)
        changes_owner = asked.owner is not None or asked.group is not None
        owner = inode.uid if asked.owner is None else asked.owner
        group = inode.gid if asked.group is None else asked.group
        if changes_owner:
            check_chown(inode, who, owner, group)
        changes_times = asked.atime_ns is not None or asked.mtime_ns is not None
        if changes_times and who.uid not in (0, inode.uid):
            check_access(inode, who, WRITE)
        if asked.size is not None:
            inode = self._truncated(call, inode, asked.size)
        if changes_owner:
            inode = replace(inode, uid=owner, gid=group, mode=mode_after_write(inode, who))
        if asked.mode is not None:
            inode = replace(inode, mode=mode_after_chmod(inode, who, asked.mode & 0o7777))
        inode = replace(
            inode,
            atime_ns=inode.atime_ns if asked.atime_ns is None else asked.atime_ns,
            mtime_ns=inode.mtime_ns if asked.mtime_ns is None else asked.mtime_ns,
            ctime_ns=self._core.now_ns(),
        )
        call.record(InodeRecord(inode))
        call.changes.add(inos=(inode.ino,))
        return self._told(call, inode)

    def _truncated(self, call: AnyCall, inode: Inode, size: int) -> Inode:
        if inode.kind != FILE:
            raise OSError(errno.EISDIR if inode.kind == DIRECTORY else errno.EINVAL, f"{inode.name!r} isn't a file")
        if size < 0:
            raise OSError(errno.EINVAL, f"a size of {size}")
        check_access(inode, call.who, WRITE)
        return self._truncate(call, inode, size)
