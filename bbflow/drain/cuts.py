"""Cuts: how the fields of raw steps are divided into chunks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from bbflow.configuring.settings import RawConfig, ResultsConfig
from bbflow.errors import ConfigError

Array = np.ndarray[Any, Any]
TIME = "time"
"""Stands for the steps' dimension, whatever its name."""
LARGEST_BYTES, WANTED_BYTES = 16 << 20, 4 << 20
"""By itself a field of up to the first is one chunk, and a larger one has chunks of about the second."""


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """The chunks of one step's field: all of one shape, beyond the field's end they hold fill values."""

    shape: tuple[int, ...]
    """Of the field."""
    chunk: tuple[int, ...]
    """Of a chunk in one step."""

    @property
    def counts(self) -> tuple[int, ...]:
        """How many chunks there are along each dimension."""
        return tuple(-(-size // length) for size, length in zip(self.shape, self.chunk, strict=True))

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape of all chunks together."""
        return tuple(count * length for count, length in zip(self.counts, self.chunk, strict=True))

    @property
    def pieces(self) -> int:
        """How many chunks a step has."""
        return prod(self.counts)

    @property
    def is_whole(self) -> bool:
        """Whether the field is one chunk."""
        return self.chunk == self.shape

    def parts(self, field: Array, fill: Any) -> Iterator[Array]:
        """Cut a field; chunks come in the order of their first points, each contiguous."""
        for place in product(*map(range, self.counts)):
            starts = [at * length for at, length in zip(place, self.chunk, strict=True)]
            own = field[tuple(slice(start, start + size) for start, size in zip(starts, self.chunk, strict=True))]
            if own.shape != self.chunk:
                padded = np.full(self.chunk, fill, field.dtype)
                padded[tuple(map(slice, own.shape))] = own
                own = padded
            yield np.ascontiguousarray(own)


def cut_of(
    dims: Sequence[str], shape: Sequence[int], item_bytes: int, told: RawConfig | ResultsConfig, where: str = "raw"
) -> tuple[int, ChunkGrid]:
    """Return how a variable is divided: steps in a chunk, and the chunks of a step.

    Parameters
    ----------
    dims, shape
        Of one step.
    item_bytes
        Of a value.
    told
        What the configuration says.
    where
        Its key.

    Raises
    ------
    ConfigError
        If a chunk is larger than a file.
    """
    lengths = tuple(max(size, 1) for size in shape)
    if told.chunks is None:
        return 1, ChunkGrid(lengths, lengths)
    if isinstance(told.chunks, str):
        return 1, ChunkGrid(lengths, _automatic(lengths, item_bytes))
    own: Mapping[str, int] = told.chunks
    chunk = tuple(min(own.get(dim, size), size) for dim, size in zip(dims, lengths, strict=True))
    steps = own.get(TIME, 1)
    if (size := steps * prod(chunk) * item_bytes) > told.shard:
        raise ConfigError(
            f"{where}: a chunk of {steps} steps of {' x '.join(map(str, chunk))} values has {size} bytes, more than a "
            f"file (shard: {told.shard}): give smaller chunks, or larger files"
        )
    return steps, ChunkGrid(lengths, chunk)


def _automatic(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    """Cut a large field: levels and other leading dimensions apart, then the longer of the last two in halves."""
    if prod(shape) * item_bytes <= LARGEST_BYTES:
        return shape
    chunk = list(shape)
    for axis in range(len(chunk) - 2):
        if prod(chunk) * item_bytes > WANTED_BYTES:
            chunk[axis] = 1
    while prod(chunk) * item_bytes > WANTED_BYTES:
        longer = max(range(len(chunk))[-2:], key=lambda axis: chunk[axis])
        chunk[longer] = _fewer(chunk[longer], is_list=len(chunk) == 1 or chunk[-2] == 1)
    return tuple(chunk)


def _fewer(size: int, *, is_list: bool) -> int:
    """Return about half; of a list of cells the next lesser power of four, as HEALPix divides its cells."""
    # The largest power of four below `size`: 4 ** k where `size - 1` has 2 k + 1 or 2 k + 2 bits.
    return 4 ** ((size - 1).bit_length() // 2 - ((size - 1).bit_length() % 2 == 0)) if is_list else -(-size // 2)
