"""How a variable's steps lie in the files of ``raw.zarr``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from bbflow.configuring.settings import RawConfig
from bbflow.drain.cuts import ChunkGrid, cut_of
from bbflow.drain.encoding import BYTES, Codec, codec_of
from bbflow.drain.placed_files import FixedShard
from bbflow.errors import ConfigError
from bbflow.stores.moved import is_moved, place_of
from bbflow.stream.attributes import numbers_of
from bbflow.stream.point_maps import PointMap
from bbflow.stream.records import BlockForm
from bbflow.zarr_store.shard_files import LARGE, PAGE, Shard, Single, chunks_there, is_cut_off
from bbflow.zarr_store.stored_names import stored_name

MOST_STEPS = 4096
"""Steps in a file at most: reading one of them needs the index of all."""
MOST_CHUNKS = 4 * MOST_STEPS
"""Chunks in a file that has more than one step's."""
File = Shard | Single | FixedShard


@dataclass(frozen=True, slots=True)
class Form:
    """A variable's form: this many steps in a file, in chunks of one step or several, of the whole field or parts."""

    name: str
    """The variable."""
    dtype: np.dtype[Any]
    """Type of its values."""
    shape: tuple[int, ...]
    """Of one step."""
    steps: int
    """In one file."""
    fill: Any
    """What stands where there is no value."""
    codec: Codec | None = None
    """What compresses a chunk."""
    keep_bits: int | None = None
    """Mantissa bits to which values are rounded; all of them if None."""
    missing: tuple[float, ...] = ()
    """What stands for a missing value, besides NaN."""
    dedup: bool = False
    """Whether a step that is the same as the one before is stored once."""
    rows: int = 1
    """Steps in a chunk."""
    cut: ChunkGrid | None = None
    """The chunks of a step; None if the whole field is one."""
    map: PointMap | None = None
    """Where the values lie in the array, if the blocks have them in an order of their own."""

    @property
    def is_plain(self) -> bool:
        """Whether the steps' bytes are written as they lie."""
        return self.codec is None and self.keep_bits is None and not self.dedup and self.cut is None

    @property
    def pieces(self) -> int:
        """How many chunks a step has."""
        return 1 if self.cut is None else self.cut.pieces

    def file(self, store: str, index: int, *, is_begun: bool = False) -> File:
        """Return a file of the array by its index; one into which steps were written must be there."""
        path, chunk = self._path(store, index), self.shape if self.cut is None else self.cut.chunk
        if self.rows > 1:
            fill = np.asarray(self.fill, self.dtype)
            whole = tuple(max(size, 1) for size in chunk)
            return FixedShard(path, self.steps, self.rows, self.pieces, whole, fill, is_begun=is_begun)
        if self.steps * self.pieces == 1:
            return Single(path, self._path(store, index - 1) if index else None)
        chunk_bytes = prod(chunk) * self.dtype.itemsize
        return Shard(path, self.steps, PAGE if chunk_bytes >= LARGE else 1, self.pieces)

    def lost(self, store: str, index: int, steps: int) -> Path | None:
        """Return a file into which so many whole steps were written, if it hasn't them any more."""
        path = self._path(store, index)
        if self.steps * self.pieces == 1:
            least = 1 if self.codec is not None else prod(self.shape) * self.dtype.itemsize
            has_all = path.exists() and path.stat().st_size >= least
        else:
            entries = self.steps // self.rows * self.pieces
            # One whose chunks have several steps is made with all of them.
            has_all = chunks_there(path, entries) >= (steps * self.pieces if self.rows == 1 else entries)
        return None if has_all or (place_of(path) is not None and is_moved(path)) else path

    def _path(self, store: str, index: int) -> Path:
        return Path(store, stored_name(self.name), ".".join(["c", str(index), *("0" for _ in self.shape)]))

    def owner(self, index: int, writers: int) -> int:
        """Return which of several writers writes a file: always the same one, that of the file which it may repeat."""
        turn = 0 if self.dedup and self.steps == 1 else index
        return (crc32(self.name.encode()) + turn) % writers


