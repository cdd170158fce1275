"""One open file as each client of the files' protocol has it, with the same methods."""

import os

FLAGS = {"w": os.O_RDWR | os.O_CREAT | os.O_TRUNC, "r+": os.O_RDWR, "a": os.O_RDWR | os.O_APPEND}


class PythonFile:
    """A file as programs have it that call the library, or fsspec."""

    def __init__(self, place, name, mode):
        self._file = place.client.open(f"/{name}", mode)
        self.write, self.truncate, self.sync = self._file.pwrite, self._file.truncate, self._file.sync
        self.close = self._file.close

    def content(self):
        return self._file.pread(self._file.size, 0)


class MountedFile:
    """A file as programs have it that call the kernel."""

    def __init__(self, place, name, mode):
        self._descriptor = os.open(place.top / name, FLAGS[mode], 0o644)

    def write(self, content, offset):
        return os.pwrite(self._descriptor, content, offset)

    def truncate(self, size):
        os.ftruncate(self._descriptor, size)

    def sync(self):
        os.fsync(self._descriptor)

    def content(self):
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)

    def close(self):
        os.close(self._descriptor)
