"""How many values are above or below a limit, or between two."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, OperatorKind
from bbflow.operators.statistics.limits import PARAMETERS, ValueLimits
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.reading.sections import Parameter, flag

MOST_STEPS = 255
"""How many booleans add up in a byte, which is what a processor adds most of at once."""


@dataclass(frozen=True, slots=True)
class Exceedance(Family):
    """Counts the values within limits."""

    limits: ValueLimits
    """What is counted."""
    share: bool = False
    """Whether the valid values are counted too."""

    @property
    def name(self) -> str:
        """One for each pair of limits."""
        return f"exceedance({self.limits})"

    def join(self, other: Self) -> Self:
        """Count the valid values if either needs them."""
        return type(self)(self.limits, self.share or other.share)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the counts."""
        names = ("within", "valid") if self.share else ("within",)
        return tuple(StateField(name, "i4", merge="add") for name in names)

    def fold(self, views: Views, steps: Steps) -> None:
        """Count a tile's values."""
        views["within"][...] += count(self.limits.within(steps))
        if self.share:
            views["valid"][...] += count(steps.valid())


def count(met: Array) -> Array:
    """Count along the first axis of booleans."""
    if len(met) <= MOST_STEPS:
        return np.asarray(np.add.reduce(met.view("u1"), axis=0, dtype="u1"))
    return np.asarray(np.add.reduce(met, axis=0, dtype="i4"))


def within(views: Views) -> Array:
    """Return the number of values within the limits, apart from the state's buffer."""
    return views["within"].copy()


def fraction(views: Views) -> Array:
    """Return within / valid."""
    return np.asarray(views["within"] / views["valid"])


def _make(above: float | None, below: float | None, inclusive: bool, fraction: bool) -> tuple[Operator, ...]:
    limits = ValueLimits(above, below, inclusive)
    return (_fraction(limits) if fraction else _count(limits),)


def _count(limits: ValueLimits) -> Operator:
    return Operator(
        "exceedance", Exceedance(limits), within, f"sum (of 1 for each value {limits})",
        f"number of values {limits}", result="i4", own_units="1",
    )  # fmt: skip


def _fraction(limits: ValueLimits) -> Operator:
    return Operator(
        "exceedance", Exceedance(limits, share=True), fraction,
        f"mean (of 1 for each value {limits} and 0 for the others)",
        f"fraction of values {limits}", own_units="1",
    )  # fmt: skip


KINDS = (
    OperatorKind(
        "exceedance",
        "number of values above or below a limit, or between two",
        _make,
        {**PARAMETERS, "fraction": Parameter(flag, "if true, their share of the valid values", False)},
        "exceedance: {above: 298.15}",
    ),
)
