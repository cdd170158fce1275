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


def load(library: str, symbol: str) -> Any:
    """Give a function of a library that returns nothing.

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
    os.dup2(2, 1)
    try:
        function = load(library, symbol)
    except (OSError, AttributeError) as error:
        print(json.dumps(str(error)), file=replies, flush=True)
        return
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    target = os.open(intermediate, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    print(json.dumps(None), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        os.environ.update(request["environment"])
        values = values_of(request["parts"], in_pool=request["in_pool"])
        function(values.ctypes.data, values.nbytes, target)
        print(json.dumps(None), file=replies, flush=True)


def values_of(parts: Sequence[Part], *, in_pool: bool) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Give the bytes of some parts in one piece; a single one in a pool is where it lies there, and read-only."""
    if in_pool and len(parts) == 1:
        ((path, offset, size),) = parts
        return np.frombuffer(map_pool(path), np.uint8, size, offset)
    gathered = mmap.mmap(-1, max(sum(size for _, _, size in parts), 1))
    with memoryview(gathered) as target:
        begin = 0
        for path, offset, size in parts:
            read_into(target[begin : begin + size], path, offset)
            begin += size
    return np.frombuffer(gathered, np.uint8, begin)


def read_into(target: memoryview, path: str, offset: int) -> None:
    """Read bytes of a file.

    Raises
    ------
    EOFError
        If it is too short.
    """
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        filled = 0
        while filled < len(target):
            count = file.readinto(target[filled:])
            if not count:
                raise EOFError(f"{path} ends before byte {offset + len(target)}")
            filled += count


if __name__ == "__main__":
    main(*sys.argv[1:])
