"""Filters: which values of a step are kept as they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators import kernel
from bbflow.operators.kernel_arrays import largest_below, smallest_above
from bbflow.operators.steps import Array, DType, Steps

Extremes = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the values above one limit, below another, or (with both) between them.

    Limits don't pass themselves; NaN and the fill value never do. The comparison is exact, whatever the
    variable's type: a float32 is compared with the limit as it was written, not with its nearest float32.
    """

    name: str
    """What its rows are called."""
    above: float | None = None
    """Values must be greater than this."""
    below: float | None = None
    """Values must be less than this."""

    def __post_init__(self) -> None:
        if self.above is None and self.below is None:
            raise ConfigError(f"filter {self.name!r} keeps everything: give it 'above', 'below' or both")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ConfigError(
                f"filter {self.name!r} keeps nothing: no value is above {self.above} and below {self.below}; "
                "for values outside of a range use two filters"
            )

    def __str__(self) -> str:
        limits = {"above": self.above, "below": self.below}
        return " and ".join(f"{name} {limit:g}" for name, limit in limits.items() if limit is not None)

    def can_pass(self, minimum: float, maximum: float) -> bool:
        """Whether any value between a block's extremes could pass."""
        out_below = self.above is not None and maximum <= self.above
        out_above = self.below is not None and minimum >= self.below
        return not (out_below or out_above)

    def interval(self, dtype: DType) -> tuple[Array, Array] | None:
        """Return the smallest and the largest value of a type that pass; None if none does."""
        lowest = smallest_above(self.above, dtype)
        highest = largest_below(self.below, dtype)
        return None if lowest is None or highest is None or lowest > highest else (lowest, highest)


def row_dtype(dtype: DType) -> DType:
    """Return the type of a row for a variable's type: its value, its step's number, and its flat index in the block."""
    return np.dtype([("value", dtype), ("step", "i8"), ("index", "i8")])


def choose_intervals(
    filters: Sequence[Filter], dtype: DType, extremes: Sequence[Extremes]
) -> dict[str, kernel.Interval]:
    """Return what the kernel must look for; filters that nothing in the batch can pass are left out.

    Parameters
    ----------
    filters
        Each with a name of its own.
    dtype
        The blocks' type.
    extremes
        For each step its smallest and largest value, or None if they aren't known.
    """
    intervals = {}
    for item in filters:
        limits = item.interval(dtype)
        skip = np.array([known is not None and not item.can_pass(*known) for known in extremes], np.uint8)
        if limits is not None and not skip.all():
            intervals[item.name] = kernel.Interval(*limits, skip)
    return intervals


def gather_rows(tile: Steps, passed: Array, first: int = 0) -> Array:
    """Make rows of the places that the kernel found.

    Parameters
    ----------
    tile
        Where it looked.
    passed
        What it found (`kernel.ROW`), ordered by step.
    first
        Index of the tile's first point.
    """
    rows = np.empty(len(passed), row_dtype(tile.values[0].dtype))
    rows["step"] = tile.numbers[passed["step"]]
    rows["index"] = passed["index"] + first
    ends = np.searchsorted(passed["step"], np.arange(len(tile.values) + 1))
    for values, start, end in zip(tile.values, ends[:-1], ends[1:], strict=True):
        rows["value"][start:end] = values[passed["index"][start:end]]
    return rows


def in_order(tiles: Sequence[Array], dtype: DType) -> Array:
    """Join the rows of tiles, which follow each other, in the order of steps and then indices."""
    if not tiles:
        return np.empty(0, row_dtype(dtype))
    rows = np.concatenate(tiles)
    return rows[np.argsort(rows["step"], kind="stable")]
