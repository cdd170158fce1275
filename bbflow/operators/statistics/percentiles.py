"""Percentiles and the median, of quantile sketches with a hard bound on the error of their ranks."""

from fractions import Fraction
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.operator import Operator, OperatorKind
from bbflow.operators.statistics.sketch import Sketch, choose
from bbflow.operators.steps import Array, Views
from bbflow.reading.sections import Parameter, flag, number, positive, shown

ERROR_PERCENT = 1.0
STEPS = 8784
"""A leap year of hours."""
MOST_STEPS = 1_000_000
"""Above a century of hours; the search for a sketch takes time and memory in proportion."""


def percentile(views: Views, *, sketch: Sketch, q: float) -> Array:
    """Return the percentile by nearest rank: of n valid values in order the one of rank ceil(n q / 100), 1 at least.

    That is the definition of CDO's percentile operators by default, type 1 of Hyndman and Fan, "Sample quantiles in
    statistical packages", The American Statistician 50 (1996), 361-365, and numpy's method "inverted_cdf".

    What is kept up to a value weighs between the value's rank and the rank plus the sketch's `excess` e. So the
    smallest value that weighs rank + e // 2 is at most (e + 1) // 2 ranks off.
    """
    count = views["count"].astype("i8")
    # As it is written: 0.1 in binary is a little more, by which rank 1 of 1,000 values would be rank 2.
    rank = np.maximum(_ranks(count, Fraction(str(q)) / 100), 1)
    is_largest = rank >= count  # which is known exactly
    if is_largest.all():
        values = views["max"]
    else:
        values = np.where(is_largest, views["max"], sketch.find(views, rank + sketch.excess(views["seen"]) // 2))
    missing = np.array(np.nan, values.dtype if values.dtype.kind == "f" else "f8")
    return np.where(count > 0, values, missing)


def _ranks(counts: Array, share: Fraction) -> Array:
    """Return ceil(count * share), in Python's integers: with a count, a share of many digits is above 64 bits."""
    # Few: most points have had all steps.
    different, place = np.unique(counts, return_inverse=True)
    ranks = [-(-count * share.numerator // share.denominator) for count in different.tolist()]
    return np.array(ranks, "i8")[place.reshape(counts.shape)]


def rank_error(views: Views, *, sketch: Sketch) -> Array:
    """Return the bound on the error of the ranks that was reached, in percent of the valid values."""
    ranks = (sketch.excess(views["seen"]) + 1) // 2
    return np.where(views["count"] > 0, 100.0 * ranks / views["count"], np.nan)


def _percent(value: Any) -> float:
    read = number(value)
    if not 0 <= read <= 100:
        raise ConfigError(f"{value!r} isn't a percentage: give numbers from 0 to 100")
    return read


def _percents(value: Any) -> tuple[float, ...]:
    read = tuple(_percent(item) for item in (value if isinstance(value, list | tuple) else [value]))
    if not read or len(set(read)) < len(read):
        raise ConfigError(f"{value!r} isn't a list of different percentages, such as [10, 50, 90]")
    return read


def _error(value: Any) -> float:
    read = number(value)
    if not 0 < read <= 50:
        raise ConfigError(f"{value!r} isn't a bound: give a percentage above 0 and not above 50")
    return read


def _steps(value: Any) -> int:
    read = positive(value)
    if read > MOST_STEPS:
        raise ConfigError(f"{shown(value)} steps are too many: give at most {MOST_STEPS}; beyond them the bound grows")
    return read


def _operator(name: str, q: float, error: float, steps: int, cell_method: str, long_name: str) -> Operator:
    sketch = choose(error / 100, steps)
    return Operator(
        name, sketch, percentile, cell_method, long_name, result=None, parameters=(("sketch", sketch), ("q", q))
    )


def _make_percentiles(q: tuple[float, ...], error: float, steps: int, bound: bool) -> tuple[Operator, ...]:
    operators = []
    for percent in q:
        written = f"{percent:g}"
        method = f"point ({written} percent quantile by nearest rank)"
        name = f"p{written}".replace(".", "_")
        operators.append(_operator(name, percent, error, steps, method, f"{written} percent quantile"))
    return (*operators, *(_bound(item) for item in operators[:1] if bound))


def _bound(operator: Operator) -> Operator:
    parameters = tuple(item for item in operator.parameters if item[0] == "sketch")
    method = "maximum (error of the percentiles' ranks)"
    return Operator(
        "rank_error", operator.family, rank_error, method, "bound on the rank error of percentiles",
        own_units="percent", parameters=parameters,
    )  # fmt: skip


def _make_median(error: float, steps: int) -> tuple[Operator, ...]:
    return (_operator("median", 50.0, error, steps, "median", "median"),)


_SKETCH = {
    "error": Parameter(_error, "bound on the error of a rank, in percent of the window's steps", ERROR_PERCENT),
    "steps": Parameter(_steps, "most steps of a window that the bound holds for; beyond them it grows", STEPS),
}

KINDS = (
    OperatorKind(
        "percentiles",
        "percentiles by nearest rank, each as p<q>",
        _make_percentiles,
        {
            "q": Parameter(_percents, "percentages from 0 to 100"),
            **_SKETCH,
            "bound": Parameter(flag, "if true, 'rank_error' tells the bound that was reached at each point", False),
        },
        "percentiles: {q: [10, 90], error: 1, steps: 744}",
    ),
    OperatorKind("median", "the value of the middle rank", _make_median, _SKETCH, "median: {error: 1, steps: 744}"),
)
