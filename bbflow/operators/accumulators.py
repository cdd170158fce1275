"""What a partial state keeps for each point, and how two of them are merged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One number that is kept for each point."""

    name: str
    """Its name in a state's views."""
    slot: int
    """Its place in the kernel's arrays (``BbflowAccumulator`` in Fold.h)."""
    type: str | None
    """NumPy's name of its type; None for the variable's own."""

    def dtype(self, variable: DType) -> DType:
        """Give its type for a variable's type."""
        return variable if self.type is None else np.dtype(self.type)


COUNT = Accumulator("count", 0, "i4")
"""Valid values: neither NaN nor the fill value."""
SHIFT = Accumulator("shift", 1, None)
"""The first valid value, or 0 if that is infinite: what the moments are taken about."""
FIRST = Accumulator("first", 2, "f8")
"""Sum of the differences from the shift."""
SECOND = Accumulator("second", 3, "f8")
"""Sum of their squares."""
MIN = Accumulator("min", 4, None)
"""Smallest valid value."""
MAX = Accumulator("max", 5, None)
"""Largest valid value."""

ACCUMULATORS = (COUNT, SHIFT, FIRST, SECOND, MIN, MAX)


def identity(accumulator: Accumulator, dtype: DType) -> float | int:
    """Give the value that an accumulator has before any value was folded.

    Parameters
    ----------
    accumulator
        Which one.
    dtype
        The variable's type.
    """
    if accumulator not in (MIN, MAX):
        return 0
    if dtype.kind == "f":
        return np.inf if accumulator == MIN else -np.inf
    limits = np.iinfo(dtype)
    return int(limits.max if accumulator == MIN else limits.min)


def merge(left: Mapping[str, Array], right: Mapping[str, Array]) -> dict[str, Array]:
    """Merge the accumulators of two sets of values.

    Parameters
    ----------
    left, right
        Accumulator name to an array of shape (points,); both have the same names.

    Returns
    -------
    dict
        New arrays. Moments are about the left shift, where the left side has any value.
    """
    merged = {"count": left["count"] + right["count"]} if "count" in left else {}
    if "shift" in left:
        merged |= _merge_moments(left, right)
    if "min" in left:
        merged["min"] = np.minimum(left["min"], right["min"])
    if "max" in left:
        merged["max"] = np.maximum(left["max"], right["max"])
    return merged


def _merge_moments(left: Mapping[str, Array], right: Mapping[str, Array]) -> dict[str, Array]:
    """Add the moments of both sides, the right ones rebased on the left shift.

    With d = right shift - left shift, a value's difference x from the right shift is x + d from the left
    one, and the sums over n values become::

        first'  = first + n d
        second' = second + 2 d first + n d**2

    Shifted data, and merging by pairs, follow Chan, Golub and LeVeque, "Algorithms for computing the sample
    variance: analysis and recommendations", The American Statistician 37 (1983), 242-247.
    """
    shift = np.where(left["count"] == 0, right["shift"], left["shift"])
    count, first = right["count"], right["first"]
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values: as in IEEE 754
        difference = right["shift"].astype("f8") - shift.astype("f8")
        merged = {"shift": shift, "first": left["first"] + first + count * difference}
        if "second" in left:
            rebased = right["second"] + 2 * difference * first + count * difference**2
            merged["second"] = left["second"] + rebased
    return merged
