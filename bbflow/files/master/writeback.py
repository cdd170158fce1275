"""What goes to the shared storage, and when: oldest first, each object once at a time."""

import errno
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

from bbflow.files.commands import DeleteCommand, MoveCommand, StopCommand, TaskAnswer, UploadCommand
from bbflow.files.inodes import DIRECTORY, FILE, Inode
from bbflow.files.master.core import Core
from bbflow.files.master.database import TransferRow
from bbflow.files.master.failures import Failures
from bbflow.files.master.inherited import InheritedFiles
from bbflow.files.master.resting import WINDOW, Resting


class WriteBack:
    """Writes files back, moves and removes objects.

    Parameters
    ----------
    core
        The master's state.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        dirty = (inode for inode in core.image.inodes.values() if self._is_due(inode))
        inos = (i.ino for i in sorted(dirty, key=lambda inode: inode.dirty_ns))
        self._dirty = Resting(inos, core.options.write_back_after_s, core.clock)
        stored = (inode for inode in core.image.inodes.values() if inode.stored_path and inode.parent)
        self._misplaced = {i.ino: None for i in stored if i.stored_path != core.image.path(i)}
        self._urgent = False
        self._waiting: dict[int, list[Callable[[], None]]] = {}
        self.failures = Failures(core.clock)
        """Objects that couldn't be written, moved or removed."""
        self.written_bytes = 0
        """Of all files that were written back."""
        self._half_moved: dict[int, str] = {}
        self._uploading: dict[int, tuple[str, int]] = {}
        self.inherited = InheritedFiles(core, self._unknown)
        """What the master before this one has begun."""

    def _unknown(self, row: TransferRow) -> None:
        """Act where nobody knows how a transfer has ended: a move is done again; an object that no file has goes."""
        core = self._core
        if row.source in core.stored:
            self._half_moved[core.stored[row.source]] = row.path
        else:
            gone = [path for path in (row.path, row.source) if path and path not in core.stored]
            core.doomed.update(dict.fromkeys(gone))
            core.database.doom(gone)
        core.happened("storage", 0)
        core.happened("written", 0)

    @property
    def is_on(self) -> bool:
        """Whether there is a shared storage."""
        return bool(self._core.options.storage)

    def _is_due(self, inode: Inode) -> bool:
        is_newer = inode.stored_version != inode.version and not inode.scratch  # a lost one may be found again
        return self.is_on and inode.kind == FILE and bool(inode.parent) and is_newer and not inode.expected

    def changed(self, inode: Inode) -> None:
        """Record that a file has a new version."""
        if self._is_due(inode) and inode.ino not in self._dirty:
            inode.dirty_ns = self._core.now_ns()
            self._dirty.begin(inode.ino)
            self._core.happened("storage", 0)

    def closed(self, inode: Inode) -> None:
        """Record that a file's writer has closed it."""
        if inode.ino in self._dirty:
            self._core.happened("storage", 0)

    def cancel(self, inode: Inode) -> None:
        """Record that a file has no name any more."""
        self._dirty.end(inode.ino)
        self._misplaced.pop(inode.ino, None)
        for then in self._waiting.pop(inode.ino, ()):
            then()
        if inode.ino in self._uploading and not inode.parent:
            node, task = self._uploading[inode.ino]
            self._core.command(node, StopCommand(upload=task), lambda _: None)

    def renamed(self, inode: Inode) -> None:
        """Record that an inode, and all below it, have other paths."""
        if not self.is_on:
            return
        for below in self._core.image.below(inode) if inode.kind == DIRECTORY else (inode,):
            if below.kind == FILE:
                self._renamed_file(below)
        self._core.happened("storage", 0)

    def _renamed_file(self, inode: Inode) -> None:
        is_free = not inode.stored_path or self._core.is_in_memory(inode)  # else its object is all that there is
        was, inode.scratch = inode.scratch, is_free and self._core.is_scratch(inode)
        if inode.scratch and not was:
            self._core.doom(inode)
            self.cancel(inode)
            self._core.save(inode)
        elif was and not inode.scratch:
            self.changed(inode)
            self._core.save(inode)
        if inode.stored_path:
            self._misplaced[inode.ino] = None

    def is_misplaced(self, inode: Inode) -> bool:
        """Whether a file's object has another name than the file, and is to be moved."""
        return inode.ino in self._misplaced

    def must_wait(self, inode: Inode, *, sync: bool) -> bool:
        """Whether a commit is answered only once it is written back."""
        policy = self._core.options.write_back
        return self._is_due(inode) and (policy == "close" or (policy == "fsync" and sync))

    def when_written(self, inode: Inode, then: Callable[[], None]) -> None:
        """Call back when a file's newest version is written back, or the file is gone."""
        self._waiting.setdefault(inode.ino, []).append(then)
        self._core.happened("storage", 0)

    def hurry(self) -> None:
        """Write back whatever the policy says: room is needed."""
        self._urgent = True
        self._core.happened("storage", 0)

    # What is next.

    def pump(self) -> None:
        """Begin with whatever may begin now."""
        if not self.is_on or self._core.a_node() is None:
            return
        self.inherited.give_up()
        self._forget_failures()
        most = self._core.options.uploads * max(len(self._core.nodes), 1) + self.inherited.objects
        for start in self._next():
            if len(self._core.busy) >= most:
                return
            start()
        if not self._core.busy and self._misplaced:
            self._break_cycle()

    def _next(self) -> Iterator[Callable[[], None]]:
        """Go through what may begin; what is further back than `WINDOW` is looked at when its turn comes."""
        inodes = self._core.image.inodes
        for ino, path in list(self._half_moved.items()):
            if not self.failures.rests(path):
                yield partial(self._move_again, ino, path)
        for ino in list(islice(self._misplaced, WINDOW)):
            if ino not in self._dirty and self._may_go_to(inodes[ino]):
                yield partial(self._move, inodes[ino], self._core.image.path(inodes[ino]))
        if self._urgent or self._core.options.write_back != "end":
            waited_for = [ino for ino in self._waiting if ino in self._dirty]
            for ino in self._dirty.oldest() if self._urgent else chain(self._dirty.rested(), waited_for):
                if self._may_be_written(inodes[ino]):
                    yield partial(self._upload, inodes[ino])
        for path in list(islice(self._core.doomed, WINDOW)):
            if path not in self._core.busy and path not in self._core.stored and not self.failures.rests(path):
                yield partial(self._delete, path)
        if not self._dirty:
            self._urgent = False

    def next_deadline_s(self) -> float | None:
        """When something is tried again; None if nothing waits for that."""
        due_s = [failure.again_s for failure in self.failures.values()]
        others = (self.inherited.deadline_s, self._dirty.next_s())
        return min([*due_s, *(at_s for at_s in others if at_s is not None)], default=None)

    def _may_be_written(self, inode: Inode) -> bool:
        policy_waits = self._core.options.write_back in ("close", "fsync") and inode.ino in self._waiting
        return (policy_waits or not inode.writer) and not inode.lost and self._may_go_to(inode)

    def _may_go_to(self, inode: Inode) -> bool:
        """Whether an inode's path is free in the storage: no transfer under way there, and no other file's object."""
        path = self._core.image.path(inode)
        busy = path in self._core.busy or inode.stored_path in self._core.busy or self.failures.rests(path)
        busy = busy or inode.ino in self._half_moved or path in self._half_moved.values()
        busy = busy or inode.ino in self._uploading or inode.filling
        return not busy and self._core.stored.get(path, inode.ino) == inode.ino

    def _break_cycle(self) -> None:
        """Files whose objects stand in each other's way: one steps aside."""
        for ino in self._misplaced:
            aside = f".bbflow-moving-{ino:x}"
            rests = self.failures.rests(aside) or ino in self._half_moved or self._core.image.inodes[ino].filling
            if not rests and self._is_in_its_own_way(ino):
                self._move(self._core.image.inodes[ino], aside)
                return

    def _is_in_its_own_way(self, ino: int) -> bool:
        """Whether the file whose object is in this one's place waits, by way of others, for this one's to go."""
        core, at, seen = self._core, ino, set[int]()
        while at not in seen:
            seen.add(at)
            holder = core.stored.get(core.image.path(core.image.inodes[at]), at)
            if holder not in self._misplaced:
                return False
            at = holder
        return at == ino and len(seen) > 1

    def _forget_failures(self) -> None:
        """Let go of what was refused under names that nothing is to have any more."""
        core = self._core
        due = {path for path, failure in self.failures.items() if failure.again_s <= core.clock()}
        if due:
            due -= {core.image.path(core.image.inodes[ino]) for ino in (*self._dirty, *self._misplaced)}
            for path in due - {*self._half_moved.values(), *core.doomed, *core.busy}:
                del self.failures[path]

    # What is done.

    def _upload(self, inode: Inode) -> None:
        core, path, version, pieces = self._core, self._core.image.path(inode), inode.version, inode.pieces
        node = next((n for n in inode.ring if n in core.nodes and core.nodes[n].peer is not None), core.a_node())
        self._begin(TransferRow(path, node or ""))
        core.sessions.pin(pieces)
        inode.readers += 1

        def done(answer: TaskAnswer) -> None:
            if not answer.done:
                self.failures.note(path, answer.error)
                return
            self._end(path)
            self._uploading.pop(inode.ino, None)
            inode.readers -= 1
            core.unpin(pieces, inode)
            if answer.errno is not None and not inode.parent:
                self.failures.pop(path, None)
                self._unknown(TransferRow(path, node or ""))
                core.forget_inode(inode)
                return
            if self.failures.ended(path, answer):
                self._unknown(TransferRow(path, node or ""))
                return
            self._uploaded(inode, path, version, answer.facts or (0, ""))

        command = UploadCommand(
            path=path,
            size=inode.size,
            pieces=pieces,
            piece_bytes=inode.piece_bytes,
            ring=inode.ring,
            replicas=inode.replicas,
        )
        self._uploading[inode.ino] = (node or "", 0)
        task = core.command(node or "", command, done)
        if inode.ino in self._uploading:  # else the node is away
            self._uploading[inode.ino] = (node or "", task)

    def _uploaded(self, inode: Inode, path: str, version: int, facts: tuple[int, str]) -> None:
        core = self._core
        if inode.stored_path != path:
            core.doom(inode)
        self.written_bytes += facts[0]
        inode.stored_path, inode.stored_version = path, version
        inode.facts, inode.stored_s = facts, core.clock()
        core.stored[path] = inode.ino
        if inode.scratch or not inode.parent:
            core.doom(inode)
            core.save(inode)
            if not inode.parent:
                core.forget_inode(inode)
            return
        if inode.version == version:
            self._dirty.end(inode.ino)
            inode.dirty_ns = 0
            for then in self._waiting.pop(inode.ino, ()):
                then()
        self._place_right(inode)
        core.save(inode)
        core.happened("written", 0)
        for name in inode.ring:
            core.happened("room", name)

    def _place_right(self, inode: Inode) -> None:
        if inode.parent and inode.stored_path == self._core.image.path(inode):
            self._misplaced.pop(inode.ino, None)
        elif inode.parent:
            self._misplaced[inode.ino] = None

    def _move_again(self, ino: int, path: str) -> None:
        """Do a move once more of which nobody knows how it has ended."""
        del self._half_moved[ino]
        inode = self._core.image.inodes.get(ino)
        if inode is not None and inode.stored_path:
            self._move(inode, path)
        else:
            self._unknown(TransferRow(path, ""))

    def _move(self, inode: Inode, path: str) -> None:
        core, old = self._core, inode.stored_path
        if old == path:
            self._place_right(inode)
            return
        node = core.a_node() or ""
        self._begin(TransferRow(path, node, old))

        def done(answer: TaskAnswer) -> None:
            if not answer.done:
                self.failures.note(path, answer.error)
                return
            self._end(path, old)
            if self.failures.ended(path, answer):
                if answer.errno == errno.ENOENT and core.is_in_memory(inode):  # somebody has removed the object
                    self._write_anew(inode)
                elif answer.errno != errno.EEXIST:
                    self._half_moved[inode.ino] = path
                return
            core.stored.pop(old, None)
            core.vanished(old)
            if inode.ino not in core.image.inodes or not inode.parent:
                core.doomed[path] = None
                core.database.doom([path])
                return
            inode.stored_path, inode.stored_s = path, core.clock()
            if answer.facts is not None:
                inode.facts = answer.facts
            core.stored[path] = inode.ino
            self._place_right(inode)
            core.save(inode)
            core.happened("written", 0)

        core.command(node, MoveCommand(path=old, to=path, size=inode.facts[0]), done)

    def _write_anew(self, inode: Inode) -> None:
        self._core.doom(inode)
        self._misplaced.pop(inode.ino, None)
        self.changed(inode)
        self._core.save(inode)

    def _delete(self, path: str) -> None:
        core = self._core
        node = core.a_node() or ""
        core.busy.add(path)
        core.database.begin(TransferRow(path, node))

        def done(answer: TaskAnswer) -> None:
            if not answer.done:
                self.failures.note(path, answer.error)
                return
            self._end(path)
            if not self.failures.ended(path, answer) and path in core.doomed:
                del core.doomed[path]
                core.database.spare(path)
                core.vanished(path)
                core.happened("written", 0)

        core.command(node, DeleteCommand(path=path), done)

    def _begin(self, row: TransferRow) -> None:
        core = self._core
        core.database.begin(row)
        for path in filter(None, (row.path, row.source)):
            core.busy.add(path)
            if core.doomed.pop(path, 0) is None:
                core.database.spare(path)

    def _end(self, path: str, source: str = "") -> None:
        core = self._core
        core.busy -= {path, source}
        core.database.end(path)
        core.happened("storage", 0)
        core.happened("written", 0)

    # What is left.

    def left(self, below: Inode) -> list[Inode]:
        """Return the files below an inode (or itself) that aren't in the shared storage as they are, and could be."""
        inodes = self._core.image.inodes
        path = self._core.image.path(below)
        prefix = path + "/" if path and below.kind != FILE else path
        late = [inodes[ino] for ino in dict.fromkeys([*self._dirty, *self._misplaced]) if ino in inodes]
        late = [inode for inode in late if inode.parent and not inode.lost]
        return [inode for inode in late if self._core.image.path(inode).startswith(prefix)]

    @property
    def dirty(self) -> list[Inode]:
        """What is to be written back, oldest first."""
        return [self._core.image.inodes[ino] for ino in self._dirty if ino in self._core.image.inodes]
