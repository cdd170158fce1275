"""Covariance, correlation and linear trend: shifted sums of two inputs, or of one and the time.

Only pairs count of which both values are valid. Each point's sums are taken about its first pair: so a small spread
around a large value keeps its digits, and a constant has no spread at all. Shifting, and merging by pairs, follow
Chan, Golub and LeVeque, "Algorithms for computing the sample variance: analysis and recommendations", The American
Statistician 37 (1983), 242-247; for two variables see Pébay, "Formulas for robust, one-pass parallel computation of
covariances and arbitrary-order statistical moments", Sandia SAND2008-6212 (2008), section 3.1. Their form that keeps
means instead of shifts needs less room, but loses digits in every merge where the means are large.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, OperatorKind
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.reading.sections import Parameter, flag, text, whole_number

COUNT = StateField("count", "i4")
"""Pairs."""
SHIFT_X, SHIFT_Y = StateField("shift_x", None), StateField("shift_y", "f8")
"""The first pair."""
X, Y = StateField("x", "f8"), StateField("y", "f8")
"""Sums of the differences from it."""
XY = StateField("xy", "f8")
"""Sum of the products of both differences."""
XX, YY = StateField("xx", "f8"), StateField("yy", "f8")
"""Sums of their squares."""
FIELDS = (COUNT, SHIFT_X, SHIFT_Y, X, Y, XY, XX, YY)
SHARED = frozenset(item.name for item in FIELDS[:6])


@dataclass(frozen=True, slots=True)
class CoMoments(Family):
    """Keeps what covariances are made of."""

    other: str | None
    """Expression of the other input (y); None for the time."""
    needed: frozenset[str] = SHARED
    """Names of the fields."""
    counts = "count"

    @property
    def name(self) -> str:
        """One for each other input."""
        return "comoments(time)" if self.other is None else f"comoments(with {self.other})"

    def join(self, other: Self) -> Self:
        """Keep what both need."""
        return replace(self, needed=self.needed | other.needed)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the fields that are needed."""
        return tuple(item for item in FIELDS if item.name in self.needed)

    def fold(self, views: Views, steps: Steps) -> None:
        """Add a tile's sums."""
        if not len(steps.values):
            return
        first, second = steps.stacked(), self._other(steps)
        valid = _both_valid(steps, None if self.other is None else steps.others[self.other])
        _choose_shifts(views, first, second, valid)
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values: as in IEEE 754
            x, y = (_differences(*one, valid) for one in ((first, views["shift_x"]), (second, views["shift_y"])))
            sums = {"x": x, "y": y}
            for name in self.needed & {"xy", "xx", "yy"}:
                views[name][...] += np.einsum("sp,sp->p", sums[name[0]], sums[name[1]])
            for name, differences in sums.items():
                views[name][...] += differences.sum(0)
        views["count"][...] += len(first) if valid is None else np.add.reduce(valid, axis=0, dtype="i4")

    def _other(self, steps: Steps) -> Array:
        """Return y, of shape (steps, points)."""
        if self.other is None:
            return np.broadcast_to(steps.times[:, np.newaxis], (len(steps.values), steps.values[0].size))
        if self.other not in steps.others:
            raise BbflowError(f"the steps came without their other input {self.other!r}, which the state needs")
        return steps.others[self.other].stacked()

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Add the sums of both sides, the right ones rebased on the left shifts.

        A right pair (x, y) is (x + a, y + b) about the left shifts, a and b being the right shifts less the left
        ones; so with n right pairs the sum of x y becomes xy + a y + b x + n a b, and those of squares in the same way.
        """
        empty, count = left["count"] == 0, right["count"]
        merged = {"count": left["count"] + count}
        moved = {}
        with np.errstate(invalid="ignore", over="ignore"):
            for name in ("x", "y"):
                shift = np.where(empty, right[f"shift_{name}"], left[f"shift_{name}"])
                # In float64 from the start: the difference of two unsigned integers would wrap.
                moved[name] = np.where(count > 0, np.subtract(right[f"shift_{name}"], shift, dtype="f8"), 0)
                merged[f"shift_{name}"] = shift
                merged[name] = left[name] + right[name] + count * moved[name]
            for name in self.needed & {"xy", "xx", "yy"}:
                one, two = name[0], name[1]
                rebased = right[name] + moved[one] * right[two] + moved[two] * right[one]
                merged[name] = left[name] + rebased + count * moved[one] * moved[two]
        return merged


def _both_valid(steps: Steps, other: Steps | None) -> Array | None:
    """Return which pairs are valid; None if all are, the common case, in which nothing need be masked."""
    valid = steps.valid() if other is None else steps.valid() & other.valid()
    return None if valid.all() else valid


def _choose_shifts(views: Views, first: Array, second: Array, valid: Array | None) -> None:
    """Set the shifts of the points that have no pair yet to their first one."""
    fresh = views["count"] == 0
    for position in range(len(first)):
        # After the first step, as a rule: only points that it lacks look for their first pair further on.
        if not fresh.any():
            return
        met = fresh if valid is None else fresh & valid[position]
        np.copyto(views["shift_x"], first[position], where=met)
        np.copyto(views["shift_y"], second[position], where=met)
        fresh &= ~met


def _differences(values: Array, shift: Array, valid: Array | None) -> Array:
    """Return the differences from the shift in float64; 0 where a pair isn't valid."""
    differences = np.subtract(values, shift, dtype="f8")
    if valid is not None:
        np.copyto(differences, 0, where=~valid)
    return np.asarray(differences)


