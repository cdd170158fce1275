"""Files of many spans of a result: each span, and each chunk that it is cut into, has its place there from the start.

Spans of a small result lie one after another in a chunk. Of results that are cut a file is a shard of Zarr 3 whose
index stands at its begin; chunks aren't compressed, so all have one size, and where one lies follows from its place in
the array. So tasks write spans side by side, in any order, and again after a crash: the same bytes to the same
places. Readers look at a span when the array's shape takes it in.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from shutil import copyfile
from typing import Any, BinaryIO

import numpy as np

from bbflow.configuring.settings import ResultsConfig
from bbflow.drain.cuts import ChunkGrid, cut_of
from bbflow.drain.encoding import BYTES
from bbflow.errors import StoreError, naming
from bbflow.host.atomic import beside
from bbflow.operators.windows.spans import Run
from bbflow.operators.windows.window import Window
from bbflow.stores.moved import bring, is_moved
from bbflow.zarr_store.chunks import Array, Chunks
from bbflow.zarr_store.shard_files import ENTRY_BYTES, NOTHING, header_bytes, make_once, write_at

PACKED_BYTES, MOST_PACKED = 32 << 10, 512
"""Spans of a small result share a file of up to so many bytes, so many at most: some file systems take a tenth of a
millisecond or more to make one."""
MOST_CHUNKS = 1 << 14
"""Chunks in a file: reading one of them needs the index of all."""


def tiled_storage(
    dims: Sequence[str], shape: Sequence[int], dtype: np.dtype[Any], dividing: ResultsConfig
) -> Mapping[str, Any] | None:
    """Return what stands in the metadata of a new array about its files; None if a span is one chunk, and one file.

    Parameters
    ----------
    dims, shape
        Of one span: dimensions by the names that the configuration has for them.
    dtype
        Type of the values.
    dividing
        What the configuration says.

    Raises
    ------
    ConfigError
        If a chunk is larger than a file.
    """
    rows, cut = cut_of(dims, shape, dtype.itemsize, dividing, "results")
    if rows == 1 and cut.is_whole:
        return None
    size = prod(cut.whole) * dtype.itemsize
    spans = max(min(dividing.shard // size, MOST_CHUNKS * rows // cut.pieces) // rows * rows, rows)
    own = {"chunk_shape": [rows, *cut.chunk], "codecs": [BYTES], "index_codecs": [BYTES], "index_location": "start"}
    grid = {"name": "regular", "configuration": {"chunk_shape": [spans, *cut.whole]}}
    return {"chunk_grid": grid, "codecs": [{"name": "sharding_indexed", "configuration": own}]}


def packed_rows(window: Window, shape: Sequence[int], dtype: np.dtype[Any], dividing: ResultsConfig) -> int:
    """Return how many spans of a new array are in a chunk, which is a file, where nothing else was asked for.

    Parameters
    ----------
    window
        Whose spans these are.
    shape, dtype
        Of one span.
    dividing
        What the configuration says.
    """
    if dividing.chunks is not None or isinstance(window.spans, Run) or 0 in shape:
        return 1
    return max(min(PACKED_BYTES // (prod(shape) * dtype.itemsize), MOST_PACKED), 1)


@dataclass(frozen=True, slots=True)
class SpanFiles(Chunks, ABC):
    """Files of several spans each: `shape` is that of one, (1, …), as it is written band by band."""

    spans: int
    """Spans in a file."""
    aside: Path | None = field(default=None, kw_only=True)
    """A copy of the file that is written in its place: the file has spans that readers see, and that are replaced."""

    @property
    def per_file(self) -> int:
        """How many spans share a file."""
        return self.spans

    def _name(self, index: int) -> str:
        return f"{self.directory}/c{self.separator}{index // self.spans}{f'{self.separator}0' * (len(self.shape) - 1)}"

    def put_aside(self, index: int) -> "SpanFiles":
        """Return the same that writes into a copy of a span's file."""
        path = self.path(index)
        copy = beside(path)
        with naming(str(path)):
            size = path.stat().st_size
            copyfile(path, copy)
            if is_moved(path) or copy.stat().st_size < size:  # it has moved, perhaps just now
                bring(path, copy)
        return replace(self, aside=copy)

    @property
    @abstractmethod
    def roomy(self) -> int:
        """How many spans there is room for once it was made for one: from one whose index is a multiple of that on."""

    @abstractmethod
    def make_room(self, index: int) -> None:
        """Make a span's file where it is the first one in it: one process does so."""

    @abstractmethod
    def _least_bytes(self, descriptor: int, index: int) -> int:
        """Return how many bytes a file has at least before a span is written into it."""

    @abstractmethod
    def _put(self, index: int, values: Array) -> None:
        """Write a whole span where it lies."""

    def write(self, index: int, values: Array) -> None:
        """Write a whole span."""
        with naming(self._name(index)):
            self._put(index, np.ascontiguousarray(values, self.stored).reshape(self.shape[1:]))

    @contextmanager
    def replacing(self, index: int) -> Iterator[BinaryIO]:
        """Yield a file for the whole span, which is put where it lies when the ``with`` ends well."""
        temporary = beside(self.path(index).with_name(f"{self.path(index).name}.{index}"))
        with naming(self._name(index)):
            try:
                with temporary.open("w+b") as file:
                    yield file
                    file.flush()
                    self._put(index, np.memmap(file, self.stored, "r", shape=self.shape[1:] or (1,)))
            finally:
                temporary.unlink(missing_ok=True)

    def _file(self, index: int) -> str:
        return self._name(index) if self.aside is None else str(self.aside)

    @contextmanager
    def _opened(self, index: int) -> Iterator[int]:
        descriptor = os.open(self._file(index), os.O_RDWR)
        try:
            least = self._least_bytes(descriptor, index)  # before the size: others may write further spans meanwhile
            if (size := os.fstat(descriptor).st_size) < least:
                raise StoreError(
                    f"{self._name(index)} was cut off: it has {size} of {least} bytes, so spans in it are lost; give "
                    "another output"
                )
            yield descriptor
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Packed(SpanFiles):
    """The files of a small result: a chunk of several spans each."""

    @property
    def roomy(self) -> int:
        """All of a file."""
        return self.spans

    def make_room(self, index: int) -> None:
        """Make a span's file, if it isn't there: it reads as if nothing was written."""
        if not os.path.exists(self._file(index)):
            self._chunks.write(index // self.spans, np.full(self._chunks.shape, self.fill, self.stored))

    def read(self, index: int) -> Array:
        """Return a span's values, of shape (1, …)."""
        span: Array = self._chunks.read(index // self.spans)[index % self.spans]
        return span[np.newaxis]

    def _has_size(self, index: int, size: int) -> bool:
        return size == self._bytes

    @property
    def _bytes(self) -> int:
        return self.spans * prod(self.shape) * self.stored.itemsize

    def _least_bytes(self, descriptor: int, index: int) -> int:
        return self._bytes

    def write_spans(self, index: int, values: Array) -> None:
        """Write spans that follow each other, with one call for each file."""
        values = np.ascontiguousarray(values, self.stored)
        while len(values):
            own, values = np.split(values, [self.spans - index % self.spans])
            with naming(self._name(index)):
                self._put(index, own)
            index += len(own)

    @property
    def _chunks(self) -> Chunks:
        return Chunks(self.directory, (self.spans, *self.shape[1:]), self.dtype, self.separator, self.fill)

    def _put(self, index: int, values: Array) -> None:
        with self._opened(index) as descriptor:
            first = index % self.spans * prod(self.shape) * self.stored.itemsize
            write_at(descriptor, [values.reshape(-1).view("u1")], first)


@dataclass(frozen=True, slots=True)
class Tiles(SpanFiles):
    """The files of a result that is cut: shards of many chunks."""

    rows: int
    """Spans in a chunk."""
    cut: ChunkGrid
    """The chunks of a span."""

    @property
    def roomy(self) -> int:
        """Those of a chunk."""
        return self.rows

    def make_room(self, index: int) -> None:
        """Make a span's file, and fill its chunks where it is the first of several in them: one process does so."""
        path = Path(self._file(index))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            header = header_bytes(self._entries)
            empty = b"\xff" * (self._entries * ENTRY_BYTES)
            make_once(path, [empty + bytes(header - len(empty))])
        if self.rows > 1:
            first, count = self._first(index), self.cut.pieces
            with self._opened(index) as descriptor:
                known = np.frombuffer(os.pread(descriptor, count * ENTRY_BYTES, first * ENTRY_BYTES), "<u8")
                # A chunk of several spans is shown with the first: what isn't written yet reads as missing.
                if (known == NOTHING).any():
                    filled = np.full(self.rows * prod(self.cut.chunk), self.fill, self.stored).view("u1")
                    for piece in range(count):
                        write_at(descriptor, [filled], self._place(first + piece))
                    self._show(descriptor, first)

    def _put(self, index: int, values: Array) -> None:
        first, row_bytes = self._first(index), prod(self.cut.chunk) * self.stored.itemsize
        with self._opened(index) as descriptor:
            for piece, own in enumerate(self.cut.parts(values.reshape(self.cut.shape), self.fill)):
                place = self._place(first + piece) + index % self.rows * row_bytes
                write_at(descriptor, [own.reshape(-1).view("u1")], place)
            if self.rows == 1:
                # Last: an entry in the index promises its bytes (`_least_bytes`), also after a crash in between.
                self._show(descriptor, first)

    def _least_bytes(self, descriptor: int, index: int) -> int:
        """Return where the chunks of a span, and the last one before them, end as far as the file's index has them."""
        before = max(self._first(index) - 1, 0)
        count = self._first(index) + self.cut.pieces - before
        found = os.pread(descriptor, count * ENTRY_BYTES, before * ENTRY_BYTES)
        entries = np.frombuffer(found[: len(found) // ENTRY_BYTES * ENTRY_BYTES], "<u8").reshape(-1, 2)
        ends = entries[entries[:, 0] != NOTHING].sum(axis=1)
        return max(header_bytes(self._entries), int(ends.max(initial=0)))

    def _has_size(self, index: int, size: int) -> bool:
        return size >= self._place(self._first(index) + self.cut.pieces)

    def read(self, index: int) -> Array:
        """Return a span's values, of shape (1, …)."""
        whole = np.full(self.cut.whole, self.fill, self.stored)
        if self.path(index).exists():
            stored, first = np.memmap(self.path(index), "u1", "r"), self._first(index)
            entries = stored[first * ENTRY_BYTES : (first + self.cut.pieces) * ENTRY_BYTES].view("<u8").reshape(-1, 2)
            size = prod(self.cut.chunk) * self.stored.itemsize
            for piece, (offset, _) in enumerate(entries.tolist()):
                if offset != NOTHING:
                    begin = offset + index % self.rows * size
                    own = stored[begin : begin + size].view(self.stored).reshape(self.cut.chunk)
                    at = np.unravel_index(piece, self.cut.counts)
                    firsts = [int(number) * length for number, length in zip(at, self.cut.chunk, strict=True)]
                    whole[tuple(slice(a, a + n) for a, n in zip(firsts, self.cut.chunk, strict=True))] = own
        return whole[tuple(map(slice, self.cut.shape))][np.newaxis]

    @property
    def _entries(self) -> int:
        return self.spans // self.rows * self.cut.pieces

    def _first(self, index: int) -> int:
        """Return which entry of its file a span's first chunk has."""
        return index % self.spans // self.rows * self.cut.pieces

    def _place(self, entry: int) -> int:
        return header_bytes(self._entries) + entry * self._chunk_bytes

    @property
    def _chunk_bytes(self) -> int:
        return self.rows * prod(self.cut.chunk) * self.stored.itemsize

    def _show(self, descriptor: int, first: int) -> None:
        """Write the entries of a span's chunks, whose bytes are there."""
        entries = np.empty((self.cut.pieces, 2), "<u8")
        entries[:, 0] = [self._place(first + piece) for piece in range(self.cut.pieces)]
        entries[:, 1] = self._chunk_bytes
        write_at(descriptor, [entries.reshape(-1).view("u1")], first * ENTRY_BYTES)


def tiles_of(node: Mapping[str, Any], plain: Chunks) -> Chunks:
    """Return what writes the spans of an array: `plain`, unless several are in a file.

    Parameters
    ----------
    node
        Its metadata.
    plain
        What would write it if a span were one file.
    """
    codec = node["codecs"][0]
    if codec["name"] != "sharding_indexed":
        own = plain.directory, (1, *plain.shape[1:]), plain.dtype, plain.separator, plain.fill
        return plain if plain.shape[0] == 1 else Packed(*own, plain.shape[0])
    spans = node["chunk_grid"]["configuration"]["chunk_shape"][0]
    rows, *chunk = codec["configuration"]["chunk_shape"]
    shape = tuple(max(size, 1) for size in node["shape"][1:])
    return Tiles(
        plain.directory, (1, *shape), plain.dtype, plain.separator, plain.fill, spans, rows,
        ChunkGrid(shape, tuple(chunk)),
    )  # fmt: skip
