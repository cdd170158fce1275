"""The one owner of a master's files: what is so of them changes by `Namespace.apply` only, record by record."""

from collections.abc import Callable, Iterable
from typing import Any

from bbflow.files.inodes import DIRECTORY, FILE, Inode, Pieces, keys_of
from bbflow.files.master.awaited_events import (
    CleanEvent,
    ClosedEvent,
    Event,
    FilledEvent,
    NamedEvent,
    StorageEvent,
    TransferredEvent,
    UnlockedEvent,
    UnnamedEvent,
)
from bbflow.files.master.image import Image
from bbflow.files.master.records import (
    NOTHING,
    ClosedRecord,
    DoomRecord,
    Followed,
    ForgetRecord,
    HandleRecord,
    HideRecord,
    InodeRecord,
    LocksRecord,
    LookRecord,
    Record,
    SeenRecord,
    ShowRecord,
    SpareRecord,
    TouchRecord,
    TransferRecord,
    TransferredRecord,
    UsedRecord,
    VanishedRecord,
)


class Namespace(Image):
    """All that a master knows of its files, and the only way in which it changes."""

    def __init__(self, number: int, *, has_storage: bool) -> None:
        super().__init__(number, has_storage=has_storage)
        self._uses = 0
        self._rules: dict[type[Record], Callable[[Any], Followed]] = {
            InodeRecord: self._put,
            TouchRecord: self._put,
            ForgetRecord: self._forget,
            HandleRecord: self._open,
            ClosedRecord: self._close,
            LocksRecord: self._lock,
            DoomRecord: self._doom,
            SpareRecord: self._spare,
            TransferRecord: self._begin,
            TransferredRecord: self._end,
            SeenRecord: self._see,
            UsedRecord: self._use_now,
            VanishedRecord: self._vanish,
            LookRecord: self._look,
            HideRecord: self._hide,
            ShowRecord: self._show,
        }

    def apply(self, record: Record) -> Followed:
        """Take a record in, which has been stored before if it is to last; return what follows from it."""
        return self._rules[type(record)](record)

    def restore(self, inodes: Iterable[Inode]) -> None:
        """Take in the inodes that a master before this one has stored: directories before what is in them."""
        inside: dict[int, list[Inode]] = {}
        for inode in inodes:
            inside.setdefault(0 if inode.ino == self.root_ino else inode.parent, []).append(inode)
        waiting = inside.pop(0, [])
        while waiting:
            inode = waiting.pop()
            self._put(InodeRecord(inode))
            if inode.parent:
                waiting += inside.pop(inode.ino, ())
        # The database gives inodes by number, but files are written back in the order in which they were written.
        oldest = sorted(self._dirty, key=lambda ino: self._inodes[ino].dirty_ns)
        self._dirty.clear()
        self._dirty |= dict.fromkeys(oldest)

    # Inodes.

    def _put(self, record: InodeRecord | TouchRecord) -> Followed:
        inode = record.inode
        before = self._inodes.get(inode.ino)
        self._inodes[inode.ino] = inode
        if before is None:
            self._next = max(self._next, inode.ino + 1)
            if inode.kind == DIRECTORY:
                self._entries.setdefault(inode.ino, {})
        is_new = before is None or before.name != inode.name or before.parent != inode.parent
        events = self._name(before, inode) if is_new else []
        if inode.kind != FILE:
            return events, ()
        if self.has_storage:
            self._index_object(before, inode)
            events += self._index_state(before, inode)
        return events, _dropped(before, inode.pieces)

    def _name(self, before: Inode | None, inode: Inode) -> list[Event]:
        """Rename an inode; a new one that has the old name already keeps it."""
        if before is not None:
            self._unname(before)
        if not inode.parent:
            self._orphans.add(inode.ino)
            return [UnnamedEvent(inode.ino)]
        if inode.ino != self.root_ino:
            self._entries.setdefault(inode.parent, {})[inode.name] = inode.ino
            if inode.kind == DIRECTORY:
                self._subdirectories[inode.parent] = self._subdirectories.get(inode.parent, 0) + 1
        events: list[Event] = [NamedEvent(inode.parent)]
        if before is not None and self.has_storage:
            for file in self.below(inode):
                if file.kind == FILE and file.stored_path:
                    self._see_place(file)
            events.append(StorageEvent())
        return events

    def _unname(self, inode: Inode) -> None:
        if not inode.parent or inode.ino == self.root_ino:
            return
        entries = self._entries[inode.parent]
        if entries.get(inode.name) == inode.ino:
            del entries[inode.name]
        if inode.kind == DIRECTORY:
            self._subdirectories[inode.parent] -= 1

    def _index_object(self, before: Inode | None, inode: Inode) -> None:
        """Keep what is known of objects in step with a file."""
        was = before.stored_path if before is not None else ""
        if was != inode.stored_path:
            self._let_object_go(inode.ino, was)
            if inode.stored_path:
                self._stored[inode.stored_path] = inode.ino
        if not inode.stored_path or not inode.parent:
            self._misplaced.pop(inode.ino, None)
        elif was != inode.stored_path or inode.ino in self._misplaced:
            self._see_place(inode)

    def _see_place(self, file: Inode) -> None:
        """Note whether an object is to be moved to the name of its file, behind those that are to be moved before."""
        # Its directory may have got back the name that the object still has: then there is nothing to move.
        self._misplaced.pop(file.ino, None)
        if file.stored_path != self.path(file):
            self._misplaced[file.ino] = None

    def _let_object_go(self, ino: int, path: str) -> None:
        if self._stored.get(path) == ino:
            del self._stored[path]

    def _index_state(self, before: Inode | None, inode: Inode) -> list[Event]:
        """Keep what is to come, or to be written back, in step with a file."""
        events: list[Event] = []
        if inode.filling:
            self._filling.add(inode.ino)
        elif before is not None and before.filling:
            self._filling.discard(inode.ino)
            events.append(FilledEvent(inode.ino))
        if not self.is_due(inode):
            events += self._clean(inode.ino)
        elif inode.ino not in self._dirty:
            self._dirty[inode.ino] = None
            events.append(StorageEvent())
        return events

    def _clean(self, ino: int) -> list[Event]:
        if ino not in self._dirty:
            return []
        del self._dirty[ino]
        return [CleanEvent(ino)]

    def _forget(self, record: ForgetRecord) -> Followed:
        inode = self._inodes.pop(record.ino, None)
        if inode is None:
            return NOTHING
        self._unname(inode)
        self._orphans.discard(inode.ino)
        self._used.pop(inode.ino, None)
        self._seen_s.pop(inode.ino, None)
        if inode.kind == DIRECTORY:
            self._entries.pop(inode.ino, None)
            self._subdirectories.pop(inode.ino, None)
        events: list[Event] = []
        if self.has_storage:
            events.append(ClosedEvent(inode.ino))  # what was prefetched for it won't be read any more
            self._let_object_go(inode.ino, inode.stored_path)
            self._misplaced.pop(inode.ino, None)
            self._filling.discard(inode.ino)
            events += self._clean(inode.ino)
            if inode.filling:
                events.append(FilledEvent(inode.ino))
        return events, keys_of(inode.pieces)

    # Open files.

    def _open(self, record: HandleRecord) -> Followed:
        handle = record.handle
        before = self._handles.get(handle.number)
        self._handles[handle.number] = handle
        if before is not None:
            if before.version == handle.version:
                return NOTHING
            # First: pieces that both versions have must not seem unneeded in between.
            self._pin(handle.pieces)
            return (ClosedEvent(handle.ino),), self._unpin(before.pieces, handle.ino)
        self._pin(handle.pieces)
        # The master's own, by which a file is written back, are no use of it.
        if handle.session:
            self._use(handle.ino)
        if handle.version:
            self._writers[handle.ino] = handle.number
        else:
            self._readers[handle.ino] = self._readers.get(handle.ino, 0) + 1
        return NOTHING

    def _close(self, record: ClosedRecord) -> Followed:
        handle = self._handles.pop(record.handle.number, None)
        if handle is None:
            return NOTHING
        if handle.version:
            del self._writers[handle.ino]
        else:
            self._readers[handle.ino] -= 1
            if not self._readers[handle.ino]:
                del self._readers[handle.ino]
        # What the master opened itself, to write it back, was in no one's way.
        events: tuple[Event, ...] = (ClosedEvent(handle.ino),) if handle.session else ()
        if handle.ino in self._dirty:
            events += (StorageEvent(),)
        return events, self._unpin(handle.pieces, handle.ino)

    def _pin(self, pieces: Pieces) -> None:
        for key in keys_of(pieces):
            self._pins[key] = self._pins.get(key, 0) + 1

    def _unpin(self, pieces: Pieces, ino: int) -> list[str]:
        """Unpin piece files; return those that neither a handle nor the file needs."""
        free = []
        for key in keys_of(pieces):
            self._pins[key] -= 1
            if self._pins[key] <= 0:
                del self._pins[key]
                free.append(key)
        inode = self._inodes.get(ino)
        kept = inode.keys if free and inode is not None and inode.ring else set()
        return [key for key in free if key not in kept]

    def _lock(self, record: LocksRecord) -> Followed:
        held = self._locks.pop(record.ino, ())
        others = tuple(lock for lock in held if (lock.session, lock.owner) != (record.session, record.owner))
        if others or record.locks:
            self._locks[record.ino] = others + record.locks
        return (UnlockedEvent(record.ino),), ()

    # Objects.

    def _doom(self, record: DoomRecord) -> Followed:
        self._doomed[record.path] = record.facts
        return (StorageEvent(),), ()

    def _spare(self, record: SpareRecord) -> Followed:
        self._doomed.pop(record.path, None)
        return NOTHING

    def _begin(self, record: TransferRecord) -> Followed:
        self._transfers[record.transfer.path] = record.transfer
        self._busy |= record.transfer.objects
        return NOTHING

    def _end(self, record: TransferredRecord) -> Followed:
        self._transfers.pop(record.transfer.path, None)
        self._busy -= record.transfer.objects
        return (StorageEvent(), TransferredEvent()), ()

    def _see(self, record: SeenRecord) -> Followed:
        if record.at_s:
            self._seen_s[record.ino] = record.at_s
        else:
            self._seen_s.pop(record.ino, None)
            self._anew.update({record.ino: self._begun} if self._looks else {})
        return NOTHING

    def _use_now(self, record: UsedRecord) -> Followed:
        self._use(record.ino)
        return NOTHING

    def _use(self, ino: int) -> None:
        self._uses += 1
        self._used[ino] = self._uses

    def _vanish(self, record: VanishedRecord) -> Followed:
        if self._looks:
            self._vanished.add(record.path)
        return NOTHING

    def _look(self, record: LookRecord) -> Followed:
        self._looks += 1 if record.begins else -1
        self._begun += record.begins
        if not self._looks:
            self._vanished.clear()
            self._anew.clear()
        return NOTHING

    def _hide(self, record: HideRecord) -> Followed:
        self._hidden[record.path] = record.hidden
        return NOTHING

    def _show(self, record: ShowRecord) -> Followed:
        self._hidden.pop(record.path, None)
        return NOTHING


def _dropped(before: Inode | None, after: Pieces) -> Iterable[str]:
    """Return the piece files that a file has no more."""
    if before is None or before.pieces is after or not before.pieces:
        return ()
    kept = set(keys_of(after))
    return [key for key in keys_of(before.pieces) if key not in kept]
