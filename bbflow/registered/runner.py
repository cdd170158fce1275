"""A process that runs one function ``void func(void *buf, size_t size, int fd)`` of a shared library.

It reads requests from standard input and answers each on standard output, one JSON line each. What the function
prints goes to standard error.
"""

import ctypes
import json
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bbflow.store.pool import map_pool

Part = tuple[str, int, int]
"""Path of a file, first byte, bytes."""
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def load(library: str, symbol: str) -> Any:
    """Return a function of a library that returns nothing.

    Raises
    ------
    OSError
        If the library can't be loaded.
    AttributeError
        If it has no such function.
    """
    # Its own dependencies must be found by its siblings, as MPI libraries' plugins expect.
    function = getattr(ctypes.CDLL(library, ctypes.RTLD_GLOBAL), symbol)
    function.restype = None
    return function


def main(library: str, symbol: str, intermediate: str) -> None:
    """Serve until standard input ends."""
    replies = os.fdopen(os.dup(1), "w")
    # What the user's code prints must not get among the replies.
    os.dup2(2, 1)
    try:
        function = load(library, symbol)
    except (OSError, AttributeError) as error:
        print(json.dumps(str(error)), file=replies, flush=True)
        return
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # O_APPEND: what the function writes comes after all that there is, wherever it seeks.
    target = os.open(intermediate, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    print(json.dumps(None), file=replies, flush=True)
    gathering = Gathering()
    for line in sys.stdin:
        request = json.loads(line)
        os.environ.update(request["environment"])
        values = gathering.values(request["parts"], in_pool=request["in_pool"])
        function(values.ctypes.data, values.nbytes, target)
        print(json.dumps(None), file=replies, flush=True)


class Gathering:
    """Joins parts into one piece; its buffer is kept, since the first touch of pages is what costs."""

    def __init__(self) -> None:
        self._buffer = mmap.mmap(-1, mmap.PAGESIZE)

    def values(self, parts: Sequence[Part], *, in_pool: bool) -> Bytes:
        """Return the bytes of some parts, valid until the next call.

        Parameters
        ----------
        parts
            Where they lie.
        in_pool
            Whether that is a pool. A single part in a pool is given where it lies there, and read-only.
        """
        read = _mapped if in_pool else _read
        if in_pool and len(parts) == 1:
            return read(*parts[0])
        size = sum(part[2] for part in parts)
        if size > len(self._buffer):
            self._buffer = mmap.mmap(-1, size)
        whole = np.frombuffer(self._buffer, np.uint8, size)
        ends = np.cumsum([part[2] for part in parts], dtype=np.int64).tolist()
        for part, end in zip(parts, ends, strict=True):
            whole[end - part[2] : end] = read(*part)
        return whole


def _mapped(path: str, offset: int, size: int) -> Bytes:
    return np.frombuffer(map_pool(path), np.uint8, size, offset)


def _read(path: str, offset: int, size: int) -> Bytes:
    # Not kept mapped: these files come and go.
    return np.memmap(path, np.uint8, "r", offset, (size,))


if __name__ == "__main__":
    main(*sys.argv[1:])
