"""How the partial state of some points lies in a buffer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.accumulators import ACCUMULATORS, Accumulator, Array, DType, identity, merge
from bbflow.operators.filter import Filter
from bbflow.operators.kernel import TYPES
from bbflow.operators.operator import Operator

ALIGNMENT_BYTES = 64
MERGED_POINTS = 1 << 14
"""Points merged at a time, so that temporaries stay in the cache."""


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Which accumulators a state has, and where each begins."""

    accumulators: tuple[Accumulator, ...]
    """In the kernel's order."""
    dtype: DType
    """The variable's type."""
    points: int
    """Length of each accumulator."""

    @classmethod
    def of(cls, operators: Iterable[Operator | Filter], *, dtype: DType, points: int) -> "StateLayout":
        """Give the layout that has what some operators need, and no more; filters need nothing.

        Parameters
        ----------
        operators
            Statistics of one variable.
        dtype
            The variable's type: f4, f8, or an integer of 1 to 8 bytes; in the machine's byte order.
        points
            Number of points.

        Raises
        ------
        BbflowError
            If there are no operators for such a type.
        """
        dtype = np.dtype(dtype)
        if dtype not in TYPES:
            raise BbflowError(
                f"operators can't fold values of type {dtype}: they fold f4, f8, and integers of 1 to 8 "
                "bytes, in the machine's byte order"
            )
        needed = {need for item in operators if isinstance(item, Operator) for need in item.needs}
        return cls(tuple(item for item in ACCUMULATORS if item in needed), dtype, int(points))

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return sum(size for _, _, size in self._fields())

    def _fields(self) -> Iterator[tuple[Accumulator, int, int]]:
        """Give each accumulator with its offset and its length with padding, both in bytes."""
        offset = 0
        for accumulator in self.accumulators:
            size = self.points * accumulator.dtype(self.dtype).itemsize
            padded = -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            yield accumulator, offset, padded
            offset += padded

    def views(self, buffer: Any) -> dict[str, Array]:
        """Give the accumulators in a buffer, without a copy.

        Parameters
        ----------
        buffer
            Anything with at least `nbytes` contiguous bytes: memoryview, mmap, bytes, ndarray.

        Returns
        -------
        dict
            Accumulator name to an array of shape (points,), writable if the buffer is.

        Raises
        ------
        BbflowError
            If the buffer is too short.
        """
        flat = memoryview(buffer).cast("B") if self.nbytes else memoryview(b"")
        if len(flat) < self.nbytes:
            raise BbflowError(
                f"a state of {self.points} points with {', '.join(item.name for item in self.accumulators)} "
                f"needs {self.nbytes} bytes, but its buffer has {len(flat)}: it is cut short, or was made "
                "for other operators"
            )
        arrays = {}
        for accumulator, offset, _ in self._fields():
            dtype = accumulator.dtype(self.dtype)
            raw = flat[offset : offset + self.points * dtype.itemsize]
            arrays[accumulator.name] = np.frombuffer(raw, dtype) if self.points else np.empty(0, dtype)
        return arrays

    def clear(self, buffer: Any) -> None:
        """Set a state to the identity: no value folded yet."""
        views = self.views(buffer)
        for accumulator in self.accumulators:
            views[accumulator.name][...] = identity(accumulator, self.dtype)

    def combine(self, left: Any, right: Any, target: Any) -> None:
        """Merge two partial states; any order and any tree gives the same, up to rounding.

        Parameters
        ----------
        left, right
            States of this layout, of values that are not in both.
        target
            Gets the merged state; may be `left` or `right`.
        """
        sides = self.views(left), self.views(right)
        targets = self.views(target)
        for start in range(0, self.points, MERGED_POINTS):
            part = slice(start, start + MERGED_POINTS)
            merged = merge(*({name: view[part] for name, view in side.items()} for side in sides))
            for name, values in merged.items():
                targets[name][part] = values
