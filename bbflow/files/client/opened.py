"""An open file: ranges of it are read from, and written to, pieces on IOnodes."""

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from bbflow.errors import ConfigError
from bbflow.files.client.calling import IonodeCaller, UnansweredError
from bbflow.files.inodes import Piece, Pieces, check_size, holders, key_of, pages
from bbflow.files.piece_requests import MOST_BYTES, CopyRequest, CutRequest
from bbflow.files.pieces import lacking, write_all
from bbflow.files.replies import CommitReply, FileReply, OpenFileReply, OpenToWriteReply
from bbflow.files.requests import CloseFileRequest, CommitFileRequest, OpenFileRequest
from bbflow.host.held import HeldDirectory

if TYPE_CHECKING:
    from bbflow.files.client.session import ClientSession

ASK_BYTES = 32 << 20
"""How much room is asked for at once."""
KEEP_BYTES = 4 << 20
"""How much room a session keeps when it closes a file."""
ATTEMPTS = 5
PAUSE_S = 0.2


class OpenFile:
    """A file of the namespace, opened by `FilesClient.open`.

    Parameters
    ----------
    session
        With the file's master.
    path
        Its path, for messages.
    told
        The master's reply.
    truncated
        Whether it begins without bytes.
    appends
        Whether every write goes to the end.
    """

    def __init__(
        self,
        session: "ClientSession",
        path: str,
        told: OpenFileReply,
        *,
        truncated: bool = False,
        appends: bool = False,
    ) -> None:
        self._session, self.path = session, path
        self._lock = threading.RLock()
        self.ino, self._handle = told.attr.ino, told.handle
        self.read_version = told.attr.version
        """The version as it was opened."""
        self._take_striping(told)
        self._charged: dict[int, int] = {}
        # Piece files of this client's that may hold bytes which don't count: they are cut before they are written to.
        self._ragged: set[str] = set()
        # Whether the reply to a commit never came: its pieces may be others' then.
        self._is_unsure = False
        # Whether the last commit was refused: what a node has lost counts never again under its version.
        self._is_refused = False
        self._version, self._may_append, is_new = 0, False, False
        self.writes = isinstance(told, OpenToWriteReply)
        """Whether it is open for writing."""
        if isinstance(told, OpenToWriteReply):
            self._version, self._may_append, is_new = told.version, told.append, told.created is True
        self._appends = appends
        self.size = 0 if truncated else told.attr.size
        """Bytes, as this process sees them."""
        # A new file that is closed without any commit is empty by that.
        self._dirty, self._lost, self._closed = truncated and not is_new, False, False
        session.open_files[self._handle] = self

    def _take_striping(self, told: OpenFileReply) -> None:
        self._piece_bytes, self._replicas, self._ring = told.piece_bytes, told.replicas, told.ring
        self._pieces = dict(enumerate(told.pieces))
        self._committed = dict(self._pieces)
        self._cold = told.cold

    # Reading.

    def pread(self, size: int, offset: int) -> bytes:
        """Read a range, as far as the file goes.

        Raises
        ------
        OSError
            EIO if it is lost, or the session is.
        """
        with self._lock:
            self._check_open()
            target = bytearray(max(min(size, self.size - offset), 0))
            for attempt in range(ATTEMPTS):
                try:
                    self._read(memoryview(target), offset)
                    return bytes(target)
                except FileNotFoundError as error:
                    missing = error
                time.sleep(PAUSE_S * attempt)  # a node's end may not have come round yet
                self._reopen(missing)
            raise OSError(errno.EIO, f"{self.path}: a piece isn't where it should be ({missing})")

    def _read(self, target: memoryview, offset: int) -> None:
        at = 0
        for index, begin, length in self._ranges(offset, len(target)):
            self._read_piece(index, begin, target[at : at + length])
            at += length

    def _reopen(self, missing: FileNotFoundError) -> None:
        """Reopen the same version from the shared storage, once its node has lost it."""
        if self.writes:
            raise OSError(errno.EIO, f"{self.path}: a piece is gone while it is open for writing ({missing})")
        told = self._session.call(OpenFileRequest(ino=self.ino, wait_s=0), OpenFileReply)
        # A reader has one version from open to close, and no bytes of two.
        if told.attr.version != self.read_version:
            self._session.tell(CloseFileRequest(handle=told.handle))
            raise OSError(errno.EIO, f"{self.path}: what was opened is gone, there is a newer version: open it again")
        self._session.open_files.pop(self._handle, None)
        self._session.tell(CloseFileRequest(handle=self._handle))
        self._handle, self._lost = told.handle, False
        self._session.open_files[self._handle] = self
        self._take_striping(told)

    def _ranges(self, offset: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Iterate over the pieces of a range: number, begin in the piece, bytes."""
        end = offset + size
        while offset < end:
            index, begin = divmod(offset, self._piece_bytes)
            length = min(self._piece_bytes - begin, end - offset)
            yield index, begin, length
            offset += length

    def _read_piece(self, index: int, begin: int, target: memoryview) -> None:
        version, count = self._pieces.get(index, (0, 0))
        there = max(min(len(target), count - begin), 0) if version else 0
        if there:
            self._fetch(index, version, begin, target[:there])

    def _fetch(self, index: int, version: int, begin: int, target: memoryview) -> None:
        error: OSError | None = None
        for attempt in range(ATTEMPTS):
            for name in holders(self._ring, index, self._replicas):
                try:
                    self._fetch_from(name, key_of(version, index), begin, target)
                    return
                except OSError as failure:
                    if failure.errno not in (errno.EHOSTDOWN, errno.ENOENT):
                        raise
                    error = failure
            # The nodes are there and don't have it: the master alone knows where it is now.
            if isinstance(error, FileNotFoundError):
                raise error
            time.sleep(PAUSE_S * (attempt + 1))
        raise OSError(errno.EIO, f"{self.path}: piece {index} can't be had ({error})")

    def _fetch_from(self, name: str, key: str, begin: int, target: memoryview) -> None:
        local = self._session.pieces(name)
        if local is not None and not self._cold:
            descriptor = _opened(local, key, os.O_RDONLY)
            try:
                count = os.preadv(descriptor, [target], begin)
            finally:
                os.close(descriptor)
        else:
            count = 0
            for at in range(0, len(target), MOST_BYTES):
                part = target[at : at + MOST_BYTES]
                read = partial(IonodeCaller.read, key=key, offset=begin + at, target=part)
                count += self._session.on_node(name, read)
        if count < len(target):
            raise FileNotFoundError(errno.ENOENT, f"{name} has a copy of an older, shorter version")

    # Writing.

    def pwrite(self, content: bytes | bytearray | memoryview, offset: int) -> int:
        """Write a range; others see it after `sync` or `close`.

        Raises
        ------
        OSError
            EBADF if it isn't open for writing, EFBIG, ENOSPC, EIO: the file is as it was, but for bytes that
            were written here since it was last committed, of which some may have been overwritten.
        """
        view = memoryview(content).cast("B")
        with self._lock:
            self._check_writes()
            if self._appends:
                offset = self.size
            check_size(offset + len(view))
            before: dict[int, Piece | None] = {}
            at = 0
            try:
                for index, begin, length in self._ranges(offset, len(view)):
                    before[index] = self._pieces.get(index)
                    self._write_piece(index, begin, view[at : at + length])
                    at += length
            except BaseException:
                self._undo(before)
                raise
            self.size = max(self.size, offset + len(view))
            self._dirty = self._dirty or bool(view)
        return len(view)

    def _check_writes(self) -> None:
        self._check_open()
        if not self.writes:
            raise OSError(errno.EBADF, f"{self.path} isn't open for writing")
        if self._is_unsure:  # what it writes must not be what others read
            self._commit(sync=False)

    def _undo(self, before: dict[int, Piece | None]) -> None:
        """Make pieces count again as they did before a write that failed."""
        for index, piece in before.items():
            version, _ = self._pieces.pop(index, (0, 0))
            self._ragged.add(key_of(version, index))
            if piece is not None:
                self._pieces[index] = piece
            if (piece is None or piece[0] != self._version) and key_of(self._version, index) in self._ragged:
                self._trim(index, 0)

    def _write_piece(self, index: int, begin: int, content: memoryview) -> None:
        version, count = self._pieces.get(index, (0, 0))
        committed = self._committed.get(index, (0, 0))
        name, end = self._ring[index % len(self._ring)], begin + len(content)
        appends = version and version == committed[0] and self._is_extensible(index) and begin >= committed[1]
        new = version if appends else self._version
        key, is_replaced = key_of(new, index), version != new and begin == 0 and end >= count
        kept = 0 if is_replaced else count
        # Room before bytes: the node never has more than it may.
        self._charge(index, new, max(end, kept))
        # An earlier writer that died may have left bytes behind the committed end, which this one mustn't make count.
        is_ragged = key in self._ragged or (appends and count == committed[1])
        self._ragged.add(key)
        if kept and version != new:
            asked = CopyRequest(key=key, of=key_of(version, index), bytes=kept)
            self._session.on_node(name, lambda node: node.call(asked, FileReply))
        elif is_ragged and kept:
            self._cut(name, key, kept)
        self._put(name, key, begin, content, kept)
        self._pieces[index] = (new, max(kept, end))
        self._ragged.discard(key)

    def _is_extensible(self, index: int) -> bool:
        """Whether no one uses what lies behind a committed piece's bytes."""
        return self._may_append and index == max(self._committed, default=-1)

    def _cut(self, name: str, key: str, size: int) -> None:
        self._session.on_node(name, lambda node: node.call(CutRequest(key=key, bytes=size), FileReply))

    def _trim(self, index: int, size: int) -> None:
        """Free the memory of what was written to a piece and doesn't count, now if its node is there."""
        key = key_of(self._version, index)
        self._ragged.add(key)
        with suppress(OSError):
            self._cut(self._ring[index % len(self._ring)], key, size)
            self._ragged.discard(key)

    def _charge(self, index: int, version: int, size: int) -> None:
        """Take room for a piece of this many bytes on each of its nodes."""
        need = self._need(index, version, size)
        more = need - self._charged.get(index, 0)
        if more <= 0:
            return
        for name in holders(self._ring, index, self._replicas):
            self._session.take_room(name, more, ASK_BYTES if size > KEEP_BYTES else KEEP_BYTES)
        self._charged[index] = need

    def charged(self) -> Counter[str]:
        """Return the room that was taken for what isn't committed, by node."""
        room: Counter[str] = Counter()
        for index, size in self._charged.items():
            room.update(dict.fromkeys(holders(self._ring, index, self._replicas), size))
        return room

    def _need(self, index: int, version: int, size: int) -> int:
        """Return the memory that a piece takes beside what was committed."""
        committed = self._committed.get(index, (0, 0))
        return max(pages(size) - (pages(committed[1]) if version == committed[0] else 0), 0) if version else 0

    def _put(self, name: str, key: str, begin: int, content: memoryview, kept: int) -> None:
        local = self._session.pieces(name)
        if local is not None:
            self._session.settle(name)
            try:
                descriptor = _opened(local, key, os.O_WRONLY | (0 if kept else os.O_CREAT))
            except FileNotFoundError:
                raise lacking(key, 0, kept) from None
            try:
                # A node that was started again without its memory has less: a hole would count as what it had.
                if (has := os.fstat(descriptor).st_size) < kept:
                    raise lacking(key, has, kept)
                if not kept:
                    os.ftruncate(descriptor, 0)
                write_all(descriptor, content, begin)
            finally:
                os.close(descriptor)
            return
        for at in range(0, len(content), MOST_BYTES):
            part, makes = content[at : at + MOST_BYTES], not (kept or at)
            write = partial(IonodeCaller.write, key=key, offset=begin + at, content=part, make=makes)
            self._session.on_node(name, write)

    def truncate(self, size: int) -> None:
        """Truncate the file at `size`.

        Raises
        ------
        OSError
            EBADF if it isn't open for writing, EFBIG.
        """
        check_size(size)
        with self._lock:
            self._check_writes()
            for index in [index for index in self._pieces if index * self._piece_bytes >= size]:
                version, _ = self._pieces.pop(index)
                if version == self._version:
                    self._trim(index, 0)
            last = size // self._piece_bytes
            if last in self._pieces:
                self._shorten(last, size - last * self._piece_bytes)
            self.size, self._dirty = size, True
            if self._is_refused and not self._pieces:
                self._commit(sync=False)  # what is written from now on has another version

    def _shorten(self, index: int, count: int) -> None:
        version, there = self._pieces[index]
        if count >= there:
            return
        self._pieces[index] = (version, count)
        if version == self._version:
            self._trim(index, count)
        else:
            # Behind what counts now lie bytes that readers of the version before may still need.
            self._may_append = False

    # Making it count.

    def sync(self) -> None:
        """Make everything written so far count for all clients.

        Raises
        ------
        OSError
            If it can't be; EIO if the session is lost.
        """
        with self._lock:
            self._check_open()
            if self._dirty:
                self._commit(sync=True)

    def _commit(self, *, sync: bool) -> None:
        count = max((index for index, (version, _) in self._pieces.items() if version), default=-1) + 1
        pieces: Pieces = tuple(self._pieces.get(index, (0, 0)) for index in range(count))
        asked = CommitFileRequest(handle=self._handle, size=self.size, pieces=pieces, sync=sync)
        self._settle()
        self._require_written()
        was_unsure, self._is_unsure = self._is_unsure, True
        try:
            told = self._session.call(asked, CommitReply)
        except UnansweredError:
            raise
        except OSError:
            self._is_unsure, self._is_refused = was_unsure, True
            raise
        # Only after the commit, which may fail: then all of it is still charged.
        self._is_unsure = self._is_refused = False
        self._ragged.clear()
        self._give_unspent_back(pieces)
        self._version, self._may_append = told.version, told.append
        self.read_version = told.attr.version
        self._committed, self._charged, self._dirty = dict(self._pieces), {}, False

    def _settle(self) -> None:
        """Wait until no request is left that could still change a piece that was written."""
        for place in sorted({index % len(self._ring) for index, _ in self._changed()}):
            self._session.settle(self._ring[place])

    def _require_written(self) -> None:
        """Refuse to commit what has gone from this host meanwhile: a node that has lost all, its master knows."""
        for index, (version, size) in self._changed():
            local = None
            with suppress(OSError):  # away: its master waits for it
                local = self._session.pieces(self._ring[index % len(self._ring)])
            if local is not None and version:
                found = local.facts(key_of(version, index))
                if found is None or found.st_size < size:
                    self._is_refused = True
                    raise lacking(key_of(version, index), 0 if found is None else found.st_size, size)

    def _changed(self) -> list[tuple[int, Piece]]:
        """Return the pieces that were written since the last commit, each with its number."""
        return [item for item in self._pieces.items() if item[1] != self._committed.get(item[0])]

    def _give_unspent_back(self, pieces: Pieces) -> None:
        """Return the room that was taken beyond what was committed in the end."""
        for index, charged in self._charged.items():
            version, count = pieces[index] if index < len(pieces) else (0, 0)
            unspent = charged - self._need(index, version, count)
            for name in holders(self._ring, index, self._replicas) if unspent > 0 else ():
                self._session.return_room(name, unspent)

    def close(self) -> None:
        """Close the file; what was written counts from now on.

        Raises
        ------
        OSError
            If that can't be.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._close()
            finally:
                self._session.open_files.pop(self._handle, None)

    def _close(self) -> None:
        if self._lost:
            if self._dirty:
                raise OSError(errno.EIO, f"{self.path} was lost with its session: what was not closed is gone")
            return
        try:
            if self._dirty:
                self._commit(sync=False)
        finally:
            self._leave(dirty=self._dirty or bool(self._ragged))

    def _leave(self, *, dirty: bool) -> None:
        """Report to the master that this is closed, and free the room of what was not committed."""
        for name, size in self.charged().items():
            self._session.return_room(name, size)
        self._charged = {}
        surplus = self._session.surplus(KEEP_BYTES) if self.writes else {}
        self._session.tell(CloseFileRequest(handle=self._handle, room=surplus, dirty=dirty))

    def abandon(self) -> None:
        """Close the file; what was written since the last `sync` goes."""
        with self._lock:
            self._pieces, self._dirty = dict(self._committed), False
            if not (self._closed or self._lost):
                self._closed = True
                self._session.open_files.pop(self._handle, None)
                self._leave(dirty=True)

    def lose(self) -> None:
        """Record that the master doesn't know this handle any more."""
        self._lost = True

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        if self._lost:
            raise OSError(errno.EIO, f"{self.path} was lost with its session: open it again")

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _opened(pieces: HeldDirectory, key: str, flags: int) -> int:
    try:
        return pieces.open(key, flags)
    except ConfigError as error:
        raise OSError(errno.EPERM, str(error)) from None