def _centred(views: Views, name: str) -> Array:
    """Move the sum of some products from the shifts to the means."""
    one, two = name[0], name[1]
    # Far from the first pair it is a small difference of large sums, which may be below 0 by rounding.
    centred = views[name] - views[one] / views["count"] * views[two]
    return np.asarray(np.maximum(centred, 0) if one == two else centred)


def covariance(views: Views, *, ddof: int) -> Array:
    """Return (xy - x y / n) / (n - ddof)."""
    return np.where(views["count"] > ddof, _centred(views, "xy") / (views["count"] - ddof), np.nan)


def correlation(views: Views) -> Array:
    """Return Pearson's (xy - x y / n) / sqrt((xx - x**2 / n) (yy - y**2 / n)); missing if one input is constant."""
    # The roots first: the product of both sums may overflow where they don't.
    spreads = (np.sqrt(_centred(views, name)) for name in ("xx", "yy"))
    return np.asarray(np.clip(_centred(views, "xy") / np.multiply(*spreads), -1, 1))


def slope(views: Views) -> Array:
    """Return the least-squares (xy - x y / n) / (yy - y**2 / n), y being the time; missing without two times."""
    return np.asarray(_centred(views, "xy") / _centred(views, "yy"))


def intercept(views: Views) -> Array:
    """Return the least-squares line at time 0."""
    mean, time = (views[f"shift_{name}"] + views[name] / views["count"] for name in ("x", "y"))
    return np.asarray(mean - slope(views) * time)


def detrended_variance(views: Views, *, ddof: int) -> Array:
    """Return (xx - xy**2 / yy) / (n - ddof), all about the means: of what is left of x without its line over time."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        left = _centred(views, "xx") - _centred(views, "xy") ** 2 / _centred(views, "yy")
        # Of values on a line nothing is left, which rounding may take below 0.
        return np.where(views["count"] > ddof, np.maximum(left, 0) / (views["count"] - ddof), np.nan)


def detrended_deviation(views: Views, *, ddof: int) -> Array:
    """Return the square root of `detrended_variance`."""
    return np.asarray(np.sqrt(detrended_variance(views, ddof=ddof)))


def _covariance(*, ddof: int, **parameters: str) -> tuple[Operator, ...]:
    other = parameters["with"]
    return (
        Operator(
            "covariance", CoMoments(other), covariance,
            "mean (of the product of anomalies)", f"covariance with {other}",
            own_units="({units}) ({other})", parameters=(("ddof", ddof),), inputs=(other,),
        ),
    )  # fmt: skip


def _correlation(**parameters: str) -> tuple[Operator, ...]:
    other = parameters["with"]
    return (
        Operator(
            "correlation", CoMoments(other, SHARED | {"xx", "yy"}), correlation,
            "mean (of the product of standardised anomalies)", f"correlation with {other}",
            own_units="1", inputs=(other,),
        ),
    )  # fmt: skip


def _trend(intercept: bool) -> tuple[Operator, ...]:
    return (TREND, INTERCEPT) if intercept else (TREND,)


OVER_TIME = CoMoments(None, SHARED | {"yy"})
TREND = Operator(
    "trend", OVER_TIME, slope, "mean (slope of the least-squares line over time)", "linear trend",
    own_units="({units})/({time})",
)  # fmt: skip
INTERCEPT = Operator(
    "intercept", OVER_TIME, intercept, "mean (least-squares line at time 0)", "linear trend at time 0",
)  # fmt: skip
OFF_LINE = CoMoments(None, SHARED | {"xx", "yy"})
NO_LINE = "(of the departures from the least-squares line over time)"
DETRENDED = (
    Operator("detrended_std", OFF_LINE, detrended_deviation, f"standard_deviation {NO_LINE}",
             "standard deviation about the linear trend"),
    Operator("detrended_var", OFF_LINE, detrended_variance, f"variance {NO_LINE}", "variance about the linear trend",
             own_units="({units})2"),
)  # fmt: skip


def _detrended(operator: Operator) -> OperatorKind:
    def make(ddof: int) -> tuple[Operator, ...]:
        return (replace(operator, parameters=(("ddof", ddof),)),)

    meaning = "0: of the population, as CDO's timstd of detrend; 2: what regression calls the residuals'"
    return OperatorKind(
        operator.name, operator.long_name, make, {"ddof": Parameter(whole_number, meaning, 0)}, operator.name
    )


WITH = Parameter(text, "expression of the other variable")
KINDS = (
    OperatorKind(
        "covariance",
        "covariance with another variable",
        _covariance,
        {"with": WITH, "ddof": Parameter(whole_number, "0: of the population, as CDO's timcovar; 1: of a sample", 0)},
        "covariance: {with: psl}",
    ),
    OperatorKind(
        "correlation", "correlation with another variable", _correlation, {"with": WITH}, "correlation: {with: psl}"
    ),
    OperatorKind(
        "trend",
        "slope of the least-squares line over time",
        _trend,
        {"intercept": Parameter(flag, "if true, the line's value at time 0 too", False)},
        "trend: {intercept: true}",
    ),
    *map(_detrended, DETRENDED),
)
