"""The statistics of moments and extremes: each is a few lines of data and the formula that ends it."""

from dataclasses import replace

import numpy as np

from bbflow.operators.family import Array, Views
from bbflow.operators.operator import Operator, OperatorKind, Parameter, plain
from bbflow.operators.readers import whole_number
from bbflow.operators.statistics.moments import COUNT, FIRST, MAX, MIN, SECOND, SHIFT, Moments

MEAN = Moments.of(COUNT, SHIFT, FIRST)
SPREAD = Moments.of(COUNT, SHIFT, FIRST, SECOND)


def mean(views: Views) -> Array:
    """Give shift + first / n."""
    return np.asarray(views["shift"] + views["first"] / views["count"])


def var(views: Views, *, ddof: int) -> Array:
    """Give (second - first**2 / n) / (n - ddof).

    The shifted-data formula of Chan, Golub and LeVeque (1983), see `moments`.
    """
    count, first = views["count"], views["first"]
    squares = np.maximum(views["second"] - first * (first / count), 0.0)
    return np.where(count > ddof, squares / (count - ddof), np.nan)


def std(views: Views, *, ddof: int) -> Array:
    """Give the square root of `var`."""
    return np.asarray(np.sqrt(var(views, ddof=ddof)))


def total(views: Views) -> Array:
    """Give shift * n + first."""
    count = views["count"]
    return np.where(count > 0, views["shift"].astype("f8") * count + views["first"], np.nan)


def minimum(views: Views) -> Array:
    """Smallest valid value."""
    return _where_any(views, "min")


def maximum(views: Views) -> Array:
    """Largest valid value."""
    return _where_any(views, "max")


def value_range(views: Views) -> Array:
    """Give max - min, in float64: the difference of two integers may not fit their type."""
    return np.where(views["count"] > 0, views["max"].astype("f8") - views["min"], np.nan)


def count(views: Views) -> Array:
    """Give the number of valid values, apart from the state's buffer."""
    return views["count"].copy()


def _where_any(views: Views, name: str) -> Array:
    values = views[name]
    missing = np.array(np.nan, values.dtype if values.dtype.kind == "f" else "f8")
    return np.where(views["count"] > 0, values, missing)


def _spread(name: str, summary: str, operator: Operator) -> OperatorKind:
    def make(ddof: int) -> tuple[Operator, ...]:
        return (replace(operator, parameters=(("ddof", ddof),)),)

    meaning = "0: of the population, as CDO's timstd; 1: of a sample, as timstd1"
    return OperatorKind(name, summary, make, {"ddof": Parameter(whole_number, meaning, 0)}, f"{name}: {{ddof: 1}}")


# A count is the sum of 1 over the valid values; CF has no method of that name, and a bare 'sum' would
# promise the sum of the quantity itself, so a comment says what was summed.
KINDS = (
    plain("arithmetic mean", Operator("mean", MEAN, mean, "mean", "mean")),
    _spread("std", "standard deviation", Operator("std", SPREAD, std, "standard_deviation", "standard deviation")),
    _spread("var", "variance", Operator("var", SPREAD, var, "variance", "variance", own_units="({units})2")),
    plain("sum of the values", Operator("sum", MEAN, total, "sum", "sum")),
    plain("smallest value", Operator("min", Moments.of(COUNT, MIN), minimum, "minimum", "minimum", result=None)),
    plain("largest value", Operator("max", Moments.of(COUNT, MAX), maximum, "maximum", "maximum", result=None)),
    plain("largest less smallest", Operator("range", Moments.of(COUNT, MIN, MAX), value_range, "range", "range")),
    plain(
        "number of valid values",
        Operator(
            "count", Moments.of(COUNT), count, "sum (comment: of 1 for each valid value)", "number of valid values",
            result="i4", own_units="1",
        ),
    ),
)  # fmt: skip
