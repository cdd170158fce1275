"""Counts in bins that find their edges themselves, at each point for itself.

All bins are cells of one common grid for each power of two: cell i is from i 2**e to (i + 1) 2**e. A point has the
smallest e with which the bins suffice for its values so far (but none below a 2**45th of the largest magnitude), and
its first bin is the smallest value's. Two cells of a grid are exactly one of the next coarser grid, so a state that
must become coarser, or is merged with a coarser one, loses nothing that the coarser one would have had: however the
steps were cut and merged, the state is the same to the bit. OpenTelemetry's exponential histograms merge by the same
idea ("perfect subsetting", in its metrics data model), with bins of growing width.
"""

from dataclasses import dataclass

from bbflow.operators.family import StateField
from bbflow.operators.kernel_family import InKernel, KernelFamily
from bbflow.operators.library import FAMILIES
from bbflow.operators.steps import DType

NUMBERS = (
    StateField("origin", "i8"),
    StateField("exponent", "i4"),
    StateField("last", "i4", empty=-1),
    StateField("below", "i4"),
    StateField("above", "i4"),
)
"""The first cell, e, the last bin that isn't empty (-1: none), and how many values were -infinity and infinity."""


@dataclass(frozen=True, slots=True)
class BinGrid(KernelFamily):
    """Keeps counts in some bins for each point."""

    bins: int
    """How many, at least 2."""

    @property
    def name(self) -> str:
        """Histograms of as many bins are shared."""
        return f"grid{self.bins}"

    @property
    def in_kernel(self) -> InKernel:
        """Its bins; values are taken as float64, to which 64-bit integers are rounded."""
        return InKernel(FAMILIES.index("grids"), self.bins)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the counts, and for each point what its bins are."""
        return StateField("counts", "i4", (self.bins,)), *NUMBERS
