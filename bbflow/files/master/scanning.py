"""What the shared storage has is seen in the namespace: directories are looked at there when they are first used."""

import errno
from itertools import chain

from bbflow.files.commands import ScanCommand, TaskAnswer
from bbflow.files.inodes import DIRECTORY, FILE, Inode, keys_of
from bbflow.files.master.core import AnyCall, Core, Hidden
from bbflow.files.master.sessions import Changes
from bbflow.files.names import check_name, check_new_name

SCAN_TIMEOUT_S = 120.0


class Scanning:
    """Looks at the shared storage.

    Parameters
    ----------
    core
        The master's state.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._under_way: dict[int, bool] = {}
        self._errors: dict[int, tuple[float, str]] = {}
        self.changes = Changes()
        """What clients must forget after a directory was looked at."""

    def look(self, call: AnyCall, directory: Inode, *, below: bool = False, again: bool = False) -> None:
        """Have a directory looked at in the shared storage before the request goes on.

        Parameters
        ----------
        call
            What needs it.
        directory
            Which.
        below
            Everything below it, too.
        again
            Also if it was looked at before this call came.

        Raises
        ------
        Blocked
            While it isn't.
        OSError
            EIO if the shared storage doesn't answer.
        """
        if self._core.options.read_only and directory.ino != self._core.image.root_ino:
            directory, below = self._core.image.top(directory), True  # what others write is seen as it belongs together
        if self._is_known(call, directory, below=below, again=again):
            return
        if self._core.a_node() is None:
            away = OSError(errno.EHOSTDOWN, "no IOnode is up, which could look at the shared storage")
            call.wait(("node", ""), away, self._core.options.node_loss_s, self._core.clock())
        error_s, text = self._errors.get(directory.ino, (0.0, ""))
        error = OSError(errno.EIO, f"the shared storage doesn't tell what is in {directory.name or '/'!r}: {text}")
        if error_s >= call.began_s:
            raise error
        if not self._under_way.get(directory.ino, not below):
            self._under_way.pop(directory.ino, None)
        if directory.ino not in self._under_way:
            self._start(directory, below=below)
        call.wait(("scan", directory.ino), error, SCAN_TIMEOUT_S, self._core.clock())

    def _is_known(self, call: AnyCall, directory: Inode, *, below: bool, again: bool) -> bool:
        if not self._core.options.storage or not directory.parent or directory.master:
            return True
        after_s = call.began_s if again else self._oldest_s()
        if not directory.scanned_s or directory.scanned_s < after_s:
            return False
        if not below:
            return True
        inside = self._core.image.below(directory)
        return all(inode.scanned_s and inode.scanned_s >= after_s for inode in inside if inode.kind == DIRECTORY)

    def _oldest_s(self) -> float:
        """How long ago a directory may have been looked at."""
        refresh_s = self._core.options.refresh_s
        return self._core.clock() - refresh_s if refresh_s else 0.0

    def _start(self, directory: Inode, *, below: bool) -> None:
        self._under_way[directory.ino] = below
        self._core.scans += 1
        began_s, found = self._core.clock(), Found()

        def done(answer: TaskAnswer) -> None:
            found.add(answer)
            if not answer.done:
                return
            self._under_way.pop(directory.ino, None)
            self._core.scans -= 1
            if answer.errno is not None:
                self._errors[directory.ino] = (self._core.clock(), answer.error)
            elif directory.ino in self._core.image.inodes and directory.parent:
                self._errors.pop(directory.ino, None)
                self._merge(directory, found, began_s, below=below)
            if not self._core.scans:
                self._core.gone.clear()
            self._core.happened("scan", directory.ino)

        path = self._core.image.path(directory)
        self._core.command(self._core.a_node() or "", ScanCommand(path=path, below=below), done)

    def _merge(self, directory: Inode, found: "Found", began_s: float, *, below: bool) -> None:
        seen: set[str] = set()
        path = self._core.image.path(directory)
        before = f"{path}/" if path else ""
        self._forget_hidden(path, below=below)
        for name in found.directories:
            if self._directory(directory, name.split("/")) is None:
                self._hide(f"{before}{name}/", path)
        for name, size, version, mtime_s in found.objects:
            names = name.split("/")
            seen.add(before + name)
            if not all(map(self._is_name, names)):
                self._hide(before + name, path)
                continue
            holder = self._directory(directory, names[:-1])
            if holder is None:
                self._hide(before + name, path)
            else:
                self._object(holder, names[-1], (size, version), mtime_s, began_s)
        inside = self._core.image.below(directory) if below else iter((directory,))
        for inode in [inode for inode in inside if inode.kind == DIRECTORY]:
            inode.scanned_s = self._core.clock()
            self._remove_gone(inode, seen, began_s)

    def _forget_hidden(self, path: str, *, below: bool) -> None:
        """Begin anew with what can't be shown of a directory."""
        hidden, inside = self._core.hidden, f"{path}/" if path else ""
        for name, one in list(hidden.items()):
            if one.directory == path or (below and one.directory.startswith(inside)):
                del hidden[name]

    def _hide(self, name: str, directory: str) -> None:
        """Record that an object, or all below a name, can't be shown, unless it is one that goes, or moves."""
        core, image, names = self._core, self._core.image, name.removesuffix("/").split("/")
        if not all(map(self._is_name, names)):
            core.hidden[name] = Hidden(directory, "its name is no path")
            return
        own = (core.doomed, core.busy, core.gone, core.stored)
        is_above = name.endswith("/") and any(path.startswith(name) for path in chain(*own))
        if is_above or any(name in paths for paths in own):
            return
        inode = image.root
        for part in names:
            child = image.child(inode, part)
            if child is None:
                break
            inode = child
        if not inode.master:  # else that one shows it
            what = {DIRECTORY: "a directory", FILE: "a file"}.get(inode.kind, "a symbolic link")
            core.hidden[name] = Hidden(directory, f"{what} has the name {image.path(inode)!r}")

    def _directory(self, start: Inode, names: list[str]) -> Inode | None:
        """Return a directory below another, made if need be; None if a name is no name, or a file has it."""
        core = self._core
        for name in names:
            child = core.image.child(start, name)
            if child is None:
                if not self._is_name(name):
                    return None
                root = core.image.root
                child = self._make(start, name, DIRECTORY, root.mode & 0o777, core.clock())
            if child.kind != DIRECTORY or child.master:
                return None
            start = child
        return start

    def _is_name(self, name: str) -> bool:
        try:
            return bool(check_new_name(check_name(name), self._core.options.storage))
        except OSError:
            return False

    def _make(self, directory: Inode, name: str, kind: str, mode: int, mtime_s: float) -> Inode:
        core, root = self._core, self._core.image.root
        inode = core.image.adopt(directory, name, kind, mode, (root.uid, root.gid), int(mtime_s * 1e9))
        core.save(inode)
        self.changes.add(directories=(directory.ino,))
        core.happened("name", directory.ino)
        return inode

    def _object(self, directory: Inode, name: str, facts: tuple[int, str], mtime_s: float, began_s: float) -> None:
        core = self._core
        path = f"{core.image.path(directory)}/{name}".lstrip("/")
        known = core.image.child(directory, name)
        if path in core.doomed or path in core.busy or (known is None and path in core.gone):
            return  # it is to go, has gone meanwhile, or will be what an IOnode is making of it
        if core.stored.get(path) not in (None, known.ino if known else None):
            return  # it is the object of a file that has another name by now
        if known is None:
            known = self._make(directory, name, FILE, core.image.root.mode & 0o666, mtime_s)
            known.expected, known.scratch = False, core.is_scratch(known)
        elif known.kind != FILE:
            self._hide(path, core.image.path(directory))
            return
        elif known.writer or known.state not in ("clean", "cold") or known.stored_s >= began_s or known.facts == facts:
            return
        self._take_over(known, path, facts, mtime_s)

    def _take_over(self, inode: Inode, path: str, facts: tuple[int, str], mtime_s: float) -> None:
        core = self._core
        pieces, inode.pieces, inode.ring = inode.pieces, (), ()
        inode.size, inode.facts, inode.stored_path = facts[0], facts, path
        inode.version = inode.stored_version = core.number()
        inode.mtime_ns, inode.ctime_ns, inode.stored_s = int(mtime_s * 1e9), core.now_ns(), core.clock()
        core.stop_filling(inode)
        inode.scratch = False
        core.drop(keys_of(pieces))
        core.stored[path] = inode.ino
        core.save(inode)
        self.changes.add(inos=(inode.ino,))

    def _remove_gone(self, directory: Inode, seen: set[str], began_s: float) -> None:
        """Let files go whose objects somebody has removed: the storage is the truth of what it has had."""
        core = self._core
        for inode in [core.image.inodes[ino] for ino in directory.entries.values()]:
            if inode.kind != FILE or inode.state not in ("clean", "cold") or inode.stored_s >= began_s:
                continue
            if inode.stored_path in core.busy:
                continue
            if inode.stored_path == core.image.path(inode) and inode.stored_path not in seen and not inode.writer:
                core.stored.pop(inode.stored_path, None)
                inode.stored_path = ""
                self.changes.names.append((directory.ino, inode.name, inode.ino))
                self.changes.add(directories=(directory.ino,))
                core.image.disown(inode)
                core.forget_inode(inode)


class Found:
    """What the shared storage told of a directory, in parts."""

    def __init__(self) -> None:
        self.objects: list[tuple[str, int, str, float]] = []
        """Name, size, version and time of each object."""
        self.directories: list[str] = []
        """Names of directories."""

    def add(self, answer: TaskAnswer) -> None:
        """Take a part in."""
        self.objects += answer.objects
        self.directories += answer.directories
