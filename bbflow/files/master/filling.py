"""Bytes that come from the shared storage, and go again when room is needed."""

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Set

from msgspec.structs import replace

from bbflow.files.commands import CommandAnswer, FillCommand
from bbflow.files.inodes import FILE, Inode, Pieces, key_of, keys_of, places_of
from bbflow.files.master.awaited_events import FillBegunEvent, FilledEvent, RoomEvent
from bbflow.files.master.core import AnyCall, Core
from bbflow.files.master.records import HandleRecord, InodeRecord, SeenRecord, UsedRecord
from bbflow.files.master.room import Node

EVICT_SHARE = 32
"""At least this part of a node's capacity is made free at once: to look for what may go costs time."""
MAX_FILL_S = 86400.0


class Filling:
    """Fills and evicts files.

    Parameters
    ----------
    core
        The master's state.
    hurry
        Called when room is needed: files that were written back can go.
    """

    def __init__(self, core: Core, hurry: Callable[[], None]) -> None:
        self._core, self._hurry = core, hurry
        self._unbegun: dict[int, set[str]] = {}
        self._coming: dict[int, set[str]] = {}
        self._held: set[int] = set()
        self.failed: dict[int, str] = {}
        """Files that couldn't be had from the shared storage, and why."""

    @property
    def held(self) -> Set[int]:
        """Files that were prefetched, or are to be, and haven't been read yet."""
        return self._held

    def hold(self, inos: Iterable[int]) -> None:
        """Keep prefetched files until someone has read them."""
        self._held.update(inos)

    def let_loose(self, ino: int) -> None:
        """Treat a file as any other one from now on: it has been read, or never will be."""
        self._held.discard(ino)

    def begin(self, call: AnyCall, inode: Inode) -> bool:
        """Bring a file's bytes into memory, or on their way; return whether they are still on it.

        Raises
        ------
        Blocked
            While there is no room, or a node hasn't heard yet what it is to have: it would say that it isn't there.
        OSError
            If there never will be room, or the shared storage doesn't give the bytes.
        """
        timeout_s, now_s = self._core.options.room_timeout_s, self._core.clock()
        if not inode.filling:
            if not inode.is_cold or not inode.size:
                return False
            self._check_failed(call, inode)
            blocked = self.start(inode, urgent=True, near=call.session.host)
            if blocked is not None:
                call.wait(RoomEvent(blocked.name), _full(blocked, inode), timeout_s, now_s)
        if inode.ino in self._unbegun:
            error = OSError(errno.EHOSTDOWN, f"the IOnodes don't begin with {inode.name!r}")
            call.wait(FillBegunEvent(inode.ino), error, timeout_s, now_s)
        return True

    def _check_failed(self, call: AnyCall, inode: Inode) -> None:
        """Don't try forever what failed while this request waited for it."""
        waited_for = call.blocked.event if call.blocked is not None else None
        if waited_for in (FillBegunEvent(inode.ino), FilledEvent(inode.ino)) and inode.ino in self.failed:
            raise OSError(errno.EIO, f"{inode.name!r} didn't come from the shared storage: {self.failed[inode.ino]}")

    def complete(self, call: AnyCall, inode: Inode) -> None:
        """Wait until all of a file is in memory.

        Raises
        ------
        Blocked
            While it isn't.
        OSError
            If the shared storage doesn't give it.
        """
        if self.begin(call, inode):
            error = OSError(errno.EIO, f"{inode.name!r} didn't come from the shared storage")
            call.wait(FilledEvent(inode.ino), error, MAX_FILL_S, self._core.clock())

    def start(self, inode: Inode, *, urgent: bool, near: str = "") -> Node | None:
        """Begin to fill a file; return the node that has no room for its part, if there is one.

        Parameters
        ----------
        inode
            The file; its bytes are in the shared storage only.
        urgent
            Whether someone waits for it: else what was prefetched before and not read yet stays.
        near
            A host whose node comes first, if that is an option.

        Raises
        ------
        OSError
            If there never will be room, or no node is up.
        """
        core = self._core
        ring = core.ring(near)
        if not ring:
            raise OSError(errno.EHOSTDOWN, "no IOnode is up")
        pieces = pieces_of(inode.version, inode.size, core.options.piece_bytes)
        places = places_of(ring, 1, pieces)
        needs = [(core.nodes[name], sum(keys.values())) for name, keys in places.items()]
        # Nothing is placed until all nodes have room: two files that each hold a part would wait for each other.
        for node, size in needs:
            if size > node.most_bytes:
                raise OSError(errno.ENOSPC, f"{inode.name!r} needs {size} bytes of {node.name}'s {node.most_bytes}")
            if size > node.free_bytes:
                self.make_room(node, size, spare=() if urgent else self._held)
                return node
        self.failed.pop(inode.ino, None)
        self._unbegun[inode.ino], self._coming[inode.ino] = set(keys_of(pieces)), set(keys_of(pieces))
        core.place(places)
        inode = replace(inode, ring=ring, replicas=1, pieces=pieces, piece_bytes=core.options.piece_bytes, filling=True)
        # Used just now, or it would be the first to go again, before anybody has read it.
        core.commit(InodeRecord(inode), UsedRecord(inode.ino))
        for index, piece in enumerate(pieces):
            self._fill(inode, index, piece[1], urgent=urgent)
        return None

    def _fill(self, inode: Inode, index: int, size: int, *, urgent: bool) -> None:
        key = key_of(inode.version, index)

        def done(answer: CommandAnswer) -> None:
            self._begun(inode.ino, key)
            now = self._core.image.inodes.get(inode.ino)
            # Meanwhile it may have been removed, or filled again on other nodes: that is told by commands of its own.
            is_awaited = now is not None and now.filling and key in self._coming.get(inode.ino, ())
            if answer.done and now is not None and is_awaited:
                if answer.errno is not None:
                    self._fail(now, answer)
                else:
                    self._filled(now, key)

        start = index * inode.piece_bytes
        command = FillCommand(
            path=inode.stored_path, key=key, start=start, bytes=size, facts=inode.facts, urgent=urgent
        )
        self._core.command(inode.holders(index)[0], command, done)

    def _begun(self, ino: int, key: str) -> None:
        waiting = self._unbegun.get(ino, set())
        waiting.discard(key)
        if not waiting and self._unbegun.pop(ino, None) is not None:
            self._core.happened(FillBegunEvent(ino))

    def _filled(self, inode: Inode, key: str) -> None:
        self._coming[inode.ino].discard(key)
        if not self._coming[inode.ino]:
            del self._coming[inode.ino]
            self.failed.pop(inode.ino, None)
            self._core.commit(InodeRecord(replace(inode, filling=False)))

    def _fail(self, inode: Inode, answer: CommandAnswer) -> None:
        del self._coming[inode.ino]
        if answer.errno == errno.ENOENT and inode.parent:  # whoever opens it next sees what is there now
            self._core.commit(SeenRecord(inode.parent, 0.0))
        if answer.errno != errno.EHOSTDOWN:  # else another node may have it
            self.failed[inode.ino] = answer.error
        self.let_go(inode)
        if self._unbegun.pop(inode.ino, None) is not None:
            self._core.happened(FillBegunEvent(inode.ino))

    def let_go(self, inode: Inode) -> None:
        """Drop a file's bytes from memory; the shared storage has them."""
        writer = self._core.image.writer(inode.ino)
        if writer is not None:  # it must not commit a version that continues from bytes which aren't here
            self._core.commit(HandleRecord(replace(writer, is_cut_off=True)))
        self._core.commit(InodeRecord(replace(inode, pieces=(), ring=(), filling=False)))

    def evictable(self) -> Iterator[Inode]:
        """Iterate over what may go now, in no order."""
        return (inode for inode in self._core.image.inodes.values() if self._may_go(inode))

    def _may_go(self, inode: Inode) -> bool:
        is_used = inode.filling or self._core.image.is_open(inode.ino)
        return inode.kind == FILE and bool(inode.ring and inode.pieces) and inode.state == "clean" and not is_used

    def evict(self, ino: int) -> None:
        """Drop a file's bytes, if they are in no use."""
        inode = self._core.image.inodes.get(ino)
        if inode is not None and self._may_go(inode):
            self.let_go(inode)

    def make_room(self, node: Node, size: int, spare: Collection[int] = ()) -> None:
        """Evict clean files from a node until this many bytes come free; write back if they are too few.

        The least recently used ones go first; after them those that were prefetched and not read.

        Parameters
        ----------
        node
            Which.
        size
            Bytes that are needed.
        spare
            Inodes that stay.
        """
        missing = max(size, node.capacity // EVICT_SHARE) - node.free_bytes - node.leaving_bytes
        if missing <= 0 or size > node.capacity:  # streams have the rest: evicting files would not help
            return
        there = (inode for inode in self.evictable() if node.name in inode.ring and inode.ino not in spare)
        candidates = sorted(there, key=lambda inode: (inode.ino in self._held, self._core.image.used(inode.ino)))
        for inode in candidates:
            if missing <= 0:
                return
            places = inode.places.get(node.name, {})
            missing -= sum(places.values())
            if places:
                self.let_go(inode)
        self._hurry()


def pieces_of(version: int, size: int, piece_bytes: int) -> Pieces:
    """Return the pieces of a file without holes."""
    count = -(-size // piece_bytes)
    return tuple((version, min(piece_bytes, size - index * piece_bytes)) for index in range(count))


def _full(node: Node, inode: Inode) -> OSError:
    return OSError(errno.ENOSPC, f"IOnode {node.name} has no room for {inode.name!r}: {node.free_bytes} bytes are free")
