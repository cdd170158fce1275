"""Chunks of Zarr arrays: files that are written and read without their array's metadata, wherever the values are."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs.zstd import Zstd

from bbflow.atomic import replacing
from bbflow.errors import naming

Array = np.ndarray[Any, Any]
COMPRESSION_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Chunks:
    """The files of an array that is chunked along its first dimension alone (Zarr 3, codecs 'bytes' and 'zstd')."""

    directory: Path
    """The array's."""
    shape: tuple[int, ...]
    """Of one chunk."""
    dtype: str
    """NumPy's name of the type, in whichever byte order; files are little-endian."""
    compressed: bool = False
    """Whether with zstd."""

    @property
    def stored(self) -> np.dtype[Any]:
        """The type as files have it."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def fill(self) -> float | int:
        """What reads where nothing was written: NaN, or 0 for types that have none."""
        return np.nan if self.stored.kind == "f" else 0

    def path(self, index: int) -> Path:
        """Give the file of a chunk."""
        return self.directory.joinpath("c", str(index), *("0" for _ in self.shape[1:]))

    def write(self, index: int, values: Array) -> None:
        """Write a whole chunk; readers see the old one or the new one."""
        content = np.ascontiguousarray(values, self.stored).reshape(-1).view("u1").data
        if self.compressed:
            content = Zstd(level=COMPRESSION_LEVEL).encode(content)
        path = self.path(index)
        path.parent.mkdir(parents=True, exist_ok=True)
        with naming(str(path)), replacing(path) as temporary, open(temporary, "wb") as file:
            file.write(content)

    def read(self, index: int) -> Array:
        """Give a chunk's values."""
        try:
            content = self.path(index).read_bytes()
        except FileNotFoundError:
            return np.full(self.shape, self.fill, self.stored)
        content = Zstd().decode(content) if self.compressed else content
        return np.frombuffer(content, self.stored, prod(self.shape)).reshape(self.shape)
