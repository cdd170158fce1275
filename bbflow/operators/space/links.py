"""Links: what a block has of a file of weights, and the product with its values."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd

import numpy as np

from bbflow.operators.library import TYPES, load
from bbflow.operators.space.weights import Weights
from bbflow.operators.steps import Array


class _Links(ctypes.Structure):
    """``BbflowLinks`` in Remap.h."""

    _fields_ = [
        ("rows", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("starts", "columns", "weights", "totals")),
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
    library = load(BbflowLinks=_Links, BbflowPlanes=_Planes)
    library.bbflow_remap.argtypes = [ctypes.c_int, ctypes.POINTER(_Links), ctypes.POINTER(_Planes), ctypes.c_void_p]
    library.bbflow_remap.restype = ctypes.c_int
    return library


@dataclass(frozen=True, slots=True, eq=False)
class Links:
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
        if blocks[0].dtype not in TYPES:
            blocks = [np.asarray(block, "f8") for block in blocks]
            fill = None if fill is None else np.asarray(fill, "f8")
        parts = np.empty((len(blocks), 2, len(offsets), len(self.rows)))
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
        code = TYPES[blocks[0].dtype]
        failed = _library().bbflow_remap(code, ctypes.byref(links), ctypes.byref(planes), parts.ctypes.data)
        assert not failed, f"the kernel knows no type {code}"
        return parts

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return self.starts, self.columns, self.values, self.totals


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
