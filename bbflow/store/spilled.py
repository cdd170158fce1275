"""Files of spilled blocks: each block is checked whenever it is read (FORMAT.md, 'Spill directory')."""

import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

import google_crc32c
import numpy as np

from bbflow.errors import SpillError

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Row = tuple[int, int, int]
"""A block's first byte, its length and its checksum."""
VERSION = 1
NUMBERS = Struct("<3q")
"""A row, and the table's end: the version, how many rows there are, and the table's checksum."""
CHECK_BYTES = 8
"""Of the checksum, which is over what stands before it."""
PIECE_BYTES = 1 << 20


def map_spilled(path: str, offset: int, size: int) -> Bytes:
    """Map a file of spilled blocks for reading, as long as an array looks at it.

    Parameters
    ----------
    path
        The file.
    offset, size
        Which bytes are read: all or some of a block, which is checked.

    Raises
    ------
    SpillError
        If the file isn't as its rank has left it there.
    OSError
        If it isn't there, or can't be read.
    """
    rows = [row for row in _rows(path) if row[0] <= offset and offset + size <= row[0] + row[1]]
    if not rows:
        raise _changed(path)
    _check(path, rows)
    return np.memmap(path, np.uint8, "r")


def check_spilled(path: str) -> None:
    """Check all blocks of a file; raises as `map_spilled`."""
    _check(path, _rows(path))


def _rows(path: str) -> list[Row]:
    """Return the rows of the table behind a file's blocks."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = os.pread(file.fileno(), NUMBERS.size, max(size - NUMBERS.size, 0))
        version, count, check = NUMBERS.unpack(end) if len(end) == NUMBERS.size else (0, 0, 0)
        begin = size - (count + 1) * NUMBERS.size
        if version != VERSION or count < 0 or begin < 0:
            raise _changed(path)
        table = os.pread(file.fileno(), size - begin, begin)
    name = google_crc32c.value(os.fsencode(Path(path).name))
    if google_crc32c.extend(name, table[:-CHECK_BYTES]) != check:
        raise _changed(path)
    return [(first, length, check) for first, length, check in NUMBERS.iter_unpack(table)][:-1]


def _check(path: str, rows: Sequence[Row]) -> None:
    # Not by its mapping: what can't be read would be a signal that ends the process.
    piece: Bytes = np.empty(PIECE_BYTES, np.uint8)
    with open(path, "rb") as file:
        for first, length, told in rows:
            check, at = 0, first
            while at < first + length:
                read = os.preadv(file.fileno(), [piece.data[: first + length - at]], at)
                if not read:
                    raise _changed(path)
                check, at = google_crc32c.extend(check, piece[:read]), at + read
            if check != told:
                raise _changed(path)


def _changed(path: str) -> SpillError:
    return SpillError(f"{path} isn't as a rank has spilled it: it was cut, changed or replaced")
