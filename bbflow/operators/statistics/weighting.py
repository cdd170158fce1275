"""Statistics to which steps contribute by their length: the formulas of weighted moments."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.operator import Operator
from bbflow.operators.statistics import basic
from bbflow.operators.statistics.ends import End
from bbflow.operators.statistics.extreme_times import ExtremeTime
from bbflow.operators.statistics.moments import COUNT, FIRST, SECOND, SHIFT, WEIGHT, Moments
from bbflow.operators.steps import Array, Views

TIME, MONTH, STEPS = "time", "month", "steps"
WEIGHTS: Mapping[str, str] = {TIME: "the steps' lengths", MONTH: "the days of their months", STEPS: "nothing"}
"""What steps may be weighted by, as the configuration's key `weights` has it."""
MEAN = Moments.of(COUNT, SHIFT, FIRST, WEIGHT)
SPREAD = Moments.of(COUNT, SHIFT, FIRST, SECOND, WEIGHT)
INDIFFERENT = (basic.minimum, basic.maximum, basic.value_range, basic.count)
"""Formulas to which lengths don't matter."""


def mean(views: Views) -> Array:
    """Return shift + first / weight."""
    found: Array = views["shift"] + views["first"] / views["weight"]
    return found


def var(views: Views) -> Array:
    """Return (second - first**2 / weight) / weight: of the population."""
    # Of values that are all the same it is 0, which rounding may take below.
    found: Array = np.maximum(views["second"] - views["first"] ** 2 / views["weight"], 0) / views["weight"]
    return found


def std(views: Views) -> Array:
    """Return the square root of `var`."""
    return np.sqrt(var(views))


def integral(views: Views) -> Array:
    """Return shift * weight + first: the integral over time."""
    return np.where(views["count"] > 0, views["shift"] * views["weight"] + views["first"], np.nan)


FORMULAS = {basic.mean: (mean, MEAN), basic.var: (var, SPREAD), basic.std: (std, SPREAD), basic.total: (integral, MEAN)}
"""Formula to its weighted form and what that needs."""


def weighted(operator: Operator, by: str) -> Operator:
    """Return an operator to whose result each step contributes by its weight.

    Parameters
    ----------
    operator
        Any.
    by
        Of `WEIGHTS`.

    Raises
    ------
    ConfigError
        If it has no such form.
    """
    if by in ("", STEPS):
        return operator
    if operator.formula is basic.total and by == MONTH:
        raise ConfigError(
            f"weights: {by}: operator {operator.name!r}: an integral over time needs the steps' lengths: take "
            f"weights: {TIME}"
        )
    hint = "put it under another name"
    return _weighted(operator, f"weights: {by}: operator", WEIGHTS[by], hint, own_units="{units} {time}")


def weighted_by_member(operator: Operator) -> Operator:
    """Return an operator across members, to whose result each contributes by its own weight.

    Raises
    ------
    ConfigError
        If it has no such form.
    """
    hint = "leave it out, or the weights"
    return _weighted(operator, "members with weights: operator", "members' weights", hint, own_units=operator.own_units)


def _weighted(operator: Operator, where: str, told: str, hint: str, own_units: str) -> Operator:
    """Return the weighted form of an operator, with these units if it is a sum."""
    if operator.formula in INDIFFERENT or isinstance(operator.family, End | ExtremeTime):
        return operator
    if operator.formula not in FORMULAS:
        raise ConfigError(f"{where} {operator.name!r} has no weighted form: {hint}")
    if dict(operator.parameters).get("ddof"):
        raise ConfigError(
            f"{where} {operator.name!r}: ddof corrects for a number of values, and weights are none: take it out"
        )
    formula, family = FORMULAS[operator.formula]
    return replace(
        operator,
        formula=formula,
        family=family,
        parameters=(),
        takes_means=False,
        cell_method=f"{operator.cell_method} (weighted by {told})",
        own_units=own_units if formula is integral else operator.own_units,
    )


def is_length_worth_a_word(operator: Operator) -> bool:
    """Whether the steps' lengths would change an operator's result, and it doesn't know them."""
    return operator.formula in FORMULAS
