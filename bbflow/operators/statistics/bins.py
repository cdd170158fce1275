"""Counts in bins with given edges."""

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.family import StateField
from bbflow.operators.kernel_family import InKernel, KernelFamily
from bbflow.operators.library import FAMILIES, load
from bbflow.operators.steps import Array, DType

MOST_CELLS = 1 << 16
"""A table of more cells would not stay in the cache."""
MARGIN = 0.01
"""Of a cell's width: how much the kernel's arithmetic may be off; it is off by far less."""


class _Bins(ctypes.Structure):
    """``BbflowBins`` in Histogram.h."""

    _fields_ = [
        ("breaks", ctypes.c_void_p),
        ("cells", ctypes.c_void_p),
        ("start", ctypes.c_double),
        ("cells_per_unit", ctypes.c_double),
        ("cell_count", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("one_step", ctypes.c_uint64),
    ]


@dataclass(frozen=True, slots=True)
class CellTable:
    """Finds bins: the cell of an even grid gives a row that a comparison or a few correct."""

    breaks: Array
    """Row r ends before breaks[r]; float64 of shape (rows,), the last one NaN, which nothing reaches."""
    cells: Array
    """For each cell a row that doesn't begin after it; int32. The first and the last cell are endless."""
    start: float
    """Where cell 1 begins."""
    cells_per_unit: float
    """Cells in a unit of the values."""
    one_step: bool
    """Whether a value's row is always that of its cell or the next one."""


@cache
def cell_table(edges: tuple[float, ...]) -> CellTable:
    """Make the table for some edges.

    Cells that are narrower than every bin, margins included, have at most one edge in them: then one comparison is
    enough.
    """
    breaks = np.array([*edges[:-1], np.nextafter(edges[-1], np.inf), np.nan])
    extent, narrowest = edges[-1] - edges[0], float(np.diff(edges).min())
    # Bounded before it becomes an integer: of very uneven edges the quotient may be infinite.
    wanted = min(np.ceil(extent / narrowest * (1 + 5 * MARGIN)), 2.0 * MOST_CELLS)
    count = int(min(wanted, MOST_CELLS))
    width = extent / count
    first = edges[0] + (np.arange(count + 1) - MARGIN) * width
    # Where float64 hardly tells the edges apart, every search begins at the first row.
    coarse = not width > 1e-9 * max(abs(edges[0]), abs(edges[-1]))
    rows = np.zeros(count + 1) if coarse else np.searchsorted(breaks[:-1], first, side="right")
    cells = np.array([0, *rows], "i4")
    return CellTable(breaks, cells, edges[0], count / extent, bool(not coarse and count == wanted))


@cache  # it is asked for at every fold
def _name(edges: tuple[float, ...]) -> str:
    return "bins" + "_".join(map(repr, edges))


# For good, as the table above: the kernel has only addresses of them, and a cache that forgot would free the memory.
@cache
def _bins(edges: tuple[float, ...]) -> _Bins:
    load(BbflowBins=_Bins)
    table = cell_table(edges)
    return _Bins(
        table.breaks.ctypes.data, table.cells.ctypes.data, table.start, table.cells_per_unit,
        len(table.cells), len(table.breaks), table.one_step,
    )  # fmt: skip


def checked_edges(edges: tuple[float, ...]) -> tuple[float, ...]:
    """Return the edges of bins.

    Raises
    ------
    ConfigError
        If they aren't two or more finite numbers that rise.
    """
    steps = np.diff(edges)
    if len(edges) < 2 or not (steps > 0).all() or not np.isfinite(edges[-1] - edges[0]):
        raise ConfigError("edges must be at least two finite numbers, each greater than the one before")
    return edges


@dataclass(frozen=True, slots=True)
class Bins(KernelFamily):
    """Keeps counts below the first edge, in each bin, and above the last edge."""

    edges: tuple[float, ...]
    """Ascending; a bin has its lower edge and not its upper one, but the last bin has both, as in numpy.histogram."""

    def __post_init__(self) -> None:
        checked_edges(self.edges)

    @property
    def name(self) -> str:
        """Histograms with the same edges are shared."""
        return _name(self.edges)

    @property
    def in_kernel(self) -> InKernel:
        """Its edges; values are compared as float64, to which 64-bit integers are rounded."""
        return InKernel(FAMILIES.index("edges"), bins=ctypes.addressof(_bins(self.edges)))

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the counts, those outside of the bins first and last."""
        return (StateField("counts", "i4", (len(self.edges) + 1,), merge="add"),)
