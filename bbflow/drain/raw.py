"""raw.zarr: the raw steps that are kept, one chunk for each step and variable."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from bbflow.cf import CF_VERSION, OWN, STEP, StreamAttributes
from bbflow.config import RawConfig
from bbflow.growing import GrowingZarr
from bbflow.records import Block
from bbflow.view.blocks import BlockReader
from bbflow.view.layout import PlacedBlock

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class DrainWork:
    """What one drain task does: consecutive rows of one store, of which nobody else writes the chunks."""

    store: str
    """Path of the store; its arrays are long enough already."""
    start: int
    """Index of the first step on the time axis."""
    numbers: tuple[int, ...]
    """The steps."""
    steps: tuple[tuple[PlacedBlock, ...], ...]
    """For each step the blocks of its arrays."""
    contact: Path
    """Where the nodes are."""
    stream: str
    """Whose steps they are."""
    share: int = 0
    """Which of the tasks that drain side by side this is."""
    shares: int = 1
    """How many there are."""

    def part(self, shares: int) -> "list[DrainWork]":
        """Part the steps among so many tasks at most."""
        length = max(-(-len(self.numbers) // shares), 1)
        begins = range(0, len(self.numbers), length)
        return [
            replace(
                self,
                start=self.start + begin,
                numbers=self.numbers[begin : begin + length],
                steps=self.steps[begin : begin + length],
                share=share,
                shares=len(begins),
            )
            for share, begin in enumerate(begins)
        ]


def wanted(raw: RawConfig, number: int) -> bool:
    """Whether a step is drained."""
    return raw.wanted and number % raw.every == 0


def is_drainable(block: Block, raw: RawConfig, time_variable: str | None) -> bool:
    """Whether a block is drained: arrays and numbers with one place in the logical file.

    The time variable is not: it is the coordinate of the store's first dimension. Nor are names that bbflow adds.
    """
    chosen = (raw.variables is None or block.name in raw.variables) and block.name != time_variable
    chosen = chosen and not block.name.startswith(OWN)
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
    reader = BlockReader(work.contact, work.stream)
    size = 0
    for row, (number, placed) in enumerate(zip(work.numbers, work.steps, strict=True), start=work.start):
        for name in dict.fromkeys(block.name for _, block in placed):
            field = reader.assemble(number, [(node, block) for node, block in placed if block.name == name])
            with gate(field.nbytes):
                group[name][row] = field  # type: ignore[index]
            size += field.nbytes
    return size


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
    time
        The variable that is the time axis' coordinate, and its CF attributes; None if steps have no time.
    """

    def __init__(
        self, path: Path, raw: RawConfig, attributes: StreamAttributes, time: tuple[str, Mapping[str, str]] | None
    ) -> None:
        self._store = GrowingZarr(path)
        self._raw = raw
        self._attributes = attributes
        self._axis = STEP if time is None else time[0]
        self.path = path
        if self._store.is_new:
            self._store.create(STEP, (self._axis,), (0,), "i8", {"long_name": "step of the simulation"}, (512,))
            if time is not None:
                described = attributes.of(self._axis) | dict(time[1])
                self._store.create(self._axis, (self._axis,), (0,), "f8", described, (512,))
            self._store.commit(**attributes.of_stream | {"Conventions": CF_VERSION})

    def committed_steps(self) -> list[int]:
        """Give the steps that the store has."""
        count = int(self._store.attribute("bbflow_steps", 0))
        return [int(number) for number in self._store.read(STEP)[:count]]

    def is_coordinate(self, name: str) -> bool:
        """Whether a coordinate variable of this name is there."""
        return name in self._store.names(name)

    def add_coordinate(self, name: str, values: Array) -> None:
        """Write a coordinate variable."""
        self._store.create(name, (name,), values.shape, values.dtype, self._attributes.of(name), chunks=values.shape)
        self._store.write(name, 0, values)

    def make_room(self, start: int, steps: Sequence[Sequence[Block]]) -> None:
        """Lengthen every variable of some steps, before tasks write their arrays; write their single values."""
        end = start + len(steps)
        for block in {block.name: block for blocks in steps for block in blocks}.values():
            if block.name not in self._store:
                self._create(block)
            if not block.shape:
                self._store.write(block.name, start, _values(block, steps))
        for name in self._store.names(self._axis):
            self._store.resize(name, end)

    def _create(self, block: Block) -> None:
        dims = (self._axis, *self._attributes.dimensions(block.name, len(block.shape)))
        attributes = self._attributes.of(block.name) | self._missing(block.name)
        chunks = (1, *block.shape) if block.shape else (512,)
        compression = self._raw.compression
        self._store.create(block.name, dims, (0, *block.shape), block.dtype, attributes, chunks, compression)

    def _missing(self, name: str) -> dict[str, float]:
        value = self._attributes.fill_value(name)
        return {} if value is None else {"missing_value": value}

    def commit(self, start: int, numbers: Sequence[int], times: Sequence[float]) -> None:
        """Show steps that tasks have written."""
        self._store.write(STEP, start, np.asarray(numbers))
        if self._axis != STEP:
            self._store.write(self._axis, start, np.asarray(times, "f8"))
        self._store.commit(bbflow_steps=start + len(numbers))


def _values(like: Block, steps: Sequence[Sequence[Block]]) -> Array:
    """Give a single value's series over some steps; NaN (0 for integers) where a step has none."""
    values = np.full(len(steps), np.nan if like.dtype.kind in "fc" else 0, like.dtype)
    for row, blocks in enumerate(steps):
        for block in blocks:
            if block.name == like.name:
                values[row] = block.value
                break
    return values
