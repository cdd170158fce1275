"""From values as a stream has them to those that are meant: packed numbers, and several that stand for 'missing'."""

import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from struct import pack, unpack
from typing import Any

import numpy as np

from bbflow.operators.kernel_arrays import as_fill
from bbflow.operators.steps import Array, DType, Steps
from bbflow.stream.cf import Encoding


def meant_dtype(encoding: Encoding, dtype: DType) -> DType:
    """Return the type of which a variable's numbers are, before they are unpacked: that of `_Unsigned` comes first."""
    if encoding.unsigned is None or dtype.kind not in "iu":
        return dtype
    return np.dtype(f"{'u' if encoding.unsigned else 'i'}{dtype.itemsize}")


@lru_cache(maxsize=1024)
def fills_of(encoding: Encoding, dtype: DType) -> tuple[Array, ...]:
    """Return what stands for 'missing' in the type that a variable's numbers are meant to be of.

    It is asked for each shard, so it is kept.
    """
    meant = meant_dtype(encoding, dtype)
    found = (_in_type(value, dtype, meant) for value in encoding.missing if meant.kind in "iuf")
    return tuple({fill.item(): fill for fill in found if fill is not None}.values())


def marks_of(encoding: Encoding, dtype: DType) -> dict[str, Any]:
    """Return the attributes of an array in a store that name what is missing, in the type that is meant.

    Readers compare exactly. JSON has no infinity: xarray takes one as a float64's bytes in `_FillValue`, by base64.
    """
    found = [] if dtype.kind == "c" else [fill.item() for fill in fills_of(encoding, dtype)]
    finite = [value for value in found if math.isfinite(value)]
    infinite = [value for value in found if not math.isfinite(value)]
    told: dict[str, Any] = {"missing_value": finite[0] if len(finite) == 1 else finite} if finite else {}
    if infinite:
        told["_FillValue"] = b64encode(pack("<d", infinite[0])).decode()
    return told


def named_hole(hole: Any) -> dict[str, Any]:
    """Return the attribute of an array in a store that names what stands in its holes, if there is such a value."""
    return {} if hole is None else {"missing_value": hole.item()}


def infinite_mark(told: Any) -> float | None:
    """Return the number that `marks_of` has told as `_FillValue`; None of others."""
    return unpack("<d", b64decode(told))[0] if isinstance(told, str) else None


def written_fill(encoding: Encoding, dtype: DType) -> Any:
    """Return the first value that stands for 'missing', in the type that is written; None if there is none."""
    fills = fills_of(encoding, dtype)
    return fills[0].view(dtype)[()] if fills else None


@lru_cache(maxsize=1024)
def valid_of(encoding: Encoding, dtype: DType) -> tuple[Array | None, Array | None]:
    """Return the smallest and the largest valid number, of the type of which they are meant.

    As in netCDF4, a limit that the type hasn't, such as a fraction where numbers are whole, counts for nothing.
    """
    meant = meant_dtype(encoding, dtype)
    told = (encoding.lowest, encoding.highest) if meant.kind in "iuf" else (None, None)
    lowest, highest = (None if value is None else _in_type(value, dtype, meant) for value in told)
    return lowest, highest


def _marker(encoding: Encoding, dtype: DType) -> Array | None:
    """Return what stands for 'missing' when values have been decoded; None for NaN alone."""
    fills, meant = fills_of(encoding, dtype), meant_dtype(encoding, dtype)
    if fills or meant.kind not in "iu":
        return fills[0] if fills else None
    lowest, highest = valid_of(encoding, dtype)
    ends = np.iinfo(meant)  # one of them isn't valid, or all values are
    if lowest is not None and lowest > ends.min:
        return np.asarray(ends.min, meant)
    return np.asarray(ends.max, meant) if highest is not None and highest < ends.max else None


def _in_type(value: float, written: DType, meant: DType) -> Array | None:
    """Return a number in the type that is meant; it may be told in the one that is written, as -1 for 255."""
    found = as_fill(value, meant)
    if found is None and written != meant:
        own = as_fill(value, written)
        found = None if own is None else own.view(meant)
    return found


def is_bare(encoding: Encoding, dtype: DType) -> bool:
    """Whether values of a type are folded as they are: they aren't packed, and one at most stands for 'missing'."""
    plain = not encoding.is_packed and meant_dtype(encoding, dtype) == dtype
    has_limits = any(limit is not None for limit in valid_of(encoding, dtype))
    return plain and not has_limits and len(fills_of(encoding, dtype)) < 2


def decoded_dtype(encoding: Encoding, dtype: DType) -> DType:
    """Return the type of the decoded values: packed ones become float64."""
    return np.dtype("f8") if encoding.is_packed else meant_dtype(encoding, dtype)


def decoded(values: Array, encoding: Encoding) -> tuple[Array, Array | None]:
    """Decode values; gives what stands for 'missing' in them too, besides NaN.

    Values are as they were if they are bare; what packed ones lack is NaN.
    """
    dtype = values.dtype
    fills = fills_of(encoding, dtype)
    values = values.view(meant_dtype(encoding, dtype))
    outside = _is_outside(values, *valid_of(encoding, dtype))
    if encoding.is_packed:
        made = values.astype("f8")
        # In place: a batch's values needn't be there three times.
        made *= encoding.scale
        made += encoding.offset
        np.copyto(made, np.nan, where=_is_any(values, fills) | outside)
        return made, None
    fill = _marker(encoding, dtype)
    if len(fills) > 1 or outside.any():
        missing = outside | _is_any(values, fills[1:])
        values = np.where(missing, np.asarray(np.nan, values.dtype) if fill is None else fill, values)
    return values, fill


def without_missing(values: Array, encoding: Encoding) -> Array:
    """Return what values mean, NaN where they are missing; they stay as they are if nothing is."""
    made, fill = decoded(values, encoding)
    lacking = np.zeros(made.shape, bool) if fill is None else made == fill
    return np.where(lacking, np.nan, made) if lacking.any() else made


def _is_outside(values: Array, lowest: Array | None, highest: Array | None) -> Array:
    """Return which values aren't valid."""
    found: Array = np.zeros(values.shape, bool)
    if lowest is not None:
        found |= values < lowest
    if highest is not None:
        found |= values > highest
    return found


def _is_any(values: Array, fills: Sequence[Array]) -> Array:
    """Return which values are any of a few; faster than `numpy.isin`."""
    found: Array = np.zeros(values.shape, bool)
    for fill in fills:
        found |= values == fill
    return found


@dataclass(frozen=True, slots=True)
class Encoded:
    """Steps that are decoded part by part: all of a batch at once may be more than there is memory for."""

    steps: Steps
    """As the stream has them."""
    encoding: Encoding
    """How."""

    @property
    def values(self) -> Sequence[Array]:
        """As the stream has them."""
        return self.steps.values

    def part(self, points: slice) -> Steps:
        """Decode some of the points."""
        return self._decoded(self.steps.part(points))

    def some(self, steps: slice) -> Steps:
        """Decode some of the steps."""
        return self._decoded(self.steps.some(steps))

    def _decoded(self, steps: Steps) -> Steps:
        made = [decoded(values, self.encoding) for values in steps.values]
        return replace(steps, values=[values for values, _ in made], fill=made[0][1] if made else None)
