"""Committing: a version of a file counts, all at once, and only when a node has each of its new pieces."""

import errno
from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from bbflow.errors import ProtocolError
from bbflow.files.commands import CommandAnswer, HaveCommand
from bbflow.files.inodes import Inode, Piece, Pieces, Striping, check_size, key_of, pages
from bbflow.files.master.awaited_events import NodeEvent, SeenEvent
from bbflow.files.master.core import Answers, AnyCall, Call, Core, Deferred, SeenPieces
from bbflow.files.master.permissions import mode_after_write
from bbflow.files.master.records import Handle, HandleRecord, InodeRecord
from bbflow.files.master.replicas import Places, Replicas
from bbflow.files.master.room import delta
from bbflow.files.master.writeback import WriteBack
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
        self._copying: set[int] = set()
        """Handles of which something is being copied for a commit."""
        self.changes: Answers = {CommitFileRequest: self._commit}
        """What changes something."""

    def _commit(self, call: Call[CommitFileRequest]) -> CommitReply:
        handle = self._core.image.handle(call.session.name, call.asked.handle)
        if handle is None:
            raise OSError(errno.ESTALE, f"no file is open as {call.asked.handle}")
        inode, size, pieces = self._core.image.inodes[handle.ino], call.asked.size, call.asked.pieces
        if not handle.version:
            raise OSError(errno.EBADF, f"{inode.name!r} isn't open for writing")
        self._wait_for_copies(call, handle)
        _check_base(handle, inode, pieces)
        self._check_pieces(handle, pieces, size)
        added = delta(handle.striping.places(handle.pieces), handle.striping.places(pieces))
        self._check_room(call, added)
        new = [
            (index, pieces[index])
            for index in range(len(pieces))
            if pieces[index][0] and pieces[index] not in handle.pieces[index : index + 1]
        ]
        absent = self._check_written(call, handle, inode, new)
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

    # Whether what a commit tells of is there.

    def _wait_for_copies(self, call: AnyCall, handle: Handle) -> None:
        """Wait until nothing of a handle is being copied for a commit.

        If it is another one, its client waits for that no longer: it must neither count after this one, nor take its
        room twice.
        """
        if handle.number in self._copying:
            self._wait(call, handle)

    def _check_written(
        self, call: Call[CommitFileRequest], handle: Handle, inode: Inode, new: list[tuple[int, Piece]]
    ) -> list[tuple[str, str]]:
        """Wait for the nodes of pieces that are to count, and until they are copied to further ones.

        Parameters
        ----------
        call
            The commit; it is decided again from its begin whenever something has come of that.
        handle, inode
            What it commits.
        new
            The new pieces, each with its number.

        Returns
        -------
        list
            Copies that aren't there, by node and piece file: `Replicas.miss` is to know once they count.

        Raises
        ------
        OSError
            EIO if a node has lost what was written to it; EHOSTDOWN if it stays away.
        """
        seen = call.seen = call.seen or SeenPieces()
        absent = []
        for index, (version, _) in new:
            key = key_of(version, index)
            first, *others = handle.striping.holders(index)
            lacking = [(name, key) for name in others if not self._is_seen(seen, name, key)]
            if len(lacking) == len(others):
                self._wait_for_node(call, inode, first)
            is_kept = handle.verifiers[index % len(handle.striping.ring)] == self._core.nodes[first].verifier
            if not is_kept and not self._is_seen(seen, first, key):
                if len(lacking) == len(others):
                    self._look(call, handle, inode, first, is_own=version == handle.version)
                lacking.append((first, key))
            absent += lacking
        if handle.striping.replicas > 1 and new and not seen.are_copied:
            # The version doesn't count before its copies are there: a close that was answered must outlive a node.
            seen.are_copied = True
            self._copying.add(handle.number)
            self._replicas.copy(handle, new, partial(self._copied, handle, seen))
            self._wait(call, handle)
        return absent

    def _copied(self, handle: Handle, seen: SeenPieces, there: Places) -> None:
        seen.places |= there
        self._copying.discard(handle.number)
        self._core.happened(SeenEvent(handle.number))

    def _wait(self, call: AnyCall, handle: Handle) -> NoReturn:
        over = OSError(errno.EIO, "an earlier commit of this file isn't over")
        call.wait(SeenEvent(handle.number), over, -1, self._core.clock())

    def _is_seen(self, seen: SeenPieces, name: str, key: str) -> bool:
        verifier = seen.places.get((name, key))
        return verifier is not None and verifier == self._core.nodes[name].verifier

    def _wait_for_node(self, call: AnyCall, inode: Inode, name: str) -> None:
        node = self._core.nodes.get(name)
        if node is None or node.peer is None:
            away = OSError(errno.EHOSTDOWN, f"IOnode {name}, which has bytes of {inode.name!r}, is away")
            call.wait(NodeEvent(name), away, self._core.options.node_loss_s, self._core.clock())

    def _look(self, call: Call[CommitFileRequest], handle: Handle, inode: Inode, name: str, *, is_own: bool) -> None:
        """Ask a node that came back empty for a commit's own pieces; refuse what it hasn't.

        No client begins a piece of its own twice: one that is there was begun after that. What was appended to an older
        one may have gone, and the rest have been copied here again.
        """
        seen, verifier = call.seen or SeenPieces(), self._core.nodes[name].verifier
        if not is_own or (name, verifier) in seen.asked:
            what = f"IOnode {name} came back without what was written to {inode.name!r}: write it again"
            raise OSError(errno.EIO, what)
        own = {
            key_of(version, index): size
            for index, (version, size) in enumerate(call.asked.pieces)
            if version == handle.version and handle.striping.holders(index)[0] == name
        }

        def told(answer: CommandAnswer) -> None:
            if answer.errno is not None:
                seen.asked.discard((name, verifier))  # it went away again
            there = dict(answer.keys)
            seen.places |= {(name, key): verifier for key, size in own.items() if there.get(key, -1) >= size}
            self._core.happened(SeenEvent(handle.number))

        seen.asked.add((name, verifier))
        self._core.command(name, HaveCommand(keys=tuple(own)), told)
        self._wait(call, handle)


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
