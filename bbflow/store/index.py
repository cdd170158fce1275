"""The index: a node's journal of frames, which survives its agent.

A file beside it holds its length, so that an index which somebody has cut or damaged isn't taken for one whose last
record was being written when the agent died: what was acknowledged since is lost, and its room has other steps by now.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from bbflow.errors import CapacityError, DamagedError, ProtocolError
from bbflow.net.frames import FrameReader, encode
from bbflow.store.entries import Record, parse_record

LENGTH = struct.Struct("<Q")


def length_file(path: Path) -> Path:
    """Return the file that holds the length of an index."""
    return path.with_name(f"{path.name}.length")


def acknowledged_bytes(path: Path) -> int:
    """Return how long an index was when its last record was acknowledged; 0 if there is none.

    Raises
    ------
    ProtocolError
        If that isn't told.
    """
    try:
        (length,) = LENGTH.unpack(length_file(path).read_bytes())
    except (FileNotFoundError, struct.error):
        if not path.exists():
            return 0
        raise ProtocolError(f"{length_file(path)} was removed or cut") from None
    return int(length)


def replay(path: Path, acknowledged: int = 0, *, cuts: bool = True) -> Iterator[Record]:
    """Iterate over the records of an index and cut off a torn tail.

    Parameters
    ----------
    path
        The index file; if it doesn't exist there are no records.
    acknowledged
        Its whole records have as many bytes at least.
    cuts
        Whether a torn tail goes: it may belong to an agent that lives.

    Raises
    ------
    ProtocolError
        If a whole record isn't one of FORMAT.md, or acknowledged ones aren't there.
    """
    if not path.exists():
        if acknowledged:
            raise ProtocolError("it was removed")
        return
    reader = FrameReader(decode=parse_record)
    with path.open("rb+" if cuts else "rb") as file:
        try:
            while data := file.read(1 << 20):
                yield from reader.feed(data)
        except DamagedError:
            pass  # the tail was being written when the agent died: what follows was never acknowledged
        if reader.consumed_bytes < acknowledged:
            raise ProtocolError(f"{reader.consumed_bytes} of its {acknowledged} bytes are whole")
        if cuts:
            file.truncate(reader.consumed_bytes)


class Index:
    """Appends records; each is handed to the operating system before `append` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size_bytes = path.stat().st_size if path.exists() else 0
        """Length of the file."""
        # First: an index without it is refused.
        self._length = os.open(length_file(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._acknowledge(self.size_bytes)
        self._descriptor = _opened(path)

    def append(self, record: Record) -> None:
        """Write one record.

        Raises
        ------
        CapacityError
            If the storage below is full; nothing of the record stays.
        """
        written = _write(self._descriptor, self._path, record)
        try:
            self._acknowledge(self.size_bytes + written)
        except OSError as error:
            os.ftruncate(self._descriptor, self.size_bytes)
            raise _without_room(length_file(self._path), error) from None
        self.size_bytes += written

    def _acknowledge(self, size_bytes: int) -> None:
        os.pwrite(self._length, LENGTH.pack(size_bytes), 0)

    def cut_back(self, size_bytes: int) -> None:
        """Take back what was appended beyond a length."""
        self._acknowledge(size_bytes)
        os.ftruncate(self._descriptor, size_bytes)
        self.size_bytes = size_bytes

    def rewrite(self, records: Iterable[Record]) -> None:
        """Replace all records by others, which are fewer bytes.

        Raises
        ------
        CapacityError, ProtocolError
            If there is no room for both now, or one is too long; then all is as it was.
        """
        temporary = self._path.with_name(f"{self._path.name}.new")
        temporary.unlink(missing_ok=True)
        descriptor = _opened(temporary)
        try:
            size_bytes = sum(_write(descriptor, temporary, record) for record in records)
            # First: a crash leaves the old index or the new one, and this is true of both.
            self._acknowledge(min(size_bytes, self.size_bytes))
            temporary.rename(self._path)
        except BaseException:
            os.close(descriptor)
            temporary.unlink()
            raise
        os.close(self._descriptor)
        self._descriptor, self.size_bytes = descriptor, size_bytes
        self._acknowledge(size_bytes)

    def close(self) -> None:
        """Close the files."""
        os.close(self._descriptor)
        os.close(self._length)


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _write(descriptor: int, path: Path, record: Record) -> int:
    """Write one record, and return its bytes; nothing of it stays where there is no room for it."""
    # No fsync: what the system has outlives the agent, and a host that crashes loses the pool anyhow.
    frame = encode(record)
    try:
        written = os.write(descriptor, frame)
    except OSError as error:
        raise _without_room(path, error) from None
    if written < len(frame):
        # What came behind half a record would be lost with it: it looks like the torn tail that a crash leaves.
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise CapacityError(f"{path}: the file system is full; free some of it")
    return written


def _without_room(path: Path, error: OSError) -> CapacityError:
    return CapacityError(f"{path}: {error.strerror}; free some of its file system")
