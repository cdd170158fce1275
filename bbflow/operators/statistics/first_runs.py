"""From one run of steps to another: the length of a season, such as the growing season.

A state tells of consecutive steps how many they are, the runs that touch their ends, and where the first long ones
begin, so that two states that follow each other merge to the one of all their steps.
"""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, OperatorKind
from bbflow.operators.statistics.limits import ValueLimits
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.reading.sections import Parameter, positive

NONE = -1
"""Stands for the begin of a run that isn't there."""
SIGNS = {"above": ValueLimits(above=0.0), "below": ValueLimits(below=0.0)}
"""The two sorts of runs: of values above 0 and below 0."""


@dataclass(frozen=True, slots=True)
class FirstRuns(Family):
    """Keeps where the first run of `at_least` steps above 0 begins, and the first such run below 0."""

    at_least: int
    """Shorter runs don't count."""
    commutes = False

    @property
    def name(self) -> str:
        """One for each length."""
        return f"first runs of {self.at_least}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the number of steps, and for each sort the runs at the ends and the first long one."""
        own = (StateField(f"{sign}_{part}", "i4") for sign in SIGNS for part in ("prefix", "suffix"))
        firsts = (StateField(f"{sign}_first", "i4", empty=NONE) for sign in SIGNS)
        return (StateField("length", "i4"), *own, *firsts)

    def fold(self, views: Views, steps: Steps) -> None:
        """Lengthen or end the runs at the end, step by step."""
        for sign, limits in SIGNS.items():
            prefix, suffix, first = _runs(views, sign)
            for at, met in enumerate(limits.within(steps), 1):
                np.copyto(suffix, np.where(met, suffix + 1, 0))
                length = views["length"] + at
                np.copyto(prefix, suffix, where=suffix == length)
                np.copyto(first, length - suffix, where=(first == NONE) & (suffix == self.at_least))
        views["length"][...] += len(steps.values)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Join the run at the left state's end with the one at the right state's begin."""
        merged = {"length": left["length"] + right["length"]}
        for sign in SIGNS:
            (begin, end, first), (next_begin, next_end, second) = _runs(left, sign), _runs(right, sign)
            joint = end + next_begin
            across = np.where(joint >= self.at_least, left["length"] - end, NONE)
            later = np.where(second == NONE, NONE, left["length"] + second)
            merged |= {
                f"{sign}_prefix": np.where(begin == left["length"], joint, begin),
                f"{sign}_suffix": np.where(next_end == right["length"], end + next_end, next_end),
                f"{sign}_first": np.where(first != NONE, first, np.where(across != NONE, across, later)),
            }
        return merged


def _runs(views: Views, sign: str) -> tuple[Array, Array, Array]:
    prefix, suffix, first = (views[f"{sign}_{part}"] for part in ("prefix", "suffix", "first"))
    return prefix, suffix, first


def season_length(views: Views) -> Array:
    """Return the steps from the first run above 0 to the next run below 0, or to the end; 0 without the former."""
    begin, end = views["above_first"], views["below_first"]
    until = np.where(end > begin, end, views["length"])
    return np.where(begin == NONE, 0, until - begin).astype("i4")


def _make(at_least: int) -> tuple[Operator, ...]:
    text = f"steps from the first run of {at_least} above 0 to that below 0"
    return (Operator("season_length", FirstRuns(at_least), season_length, f"sum (of 1 for {text})", text, "i4", "1"),)


KINDS = (
    OperatorKind(
        "season_length",
        "number of steps from the first run of steps above 0 to the first one below 0, or to the window's end",
        _make,
        {"at_least": Parameter(positive, "the least number of steps of a run", 6)},
        "season_length: {at_least: 6}",
    ),
)
