"""Where each variable of a stream lies: the blocks of its steps as parts of one array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import StreamError
from bbflow.operators.decoding import written_fill
from bbflow.operators.kernel_arrays import as_fill
from bbflow.stream.cf import OWN, StreamAttributes, dimension_sizes, fitting
from bbflow.stream.puts import points_of, seen
from bbflow.stream.records import Block

SMALL_BYTES = 4 << 20
"""Chunks of less than that are joined: each costs Dask, and whoever computes, a task."""
JOINED = 2**64 - 2  # `adios2::JoinedDim`
"""Length of the joined dimension in the shape of a joined array."""
RANK = f"{OWN}rank"
"""Dimension of values that each writer rank has for itself."""
FILLS = {"i1": -127, "i2": -(2**15) + 1, "i4": -(2**31) + 1, "i8": -(2**63) + 2}
FILLS |= {"u1": 2**8 - 1, "u2": 2**16 - 1, "u4": 2**32 - 1, "u8": 2**64 - 2}
"""What stands for 'missing' in integers whose stream names nothing: as in netCDF."""

Region = tuple[slice, ...]
PlacedBlock = tuple[str, Block]
"""The name of a node, and a block that lies there."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A block as a part of its variable's array in one step."""

    node: str
    """Name of the node that has it."""
    step: int
    """Its step."""
    block: Block
    """Where it lies there."""
    start: tuple[int, ...]
    """Its first index in the variable's array."""
    count: tuple[int, ...]
    """Its shape there."""


