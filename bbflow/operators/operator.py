"""The statistics: each is a few lines of data and the formula that ends it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bbflow.operators.accumulators import COUNT, FIRST, MAX, MIN, SECOND, SHIFT, Accumulator, Array, DType

if TYPE_CHECKING:
    from bbflow.operators.state import StateLayout

Views = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Operator:
    """A statistic over time, for each point."""

    name: str
    """What the configuration calls it."""
    needs: tuple[Accumulator, ...]
    """What must be kept for it."""
    formula: Callable[..., Array]
    """Makes the result of the accumulators' views and the parameters."""
    cell_method: str
    """The method of CF's cell_methods (CF conventions, appendix E)."""
    long_name: str
    """What stands before 'of air temperature'."""
    result: str | None = "f8"
    """NumPy's name of the result's type; None for the variable's own, or float64 for integers."""
    own_units: str | None = None
    """Units of the result; None for the variable's."""
    parameters: tuple[tuple[str, int], ...] = ()
    """Names and values of what the configuration may change."""

    def finalize(self, layout: "StateLayout", buffer: Any) -> Array:
        """Give the result of a state.

        Parameters
        ----------
        layout
            Has at least what this operator needs.
        buffer
            A state of that layout.

        Returns
        -------
        numpy.ndarray
            Of shape (points,); NaN where there was no valid value (a count is 0 there).
        """
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            values = self.formula(layout.views(buffer), **dict(self.parameters))
        return values.astype(self.dtype(layout.dtype), copy=False)

    def dtype(self, dtype: DType) -> DType:
        """Give the result's type for a variable's type."""
        if self.result is not None:
            return np.dtype(self.result)
        return np.dtype(dtype) if np.dtype(dtype).kind == "f" else np.dtype("f8")

    def units(self, units: str) -> str:
        """Give the result's units for a variable's units."""
        return units if self.own_units is None else self.own_units


def mean(views: Views) -> Array:
    """Give shift + first / n."""
    return np.asarray(views["shift"] + views["first"] / views["count"])


def std(views: Views, *, ddof: int) -> Array:
    """Give sqrt((second - first**2 / n) / (n - ddof)).

    The shifted-data formula of Chan, Golub and LeVeque (1983), see `accumulators`.
    """
    count, first = views["count"], views["first"]
    squares = np.maximum(views["second"] - first * (first / count), 0.0)
    return np.where(count > ddof, np.sqrt(squares / (count - ddof)), np.nan)


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


def count(views: Views) -> Array:
    """Give the number of valid values, apart from the state's buffer."""
    return views["count"].copy()


def _where_any(views: Views, name: str) -> Array:
    values = views[name]
    missing = np.array(np.nan, values.dtype if values.dtype.kind == "f" else "f8")
    return np.where(views["count"] > 0, values, missing)


MOMENTS = (COUNT, SHIFT, FIRST)

# A count is the sum of 1 over the valid values; CF has no method of that name, and a bare 'sum' would
# promise the sum of the quantity itself, so a comment says what was summed.
STATISTICS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("mean", MOMENTS, mean, "mean", "mean"),
        Operator(
            "std", (*MOMENTS, SECOND), std, "standard_deviation", "standard deviation",
            parameters=(("ddof", 0),),
        ),
        Operator("sum", MOMENTS, total, "sum", "sum"),
        Operator("min", (COUNT, MIN), minimum, "minimum", "minimum", result=None),
        Operator("max", (COUNT, MAX), maximum, "maximum", "maximum", result=None),
        Operator(
            "count", (COUNT,), count, "sum (comment: of 1 for each valid value)", "number of valid values",
            result="i4", own_units="1",
        ),
    )
}  # fmt: skip
"""All statistics by name."""
