"""Counts in bins that find their edges themselves, at each point for itself.

All bins are cells of one common grid for each power of two: cell i is from i 2**e to (i + 1) 2**e. A point has the
smallest e with which the bins suffice for its values so far (but none below a 2**45th of the largest magnitude), and
its first bin is the smallest value's. Two cells of a grid are exactly one of the next coarser grid, so a state that
must become coarser, or is merged with a coarser one, loses nothing that the coarser one would have had: however the
steps were cut and merged, the state is the same to the bit. OpenTelemetry's exponential histograms merge by the same
idea ("perfect subsetting", in its metrics data model), with bins of growing width.
"""

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.family import Family, KernelFamily, StateField
from bbflow.operators.library import TYPES, load
from bbflow.operators.steps import Array, DType, Steps, Views

NUMBERS = (
    StateField("origin", "i8"),
    StateField("exponent", "i4"),
    StateField("last", "i4", empty=-1),
    StateField("below", "i4"),
    StateField("above", "i4"),
)
"""The first cell, e, the last bin that isn't empty (-1: none), and how many values were -infinity and infinity."""


class _Grid(ctypes.Structure):
    """``BbflowGrid`` in Histogram.h."""

    _fields_ = [
        ("counts", ctypes.c_void_p),
        ("stride", ctypes.c_uint64),
        *((item.name, ctypes.c_void_p) for item in NUMBERS),
    ]


@cache
def _library() -> ctypes.CDLL:
    library = load(BbflowGrid=_Grid)
    grid, number, pointer = ctypes.POINTER(_Grid), ctypes.c_uint64, ctypes.c_void_p
    library.bbflow_grid_fold.argtypes = [ctypes.c_int, number, grid, pointer, number, number, pointer]
    library.bbflow_grid_fold.restype = ctypes.c_int
    library.bbflow_grid_merge.argtypes = [number, grid, grid, number]
    library.bbflow_grid_merge.restype = ctypes.c_int
    return library


@dataclass(frozen=True, slots=True)
class BinGrid(Family):
    """Keeps counts in some bins for each point."""

    own_tiles = True

    bins: int
    """How many, at least 2."""

    @property
    def name(self) -> str:
        """Histograms of as many bins are shared."""
        return f"grid{self.bins}"

    @property
    def in_kernel(self) -> KernelFamily:  # type: ignore[override]
        """Its bins."""
        return KernelFamily("grids", self.bins)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the counts, and for each point what its bins are."""
        return StateField("counts", "i4", (self.bins,)), *NUMBERS

    def fold(self, views: Views, steps: Steps) -> None:
        """Count values; they are taken as float64, to which 64-bit integers are rounded."""
        addresses = np.array([block.ctypes.data for block in steps.values], np.uintp)
        code = _library().bbflow_grid_fold(
            TYPES[steps.values[0].dtype], self.bins, _grid(views), addresses.ctypes.data, len(addresses),
            views["origin"].size, None if steps.fill is None else steps.fill.ctypes.data,
        )  # fmt: skip
        if code != 0:
            raise BbflowError(
                f"no memory to count {len(addresses)} steps in {self.bins} bins: give fewer, or shorter batches"
            )

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Add, on the finest grid that has room for both."""
        merged = {name: values.copy() for name, values in left.items()}
        if _library().bbflow_grid_merge(self.bins, _grid(merged), _grid(right), merged["origin"].size) != 0:
            raise BbflowError(f"no memory to merge counts in {self.bins} bins: give fewer")
        return merged


def _grid(views: Views) -> _Grid:
    counts = views["counts"]
    pointers = (views[item.name].ctypes.data for item in NUMBERS)
    return _Grid(counts.ctypes.data, counts.strides[0] // counts.itemsize, *pointers)
