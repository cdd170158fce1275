"""An open file with a position, for what expects Python's files."""

import errno
import io
import os

from bbflow.files.client.opened import OpenFile

BUFFER_BYTES = 4 << 20


class FileStream(io.RawIOBase):
    """An open file with a position, for what expects Python's files."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__()
        self._file, self._at = file, 0

    def readable(self) -> bool:
        """Whether it can be read: it can."""
        return True

    def writable(self) -> bool:
        """Whether it is open for writing."""
        return self._file.writes

    def seekable(self) -> bool:
        """Whether it has a position: it has."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, f"a position {start + offset} in {self._file.path}")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readinto(self, target: object) -> int:
        """Read into some memory."""
        view = memoryview(target).cast("B")  # type: ignore[arg-type]
        content = self._file.pread(len(view), self._at)
        view[: len(content)] = content
        self._at += len(content)
        return len(content)

    def write(self, content: object) -> int:
        """Write at the position."""
        count = self._file.pwrite(content, self._at)  # type: ignore[arg-type]
        self._at += count
        return count

    def truncate(self, size: int | None = None) -> int:
        """Truncate it at a size, or at the position."""
        size = self._at if size is None else size
        self._file.truncate(size)
        return size

    def flush(self) -> None:
        """Make what was written count."""
        if not self.closed and self._file.writes:
            self._file.sync()

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            super().close()
            self._file.close()


def buffered(file: OpenFile, mode: str) -> io.BufferedIOBase:
    """Return an open file with a position and a buffer.

    Parameters
    ----------
    file
        The file.
    mode
        As it was opened: ``r``, ``w``, ``x``, ``a`` or ``r+``.
    """
    stream = FileStream(file)
    if mode == "r":
        return io.BufferedReader(stream, BUFFER_BYTES)
    if mode == "r+":
        return io.BufferedRandom(stream, BUFFER_BYTES)
    if mode == "a":
        stream.seek(0, os.SEEK_END)
    return io.BufferedWriter(stream, BUFFER_BYTES)
