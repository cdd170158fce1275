"""Opening, committing and closing files: who may read which version, and who writes the next one."""

import errno
from collections import Counter
from typing import Any

from msgspec.structs import replace

from bbflow.files.commands import DiscardCommand
from bbflow.files.inodes import DIRECTORY, FILE, Inode, Pieces, Striping, check_size, key_of, pages
from bbflow.files.master.awaited_events import AnyNodeEvent, ClosedEvent, NodeEvent, RoomEvent
from bbflow.files.master.committing import Committing, at
from bbflow.files.master.core import Answers, AnyCall, Call, Core
from bbflow.files.master.filling import Filling
from bbflow.files.master.image import MissingEntry
from bbflow.files.master.name_checks import made, touched
from bbflow.files.master.permissions import READ, WRITE, check_access
from bbflow.files.master.reading_ahead import ReadingAhead
from bbflow.files.master.records import (
    ClosedRecord,
    ForgetRecord,
    Handle,
    HandleRecord,
    InodeRecord,
    Record,
    TouchRecord,
)
from bbflow.files.master.scanning import Scanning
from bbflow.files.master.sessions import Session
from bbflow.files.replies import Given, GrantReply, OpenFileReply, OpenToWriteReply
from bbflow.files.requests import (
    ClientRequest,
    CloseFileRequest,
    CreateRequest,
    GrantRequest,
    OpenFileRequest,
    SessionRequest,
)

LITTLE_BYTES = 4 << 20
"""Room that comes along with an open for writing, if there is plenty."""
PLENTY = 64
"""Plenty is this many times that."""
CLOSING_S = 2.0
"""How long an open waits for another writer's end, if it doesn't say: a last close(2) on a mount returns before
the kernel tells the mount of it."""


