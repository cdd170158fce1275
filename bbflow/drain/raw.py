"""raw.zarr: the raw steps that are kept, one chunk for each step and variable."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from bbflow.cf import CF_VERSION, StreamAttributes
from bbflow.config import RawConfig
from bbflow.growing import GrowingZarr
from bbflow.records import Block
from bbflow.store.pool import read_block

Array = np.ndarray[Any, Any]
TIME = "time"


@dataclass(frozen=True, slots=True)
class DrainWork:
    """What one drain task does: consecutive rows of one store, of which nobody else writes the chunks."""

    store: str
    """Path of the store; its arrays are long enough already."""
    start: int
    """Index of the first step on the time axis."""
    steps: tuple[tuple[tuple[str, Block], ...], ...]
    """For each step its blocks, each with the path of its pool."""


def wanted(raw: RawConfig, number: int) -> bool:
    """Whether a step is drained."""
    return raw.wanted and number % raw.every == 0


def is_drainable(block: Block, raw: RawConfig, time_variable: str) -> bool:
    """Whether a block is drained: arrays and numbers with one place in the logical file.

    The time variable is not: it is the store's time axis.
    """
    chosen = (raw.variables is None or block.name in raw.variables) and block.name != time_variable
    return chosen and block.kind in ("GlobalArray", "GlobalValue") and block.type != "string"


def no_gate(size_bytes: int) -> AbstractContextManager[None]:
    """Let everything pass."""
    return nullcontext()


def drain_steps(work: DrainWork, gate: Callable[[int], AbstractContextManager[None]] = no_gate) -> int:
    """Write raw steps; running it again writes the same.

    Parameters
    ----------
    work
        What to write.
    gate
        Is asked before each array of a step is written, with its bytes; the array is written in its ``with``.

    Returns
    -------
    int
        Bytes written, before compression.
    """
    group = zarr.open_group(work.store, mode="r+", use_consolidated=False)
    size = 0
    for number, blocks in enumerate(work.steps, start=work.start):
        for name in dict.fromkeys(block.name for _, block in blocks):
            field = assemble([(pool, block) for pool, block in blocks if block.name == name])
            with gate(field.nbytes):
                group[name][number] = field  # type: ignore[index]
            size += field.nbytes
    return size


def assemble(blocks: Sequence[tuple[str, Block]]) -> Array:
    """Put the blocks of one variable and step together.

    Parameters
    ----------
    blocks
        Each with the path of its pool.

    Returns
    -------
    numpy.ndarray
        Of the global shape. One block that covers it all is given without a copy; holes are NaN
        (0 for integers).
    """
    pool, first = blocks[0]
    if first.kind == "GlobalValue":
        return np.asarray(first.value, first.dtype)
    if first.count == first.shape:
        return read_block(pool, first)
    field = np.full(first.shape, np.nan if first.dtype.kind in "fc" else 0, first.dtype)
    for pool, block in blocks:
        region = tuple(slice(at, at + size) for at, size in zip(block.start, block.count, strict=True))
        field[region] = read_block(pool, block)
    return field


class RawStore:
    """The one writer of the metadata of ``raw.zarr``.

    Parameters
    ----------
    path
        The store; an existing one is carried on with.
    raw
        What is kept.
    attributes
        The stream's attributes.
    time_variable
        The variable that is the time axis' coordinate.
    """

    def __init__(self, path: Path, raw: RawConfig, attributes: StreamAttributes, time_variable: str) -> None:
        self._store = GrowingZarr(path)
        self._raw = raw
        self._attributes = attributes
        self.path = path
        if self._store.is_new:
            self._store.create("step", (TIME,), (0,), "i8", {"long_name": "step of the simulation"}, (512,))
            self._store.create(TIME, (TIME,), (0,), "f8", attributes.of(time_variable), (512,))
            self._store.commit(**attributes.of_stream | {"Conventions": CF_VERSION})

    def committed_steps(self) -> list[int]:
        """Give the steps that the store has."""
        count = int(self._store.attribute("bbflow_steps", 0))
        return [int(number) for number in self._store.read("step")[:count]]

    def is_coordinate(self, name: str) -> bool:
        """Whether a coordinate variable of this name is there."""
        return name in self._store.names(name)

    def add_coordinate(self, name: str, values: Array) -> None:
        """Write a coordinate variable."""
        self._store.create(name, (name,), values.shape, values.dtype, self._attributes.of(name), chunks=values.shape)
        self._store.write(name, 0, values)

    def make_room(self, start: int, steps: Sequence[Sequence[Block]]) -> None:
        """Lengthen every variable of some steps, before tasks write them."""
        end = start + len(steps)
        for block in {block.name: block for blocks in steps for block in blocks}.values():
            if block.name not in self._store:
                self._create(block)
        for name in self._store.names(TIME):
            self._store.resize(name, end)

    def _create(self, block: Block) -> None:
        dims = (TIME, *self._attributes.dimensions(block.name, len(block.shape)))
        attributes = self._attributes.of(block.name) | self._missing(block.name)
        chunks = (1, *block.shape) if block.shape else (512,)
        compression = self._raw.compression
        self._store.create(block.name, dims, (0, *block.shape), block.dtype, attributes, chunks, compression)

    def _missing(self, name: str) -> dict[str, float]:
        value = self._attributes.fill_value(name)
        return {} if value is None else {"missing_value": value}

    def commit(self, start: int, numbers: Sequence[int], times: Sequence[float]) -> None:
        """Show steps that tasks have written."""
        self._store.write("step", start, np.asarray(numbers))
        self._store.write(TIME, start, np.asarray(times, "f8"))
        self._store.commit(bbflow_steps=start + len(numbers))