class StepPieces(tuple[Piece, ...]):
    """All pieces of a variable in one step."""

    @cached_property
    def _bounds(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """First index of each, and the one after its last; of shape (pieces, dimensions)."""
        starts = np.array([piece.start for piece in self], "i8").reshape(len(self), -1)
        return starts, starts + np.array([piece.count for piece in self], "i8").reshape(len(self), -1)

    def within(self, region: Region) -> list[tuple[Piece, Region]]:
        """Return the pieces that have any of a region, with what both have in common; few are looked at one by one."""
        if not self:
            return []
        starts, ends = self._bounds
        lows = np.maximum(starts, np.array([at.start for at in region], "i8"))
        highs = np.minimum(ends, np.array([at.stop for at in region], "i8"))
        there = np.flatnonzero((lows < highs).all(axis=1)).tolist()
        return [(self[at], tuple(map(slice, lows[at].tolist(), highs[at].tolist()))) for at in there]


@dataclass(frozen=True, slots=True)
class Field:
    """An array variable over some steps."""

    name: str
    """The variable."""
    dtype: np.dtype[Any]
    """Type of its values."""
    dims: tuple[str, ...]
    """Names of its dimensions, without time."""
    shape: tuple[int, ...]
    """Their lengths; the largest of all steps."""
    steps: tuple[StepPieces, ...]
    """For each step its pieces."""
    fill: Any
    """What stands where no rank has put a value."""
    has_holes: bool
    """Whether there is such a place."""

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Lengths in each dimension: the blocks' own, or of small ones that lie beside each other together.

        Whole dimensions if the blocks make no regular grid.
        """
        pieces = next((pieces for pieces in self.steps if pieces), ())
        cuts = [
            sorted({0, size, *(p.start[axis] for p in pieces), *(p.start[axis] + p.count[axis] for p in pieces)})
            for axis, size in enumerate(self.shape)
        ]
        lengths = tuple(tuple(end - begin for begin, end in pairwise(cut)) for cut in cuts)
        is_regular = np.prod([len(own) for own in lengths]) <= 2 * len(pieces)
        return _joined(lengths, self.dtype.itemsize) if is_regular else tuple((size,) for size in self.shape)


def _joined(lengths: tuple[tuple[int, ...], ...], itemsize: int) -> tuple[tuple[int, ...], ...]:
    """Join small chunks with their neighbours, in the last dimension first."""
    size, joined = itemsize * prod(max(own, default=0) for own in lengths), []
    for own in reversed(lengths):
        most = max(min(SMALL_BYTES // max(size, 1), len(own)), 1)
        joined.append(tuple(sum(own[at : at + most]) for at in range(0, len(own), most)))
        size *= most
    return tuple(reversed(joined))


@dataclass(frozen=True, slots=True)
class Series:
    """Single values over some steps, in memory."""

    name: str
    """The variable."""
    dims: tuple[str, ...]
    """Names of its dimensions, without time."""
    values: np.ndarray[Any, Any]
    """Of shape (steps, ...)."""
    fill: Any
    """What stands where a step has no value; None if each has one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        shape: tuple[int, ...] = self.values.shape[1:]
        return shape


def lay_out(
    steps: Sequence[Sequence[PlacedBlock]], numbers: Sequence[int], attributes: StreamAttributes
) -> dict[str, Field | Series]:
    """Put the blocks of some steps in order, variable by variable.

    Parameters
    ----------
    steps
        For each step its blocks, of all nodes.
    numbers
        The steps' numbers.
    attributes
        Names of dimensions and fill values are taken from them.

    Raises
    ------
    StreamError
        If a variable changes its type, kind or number of dimensions.
    """
    found: dict[str, list[list[PlacedBlock]]] = {}
    for index, blocks in enumerate(steps):
        for node, block in sorted(blocks, key=lambda placed: placed[1].rank):
            found.setdefault(block.name, [[] for _ in steps])[index].append((node, block))
    laid = {name: _variable(name, blocks, numbers, attributes) for name, blocks in found.items()}
    sizes = dimension_sizes({name: (item.dims, item.shape) for name, item in laid.items()})
    return {name: replace(item, dims=fitting(name, item.dims, item.shape, sizes)) for name, item in laid.items()}


def _variable(
    name: str, steps: Sequence[Sequence[PlacedBlock]], numbers: Sequence[int], attributes: StreamAttributes
) -> Field | Series:
    forms = {(block.type, block.kind, len(block.count)) for blocks in steps for _, block in blocks}
    if len(forms) > 1:
        said = " and ".join(f"{kind} of {type_} with {ndim} dimensions" for type_, kind, ndim in sorted(forms))
        raise StreamError(f"{name} is {said} in different steps: leave it out with drop_variables={name!r}")
    ((type_, kind, _),) = forms
    if type_ == "string" or kind.endswith("Value"):
        return _series(name, kind, steps, attributes)
    laid = [
        _place(number, [(node, block) for node, block in blocks]) for number, blocks in zip(numbers, steps, strict=True)
    ]
    shapes = [shape for shape, _ in laid if shape]
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    dtype = next(block.dtype for blocks in steps for _, block in blocks)
    # In Python's integers: a shape may have more points than 64 bits count.
    whole = int(np.prod(shape, dtype=object))
    has_holes = any(points_of(pieces) < whole for _, pieces in laid)
    fill = fill_of(written_fill(attributes.encoding(name), dtype), dtype)
    return Field(
        name, dtype, _dims(name, kind, shape, attributes), shape, tuple(StepPieces(p) for _, p in laid), fill, has_holes
    )


def _place(number: int, blocks: Sequence[PlacedBlock]) -> tuple[tuple[int, ...], tuple[Piece, ...]]:
    """Return the shape of a variable in one step, and its pieces."""
    if not blocks:
        return (), ()
    _, first = blocks[0]
    if first.kind == "LocalArray":
        return _stack(number, blocks)
    if JOINED in first.shape:
        return _join(number, blocks, first.shape.index(JOINED))
    return first.shape, tuple(Piece(node, number, block, block.start, block.count) for node, block in seen(blocks))


def _stack(number: int, blocks: Sequence[PlacedBlock]) -> tuple[tuple[int, ...], tuple[Piece, ...]]:
    pieces = tuple(
        Piece(node, number, block, (index, *(0 for _ in block.count)), (1, *block.count))
        for index, (node, block) in enumerate(blocks)
    )
    return (len(pieces), *(max(sizes) for sizes in zip(*(b.count for _, b in blocks), strict=True))), pieces


def _join(number: int, blocks: Sequence[PlacedBlock], axis: int) -> tuple[tuple[int, ...], tuple[Piece, ...]]:
    pieces: list[Piece] = []
    length = 0
    for node, block in blocks:
        start = tuple(length if at == axis else 0 for at in range(len(block.count)))
        pieces.append(Piece(node, number, block, start, block.count))
        length += block.count[axis]
    shape = blocks[0][1].shape
    return (*shape[:axis], length, *shape[axis + 1 :]), tuple(pieces)


def _dims(name: str, kind: str, shape: tuple[int, ...], attributes: StreamAttributes) -> tuple[str, ...]:
    named = attributes.dimensions(name, shape)
    if kind != "LocalArray" or named[0] != f"{name}_dim0":
        return named
    return f"{name}_block", *attributes.dimensions(name, shape[1:])


def fill_of(value: float | int | None, dtype: np.dtype[Any]) -> Any:
    """Return what stands for a missing value: what the stream names, if the type has that, else NaN or netCDF's own."""
    if dtype.kind not in "iuf":
        return dtype.type(complex(np.nan, np.nan))
    own = as_fill(value, dtype)
    if own is not None:
        return own[()]
    return dtype.type(np.nan) if dtype.kind == "f" else dtype.type(FILLS[dtype.str[1:]])


def _series(
    name: str, kind: str, steps: Sequence[Sequence[PlacedBlock]], attributes: StreamAttributes
) -> Series:  # fmt: skip
    first = next(block for blocks in steps for _, block in blocks)
    own = [[block for _, block in blocks] for blocks in steps]
    if kind == "GlobalValue":
        values = [number_of(seen(blocks)[0][1].value) if blocks else None for blocks in steps]
        return _filled(name, (), values, first, attributes)
    ranks = max(block.rank for blocks in own for block in blocks) + 1
    dims = attributes.dimensions(name, (ranks,))
    table = [[_of_rank(blocks, rank) for rank in range(ranks)] for blocks in own]
    return _filled(name, dims if dims[0] != f"{name}_dim0" else (RANK,), table, first, attributes)


def _of_rank(blocks: Sequence[Block], rank: int) -> Any:
    return next((number_of(block.value) for block in blocks if block.rank == rank), None)


def number_of(value: Any) -> Any:
    """Return a single value as it is counted with: a complex one is told as its two parts."""
    return complex(*value) if isinstance(value, list | tuple) else value


def _filled(
    name: str, dims: tuple[str, ...], values: Any, first: Block, attributes: StreamAttributes
) -> Series:  # fmt: skip
    table = np.array(values, dtype=object)
    missing = np.array([value is None for value in table.flat], bool).reshape(table.shape)
    is_text = first.type == "string"
    fill = "" if is_text else fill_of(written_fill(attributes.encoding(name), first.dtype), first.dtype)
    table[missing] = fill
    return Series(name, dims, table.astype(str if is_text else first.dtype), fill if missing.any() else None)


def by_dimension(names: Sequence[str], sizes: Sequence[Any]) -> Mapping[str, Any]:
    """Name some lengths by their dimensions."""
    return dict(zip(names, sizes, strict=True))
