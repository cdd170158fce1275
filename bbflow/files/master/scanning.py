"""What the shared storage has is seen in the namespace: directories are looked at there when they are first used."""

import errno
from collections.abc import Mapping
from itertools import chain

from msgspec.structs import replace

from bbflow.files.commands import CommandAnswer, ScanCommand
from bbflow.files.inodes import DIRECTORY, FILE, Inode
from bbflow.files.master.awaited_events import AnyNodeEvent, ScannedEvent
from bbflow.files.master.core import AnyCall, Core
from bbflow.files.master.records import Hidden, HideRecord, InodeRecord, LookRecord, SeenRecord, ShowRecord
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
        self._looking: dict[int, bool] = {}
        self._errors: dict[int, tuple[float, str]] = {}
        self._gone: set[str] = set()
        self.changes = Changes()
        """What clients must forget after a directory was looked at."""

    def look(self, call: AnyCall, directory: Inode, *, below: bool = False, again: bool = False) -> None:
        """Order a look at a directory in the shared storage before the request continues.

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
            call.wait(AnyNodeEvent(), away, self._core.options.node_loss_s, self._core.clock())
        error_s, text = self._errors.get(directory.ino, (0.0, ""))
        error = OSError(errno.EIO, f"the shared storage can't list {directory.name or '/'!r}: {text}")
        # A failure from before it came may have passed; one since then was of a look that it had waited for.
        if error_s >= call.began_s:
            raise error
        goes_below = self._looking.get(directory.ino)
        if goes_below is None or (below and not goes_below):
            self._start(directory.ino, below=below)
        call.wait(ScannedEvent(directory.ino), error, SCAN_TIMEOUT_S, self._core.clock())

    @property
    def failures(self) -> Mapping[int, str]:
        """Of each directory that couldn't be looked at: why."""
        return {ino: text for ino, (_, text) in self._errors.items()}

    def left(self, path: str) -> None:
        """Take in that no directory has this path any more: in the storage it may still be there, empty."""
        self._gone.add(path)

    def made(self, path: str) -> None:
        """Take in that a directory has this path again."""
        self._gone.discard(path)

    def _is_left(self, path: str) -> bool:
        """Whether a directory is only what is left in the storage of one that has gone, or moved, here."""
        return bool(self._gone) and any(path == gone or path.startswith(f"{gone}/") for gone in self._gone)

    def _is_known(self, call: AnyCall, directory: Inode, *, below: bool, again: bool) -> bool:
        if not self._core.options.storage or not directory.parent or directory.master:
            return True
        after_s = call.began_s if again else self._oldest_s()
        image = self._core.image
        inside = image.below(directory) if below else (directory,)
        seen_s = (image.seen_s(inode.ino) for inode in inside if inode.kind == DIRECTORY)
        return all(at_s and at_s >= after_s for at_s in seen_s)

    def _oldest_s(self) -> float:
        """How long ago a directory may have been looked at."""
        refresh_s = self._core.options.refresh_s
        return self._core.clock() - refresh_s if refresh_s else 0.0

    def _start(self, ino: int, *, below: bool) -> None:
        core = self._core
        self._looking[ino] = below
        core.commit(LookRecord(begins=True))
        began_s, look, found = core.clock(), core.image.looks_begun, Listing()

        def done(answer: CommandAnswer) -> None:
            found.add(answer)
            if not answer.done:
                return
            self._looking.pop(ino, None)
            directory = core.image.inodes.get(ino)
            if answer.errno is not None:
                self._errors[ino] = (core.clock(), answer.error)
            elif directory is not None and directory.parent:
                self._errors.pop(ino, None)
                self._merge(directory, found, began_s, look, below=below)
            core.commit(LookRecord(begins=False))
            core.happened(ScannedEvent(ino))

        path = core.image.path(core.image.inodes[ino])
        core.command(core.a_node() or "", ScanCommand(path=path, below=below), done)

    def _merge(self, directory: Inode, found: "Listing", began_s: float, look: int, *, below: bool) -> None:
        core = self._core
        seen: set[str] = set()
        path = core.image.path(directory)
        before = f"{path}/" if path else ""
        self._forget_hidden(path, below=below)
        for name in found.directories:
            if not self._is_left(before + name) and self._directory(directory.ino, name.split("/")) is None:
                self._hide(f"{before}{name}/", path)
        for name, size, version, mtime_s in found.objects:
            names = name.split("/")
            seen.add(before + name)
            if not all(map(self._is_name, names)):
                self._hide(before + name, path)
                continue
            holder = self._directory(directory.ino, names[:-1])
            if holder is None:
                self._hide(before + name, path)
            else:
                self._object(holder, names[-1], (size, version), mtime_s, began_s)
        inside = core.image.below(directory) if below else iter((directory,))
        for inode in [inode for inode in inside if inode.kind == DIRECTORY]:
            if not core.image.is_due_anew(inode.ino, look):
                core.commit(SeenRecord(inode.ino, core.clock()))
            self._remove_gone(inode.ino, seen, began_s)

    def _forget_hidden(self, path: str, *, below: bool) -> None:
        """Start again with what can't be shown of a directory."""
        inside = f"{path}/" if path else ""
        for name, one in list(self._core.image.hidden.items()):
            if one.directory == path or (below and one.directory.startswith(inside)):
                self._core.commit(ShowRecord(name))

    def _hide(self, name: str, directory: str) -> None:
        """Record that an object, or all below a name, can't be shown, unless it is one that goes, or moves."""
        image, names = self._core.image, name.removesuffix("/").split("/")
        if not all(map(self._is_name, names)):
            self._core.commit(HideRecord(name, Hidden(directory, "its name isn't a path")))
            return
        own = (image.doomed, image.busy, image.vanished, image.stored)
        # Of what goes by the name, not of all objects: a bucket may have millions.
        is_above = name.endswith("/") and any(path.startswith(name) for path in chain(*own))
        if is_above or any(name in paths for paths in own):
            return
        inode = image.root
        for part in names:
            child = image.child(inode.ino, part)
            if child is None:
                break
            inode = child
        if not inode.master:  # else that one shows it
            what = {DIRECTORY: "a directory", FILE: "a file"}.get(inode.kind, "a symbolic link")
            what = "a file whose bytes are lost" if inode.lost else what
            reason = f"{what} has the name {image.path(inode)!r}"
            self._core.commit(HideRecord(name, Hidden(directory, reason)))

    def _directory(self, start: int, names: list[str]) -> Inode | None:
        """Return a directory below another, made if need be; None if a name isn't a name, or a file has it."""
        core = self._core
        for name in names:
            child = core.image.child(start, name)
            if child is None:
                if not self._is_name(name):
                    return None
                child = self._new(start, name, DIRECTORY, core.image.root.mode & 0o777, core.clock())
                self.made(core.image.path_of(core.image.inodes[start], name))
                core.commit(InodeRecord(child))
            if child.kind != DIRECTORY or child.master:
                return None
            start = child.ino
        return core.image.inodes[start]

    def _is_name(self, name: str) -> bool:
        try:
            return bool(check_new_name(check_name(name), self._core.options.storage))
        except OSError:
            return False

    def _new(self, directory: int, name: str, kind: str, mode: int, mtime_s: float) -> Inode:
        """Return a new entry for what the shared storage has."""
        image, at_ns = self._core.image, int(mtime_s * 1e9)
        self.changes.add(directories=(directory,))
        return Inode(image.next_ino, directory, name, kind, mode, image.root.uid, image.root.gid, at_ns, at_ns, at_ns)

    def _object(self, directory: Inode, name: str, facts: tuple[int, str], mtime_s: float, began_s: float) -> None:
        image = self._core.image
        path = image.path_of(directory, name)
        known = image.child(directory.ino, name)
        if path in image.doomed or path in image.busy or (known is None and path in image.vanished):
            return  # it is to go, has gone meanwhile, or will be what an IOnode is making of it
        if image.stored.get(path) not in (None, known.ino if known else None):
            return  # it is the object of a file that has another name by now
        if known is None:
            mode, piece_bytes = image.root.mode & 0o666, self._core.options.piece_bytes
            known = replace(self._new(directory.ino, name, FILE, mode, mtime_s), piece_bytes=piece_bytes)
        elif known.kind != FILE or known.lost:
            self._hide(path, image.path(directory))
            return
        elif not self._is_another(known, facts, began_s):
            return
        self._take_over(known, path, facts, mtime_s)

    def _is_another(self, known: Inode, facts: tuple[int, str], began_s: float) -> bool:
        """Whether a file's object was changed from outside, and the file wasn't written here."""
        image = self._core.image
        is_written = image.writer(known.ino) is not None or known.state not in ("clean", "cold")
        return not is_written and image.seen_s(known.ino) < began_s and known.facts != facts

    def _take_over(self, inode: Inode, path: str, facts: tuple[int, str], mtime_s: float) -> None:
        core, version = self._core, self._core.number()
        inode = replace(
            inode, pieces=(), ring=(), size=facts[0], facts=facts, stored_path=path, stored_version=version,
            version=version, mtime_ns=int(mtime_s * 1e9), ctime_ns=core.now_ns(), filling=False, scratch=False,
        )  # fmt: skip
        core.commit(InodeRecord(inode), SeenRecord(inode.ino, core.clock()))
        self.changes.add(inos=(inode.ino,))

    def _remove_gone(self, directory: int, seen: set[str], began_s: float) -> None:
        """Remove files whose objects were removed: the storage is the truth of what it has had."""
        image = self._core.image
        for inode in [image.inodes[ino] for ino in image.entries(directory).values()]:
            # An object that was written, or moved here, after the look had begun may be missing in it.
            if inode.kind != FILE or inode.state not in ("clean", "cold") or image.seen_s(inode.ino) >= began_s:
                continue
            if inode.stored_path in image.busy or inode.stored_path in seen:
                continue
            if inode.stored_path == image.path(inode) and image.writer(inode.ino) is None:
                self.changes.names.append((directory, inode.name, inode.ino))
                self.changes.add(directories=(directory,))
                self._core.commit(*self._core.without_name(replace(inode, stored_path="")))


class Listing:
    """What the shared storage told of a directory, in parts."""

    def __init__(self) -> None:
        self.objects: list[tuple[str, int, str, float]] = []
        """Name, size, version and time of each object."""
        self.directories: list[str] = []
        """Names of directories."""

    def add(self, answer: CommandAnswer) -> None:
        """Take a part in."""
        self.objects += answer.objects
        self.directories += answer.directories
