"""From one run of steps to another: the length of a season, such as the growing season.

A state tells of consecutive steps how many they are, the runs that touch their ends, where the first long ones begin,
and where the first one below 0 does that comes after the first one above 0: so two states that follow each other merge
to the one of all their steps.
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
    """Keeps where the first run of `at_least` steps above 0 begins, and the next such run below 0.

    The first run below 0 of all is needed as well: a state before this one may have the run above 0.
    """

    at_least: int
    """Shorter runs don't count."""
    commutes = False

    @property
    def name(self) -> str:
        """One for each length."""
        return f"first and next runs of {self.at_least}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the number of steps, and for each sort the runs at the ends and the first long one; and the next."""
        own = (StateField(f"{sign}_{part}", "i4") for sign in SIGNS for part in ("prefix", "suffix"))
        firsts = (StateField(f"{sign}_first", "i4", empty=NONE) for sign in SIGNS)
        return (StateField("length", "i4"), *own, *firsts, StateField("next", "i4", empty=NONE))

    def fold(self, views: Views, steps: Steps) -> None:
        """Lengthen or end the runs at the end, step by step."""
        for sign, limits in SIGNS.items():
            prefix, suffix, first = _runs(views, sign)
            for at, met in enumerate(limits.within(steps), 1):
                np.copyto(suffix, np.where(met, suffix + 1, 0))
                length = views["length"] + at
                np.copyto(prefix, suffix, where=suffix == length)
                found = suffix == self.at_least
                np.copyto(first, length - suffix, where=(first == NONE) & found)
                if sign == "below":
                    ends = found & (views["next"] == NONE) & _is_after(length - suffix, views["above_first"])
                    np.copyto(views["next"], length - suffix, where=ends)
        views["length"][...] += len(steps.values)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Join the run at the left state's end with the one at the right state's begin."""
        merged = {"length": left["length"] + right["length"]}
        for sign in SIGNS:
            (begin, end, first), (next_begin, next_end, second) = _runs(left, sign), _runs(right, sign)
            merged |= {
                f"{sign}_prefix": np.where(begin == left["length"], end + next_begin, begin),
                f"{sign}_suffix": np.where(next_end == right["length"], end + next_end, next_end),
                f"{sign}_first": _either(first, self._later(left, right, sign, second)),
            }
        # The next one is the right state's own only where the run above 0 begins there.
        begun, own = merged["above_first"], left["length"] + right["above_first"]
        follows = (right["above_first"] != NONE) & (begun == own)
        later = np.where(follows, _moved(right["next"], left), self._later(left, right, "below", right["below_first"]))
        merged["next"] = _either(left["next"], np.where(_is_after(later, begun), later, NONE))
        return merged

    def _later(self, left: Views, right: Views, sign: str, second: Array) -> Array:
        """Return where the first long run begins that the left state alone doesn't have."""
        _, end, _ = _runs(left, sign)
        across = end + _runs(right, sign)[0] >= self.at_least
        return np.where(across, left["length"] - end, _moved(second, left))


def _either(first: Array, later: Array) -> Array:
    return np.where(first != NONE, first, later)


def _moved(begin: Array, left: Views) -> Array:
    """Return where a run of the right state begins in both."""
    return np.where(begin == NONE, NONE, left["length"] + begin)


def _is_after(begin: Array, earlier: Array) -> Array:
    return np.asarray((earlier != NONE) & (begin > earlier))


def _runs(views: Views, sign: str) -> tuple[Array, Array, Array]:
    prefix, suffix, first = (views[f"{sign}_{part}"] for part in ("prefix", "suffix", "first"))
    return prefix, suffix, first


def season_length(views: Views) -> Array:
    """Return the steps from the first run above 0 to the next run below 0, or to the end; 0 without the former."""
    begin, until = views["above_first"], np.where(views["next"] == NONE, views["length"], views["next"])
    return np.where(begin == NONE, 0, until - begin).astype("i4")


def _make(at_least: int) -> tuple[Operator, ...]:
    text = f"steps from the first run of {at_least} above 0 to the next below 0"
    return (Operator("season_length", FirstRuns(at_least), season_length, f"sum (of 1 for {text})", text, "i4", "1"),)


KINDS = (
    OperatorKind(
        "season_length",
        "number of steps from the first run of steps above 0 to the next one below 0, or to the window's end",
        _make,
        {"at_least": Parameter(positive, "the least number of steps of a run", 6)},
        "season_length: {at_least: 6}",
    ),
)
