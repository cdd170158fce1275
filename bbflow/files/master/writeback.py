"""What goes to the shared storage, and when: oldest first, each object once at a time."""

import errno
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice

from msgspec.structs import replace

from bbflow.files.commands import (
    CHANGED,
    STOPPED,
    TAKEN,
    CommandAnswer,
    DeleteCommand,
    MoveCommand,
    StopCommand,
    UploadCommand,
)
from bbflow.files.inodes import DIRECTORY, FILE, Inode
from bbflow.files.master.awaited_events import (
    CleanEvent,
    Event,
    RoomEvent,
    StorageEvent,
    TransferredEvent,
    UnnamedEvent,
)
from bbflow.files.master.core import Core
from bbflow.files.master.left_transfers import InheritedFiles
from bbflow.files.master.name_checks import touched
from bbflow.files.master.records import (
    ClosedRecord,
    DoomRecord,
    Handle,
    HandleRecord,
    InodeRecord,
    ObjectTransfer,
    Record,
    SeenRecord,
    SpareRecord,
    TouchRecord,
    TransferRecord,
    TransferredRecord,
    VanishedRecord,
)
from bbflow.files.master.resting import WINDOW, Failures, Resting
from bbflow.files.master.sessions import Changes
from bbflow.files.names import CONFLICT, conflict_name
from bbflow.files.wire import Seen


