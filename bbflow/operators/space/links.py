"""Links: what a block has of a file of weights, and the product with its values."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import gcd
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.frozen import Frozen
from bbflow.operators.library import TYPES, load
from bbflow.operators.space.weights import Weights
from bbflow.operators.steps import Array


class _Links(ctypes.Structure):
    """``BbflowLinks`` in Remap.h."""

    _fields_ = [
        ("rows", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("starts", "columns", "weights", "totals")),
    ]


class _Tiles(ctypes.Structure):
    """``BbflowTiles`` in RemapMean.h."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("links", "most_groups")),
        *((name, ctypes.c_void_p) for name in ("places", "groups", "firsts")),
        ("columns", ctypes.c_uint64),
    ]


class _Planes(ctypes.Structure):
    """``BbflowPlanes`` in Remap.h."""

    _fields_ = [
        ("blocks", ctypes.c_void_p),
        ("steps", ctypes.c_uint64),
        ("offsets", ctypes.c_void_p),
        ("planes", ctypes.c_uint64),
        ("stride", ctypes.c_int64),
        ("fill", ctypes.c_void_p),
    ]


@cache
def _library() -> ctypes.CDLL:
    library = load(BbflowLinks=_Links, BbflowTiles=_Tiles, BbflowPlanes=_Planes)
    links, tiles, planes = (ctypes.POINTER(kind) for kind in (_Links, _Tiles, _Planes))
    address, size = ctypes.c_void_p, ctypes.c_uint64
    library.bbflow_remap.argtypes = [ctypes.c_int, links, planes, address]
    library.bbflow_remap.restype = ctypes.c_int
    library.bbflow_remap_tiles.argtypes = [address, size, size, size, address, address, address]
    library.bbflow_remap_tiles.restype = ctypes.c_int64
    library.bbflow_remap_sum.argtypes = [ctypes.c_int, links, tiles, planes, address, address]
    library.bbflow_remap_sum.restype = ctypes.c_int
    return library


TILE_LINKS = 8192
"""The values of this many links are brought into the cache together."""


