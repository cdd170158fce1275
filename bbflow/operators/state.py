"""How the partial state of some points lies in a buffer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.family import Family, StateField
from bbflow.operators.library import TYPES
from bbflow.operators.steps import Array, DType, Views

# A cache line, and the widest vector that the kernel loads.
ALIGNMENT_BYTES = 64
MERGED_BYTES = 1 << 20
"""About how much of a family's state is merged at a time, so that temporaries stay in the cache."""


class KeepsState(Protocol):
    """What needs some families: an operator."""

    @property
    def families(self) -> tuple[Family, ...]:
        """All that must be kept for it."""


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Which families a state has, and where each field begins."""

    families: tuple[Family, ...]
    """In the order of their fields."""
    dtype: DType
    """The input's type."""
    points: int
    """Length of each field's last axis."""
    _places: list[tuple[tuple[Family, StateField, int, int], ...]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """What `_fields` gives, once it was asked for: that is for every block that is folded by itself."""

    def __reduce__(self) -> tuple[type["StateLayout"], tuple[Any, ...]]:
        return StateLayout, (self.families, self.dtype, self.points)

    @classmethod
    def of(cls, operators: Iterable[KeepsState], *, dtype: DType, points: int) -> "StateLayout":
        """Return the layout that has what some operators need, and no more.

        Parameters
        ----------
        operators
            Statistics of one input.
        dtype
            The input's type: f4, f8, or an integer of 1 to 8 bytes; in the machine's byte order.
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
        families: dict[str, Family] = {}
        for item in operators:
            for family in item.families:
                families[family.name] = families[family.name].join(family) if family.name in families else family
        return cls(tuple(families[name] for name in sorted(families)), dtype, int(points))

    @property
    def gathers(self) -> bool:
        """Whether all points must be folded and merged together."""
        return any(family.gathers for family in self.families)

    @property
    def commutes(self) -> bool:
        """Whether states may be merged in any order; if not, only from the earlier to the later one."""
        return all(family.commutes for family in self.families)

    @property
    def nbytes(self) -> int:
        """Bytes of one state."""
        return sum(size for *_, size in self._fields())

    def nbytes_of(self, points: int) -> int:
        """Return the bytes of a state of as many points that is laid out alike."""
        return StateLayout(self.families, self.dtype, points).nbytes

    @property
    def signature(self) -> str:
        """Describe what a state keeps: states of one signature and number of points can be merged."""
        fields = [f"{family.name}.{field.name}:{field.dtype(self.dtype).str}" for family, field, _, _ in self._fields()]
        return f"{self.dtype.str}({','.join(fields)})"

    def _fields(self) -> tuple[tuple[Family, StateField, int, int], ...]:
        """Return each field with its offset and its length with padding, both in bytes."""
        if not self._places:
            self._places.append(tuple(self._laid()))
        return self._places[0]

    def _laid(self) -> Iterator[tuple[Family, StateField, int, int]]:
        offset = 0
        for family in self.families:
            for item in family.fields(self.dtype):
                size = self.points * prod(item.inner) * item.dtype(self.dtype).itemsize
                padded = -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
                yield family, item, offset, padded
                offset += padded

    @property
    def places(self) -> dict[tuple[str, str], int]:
        """Family and field to the field's first byte in a state."""
        return {(family.name, field.name): offset for family, field, offset, _ in self._fields()}

    def views(self, buffer: Any) -> dict[str, dict[str, Array]]:
        """Return the fields in a buffer, without a copy.

        Parameters
        ----------
        buffer
            Anything with at least `nbytes` contiguous bytes: memoryview, mmap, bytes, ndarray.

        Returns
        -------
        dict
            Family name to field name to an array of shape (inner, points), writable if the buffer is.

        Raises
        ------
        BbflowError
            If the buffer is too short.
        """
        return self.all_views([buffer])[0]

    def all_views(self, buffers: Iterable[Any]) -> list[dict[str, dict[str, Array]]]:
        """Return the fields in each of some buffers, as `views`."""
        fields = self._fields()
        nbytes = sum(size for *_, size in fields)
        told = [
            (family.name, field.name, field.dtype(self.dtype), (*field.inner, self.points), offset)
            for family, field, offset, _ in fields
        ]
        found = []
        for buffer in buffers:
            flat = memoryview(buffer).cast("B") if nbytes else memoryview(b"")
            if len(flat) < nbytes:
                raise BbflowError(
                    f"a state of {self.points} points with {', '.join(item.name for item in self.families)} "
                    f"needs {nbytes} bytes, but its buffer has {len(flat)}: it is cut short, or was made "
                    "for other operators"
                )
            views: dict[str, dict[str, Array]] = {family.name: {} for family in self.families}
            for family, name, dtype, shape, offset in told:
                whole = np.ndarray(shape, dtype, flat, offset) if prod(shape) else np.empty(shape, dtype)
                views[family][name] = whole
            found.append(views)
        return found

    def clear(self, buffer: Any) -> None:
        """Set a state to the identity: no value folded yet."""
        views = self.views(buffer)
        for family in self.families:
            family.clear(views[family.name])

    def combine(self, left: Any, right: Any, target: Any) -> None:
        """Merge two partial states.

        Any tree gives the same, up to rounding or the bound that an operator states; any order too if the layout
        `commutes`.

        Parameters
        ----------
        left, right
            States of this layout, of values that are not in both; the left ones are earlier.
        target
            Gets the merged state; may be `left` or `right`.
        """
        self.merge((left, right), target)

    def merge(self, states: Sequence[Any], target: Any) -> None:
        """Merge any number of partial states.

        Parameters
        ----------
        states
            Of this layout, of values that are in one of them only; the earlier ones first. None give the identity.
        target
            Gets the merged state; may be the first of them.
        """
        *sides, targets = self.all_views([*states, target])
        for family in self.families:
            into = targets[family.name]
            if not states:
                family.clear(into)
            fields = family.fields(self.dtype)
            bytes_per_point = sum(prod(field.inner) * field.dtype(self.dtype).itemsize for field in fields)
            size = self.points if family.gathers else max(MERGED_BYTES // max(bytes_per_point, 1), 1)
            for part in parts_of(self.points, size) if states else ():
                _merge(family, part_of(into, part), [part_of(side[family.name], part) for side in sides])

    def part(self, states: Sequence[Mapping[str, Views]], points: slice, scratch: Any = None) -> dict[str, Views]:
        """Return some points of what states merge to.

        Parameters
        ----------
        states
            Views of one state or more, the earlier first; what is given of one alone is no copy.
        points
            Which of them; few enough that what they come to stays in the cache.
        scratch
            A buffer for what several come to, of this many points at least; new memory if None.
        """
        if len(states) == 1:
            return {family.name: part_of(states[0][family.name], points) for family in self.families}
        own = StateLayout(self.families, self.dtype, points.stop - points.start)
        merged = own.views(bytearray(own.nbytes) if scratch is None else scratch)
        for family in self.families:
            _merge(family, merged[family.name], [part_of(state[family.name], points) for state in states])
        return dict(merged)


def _merge(family: Family, target: Views, states: Sequence[Views]) -> None:
    """Merge some points of one state or more."""
    left = states[0]
    for right in states[1:]:
        family.merge(target, left, right)
        left = target
    if left is not target:
        for name, values in left.items():
            target[name][...] = values


def parts_of(points: int, size: int) -> Iterator[slice]:
    """Cut points into parts of at most some size."""
    return (slice(start, min(start + size, points)) for start in range(0, points, max(size, 1)))


def part_of(views: Views, points: slice) -> dict[str, Array]:
    """Return some points of a family's views."""
    return {name: values[..., points] for name, values in views.items()}
