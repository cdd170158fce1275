"""The statistics of moments and extremes: each is a few lines of data and the formula that ends it."""

from dataclasses import replace

from bbflow.operators.library import Formula
from bbflow.operators.operator import Operator, OperatorKind, plain
from bbflow.operators.statistics.moments import COUNT, FIRST, MAX, MIN, SECOND, SHIFT, Moments
from bbflow.operators.steps import Array, Views
from bbflow.reading.sections import Parameter, whole_number

MEAN = Moments.of(COUNT, SHIFT, FIRST)
SPREAD = Moments.of(COUNT, SHIFT, FIRST, SECOND)


mean = Formula("mean")
"""shift + first / n."""
var = Formula("var")
"""(second - first**2 / n) / (n - ddof): the shifted-data formula of Chan, Golub and LeVeque (1983), see `Merge.cpp`."""
std = Formula("std")
"""The square root of `var`."""
total = Formula("sum")
"""shift * n + first."""
minimum = Formula("min")
"""Smallest valid value."""
maximum = Formula("max")
"""Largest valid value."""
value_range = Formula("range")
"""max - min, in float64: the difference of two integers may not fit their type."""


def count(views: Views) -> Array:
    """Return the number of valid values, apart from the state's buffer."""
    return views["count"].copy()


def _spread(name: str, summary: str, operator: Operator) -> OperatorKind:
    def make(ddof: int) -> tuple[Operator, ...]:
        return (replace(operator, parameters=(("ddof", ddof),)),)

    meaning = "0: of the population, as CDO's timstd; 1: of a sample, as timstd1"
    return OperatorKind(name, summary, make, {"ddof": Parameter(whole_number, meaning, 0)}, f"{name}: {{ddof: 1}}")


# A count is the sum of 1 over the valid values; CF has no method of that name, and a bare 'sum' would
# promise the sum of the quantity itself, so a comment says what was summed.
KINDS = (
    plain("arithmetic mean", Operator("mean", MEAN, mean, "mean", "mean", takes_means=True)),
    _spread("std", "standard deviation", Operator("std", SPREAD, std, "standard_deviation", "standard deviation")),
    _spread("var", "variance", Operator("var", SPREAD, var, "variance", "variance", own_units="({units})2")),
    plain("sum of the values", Operator("sum", MEAN, total, "sum", "sum", takes_means=True)),
    plain("smallest value", Operator("min", Moments.of(COUNT, MIN), minimum, "minimum", "minimum", result=None)),
    plain("largest value", Operator("max", Moments.of(COUNT, MAX), maximum, "maximum", "maximum", result=None)),
    plain("largest less smallest", Operator("range", Moments.of(COUNT, MIN, MAX), value_range, "range", "range")),
    plain(
        "number of valid values",
        Operator(
            "count", Moments.of(COUNT), count, "sum (of 1 for each valid value)", "number of valid values",
            result="i4", own_units="1", takes_means=True,
        ),
    ),
)  # fmt: skip