def is_short(path: Path, metadata: Mapping[str, Any]) -> bool:
    """Whether a file of an array is there and lacks bytes of its steps, whoever wrote them."""
    steps, *whole = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    first, *others = metadata["codecs"]
    if first["name"] == "sharding_indexed":
        rows, *chunk = first["configuration"]["chunk_shape"]
        pieces = prod(length // own for length, own in zip(whole, chunk, strict=True))
        return is_cut_off(path, steps // rows * pieces)
    least = 1 if others else steps * prod(whole) * np.dtype(metadata["data_type"]).itemsize
    return path.exists() and path.stat().st_size < least


def storage_of(block: BlockForm, raw: RawConfig, dims: Sequence[str] = ()) -> dict[str, Any]:
    """Return what stands in the metadata of a new array of a variable about its files.

    Parameters
    ----------
    block
        One of its blocks, with the shape that the array has in a step.
    raw
        What the configuration says.
    dims
        Names of the dimensions of a step, by which the configuration names the lengths of chunks.
    """
    codec = codec_of(raw.compression, block.dtype)
    rows, cut = cut_of(dims or [""] * len(block.shape), block.shape, block.dtype.itemsize, raw)
    size = prod(block.shape) * block.dtype.itemsize
    most = min(raw.shard // max(size, 1), MOST_STEPS, MOST_CHUNKS * rows // cut.pieces)
    steps = max(most // rows * rows, rows)
    codecs = [BYTES] if codec is None else [BYTES, codec]
    if steps * cut.pieces > 1:
        chunk = [rows, *cut.chunk]
        own = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": [BYTES], "index_location": "start"}
        codecs = [{"name": "sharding_indexed", "configuration": own}]
    grid = {"name": "regular", "configuration": {"chunk_shape": [steps, *cut.whole]}}
    return {"chunk_grid": grid, "codecs": codecs}


def form_of(block: BlockForm, raw: RawConfig, metadata: Mapping[str, Any], fill: Any) -> Form:
    """Return the form of an array that is there, whatever the configuration says of new ones.

    Raises
    ------
    ConfigError
        If it isn't one that the drain writes, or has another shape.
    """
    steps, *whole = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    rows, chunk = 1, whole
    lengths = tuple(max(length, 1) for length in block.shape)
    codecs: Sequence[Mapping[str, Any]] = metadata["codecs"]
    is_sharded = codecs[0]["name"] == "sharding_indexed"
    if is_sharded:
        own = codecs[0]["configuration"]
        rows, *chunk = own["chunk_shape"]
        fits = own["index_location"] == "start" and [codec["name"] for codec in own["index_codecs"]] == ["bytes"]
        codecs = own["codecs"]
    else:
        fits = steps == 1
    fits = fits and metadata["chunk_key_encoding"]["configuration"]["separator"] == "."
    cut = ChunkGrid(lengths, tuple(chunk))
    codec = codecs[1] if len(codecs) > 1 else None
    fits = (
        fits and steps % rows == 0 and (rows == 1 or codec is None) and not (raw.dedup and (rows, chunk) != (1, whole))
    )
    if not fits or cut.whole != tuple(whole) or any(length > size for length, size in zip(chunk, lengths, strict=True)):
        raise ConfigError(
            f"raw.zarr has {block.name} in chunks of {tuple(chunk)} and files that the drain doesn't write so: "
            "give another output, or leave the variable out (raw: variables)"
        )
    bits = raw.keep_bits if block.dtype.kind == "f" else None
    if isinstance(bits, Mapping):
        bits = bits.get(block.name)
    missing = tuple(numbers_of(metadata["attributes"].get("missing_value", [])) or ())
    return Form(
        block.name, block.dtype, block.shape, steps, fill, codec, bits, missing, raw.dedup, rows,
        None if cut.is_whole else cut,
    )  # fmt: skip
