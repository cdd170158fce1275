"""Blocks and numbers in the form that the kernel takes: one type, one length, exact limits."""

import math
from collections.abc import Sequence

import numpy as np

from bbflow.errors import StreamError
from bbflow.operators.steps import Array, DType


def as_blocks(blocks: Sequence[Array], dtype: DType, points: int) -> list[Array]:
    """Check a batch's blocks; those that aren't contiguous and aligned are copied.

    Raises
    ------
    StreamError
        If one has another type or length.
    """
    for position, block in enumerate(blocks):
        if block.dtype != dtype or block.size != points:
            raise StreamError(
                f"block {position} of the batch has {block.size} values of type {block.dtype}, but the fold "
                f"has {points} values of type {dtype}: a variable's type and decomposition can't change"
            )
    return [block if _is_plain(block) else np.require(block, requirements=["C", "A"]).reshape(-1) for block in blocks]


def _is_plain(block: Array) -> bool:
    return block.ndim == 1 and block.flags.c_contiguous and block.flags.aligned


def side_by_side(blocks: Sequence[Array]) -> Array:
    """Return the values of some blocks, one after another; a single one isn't copied."""
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def as_fill(fill_value: float | None, dtype: DType) -> Array | None:
    """Return a fill value in a variable's type; None if no value of that type can be equal to it.

    A float is rounded to the variable's type (1e20 means the float32 next to it, as in netCDF); NaN needs no
    fill value.
    """
    if fill_value is None or math.isnan(fill_value):
        return None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            fill = np.asarray(np.float64(fill_value)).astype(dtype)
        return None if np.isinf(fill) and not math.isinf(fill_value) else fill
    if math.isinf(fill_value) or fill_value != int(fill_value):
        return None
    limits = np.iinfo(dtype)
    number = int(fill_value)
    return np.asarray(number, dtype) if limits.min <= number <= limits.max else None


def smallest_above(limit: float | None, dtype: DType, *, inclusive: bool = False) -> Array | None:
    """Return the smallest value of a type that is greater than a limit (or equal to it, if the limit is included).

    So ``value > limit``, compared exactly, is ``value >= smallest`` within the type.

    Returns
    -------
    numpy.ndarray or None
        Of shape (); the type's lowest value if there is no limit, None if nothing is greater.
    """
    if dtype.kind == "f":
        return _next_float(limit, dtype, np.inf, inclusive)
    limits = np.iinfo(dtype)
    beyond = math.ceil if inclusive else lambda number: math.floor(number) + 1
    lowest = limits.min if limit is None else max(beyond(limit), limits.min)
    return None if lowest > limits.max else np.asarray(lowest, dtype)


def largest_below(limit: float | None, dtype: DType, *, inclusive: bool = False) -> Array | None:
    """Return the largest value of a type that is less than a limit; see `smallest_above`."""
    if dtype.kind == "f":
        return _next_float(limit, dtype, -np.inf, inclusive)
    limits = np.iinfo(dtype)
    beyond = math.floor if inclusive else lambda number: math.ceil(number) - 1
    highest = limits.max if limit is None else min(beyond(limit), limits.max)
    return None if highest < limits.min else np.asarray(highest, dtype)


def _next_float(limit: float | None, dtype: DType, towards: float, inclusive: bool) -> Array:
    """Return the float next to a limit on the side of an infinity; the other infinity without a limit."""
    if limit is None:
        return np.asarray(-towards, dtype)
    with np.errstate(over="ignore"):
        rounded = np.asarray(np.float64(limit)).astype(dtype)
    beyond = float(rounded) > limit if towards > 0 else float(rounded) < limit
    beyond |= inclusive and float(rounded) == limit
    return rounded if beyond else np.asarray(np.nextafter(rounded, dtype.type(towards)))
