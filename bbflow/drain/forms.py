"""How a variable's steps lie in the files of ``raw.zarr``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from bbflow.attributes import numbers_of
from bbflow.config import RawConfig
from bbflow.drain.encoding import BYTES, Codec, codec_of
from bbflow.drain.shards import LARGE, PAGE, Shard, Single
from bbflow.errors import ConfigError
from bbflow.point_maps import PointMap
from bbflow.records import BlockForm
from bbflow.stored_names import stored_name

MOST_STEPS = 4096
"""Steps in a file at most: whoever reads one of them reads the index of all."""


@dataclass(frozen=True, slots=True)
class Form:
    """A variable's form: one chunk for each step, and so many steps in a file."""

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
    map: PointMap | None = None
    """Where the values lie in the array, if the blocks have them in an order of their own."""

    @property
    def is_plain(self) -> bool:
        """Whether the steps' bytes are written as they lie."""
        return self.codec is None and self.keep_bits is None and not self.dedup

    def file(self, store: str, index: int) -> Shard | Single:
        """Give a file of the array by its index."""
        if self.steps == 1:
            return Single(self._path(store, index), self._path(store, index - 1) if index else None)
        chunk_bytes = prod(self.shape) * self.dtype.itemsize
        return Shard(self._path(store, index), self.steps, PAGE if chunk_bytes >= LARGE else 1)

    def _path(self, store: str, index: int) -> Path:
        return Path(store, stored_name(self.name), ".".join(["c", str(index), *("0" for _ in self.shape)]))

    def owner(self, index: int, writers: int) -> int:
        """Say which of several writers writes a file: always the same one, as that of the file that it may repeat."""
        turn = 0 if self.dedup and self.steps == 1 else index
        return (crc32(self.name.encode()) + turn) % writers


def storage_of(block: BlockForm, raw: RawConfig) -> dict[str, Any]:
    """Give what stands in the metadata of a new array of a variable about its files."""
    codec = codec_of(raw.compression, block.dtype)
    size = prod(block.shape) * block.dtype.itemsize
    steps = max(min(raw.shard // max(size, 1), MOST_STEPS), 1)
    chunk = [max(length, 1) for length in block.shape]
    codecs = [BYTES] if codec is None else [BYTES, codec]
    if steps > 1:
        own = {"chunk_shape": [1, *chunk], "codecs": codecs, "index_codecs": [BYTES], "index_location": "start"}
        codecs = [{"name": "sharding_indexed", "configuration": own}]
    grid = {"name": "regular", "configuration": {"chunk_shape": [steps, *chunk]}}
    return {"chunk_grid": grid, "codecs": codecs}


def form_of(block: BlockForm, raw: RawConfig, metadata: Mapping[str, Any], fill: Any) -> Form:
    """Give the form of an array that is there, whatever the configuration says of new ones.

    Raises
    ------
    ConfigError
        If it isn't one that the drain writes, or has another shape.
    """
    steps, *chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    codecs: Sequence[Mapping[str, Any]] = metadata["codecs"]
    is_sharded = codecs[0]["name"] == "sharding_indexed"
    if is_sharded:
        own = codecs[0]["configuration"]
        fits = own["index_location"] == "start" and [codec["name"] for codec in own["index_codecs"]] == ["bytes"]
        codecs = own["codecs"]
    else:
        fits = steps == 1
    fits = fits and metadata["chunk_key_encoding"]["configuration"]["separator"] == "."
    if not fits or tuple(chunk) != tuple(max(length, 1) for length in block.shape):
        raise ConfigError(
            f"raw.zarr has {block.name} in chunks of {tuple(chunk)} and files that the drain doesn't write so: "
            "give another output, or leave the variable out (raw: variables)"
        )
    codec = codecs[1] if len(codecs) > 1 else None
    bits = raw.keep_bits if block.dtype.kind == "f" else None
    if isinstance(bits, Mapping):
        bits = bits.get(block.name)
    missing = tuple(numbers_of(metadata["attributes"].get("missing_value", [])) or ())
    return Form(block.name, block.dtype, block.shape, steps, fill, codec, bits, missing, raw.dedup)