@dataclass(frozen=True, slots=True)
class LinkTiles(Frozen):
    """Which columns the links need, tile by tile; as ``BbflowTiles`` in RemapMean.h."""

    places: Array
    """Which of its tile's columns each link has; uint16 of shape (links,)."""
    groups: Array
    """Where each tile's groups of eight columns begin; int64 of shape (tiles + 1,)."""
    firsts: Array
    """The first column of each group; uint32 of shape (groups,)."""
    columns: int
    """All columns are below."""

    @classmethod
    def of(cls, columns: Array) -> "LinkTiles":
        """Return the tiles of links, whose columns are given, row by row; uint32 of shape (links,).

        Raises
        ------
        BbflowError
            If there is no memory.
        """
        links, below = len(columns), int(columns.max()) + 1 if len(columns) else 0
        places, groups, firsts = (
            np.empty(links, "u2"),
            np.zeros(-(-links // TILE_LINKS) + 1, "i8"),
            np.empty(links, "u4"),
        )
        made = (item.ctypes.data for item in (places, groups, firsts))
        count = _library().bbflow_remap_tiles(columns.ctypes.data, links, below, TILE_LINKS, *made)
        if count < 0:
            raise BbflowError(f"no memory for the tiles of {links} links: let the worker have more")
        return cls(places, groups, firsts[:count].copy(), below)

    def struct(self) -> _Tiles:
        """Return what the library takes."""
        most = int(np.diff(self.groups).max(initial=0))
        addresses = (item.ctypes.data for item in (self.places, self.groups, self.firsts))
        return _Tiles(TILE_LINKS, most, *addresses, self.columns)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Links(Frozen):
    """A sparse matrix, by its rows: from places of a block to points of the target."""

    rows: Array
    """The points of the target that the block has a part in, ascending; int64 of shape (rows,)."""
    starts: Array
    """Where each row's links begin; int64 of shape (rows + 1,)."""
    columns: Array
    """Where each link's value lies in a plane of the block, in strides; uint32 of shape (links,)."""
    stride: int
    """Values from one place of a plane to the next."""
    values: Array
    """The weights; float64 of shape (links,)."""
    totals: Array
    """Of each row the sum of its weights; float64 of shape (rows,)."""

    def apply(self, blocks: Sequence[Array], offsets: Array, fill: Array | None) -> Array:
        """Return the sums of weighted values, and of the weights, over what is valid.

        Parameters
        ----------
        blocks
            One for each step, of one type and contiguous.
        offsets
            Where each plane begins in a block, in values; int64 of shape (planes,).
        fill
            What stands for 'missing', besides NaN.

        Returns
        -------
        numpy.ndarray
            float64 of shape (steps, 2, planes, rows).
        """
        parts = np.empty((len(blocks), 2, len(offsets), len(self.rows)))
        with self._task(blocks, offsets, fill) as (code, links, planes):
            failed = _library().bbflow_remap(code, links, planes, parts.ctypes.data)
        assert not failed, f"the kernel knows no type {code}"
        return parts

    def apply_to_mean(self, blocks: Sequence[Array], offsets: Array, fill: Array | None) -> tuple[Array, Array]:
        """Return the same of the mean over all steps, where it is the mean of what the steps give.

        So it is where each point has valid values in all of the steps or in none, and finite ones.

        Parameters
        ----------
        blocks, offsets, fill
            As for `apply`.

        Returns
        -------
        tuple of numpy.ndarray
            float64 of shape (2, planes, rows); and for which planes it is so, bool of shape (planes,): of the others
            what is given has no meaning.

        Raises
        ------
        BbflowError
            If there is no memory.
        """
        if len(blocks) == 1:
            return self.apply(blocks, offsets, fill)[0], np.full(len(offsets), fill_value=True)
        if self not in TILES:
            TILES[self] = LinkTiles.of(self.columns)
        parts, steady = np.zeros((2, len(offsets), len(self.rows))), np.zeros(len(offsets), "u1")
        tiles = TILES[self].struct()
        with self._task(blocks, offsets, fill) as (code, links, planes):
            found = parts.ctypes.data, steady.ctypes.data
            failed = _library().bbflow_remap_sum(code, links, ctypes.byref(tiles), planes, *found)
        if failed:
            raise BbflowError(f"no memory to remap the mean of {len(blocks)} steps: let the worker have more")
        parts[0] /= len(blocks)
        return parts, (steady == 1) & np.isfinite(parts[0]).all(axis=-1)  # a sum may be too large, and the mean not

    @contextmanager
    def _task(self, blocks: Sequence[Array], offsets: Array, fill: Array | None) -> Iterator[tuple[Any, Any, Any]]:
        """Provide what the library takes, as long as its memory is there."""
        if blocks[0].dtype not in TYPES:
            blocks = [np.asarray(block, "f8") for block in blocks]
            fill = None if fill is None else np.asarray(fill, "f8")
        addresses = np.array([block.ctypes.data for block in blocks], np.uintp)
        links = _Links(len(self.rows), *(item.ctypes.data for item in self._arrays))
        planes = _Planes(
            addresses.ctypes.data,
            len(blocks),
            offsets.ctypes.data,
            len(offsets),
            self.stride,
            None if fill is None else fill.ctypes.data,
        )
        yield TYPES[blocks[0].dtype], ctypes.byref(links), ctypes.byref(planes)

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return self.starts, self.columns, self.values, self.totals


TILES: WeakKeyDictionary[Links, LinkTiles] = WeakKeyDictionary()
"""Tiles of links whose steps were averaged: in each process that does so, once."""


def links_of(
    weights: Weights,
    whole: tuple[int, ...],
    axes: Sequence[Array],
    strides: Sequence[int],
    factor: Array | None = None,
) -> Links:
    """Return the links of a block.

    Parameters
    ----------
    weights
        Of the whole grid.
    whole
        Its shape.
    axes
        For each horizontal axis, the slowest of the weights' grid first, the indices in that grid that the block has;
        int64.
    strides
        Values from one index of each axis to the next, in the block.
    factor
        What each point of the grid counts besides, float64 of shape (columns,); None for 1.
    """
    shape = tuple(map(len, axes))
    points = np.ravel_multi_index(np.ix_(*axes), whole).reshape(-1)
    step = gcd(*strides) or 1
    places = sum(
        np.arange(size).reshape([-1 if at == axis else 1 for axis in range(len(shape))]) * (stride // step)
        for at, (size, stride) in enumerate(zip(shape, strides, strict=True))
    )
    counts = weights.starts[points + 1] - weights.starts[points]
    ends = np.cumsum(counts)
    found = np.arange(ends[-1] if len(ends) else 0) + np.repeat(weights.starts[points] - (ends - counts), counts)
    rows, values = weights.rows[found], weights.values[found]
    if factor is not None:
        values = values * np.repeat(factor[points], counts)
        used = values != 0
    columns = np.repeat(np.broadcast_to(places, shape).reshape(-1), counts)
    if factor is not None:
        rows, values, columns = rows[used], values[used], columns[used]
    # Stable: a row's values are added in the order of the source's points, in whatever process its links are made.
    order = np.argsort(rows, kind="stable")
    touched, starts = np.unique(rows[order], return_index=True)
    values = values[order]
    return Links(
        touched.astype(np.int64),
        np.append(starts, len(values)).astype(np.int64),
        columns[order].astype(np.uint32),
        step,
        values,
        np.add.reduceat(values, starts) if len(starts) else np.empty(0),
    )