class FileOpening:
    """Requests about open files.

    Parameters
    ----------
    core
        The master's state.
    filling, scanning, committing
        Its other parts.
    """

    def __init__(self, core: Core, filling: Filling, scanning: Scanning, committing: Committing) -> None:
        self._core, self._filling, self._scanning = core, filling, scanning
        self._committing, self._ahead = committing, ReadingAhead(core, filling)
        self.requests: Answers = {OpenFileRequest: self._open, CloseFileRequest: self._close, GrantRequest: self._room}
        """What changes nothing that others see."""
        self.changes: Answers = {CreateRequest: self._create}
        """What changes something."""

    # Opening.

    def _open(self, call: Call[OpenFileRequest]) -> OpenFileReply:
        inode = self._core.image.get(call.asked.ino)
        if inode.kind != FILE:
            raise OSError(errno.EISDIR if inode.kind == DIRECTORY else errno.EINVAL, f"{inode.name!r} isn't a file")
        if call.asked.write:
            check_access(inode, call.who, WRITE)
            return self._open_to_write(call, inode, truncate=call.asked.truncate)
        check_access(inode, call.who, READ)
        return self._open_to_read(call, inode)

    def _open_to_read(self, call: Call[OpenFileRequest], inode: Inode) -> OpenFileReply:
        writer = self._core.image.writer(inode.ino)
        # A program that reads the file which it still writes would wait for itself.
        if writer is not None and writer.session != call.session.name:
            wait_s = self._core.options.wait_s if call.asked.wait_s is None else call.asked.wait_s
            if wait_s:
                busy = OSError(errno.EBUSY, f"{inode.name!r} is still being written")
                call.wait(ClosedEvent(inode.ino), busy, wait_s, self._core.clock())
        if inode.parent and (inode.is_cold or self._core.options.read_only):
            self._scanning.look(call, self._core.image.inodes[inode.parent])
        self._check_there(call, inode)
        is_cold = self._filling.begin(call, inode)
        inode = self._core.image.inodes[inode.ino]  # it may be on its way by now
        self._ahead.opened(inode, call.session.host, comes=is_cold)
        handle = self._core.handle(call.session, inode, 0, inode.pieces, inode.striping)
        return OpenFileReply(cold=is_cold, **self._opened(call, inode, handle))

    def _opened(self, call: AnyCall, inode: Inode, handle: Handle) -> dict[str, Any]:
        """Decide that a file is open; return what is told of each one."""
        call.record(HandleRecord(handle))
        self._core.sessions.hold(call.session, inode.ino)
        return {
            "attr": inode.attr(),
            "handle": handle.number,
            "pieces": handle.pieces,
            "piece_bytes": handle.striping.piece_bytes,
            "ring": handle.striping.ring,
            "replicas": handle.striping.replicas,
        }

    def _check_there(self, call: AnyCall, inode: Inode) -> None:
        if inode.lost:
            raise OSError(errno.EIO, f"bytes of {self._core.image.path(inode)!r} were lost with their node")
        away = [name for name in inode.places if not self._is_up(name)]
        if away and not self._has_all(inode, set(away)):
            error = OSError(errno.EHOSTDOWN, f"IOnode {away[0]}, which has bytes of {inode.name!r}, is away")
            call.wait(NodeEvent(away[0]), error, self._core.options.node_loss_s, self._core.clock())

    def _is_up(self, name: str) -> bool:
        node = self._core.nodes.get(name)
        return node is not None and node.peer is not None

    def _has_all(self, inode: Inode, away: set[str]) -> bool:
        """Whether each piece lies on some node that is up."""
        return all(not version or set(inode.holders(index)) - away for index, (version, _) in enumerate(inode.pieces))

    def _open_to_write(
        self, call: Call[OpenFileRequest | CreateRequest], inode: Inode, *, truncate: bool
    ) -> OpenToWriteReply:
        writer = self._core.image.writer(inode.ino)
        if writer is not None:
            self._wait_for(call, writer, call.asked.wait_s)
        is_cold = False
        if not truncate:
            self._check_there(call, inode)
            is_cold = self._filling.begin(call, inode)
            inode = self._core.image.inodes[inode.ino] if is_cold else inode
        is_anew = truncate or not inode.ring
        # Until it commits, others read what was there.
        striping = self._new_striping(call) if is_anew else inode.striping
        pieces = () if truncate else inode.pieces
        handle = self._core.handle(call.session, inode, self._core.number(), pieces, striping)
        handle = replace(handle, pid=call.asked.pid)
        granted = self._grant_a_little(call.session, striping.ring[0])
        told = self._opened(call, inode, handle)
        return OpenToWriteReply(cold=is_cold, version=handle.version, granted=granted, append=not inode.is_cut, **told)

    def _wait_for(self, call: AnyCall, writer: Handle, wait_s: float | None) -> None:
        """Wait until a file is written no more, which its own session does for a moment only."""
        inode = self._core.image.inodes[writer.ino]
        if wait_s is None:
            longest_s = self._core.options.wait_s
            wait_s = max(longest_s, CLOSING_S) if longest_s >= 0 else longest_s
        if writer.session == call.session.name and not 0 <= wait_s <= CLOSING_S:
            wait_s = CLOSING_S
        busy = OSError(errno.EBUSY, f"{inode.name!r} is open for writing elsewhere: one writes at a time")
        call.wait(ClosedEvent(inode.ino), busy, wait_s, self._core.clock())

    def _new_striping(self, call: AnyCall) -> Striping:
        core = self._core
        ring = core.ring(call.session.host)
        if not ring:
            error = OSError(errno.EHOSTDOWN, "no IOnode is up")
            call.wait(AnyNodeEvent(), error, core.options.node_loss_s, core.clock())
        return Striping(ring, min(core.options.replicas, len(ring)), core.options.piece_bytes)

    def _grant_a_little(self, session: Session, name: str) -> dict[str, int]:
        node = self._core.nodes.get(name)
        missing = LITTLE_BYTES - session.room.get(name, 0)
        if node is None or self._core.options.replicas > 1 or missing < LITTLE_BYTES // 2:
            return {}
        if node.free_bytes < PLENTY * LITTLE_BYTES:
            return {}
        return self._grant(session, name, missing)

    def _grant(self, session: Session, name: str, size: int) -> dict[str, int]:
        self._core.grant(session, name, size)
        return {name: size}

    def truncated(self, call: AnyCall, inode: Inode, size: int) -> Inode:
        """Return a file cut off, or extended with zeros; no bytes are moved.

        Raises
        ------
        OSError
            EBUSY if another session writes it; EFBIG; what reading it would raise.
        """
        check_size(size)
        writer = self._core.image.writer(inode.ino)
        if writer is not None:  # what it commits would undo this
            self._wait_for(call, writer, None)
        if size == 0 and (inode.size or inode.pieces):
            # It lies nowhere from now on: what is written next goes where there is room then.
            inode = replace(self._committing.new_version(call, inode, (), 0, self._core.number()), ring=())
        elif size != inode.size:
            self._check_there(call, inode)
            self._filling.complete(call, inode)
            pieces = cut(inode.pieces, inode.piece_bytes, size)
            inode = replace(inode, is_cut=inode.is_cut or pieces != inode.pieces)
            inode = self._committing.new_version(call, inode, pieces, size, self._core.number())
        return replace(inode, mtime_ns=self._core.now_ns())

    # Creating.

    def _create(self, call: Call[CreateRequest]) -> OpenToWriteReply:
        core, asked = self._core, call.asked
        try:
            directory, name = core.image.walk(asked.parent, asked.name, call.who)
        except MissingEntry as error:
            self._scanning.look(call, error.directory)
            raise
        if not name:
            raise IsADirectoryError(errno.EISDIR, "that is the root")
        there = core.image.child(directory.ino, name)
        if there is None:
            self._scanning.look(call, directory)
            return self._create_new(call, directory, name)
        if asked.exclusive:
            raise FileExistsError(errno.EEXIST, f"there is a {name!r} already")
        if there.kind != FILE:
            raise OSError(errno.EISDIR if there.kind == DIRECTORY else errno.ELOOP, f"{name!r} isn't a file")
        check_access(there, call.who, WRITE)
        return replace(self._open_to_write(call, there, truncate=asked.truncate), created=False)

    def _create_new(self, call: Call[CreateRequest], directory: Inode, name: str) -> OpenToWriteReply:
        core = self._core
        # To walk up to the root costs each create something: only where something depends on it.
        path = core.image.path_of(directory, name) if core.image.hidden or core.options.scratch else name
        core.check_free(path)
        now_ns, storage = core.now_ns(), core.options.storage
        inode = made(core.image, directory, name, FILE, call.asked.mode, call.who, now_ns, storage)
        inode = replace(inode, scratch=core.is_scratch(path), piece_bytes=core.options.piece_bytes)
        call.record(InodeRecord(inode), TouchRecord(touched(directory, now_ns)))
        call.changes.add(directories=(directory.ino,))
        return replace(self._open_to_write(call, inode, truncate=False), created=True)

    # Closing.

    def _close(self, call: Call[CloseFileRequest]) -> None:
        handle = self._core.image.handle(call.session.name, call.asked.handle)
        for name, size in call.asked.room.items():
            self._give_back(call.session, name, size)
        if handle is not None:
            self._close_well(call, handle, discard=call.asked.dirty)

    def undo(self, session: Session, given: Given) -> None:
        """Release what a reply gave that its client doesn't wait for any more."""
        handle = self._core.image.handle(session.name, given.handle)
        if handle is not None:
            call = Call(0, session, ClientRequest(), session.who)
            self._close_well(call, handle, discard=True)
            self._core.count(call)
        for name, size in given.granted.items():
            self._give_back(session, name, size)

    def _close_well(self, call: AnyCall, handle: Handle, *, discard: bool) -> None:
        """Close a handle that its client doesn't need any more; a new file is empty if nothing was committed."""
        inode = self._core.image.inodes[handle.ino]
        if handle.version and inode.expected:
            inode = at(inode, handle.striping, is_cut=inode.is_cut)
            inode = self._committing.new_version(call, inode, (), 0, handle.version)
            call.record(InodeRecord(inode))
        call.record(*self._closed(inode, handle, discard=discard))

    def _give_back(self, session: Session, name: str, size: int) -> None:
        size = min(size, session.room.get(name, 0))
        if size > 0 and name in self._core.nodes:
            self._core.grant(session, name, -size)
            self._core.happened(RoomEvent(name))

    def _closed(self, inode: Inode, handle: Handle, *, discard: bool) -> list[Record]:
        """Return what is so once a handle is closed.

        Parameters
        ----------
        inode
            Its file, as it is then.
        handle
            Which.
        discard
            Whether piece files may lie around that were written and not committed.
        """
        records: list[Record] = [ClosedRecord(handle)]
        if handle.version and discard:
            records += self._discarded(inode, handle)
        if not inode.parent and self._core.image.is_last(handle):
            records.append(ForgetRecord(inode.ino))
        return records

    def _discarded(self, inode: Inode, handle: Handle) -> list[Record]:
        """Release what was written and not committed: whole piece files, and what was appended to the last one."""
        last = len(handle.pieces) - 1
        version, size = handle.pieces[last] if handle.pieces else (0, 0)
        grown = ((key_of(version, last), size),) if version and not inode.is_cut else ()
        for name in set(handle.striping.ring):
            node = self._core.nodes.get(name)
            if node is not None and node.peer is not None:
                self._core.command(name, DiscardCommand(version=handle.version, cut=grown), lambda _: None)
        # No one may append there before it is cut off, while whoever wrote it may continue.
        return [InodeRecord(replace(inode, is_cut=True))] if grown and inode.parent else []

    def end(self, session: Session) -> list[Inode]:
        """Close all that a session has open; return the files that were never committed, whose names go."""
        unborn, image = [], self._core.image
        for handle in image.handles_of(session.name):
            inode = image.inodes[handle.ino]
            self._core.commit(*self._closed(inode, handle, discard=True))
            if handle.version and inode.expected and inode.parent:
                unborn.append(inode.ino)
        for name in list(session.room):
            self._give_back(session, name, session.room[name])
        return [image.inodes[ino] for ino in unborn]

    # Room.

    def _room(self, call: Call[GrantRequest]) -> GrantReply:
        name, size = call.asked.node, pages(call.asked.bytes)
        if size <= 0:
            raise OSError(errno.EINVAL, f"no room of {size} bytes on {name!r}")
        node = self._core.nodes.get(name)
        if node is None or not node.most_bytes:  # this master was just started
            error = OSError(errno.EHOSTDOWN, f"IOnode {name} is away")
            call.wait(NodeEvent(name), error, self._core.options.node_loss_s, self._core.clock())
        if size > node.most_bytes:
            raise OSError(errno.ENOSPC, f"{size} bytes are more than all of IOnode {name} ({node.most_bytes})")
        if size > node.free_bytes:
            self._filling.make_room(node, size)
            error = OSError(errno.ENOSPC, f"IOnode {name} is full: {node.free_bytes} bytes of {node.capacity} are free")
            call.wait(RoomEvent(name), error, self._core.options.room_timeout_s, self._core.clock())
        # A wish saves its client further requests, but must not take what other writers need. Who had to wait isn't the
        # only one: its client's other calls wait on, and don't look at what it has to spare.
        wish = 0 if call.blocked else min(pages(call.asked.wish), node.free_bytes // 8)
        return GrantReply(granted=self._grant(call.session, name, max(size, wish)))

    def resume(self, session: Session, asked: SessionRequest, in_flight: list[Given]) -> list[int]:
        """Take a session in again that had lost its connection; return the handles that live on.

        Parameters
        ----------
        session
            Which.
        asked
            What it says that it has: what else is open here it has closed, and its message was lost.
        in_flight
            What replies give that it has not got yet: that is its own, too.
        """
        call = Call(0, session, ClientRequest(), session.who)
        known = {number for number, *_ in asked.handles} | {given.handle for given in in_flight}
        for handle in self._core.image.handles_of(session.name):
            if handle.number not in known:
                self._close_well(call, handle, discard=True)
                self._core.count(call)
        has = Counter(asked.room)
        for given in in_flight:
            has.update(given.granted)
            has.subtract(given.spent)
        for name, size in has.items():
            missing = size - session.room.get(name, 0)
            if missing > 0:
                self._core.grant(session, name, missing)
        return [handle[0] for handle in asked.handles if self._resume(session, *handle)]

    def _resume(self, session: Session, number: int, ino: int, version: int, write: int) -> bool:
        image = self._core.image
        if image.handle(session.name, number) is not None:
            return True
        inode = image.inodes.get(ino)
        # Handles for writing are stored: one that isn't here has ended. A reader's is made again, if it still fits.
        if inode is None or write or inode.version != version or number in image.handles:
            return False
        self._core.commit(HandleRecord(Handle(number, session.name, ino, 0, inode.pieces, inode.striping)))
        return True

    def restore(self, handle: Handle) -> None:
        """Take a handle for writing in that a master before this one gave."""
        inode = self._core.image.inodes.get(handle.ino)
        if handle.session not in self._core.sessions.by_name or inode is None:
            self._core.commit(ClosedRecord(handle))
            return
        # What was on its way here isn't any more.
        self._core.commit(HandleRecord(replace(handle, pieces=inode.pieces, is_cut_off=inode.is_cold)))


def cut(pieces: Pieces, piece_bytes: int, size: int) -> Pieces:
    """Return what is left of pieces when a file ends at `size`."""
    kept = []
    for index, (version, count) in enumerate(pieces):
        left = size - index * piece_bytes
        if left <= 0:
            break
        kept.append((version, min(count, left)))
    return tuple(kept)
