"""Files whose chunks hold several steps: each has its place from the start, and is filled step by step."""

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, naming
from bbflow.zarr_store.shard_files import ENTRY_BYTES, LARGE, PAGE, ShardChunks, header_bytes, make_once, write_at

Array = np.ndarray[Any, Any]
PREFILL_BYTES = 1 << 20


class FixedShard:
    """A shard of Zarr 3 whose index never changes.

    It appears whole, with fill values everywhere. A step's values go to where they belong in their chunks; readers look
    at them when the array's shape takes the step in. So whoever writes a step again, whole or cut differently, writes
    the same bytes into the same places.

    Parameters
    ----------
    path
        The file; it is made with its first step.
    steps
        How many it has room for.
    rows
        How many steps a chunk has.
    pieces
        How many chunks side by side a step has.
    shape
        Of one step in a chunk.
    fill
        What stands where there is no value; of shape () and the values' type.
    is_begun
        Whether steps were written into it before.
    """

    def __init__(
        self,
        path: Path,
        steps: int,
        rows: int,
        pieces: int,
        shape: tuple[int, ...],
        fill: Array,
        *,
        is_begun: bool = False,
    ) -> None:
        self._path, self._rows, self._pieces, self._fill, self._is_begun = path, rows, pieces, fill, is_begun
        self._row_bytes = prod(shape) * fill.itemsize
        self._chunk_bytes = rows * self._row_bytes
        align = PAGE if self._chunk_bytes >= LARGE else 1
        self._slot_bytes = -(-self._chunk_bytes // align) * align
        self._chunks = steps // rows * pieces
        self._header = header_bytes(self._chunks)

    def before(self, at: int) -> Array | None:
        """Return the bytes of the step before as they are stored; None, since they lie apart."""
        return None

    def write(self, at: int, chunks: ShardChunks) -> int:
        """Write consecutive steps from one on; return the bytes that were stored.

        Raises
        ------
        ConfigError
            If the file was removed or cut off since steps were written into it.
        """
        if not self._path.exists():
            if self._is_begun:
                raise ConfigError(f"{self._path} was removed, so steps in it are lost; give another output")
            make_once(self._path, self._empty())
        with naming(str(self._path)), self._path.open("r+b", 0) as file:
            size, whole = os.fstat(file.fileno()).st_size, self._header + self._chunks * self._slot_bytes
            if size < whole:
                raise ConfigError(
                    f"{self._path} was cut off: it has {size} of {whole} bytes, so steps in it are lost; give another "
                    "output"
                )
            for step, begin in enumerate(range(0, len(chunks.parts), self._pieces), at):
                for piece, parts in enumerate(chunks.parts[begin : begin + self._pieces]):
                    slot = step // self._rows * self._pieces + piece
                    place = self._header + slot * self._slot_bytes + step % self._rows * self._row_bytes
                    write_at(file.fileno(), parts, place)
        return int(chunks.sizes.sum())

    def _empty(self) -> Iterator[bytes]:
        entries = np.empty((self._chunks, 2), "<u8")
        entries[:, 0] = self._header + self._slot_bytes * np.arange(self._chunks, dtype="u8")
        entries[:, 1] = self._chunk_bytes
        yield entries.tobytes() + bytes(self._header - ENTRY_BYTES * self._chunks)
        count = max(PREFILL_BYTES // self._fill.itemsize, 1)
        one = np.full(count, self._fill).tobytes()
        for _ in range(self._chunks):
            for left in range(self._chunk_bytes, 0, -len(one)):
                yield one[:left]
            yield bytes(self._slot_bytes - self._chunk_bytes)
