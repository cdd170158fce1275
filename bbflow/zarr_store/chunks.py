"""Chunks of Zarr arrays: files that are written and read without their array's metadata, wherever the values are."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bbflow.errors import StoreError, naming
from bbflow.host.atomic import replacing, write_whole

Array = np.ndarray[Any, Any]
TEXT = "string"
"""Zarr's name of the type of texts of any length."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Files of an array, or a column of one, chunked along the first dimension (Zarr 3, codec bytes or vlen-utf8)."""

    directory: Path
    """The array's."""
    shape: tuple[int, ...]
    """Of one chunk."""
    dtype: str
    """NumPy's name of the type, in whichever byte order, or `TEXT`; files are little-endian."""
    separator: str
    """Between the parts of a file's name: with ``/`` there is a directory for each."""
    fill: Any
    """What reads where nothing was written."""
    column: int = field(default=0, kw_only=True)
    """Where they lie along the second dimension, of an array that is chunked along that too."""

    @property
    def stored(self) -> np.dtype[Any]:
        """The type as files have it; of texts that in memory."""
        return np.dtype(object) if self.dtype == TEXT else np.dtype(self.dtype).newbyteorder("<")

    def path(self, index: int) -> Path:
        """Return the file of a chunk."""
        return Path(self._name(index))

    def _name(self, index: int) -> str:
        """Return the same as a text: a `Path` takes longer than writing a small result."""
        others = [str(self.column), *("0" for _ in self.shape[2:])] if len(self.shape) > 1 else []
        return f"{self.directory}/{self.separator.join(['c', str(index), *others])}"

    @property
    def per_file(self) -> int:
        """How many indices share a file."""
        return 1

    def is_whole(self, index: int) -> bool:
        """Whether a file that was written up to an index is there, in the size that it must have then."""
        try:
            size = os.stat(self._name(index)).st_size
        except FileNotFoundError:
            return False
        return size > 0 if self.dtype == TEXT else self._has_size(index, size)

    def _has_size(self, index: int, size: int) -> bool:
        return size == prod(self.shape) * self.stored.itemsize

    @contextmanager
    def replacing(self, index: int) -> Iterator[BinaryIO]:
        """Yield a file that becomes a chunk when the ``with`` ends well; readers see the old one or the new one."""
        with replacing(self.path(index)) as temporary, _made(temporary) as file:
            yield file

    def write(self, index: int, values: Array) -> None:
        """Write a whole chunk."""
        content: Any
        if self.dtype == TEXT:
            content = _texts().encode(np.array(values, object).reshape(-1))
        else:
            content = self._bytes_of(values)
        path = self.path(index)
        try:
            write_whole(path, content)
        except FileNotFoundError:
            # Only the first chunk lacks its directory: to look for it each time costs thousands of system calls in a
            # commit.
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)

    def write_spans(self, index: int, values: Array) -> None:
        """Write whole chunks that follow each other."""
        for number, own in enumerate(values):
            self.write(index + number, own)

    def write_part(self, index: int, first: int, values: Array) -> bool:
        """Write some rows of a chunk where they lie, if its file is whole; readers may see any part of them meanwhile.

        A file is made whole by `write`: axes grow by a row again and again, and ext4 begins to write out what replaces
        another file.
        """
        if self.dtype == TEXT or not self.is_whole(index):
            return False
        path, left = str(self.path(index)), self._bytes_of(values)
        offset = first * prod(self.shape[1:]) * self.stored.itemsize
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            return False
        try:
            with naming(path):
                while left:
                    written = os.pwrite(descriptor, left, offset)
                    offset, left = offset + written, left[written:]
        finally:
            os.close(descriptor)
        return True

    def write_rows(self, file: BinaryIO, first: int, values: Array) -> None:
        """Write some rows of a chunk into its file.

        Parameters
        ----------
        file
            As `replacing` gives it.
        first
            The first row.
        values
            Of shape (axis, rows, …): a chunk has the whole field for each index of the axis.
        """
        field = prod(self.shape) // len(values)
        row = prod(values.shape[2:])
        for number, rows in enumerate(values):
            file.seek((number * field + first * row) * self.stored.itemsize)
            file.write(self._bytes_of(rows))

    def _bytes_of(self, values: Array) -> memoryview:
        return np.ascontiguousarray(values, self.stored).reshape(-1).view("u1").data

    def read(self, index: int) -> Array:
        """Return a chunk's values.

        Raises
        ------
        StoreError
            If its file was cut off.
        """
        path = self.path(index)
        try:
            with naming(str(path)):
                content = path.read_bytes()
        except FileNotFoundError:
            return np.full(self.shape, self.fill, self.stored)
        if self.dtype == TEXT:
            found: Array = _texts().decode(content)
            return found.reshape(self.shape)
        if len(content) < (size := prod(self.shape) * self.stored.itemsize):
            raise StoreError(f"{path} was cut off: it has {len(content)} of {size} bytes")
        return np.frombuffer(content, self.stored, prod(self.shape)).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk that is to be written."""

    chunks: Chunks
    """Those of its array."""
    index: int
    """Which of them."""

    def write(self, values: Array) -> None:
        """Write it whole."""
        self.chunks.write(self.index, values)


def _made(path: Path) -> BinaryIO:
    """Make a file, and its directory if it isn't there."""
    try:
        return path.open("wb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")


def _texts() -> Any:
    """Return what encodes texts: Zarr's codec vlen-utf8."""
    from numcodecs import VLenUTF8  # late: what has no texts needs none

    return VLenUTF8()
