"""Committing: a version of a file counts, all at once."""

import errno

from msgspec.structs import replace

from bbflow.errors import ProtocolError
from bbflow.files.inodes import Inode, Pieces, Striping, check_size, key_of, pages
from bbflow.files.master.awaited_events import NodeEvent
from bbflow.files.master.core import Answers, AnyCall, Call, Core, Deferred
from bbflow.files.master.permissions import mode_after_write
from bbflow.files.master.records import Handle, HandleRecord, InodeRecord
from bbflow.files.master.replicas import Replicas
from bbflow.files.master.room import delta
from bbflow.files.master.writeback import WriteBack
from bbflow.files.master.written_pieces import WrittenPieces
from bbflow.files.replies import CommitReply
from bbflow.files.requests import CommitFileRequest


class Committing:
    """The request `commit`, and all that gives a file a new version.

    Parameters
    ----------
    core
        The master's state.
    write_back, replicas
        Its other parts.
    """

    def __init__(self, core: Core, write_back: WriteBack, replicas: Replicas) -> None:
        self._core, self._write_back, self._replicas = core, write_back, replicas
        self._written = WrittenPieces(core, replicas)
        self.changes: Answers = {CommitFileRequest: self._commit}
        """What changes something."""

    def _commit(self, call: Call[CommitFileRequest]) -> CommitReply:
        handle = self._core.image.handle(call.session.name, call.asked.handle)
        if handle is None:
            raise OSError(errno.ESTALE, f"no file is open as {call.asked.handle}")
        inode, size, pieces = self._core.image.inodes[handle.ino], call.asked.size, call.asked.pieces
        if not handle.version:
            raise OSError(errno.EBADF, f"{inode.name!r} isn't open for writing")
        self._written.wait_for_copies(call, handle)
        _check_base(handle, inode, pieces)
        self._check_pieces(handle, pieces, size)
        added = delta(handle.striping.places(handle.pieces), handle.striping.places(pieces))
        self._check_room(call, added)
        new = [
            (index, pieces[index])
            for index in range(len(pieces))
            if pieces[index][0] and pieces[index] not in handle.pieces[index : index + 1]
        ]
        absent = self._written.check(call, handle, inode, new)
        for name, more in added.items():
            self._core.grant(call.session, name, -more)
        for index, (version, count) in new:  # no others: a copy of one may be missing, and is still to be made
            for name in handle.striping.holders(index):
                self._core.nodes[name].place(key_of(version, index), pages(count))
        self._replicas.miss(inode.ino, absent)
        return self._count(call, handle, added)

    def _count(self, call: Call[CommitFileRequest], handle: Handle, added: dict[str, int]) -> CommitReply:
        """Decide that a version counts, now that its bytes are where they belong."""
        core, asked, pieces = self._core, call.asked, call.asked.pieces
        inode = core.image.inodes[handle.ino]
        # The file lies where its writer has put it now, no longer where the version before lay.
        inode = at(inode, handle.striping, is_cut=is_cut(handle.pieces, pieces, was=inode.is_cut))
        inode = self.new_version(call, inode, pieces, asked.size, handle.version)
        mtime_ns = inode.mtime_ns if asked.mtime_ns is None else asked.mtime_ns
        inode = replace(inode, mtime_ns=mtime_ns, mode=mode_after_write(inode, call.who))
        # What it writes from here on is the next version: whole pieces that count are never written again.
        verifiers = core.verifiers(handle.striping.ring)
        handle = replace(handle, version=core.number(), pieces=pieces, is_cut_off=False, verifiers=verifiers)
        call.record(InodeRecord(inode), HandleRecord(handle))
        core.sessions.hold(call.session, inode.ino)
        reply = CommitReply(
            attr=inode.attr(), version=handle.version, append=not inode.is_cut, granted={}, spent=added, seq=core.seq
        )
        if self._write_back.must_wait(inode, sync=asked.sync):
            self._write_back.when_written(inode, lambda: core.finish(call, reply))
            raise Deferred
        return reply

    def _check_pieces(self, handle: Handle, pieces: Pieces, size: int) -> None:
        """Refuse a version that a client of the format can't have written."""
        piece_bytes = handle.striping.piece_bytes
        if size < 0 or len(pieces) > -(-size // piece_bytes):
            raise ProtocolError(f"a commit of {len(pieces)} pieces for {size} bytes")
        check_size(size)
        for index, (version, count) in enumerate(pieces):
            old = handle.pieces[index] if index < len(handle.pieces) else (0, 0)
            if version not in (0, handle.version, old[0]) or not 0 <= count <= piece_bytes:
                raise ProtocolError(f"a commit with piece {version:x}.{index:x} of {count} bytes, which isn't its own")

    def _check_room(self, call: AnyCall, added: dict[str, int]) -> None:
        for name, size in added.items():
            if name not in self._core.nodes:  # this master was just started
                error = OSError(errno.EHOSTDOWN, f"IOnode {name} is away")
                call.wait(NodeEvent(name), error, self._core.options.node_loss_s, self._core.clock())
            room = call.session.room.get(name, 0)
            if size > room:
                raise OSError(errno.EDQUOT, f"{size} bytes were written on {name}, with room for {room}")

    def new_version(self, call: AnyCall, inode: Inode, pieces: Pieces, size: int, version: int) -> Inode:
        """Return a file with another version; what needs the one before keeps it."""
        now_ns = self._core.now_ns()
        call.changes.add(inos=(inode.ino,))
        return self._write_back.dirtied(replace(
            inode, pieces=pieces, size=size, version=version, expected=False, lost=False, filling=False,
            mtime_ns=now_ns, ctime_ns=now_ns,
        ))  # fmt: skip


def at(inode: Inode, striping: Striping, *, is_cut: bool) -> Inode:
    """Return a file whose pieces are to lie elsewhere."""
    ring, replicas, piece_bytes = striping.ring, striping.replicas, striping.piece_bytes
    return replace(inode, ring=ring, replicas=replicas, piece_bytes=piece_bytes, is_cut=is_cut)


def _check_base(handle: Handle, inode: Inode, pieces: Pieces) -> None:
    """Refuse a version that continues from bytes which are gone."""
    goes_on = any(version not in (0, handle.version) for version, _ in pieces)
    if goes_on and (handle.is_cut_off or inode.lost):
        raise OSError(errno.EIO, f"bytes of {inode.name!r} went from memory while it was written: write it again")


def is_cut(before: Pieces, after: Pieces, *, was: bool) -> bool:
    """Whether the last piece's file holds more than counts, once a version follows another."""
    if not after:
        return False
    last = len(after) - 1
    old = before[last] if last < len(before) else (0, 0)
    if after[last][0] != old[0]:
        return False
    return after[last][1] < old[1] or (was and last == len(before) - 1)