class WriteBack:
    """Writes files back, moves and removes objects.

    Parameters
    ----------
    core
        The master's state.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._resting = Resting(core.image, core.options.write_back_after_s, core.clock)
        self._urgent = False
        self._waiting: dict[int, list[Callable[[], None]]] = {}
        self.failures = Failures(core.clock)
        """Objects that couldn't be written, moved or removed."""
        self.written_bytes = 0
        """Of all files that were written back."""
        self._half_moved: dict[int, str] = {}
        self._flushed: set[int] = set()
        self._unsure: set[str] = set()
        self.losses: dict[int, str] = {}
        """Files whose bytes were in the storage only, and were overwritten or removed there."""
        self.weakness = ""
        """What the storage can't check in the instant in which it changes."""
        self.changes = Changes()
        """What clients must forget after a file has given way to another program's."""
        self._uploading: dict[int, tuple[str, int]] = {}
        self.inherited = InheritedFiles(core, self._inherited)
        """What the master before this one has begun."""

    def _inherited(self, transfer: ObjectTransfer, answer: CommandAnswer | None) -> None:
        """Take in how a transfer of the master before this one has ended."""
        inode = self._core.image.inodes.get(transfer.ino)
        if answer is None or answer.facts is None or inode is None:
            self._unknown(transfer)
        elif transfer.source:
            self._moved(inode.ino, transfer, answer.facts)
        elif inode.stored_path in ("", transfer.path) and inode.ino not in self._uploading:
            self._uploaded(inode.ino, transfer.path, transfer.version, answer.facts)
        else:
            self._core.commit(DoomRecord(transfer.path, answer.facts))

    def _unknown(self, transfer: ObjectTransfer) -> None:
        """Act where the end of a transfer is unknown: a move is done again; an object that no file has goes."""
        core, stored = self._core, self._core.image.stored
        if transfer.source in stored:
            self._half_moved[stored[transfer.source]] = transfer.path
        elif transfer.ino:
            core.commit(*(DoomRecord(path, None) for path in sorted(transfer.objects) if path not in stored))
            self._unsure |= transfer.objects & stored.keys()
        core.happened(StorageEvent())
        core.happened(TransferredEvent())

    @property
    def is_on(self) -> bool:
        """Whether there is a shared storage."""
        return bool(self._core.options.storage)

    def dirtied(self, inode: Inode) -> Inode:
        """Return a file as it waits to be written back, if it has to and didn't before."""
        image = self._core.image
        is_new = inode.ino not in image.dirty and image.is_due(inode)
        return replace(inode, dirty_ns=self._core.now_ns()) if is_new else inode

    def renamed(self, inode: Inode, directory: Inode, name: str) -> tuple[Inode, list[Record]]:
        """Return an inode as it is under another path, and the records that change it and all below it."""
        if not self.is_on:
            return inode, [InodeRecord(inode)]
        path = self._core.image.path_of(directory, name)
        if inode.kind == FILE:
            inode, records = self._at_path(inode, path)
            return inode, [*records, InodeRecord(inode)]
        below: list[Record] = []
        for file, its_path in self._core.image.files_below(inode, path):
            changed, records = self._at_path(file, its_path)
            below += [*records, InodeRecord(changed)] if changed is not file else ()
        return inode, [InodeRecord(inode), *below]

    def _at_path(self, inode: Inode, path: str) -> tuple[Inode, list[Record]]:
        """Return a file as it is under a path: scratch or to be written back; and the records of its object."""
        is_free = not inode.stored_path or self._core.is_in_memory(inode)  # else its object is all that there is
        is_scratch = is_free and self._core.is_scratch(path)
        if is_scratch == inode.scratch:
            return inode, []
        inode, object_path, facts = replace(inode, scratch=is_scratch), inode.stored_path, inode.facts
        if not is_scratch:
            return self.dirtied(inode), []
        return self._core.without_object(inode), [DoomRecord(object_path, facts)] if object_path else []

    def take(self, events: Iterable[Event]) -> None:
        """Take in what has happened, and continue."""
        is_due = False
        for event in events if self.is_on else ():
            if isinstance(event, CleanEvent):
                for then in self._waiting.pop(event.ino, ()):
                    then()
            elif isinstance(event, UnnamedEvent) and event.ino in self._uploading:
                node, task = self._uploading[event.ino]
                self._core.command(node, StopCommand(upload=task), lambda _: None)
            is_due = is_due or isinstance(event, StorageEvent)
        if is_due:
            self._pump()

    def must_wait(self, inode: Inode, *, sync: bool) -> bool:
        """Whether a commit is answered only once it is written back."""
        policy = self._core.options.write_back
        return self._core.image.is_due(inode) and (policy == "close" or (policy == "fsync" and sync))

    def when_written(self, inode: Inode, then: Callable[[], None]) -> None:
        """Call back when a file's newest version is written back, or the file is gone."""
        self._waiting.setdefault(inode.ino, []).append(then)
        self._core.happened(StorageEvent())

    def hurry(self) -> None:
        """Write back whatever the policy says: room is needed."""
        self._urgent = True
        self._core.happened(StorageEvent())

    def flush(self, inodes: Iterable[Inode]) -> None:
        """Write back now what these files are, also those that are still being written."""
        self._flushed.update(inode.ino for inode in inodes)
        self.hurry()

    # What is next.

    def _pump(self) -> None:
        """Begin with whatever may begin now."""
        if not self.is_on or not self._core.is_any_up:
            return
        self.inherited.give_up()
        self._forget_failures()
        image = self._core.image
        most = self._core.options.uploads * max(len(self._core.nodes), 1) + self.inherited.objects
        for start in self._next():
            if len(image.busy) >= most:
                return
            start()
        # While anything is under way, names may come free by themselves.
        if not image.busy and image.misplaced:
            self._break_cycle()

    def _next(self) -> Iterator[Callable[[], None]]:
        """Iterate over what may begin; what is further back than `WINDOW` is looked at when its turn comes."""
        image = self._core.image
        # Moves first: they free paths that uploads wait for. Deletions last: an upload to a doomed path replaces it.
        for ino, path in list(self._half_moved.items()):
            if not self.failures.rests(path):
                yield partial(self._move_again, ino, path)
        # Lists, here and below: what begins changes what is gone through.
        for ino in list(islice(image.misplaced, WINDOW)):
            if ino not in image.dirty and self._may_go_to(inode := image.inodes[ino]):
                yield partial(self._move, inode, image.path(inode))
        if self._urgent or self._core.options.write_back != "end":
            waited_for = [ino for ino in self._waiting if ino in image.dirty]
            for ino in self._resting.oldest() if self._urgent else chain(self._resting.rested(), waited_for):
                if ino in image.dirty and self._may_be_written(inode := image.inodes[ino]):
                    yield partial(self._upload, inode)
        for path in list(islice(image.doomed, WINDOW)):
            is_free = path not in image.busy and path not in image.stored and not self.failures.rests(path)
            if is_free and not (self._is_unsure(path) and self._is_awaited(path)):
                yield partial(self._delete, path)
        if not image.dirty:
            self._urgent = False

    def next_deadline_s(self) -> float | None:
        """When something is tried again; None if nothing waits for that."""
        due_s = [failure.again_s for failure in self.failures.values()]
        others = (self.inherited.deadline_s, self._resting.next_s())
        return min([*due_s, *(at_s for at_s in others if at_s is not None)], default=None)

    def _may_be_written(self, inode: Inode) -> bool:
        # Its writer waits for just that, with the file open.
        policy_waits = self._core.options.write_back in ("close", "fsync") and inode.ino in self._waiting
        policy_waits = policy_waits or inode.ino in self._flushed
        is_written = self._core.image.writer(inode.ino) is not None
        return (policy_waits or not is_written) and not inode.lost and self._may_go_to(inode)

    def _may_go_to(self, inode: Inode) -> bool:
        """Whether an inode's path is free in the storage: no transfer under way there, and no other file's object."""
        image = self._core.image
        path = image.path(inode)
        busy = path in image.busy or inode.stored_path in image.busy or self.failures.rests(path)
        busy = busy or inode.ino in self._half_moved or path in self._half_moved.values()
        busy = busy or inode.ino in self._uploading or inode.filling
        return not busy and image.stored.get(path, inode.ino) == inode.ino

    def _break_cycle(self) -> None:
        """Files whose objects stand in each other's way: one steps aside."""
        inodes = self._core.image.inodes
        for ino in self._core.image.misplaced:
            aside = f".bbflow-moving-{ino:x}"
            rests = self.failures.rests(aside) or ino in self._half_moved or inodes[ino].filling
            if not rests and self._waits_for_itself(ino):
                self._move(inodes[ino], aside)
                return

    def _waits_for_itself(self, ino: int) -> bool:
        """Whether the file whose object is in this one's place waits, by way of others, for this one's to go."""
        image, at, seen = self._core.image, ino, set[int]()
        while at not in seen:
            seen.add(at)
            holder = image.stored.get(image.path(image.inodes[at]), at)
            if holder not in image.misplaced:
                return False
            at = holder
        return at == ino and len(seen) > 1

    def _forget_failures(self) -> None:
        """Release what was refused under names that nothing is to have any more."""
        image = self._core.image
        due = {path for path, failure in self.failures.items() if failure.again_s <= self._core.clock()}
        if due:
            due -= {image.path(image.inodes[ino]) for ino in (*image.dirty, *image.misplaced)}
            for path in due - {*self._half_moved.values(), *image.doomed, *image.busy}:
                del self.failures[path]

    # What is done.

    def _upload(self, inode: Inode) -> None:
        core, path = self._core, self._core.image.path(inode)
        node = next((n for n in inode.ring if n in core.nodes and core.nodes[n].peer is not None), core.a_node()) or ""
        transfer = ObjectTransfer(path, node, task=core.number(), ino=inode.ino, version=inode.version)
        # A handle of its own keeps this version's pieces until they have arrived, whatever becomes of the file.
        opened = Handle(core.number(), "", inode.ino, 0, inode.pieces, inode.striping)
        # Stored before the IOnode hears of it: the next master must know who may still be at work on the object.
        core.commit(TransferRecord(transfer), HandleRecord(opened))

        def done(answer: CommandAnswer) -> None:
            if not answer.done:
                self.failures.note(path, answer.error)
                return
            self._uploading.pop(inode.ino, None)
            core.commit(TransferredRecord(transfer), ClosedRecord(opened))
            self._answered(transfer, answer)

        command = UploadCommand(
            path=path,
            size=inode.size,
            pieces=inode.pieces,
            piece_bytes=inode.piece_bytes,
            ring=inode.ring,
            replicas=inode.replicas,
            over=self._over(path),
            unsure=self._is_unsure(path),
        )
        self._uploading[inode.ino] = (node, transfer.task)
        core.command(node, command, done, transfer.task)

    def _answered(self, transfer: ObjectTransfer, answer: CommandAnswer) -> None:
        """Do what follows from how an upload has ended."""
        core, path, ino = self._core, transfer.path, transfer.ino
        has_name = bool(core.image.inodes[ino].parent)
        if answer.errno is not None and not has_name:
            self.failures.pop(path, None)
            # What was stopped in time has changed nothing: kept aside, a file that was removed would come back.
            if answer.errno != STOPPED:
                self._unknown(transfer)
            core.commit(*core.without_name(core.image.inodes[ino]))
        elif answer.errno == TAKEN:
            self._give_way(ino, path)
        elif self.failures.ended(path, answer):
            self._unknown(transfer)
        else:
            self.weakness = answer.weakness
            self._uploaded(ino, path, transfer.version, answer.facts or (0, ""))

    def _over(self, path: str) -> Seen:
        """Return what a file that gets this path in the storage takes the place of, as far as the master knows."""
        image = self._core.image
        return image.inodes[image.stored[path]].facts if path in image.stored else image.doomed.get(path)

    def _is_unsure(self, path: str) -> bool:
        doomed = self._core.image.doomed
        return path in self._unsure or (path in doomed and doomed[path] is None)

    def _give_way(self, ino: int, path: str) -> None:
        """Rename a file so that it says so: another program has written an object by its name, which stays."""
        core, inode = self._core, self._core.image.inodes.get(ino)
        self.failures.pop(path, None)
        self._unsure.discard(path)
        if path in core.image.doomed:
            core.commit(SpareRecord(path))
        if inode is None or not inode.parent:
            core.happened(TransferredEvent())
            return
        directory, at_s = core.image.inodes[inode.parent], core.clock()
        # Without an earlier mark: a file that gives way again and again has a name that doesn't grow.
        while core.image.child(directory.ino, name := conflict_name(inode.name.partition(CONFLICT)[0], at_s)):
            at_s += 1
        self.changes.names.append((directory.ino, inode.name, ino))
        self.changes.add(directories=(directory.ino,))
        inode = core.without_object(inode) if inode.stored_path == path else inode
        core.commit(
            InodeRecord(self.dirtied(replace(inode, name=name, ctime_ns=core.now_ns()))),
            TouchRecord(touched(directory, core.now_ns())),
            SeenRecord(directory.ino, 0.0),
        )
        core.happened(TransferredEvent())

    def _nearest(self, path: str) -> Inode:
        """Return what has a path, or else the directory above it."""
        image = self._core.image
        inode = image.root
        for name in path.split("/"):
            child = image.child(inode.ino, name)
            if child is None:
                break
            inode = child
        return inode

    def _is_awaited(self, path: str) -> bool:
        """Whether a file is to be written back to a path: what is there is dealt with then."""
        inode = self._nearest(path)
        return inode.ino in self._core.image.dirty and self._core.image.path(inode) == path

    def _look_anew(self, path: str) -> None:
        """Schedule a look at an object's directory for its next use."""
        above = self._nearest(path.rpartition("/")[0]) if "/" in path else self._core.image.root
        if above.kind == DIRECTORY:
            self.changes.add(directories=(above.ino,))
            self._core.commit(SeenRecord(above.ino, 0.0))

    def _uploaded(self, ino: int, path: str, version: int, facts: tuple[int, str]) -> None:
        core = self._core
        inode = core.image.inodes[ino]
        self._flushed.discard(ino)
        self.written_bytes += facts[0]
        if self._is_unsure(path):
            self._unsure.discard(path)
            self._look_anew(path)  # what was there may be kept beside
        if path in core.image.doomed:
            core.commit(SpareRecord(path))
        # Only now: until the new object was there, the old one was the file's only copy outside of memory.
        if inode.stored_path and inode.stored_path != path:
            core.commit(DoomRecord(inode.stored_path, inode.facts))
        inode = replace(inode, stored_path=path, stored_version=version, facts=facts)
        if not inode.parent:
            core.commit(*core.without_name(inode))
            return
        # It was renamed to what is never written back, while this was on its way.
        if inode.scratch:
            core.commit(DoomRecord(path, facts), InodeRecord(core.without_object(inode)))
            return
        # Else it was written again while this version went: it still waits.
        if inode.version == version:
            inode = replace(inode, dirty_ns=0)
        core.commit(InodeRecord(inode), SeenRecord(ino, core.clock()))
        core.happened(TransferredEvent())
        for name in inode.ring:
            core.happened(RoomEvent(name))

    def _move_again(self, ino: int, path: str) -> None:
        """Repeat a move whose end is unknown."""
        del self._half_moved[ino]
        inode = self._core.image.inodes.get(ino)
        if inode is not None and inode.stored_path:
            self._move(inode, path)
        else:
            self._unknown(ObjectTransfer(path, "", ino=ino))

    def _move(self, inode: Inode, path: str) -> None:
        core, old = self._core, inode.stored_path
        if old == path:
            core.commit(InodeRecord(inode))  # it has its old name again
            return
        transfer = ObjectTransfer(path, core.a_node() or "", old, core.number(), inode.ino, inode.stored_version)
        core.commit(TransferRecord(transfer))

        def done(answer: CommandAnswer) -> None:
            if not answer.done:
                self.failures.note(path, answer.error)
                return
            core.commit(TransferredRecord(transfer))
            if answer.errno == TAKEN:
                self._give_way(inode.ino, path)
                return
            if not self.failures.ended(path, answer):
                self.weakness = answer.weakness
                self._moved(inode.ino, transfer, answer.facts)
                return
            now = core.image.inodes.get(inode.ino)
            if answer.errno in (errno.ENOENT, CHANGED) and now is not None:
                self._write_anew(now, answer)  # another program has removed the object, or overwritten it
            # It may have been moved all the same; only of a name that is taken it is known that it wasn't.
            elif answer.errno != errno.EEXIST:
                self._half_moved[inode.ino] = path

        over = self._over(path)
        core.command(transfer.node, MoveCommand(path=old, to=path, facts=inode.facts, over=over), done, transfer.task)

    def _moved(self, ino: int, transfer: ObjectTransfer, facts: tuple[int, str] | None) -> None:
        core, inode = self._core, self._core.image.inodes.get(ino)
        core.commit(VanishedRecord(transfer.source))
        if transfer.path in core.image.doomed:
            core.commit(SpareRecord(transfer.path))
        if inode is None or not inode.parent:
            core.commit(DoomRecord(transfer.path, facts))
            return
        moved = replace(inode, stored_path=transfer.path, facts=inode.facts if facts is None else facts)
        core.commit(InodeRecord(moved), SeenRecord(ino, core.clock()))
        core.happened(TransferredEvent())

    def _write_anew(self, inode: Inode, answer: CommandAnswer) -> None:
        """Continue with a file whose object is no longer what it was: what is there now is another program's."""
        core, path = self._core, inode.stored_path
        self._look_anew(path)
        self.failures.pop(core.image.path(inode) if inode.parent else path, None)
        if core.is_in_memory(inode) or not inode.size:
            core.commit(InodeRecord(self.dirtied(core.without_object(inode))))
        else:
            self.losses[inode.ino] = answer.error
            core.commit(InodeRecord(replace(inode, stored_path="", lost=True)))
        core.happened(TransferredEvent())

    def _delete(self, path: str) -> None:
        core = self._core
        transfer = ObjectTransfer(path, core.a_node() or "", task=core.number())
        facts = core.image.doomed[path]
        core.commit(TransferRecord(transfer))

        def done(answer: CommandAnswer) -> None:
            if not answer.done:
                self.failures.note(path, answer.error)
                return
            core.commit(TransferredRecord(transfer))
            is_others = answer.errno == CHANGED
            if is_others:  # it stays, and is seen again
                self.failures.pop(path, None)
            if (is_others or not self.failures.ended(path, answer)) and path in core.image.doomed:
                core.commit(SpareRecord(path))
                if is_others or facts is None:
                    self._look_anew(path)
                if not is_others:  # an unknown object is kept beside, under another name
                    core.commit(VanishedRecord(path))
                core.happened(TransferredEvent())

        core.command(transfer.node, DeleteCommand(path=path, facts=facts), done, transfer.task)

    # What is left.

    def left(self, below: Inode) -> list[Inode]:
        """Return the files below an inode (or itself) that aren't in the shared storage as they are, and could be."""
        image = self._core.image
        path = image.path(below)
        prefix = path + "/" if path and below.kind != FILE else path
        late = [image.inodes[ino] for ino in dict.fromkeys([*image.dirty, *image.misplaced])]
        return [inode for inode in late if not inode.lost and image.path(inode).startswith(prefix)]
