"""From values as a stream has them to those that are meant: packed numbers, and several that stand for 'missing'."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from bbflow.cf import Encoding
from bbflow.operators.blocks import as_fill
from bbflow.operators.family import Array, DType, Steps


@lru_cache(maxsize=1024)
def fills_of(encoding: Encoding, dtype: DType) -> tuple[Array, ...]:
    """Give what stands for 'missing' in a variable's own type; asked for each shard, so it is kept."""
    found = (as_fill(value, dtype) for value in encoding.missing)
    return tuple({fill.item(): fill for fill in found if fill is not None}.values())


def is_bare(encoding: Encoding, dtype: DType) -> bool:
    """Whether values of a type are folded as they are: they aren't packed, and one at most stands for 'missing'."""
    return not encoding.is_packed and len(fills_of(encoding, dtype)) < 2


def decoded_dtype(encoding: Encoding, dtype: DType) -> DType:
    """Give the type of the decoded values: packed ones become float64."""
    return np.dtype("f8") if encoding.is_packed else dtype


def decoded(values: Array, encoding: Encoding) -> tuple[Array, Array | None]:
    """Decode values; gives what stands for 'missing' in them too, besides NaN.

    Values are as they were if they are bare; what packed ones lack is NaN.
    """
    fills = fills_of(encoding, values.dtype)
    if encoding.is_packed:
        made = values.astype("f8")
        made *= encoding.scale
        made += encoding.offset
        np.copyto(made, np.nan, where=_is_any(values, fills))
        return made, None
    if len(fills) > 1:
        values = np.where(_is_any(values, fills[1:]), fills[0], values)
    return values, fills[0] if fills else None


def _is_any(values: Array, fills: Sequence[Array]) -> Array:
    """Say which values are any of a few; faster than `numpy.isin`."""
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
