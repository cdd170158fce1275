"""The index: a node's journal of frames, which survives its agent."""

import os
from collections.abc import Iterator
from pathlib import Path

from bbflow.errors import CapacityError, DamagedError
from bbflow.net.frames import FrameReader, encode
from bbflow.store.entries import Record, parse_record


def replay(path: Path) -> Iterator[Record]:
    """Iterate over the records of an index and cut off a torn tail.

    Parameters
    ----------
    path
        The index file; if it doesn't exist there are no records.

    Raises
    ------
    ProtocolError
        If a whole record isn't one of FORMAT.md.
    """
    if not path.exists():
        return
    reader = FrameReader(decode=parse_record)
    with path.open("rb+") as file:
        try:
            while data := file.read(1 << 20):
                yield from reader.feed(data)
        except DamagedError:
            pass  # the tail was being written when the agent died: what follows was never acknowledged
        file.truncate(reader.consumed_bytes)


class Index:
    """Appends records; each is handed to the operating system before `append` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size_bytes = os.fstat(self._descriptor).st_size
        """Length of the file."""

    def append(self, record: Record) -> None:
        """Write one record.

        Raises
        ------
        CapacityError
            If the storage below is full; nothing of the record stays.
        """
        # No fsync: what the system has outlives the agent, and a host that crashes loses the pool anyhow.
        frame = encode(record)
        try:
            written = os.write(self._descriptor, frame)
        except OSError as error:
            raise CapacityError(f"{self._path}: {error.strerror}; free some of its file system") from None
        if written < len(frame):
            # What came behind half a record would be lost with it: it looks like the torn tail that a crash leaves.
            self.cut_back(self.size_bytes)
            raise CapacityError(f"{self._path}: the file system is full; free some of it")
        self.size_bytes += written

    def cut_back(self, size_bytes: int) -> None:
        """Take back what was appended beyond a length."""
        os.ftruncate(self._descriptor, size_bytes)
        self.size_bytes = size_bytes

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
