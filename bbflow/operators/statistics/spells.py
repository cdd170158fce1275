"""Spells: runs of consecutive steps whose values are within limits.

A state tells of some consecutive steps how long they are, which runs touch their two ends, and what lies between;
two states that follow each other merge to the one of all their steps. Only the later of them may be the right one.
A missing value ends a run, as in CDO's consecsum.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, OperatorKind
from bbflow.operators.statistics.limits import PARAMETERS, ValueLimits
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.reading.sections import Parameter, positive

ENDS = ("length", "prefix", "suffix")
"""Number of steps, and of those in the run at the begin and at the end; the three are equal if one run is all."""


@dataclass(frozen=True, slots=True)
class Spells(Family):
    """Keeps the runs at the two ends, and of all runs what its operators need.

    ``longest`` is the length of the longest run; ``runs`` and ``steps`` count those of at least `at_least` steps,
    and their steps, that touch neither end.
    """

    limits: ValueLimits
    """What holds in a run."""
    at_least: int
    """Shorter runs aren't counted."""
    needed: frozenset[str]
    """Of 'longest', 'runs' and 'steps'."""
    commutes = False

    @property
    def name(self) -> str:
        """One for each pair of limits and length."""
        return f"spells({self.limits}, at least {self.at_least})"

    def join(self, other: Self) -> Self:
        """Keep what both need."""
        return replace(self, needed=self.needed | other.needed)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return numbers of steps and runs."""
        return tuple(StateField(name, "i4") for name in (*ENDS, *sorted(self.needed)))

    def fold(self, views: Views, steps: Steps) -> None:
        """Lengthen or close the run at the end, step by step."""
        suffix, longest = views["suffix"], views.get("longest")
        for met in self.limits.within(steps):
            self._close(views, ~met)
            np.add(suffix, met, out=suffix)
            views["length"][...] += 1
            if longest is not None:
                np.maximum(longest, suffix, out=longest)
        whole = suffix == views["length"]
        np.copyto(views["prefix"], suffix, where=whole)

    def _close(self, views: Views, ended: Array) -> None:
        """End the runs of some points: the first run of all becomes the prefix, others are counted."""
        suffix = views["suffix"]
        whole = suffix == views["length"]
        np.copyto(views["prefix"], suffix, where=whole & ended)
        if "runs" in views or "steps" in views:
            counted = ended & ~whole & (suffix >= self.at_least)
            if "runs" in views:
                views["runs"][...] += counted
            if "steps" in views:
                views["steps"][...] += suffix * counted
        np.multiply(suffix, ~ended, out=suffix)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Join the run at the left state's end with the one at the right state's begin."""
        joint = left["suffix"] + right["prefix"]
        left_whole, right_whole = left["suffix"] == left["length"], right["prefix"] == right["length"]
        merged = {
            "length": left["length"] + right["length"],
            "prefix": np.where(left_whole, joint, left["prefix"]),
            "suffix": np.where(right_whole, joint, right["suffix"]),
        }
        if "longest" in left:
            merged["longest"] = np.maximum(np.maximum(left["longest"], right["longest"]), joint)
        counted = (joint >= self.at_least) & ~left_whole & ~right_whole
        if "runs" in left:
            merged["runs"] = left["runs"] + right["runs"] + counted
        if "steps" in left:
            merged["steps"] = left["steps"] + right["steps"] + joint * counted
        return merged


def longest(views: Views) -> Array:
    """Return the longest run's length, apart from the state's buffer."""
    return views["longest"].copy()


def runs(views: Views, *, at_least: int) -> Array:
    """Count the runs between the ends and those at the ends that are long enough."""
    return np.asarray(views["runs"] + sum(end >= at_least for end in _ends(views)))


def steps(views: Views, *, at_least: int) -> Array:
    """Count the steps of the same runs."""
    return np.asarray(views["steps"] + sum(end * (end >= at_least) for end in _ends(views)))


def _ends(views: Views) -> tuple[Array, Array]:
    """Return the runs at the two ends; if one run is all, it is there once."""
    whole = views["prefix"] == views["length"]
    return views["prefix"], np.where(whole, 0, views["suffix"])


def _longest(above: float | None, below: float | None, inclusive: bool) -> tuple[Operator, ...]:
    limits = ValueLimits(above, below, inclusive)
    text = f"longest run of steps {limits}"
    family = Spells(limits, 1, frozenset({"longest"}))
    return (Operator("longest_spell", family, longest, f"maximum ({text})", text, "i4", "1"),)


def _counting(name: str, formula: Callable[..., Array], summary: str, method: str) -> OperatorKind:
    def make(above: float | None, below: float | None, inclusive: bool, at_least: int) -> tuple[Operator, ...]:
        limits = ValueLimits(above, below, inclusive)
        family = Spells(limits, at_least, frozenset({formula.__name__}))
        counted = f"runs of at least {at_least} steps {limits}"
        known = (("at_least", at_least),)
        text = f"{summary} {counted}"
        return (Operator(name, family, formula, f"{method} {counted})", text, "i4", "1", known),)

    parameters = {**PARAMETERS, "at_least": Parameter(positive, "the least number of steps of a run that counts")}
    example = f"{name}: {{above: 298.15, at_least: 6}}"
    return OperatorKind(name, f"{summary} long runs of steps above or below a limit", make, parameters, example)


KINDS = (
    OperatorKind(
        "longest_spell",
        "number of steps in the longest run above or below a limit",
        _longest,
        PARAMETERS,
        "longest_spell: {below: 1.0}",
    ),
    _counting("spell_count", runs, "number of", "sum (of 1 for each of the"),
    _counting("spell_steps", steps, "number of steps in", "sum (of 1 for each step of the"),
)
