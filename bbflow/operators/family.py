"""The contract of operators: what is kept for each point, how steps are folded into it, and how two states merge."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.steps import Array, DType, Steps, Views

ANY_TYPE: DType = np.dtype("f8")
"""Stands for the input's type where it doesn't matter."""


@dataclass(frozen=True, slots=True)
class StateField:
    """One array of a partial state."""

    name: str
    """Its name in the state's views."""
    type: str | None
    """NumPy's name of its type; None for the input's own."""
    inner: tuple[int, ...] = ()
    """What is kept for each point; empty for one number. The points are the last axis."""
    merge: str | None = None
    """How the numbers of two states become one: add, min or max; None if the family says it."""
    empty: float | None = None
    """What it is before anything is folded; None for what `merge` leaves any number as it is with, else 0."""

    def dtype(self, own: DType) -> DType:
        """Return its type for an input's type."""
        return own if self.type is None else np.dtype(self.type)

    def clear(self, values: Array) -> None:
        """Set the field to what it is before anything is folded."""
        values[...] = _identity(self.merge, values.dtype) if self.empty is None else self.empty

    def combine(self, target: Array, left: Array, right: Array) -> None:
        """Set target = left (+) right by the field's rule, number by number; the target may be either side."""
        if self.merge == "add":
            with np.errstate(all="ignore"):
                np.add(left, right, out=target)
        else:  # np.minimum would prefer NaN, and choose itself between 0 and -0
            target[...] = np.where(right < left if self.merge == "min" else right > left, right, left)


def _identity(rule: str | None, dtype: DType) -> float | int:
    """Return the number that a rule leaves any other as it is with; 0 where there is no rule."""
    if rule not in ("min", "max"):
        return 0
    if dtype.kind == "f":
        return np.inf if rule == "min" else -np.inf
    limits = np.iinfo(dtype)
    return int(limits.max if rule == "min" else limits.min)


class Family(ABC):
    """What a group of operators keeps of the steps: an associative merge with an identity.

    Where its fields' rules say how two states merge, no more is needed; else the family writes `combine`.
    Instances are frozen dataclasses: hashable, equal if they keep the same, small when pickled.
    """

    commutes = True
    """Whether states may be merged in any order; if not, the left one must hold the earlier steps."""
    counts: str | None = None
    """Field with the number of values that went in, where those aren't the input's valid ones."""

    dates: tuple[str, ...] = ()
    """Parts of each step's date that `fold` finds among the steps' others (`file_fields.CALENDAR`)."""

    gathers = ""
    """What a field's points count by (area, none) if all of them belong into one state; empty if each has its own."""

    own_tiles = False
    """Whether it cuts any number of points into tiles by itself, as the compiled kernels do."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name what is kept, parameters included: families of one name share their fields in a state."""

    @abstractmethod
    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the arrays that are kept for an input's type."""

    def clear(self, views: Views) -> None:
        """Set a state to the identity: nothing folded yet."""
        for item in self.fields(ANY_TYPE):
            item.clear(views[item.name])

    @abstractmethod
    def fold(self, views: Views, steps: Steps) -> None:
        """Take steps into a state, in place; they are later than those that it has."""

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Return the merged fields of two states as new arrays; no step is in both.

        By default as the fields' rules say.
        """
        merged = {name: np.empty_like(values) for name, values in left.items()}
        self.merge(merged, left, right)
        return merged

    def merge(self, target: Views, left: Views, right: Views) -> None:
        """Set target = left (+) right; the target may be either side.

        Raises
        ------
        BbflowError
            If a field has no rule, and the family doesn't write `combine`.
        """
        if type(self).combine is not Family.combine:
            for name, values in self.combine(left, right).items():
                target[name][...] = values
            return
        for item in self.fields(ANY_TYPE):
            if item.merge is None:
                raise BbflowError(f"{self.name}: its field {item.name!r} has no 'merge', and it has no 'combine'")
            item.combine(target[item.name], left[item.name], right[item.name])

    def join(self, other: Self) -> Self:
        """Return the family that keeps what both keep, where both have one name."""
        return self

    def fold_from(self, target: Views, source: Views | None, steps: Steps) -> None:
        """Set target = source (+) steps; no source stands for the identity, and both may be the same memory."""
        if source is None:
            self.clear(target)
        else:
            for name, values in source.items():
                if values.ctypes.data != target[name].ctypes.data:
                    target[name][...] = values
        self.fold(target, steps)
