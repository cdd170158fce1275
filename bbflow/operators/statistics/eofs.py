"""Empirical orthogonal functions: the leading patterns of a field's variability, of a sketch of its covariances.

The sketch B of rank r stands for the departures A from the mean, a row for each step. While there are no more rows than
fit, it is exact; then it shrinks as in Liberty, "Simple and deterministic matrix sketching", KDD 2013 (Frequent
Directions), with the buffer and the merge of Ghashami, Liberty, Phillips and Woodruff, "Frequent directions: simple and
deterministic matrix sketching", SIAM Journal on Computing 45 (2016), 1762-1792: 0 <= A'A - B'B <= d for the d that is
kept, and that is at most the variance beyond the first k modes divided by r + 1 - k, for any k up to r. The mean moves
as by Chan, Golub and LeVeque (1983): two parts' covariances are those of both and a row for the difference of their
means.
"""

from dataclasses import dataclass

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.family import Family, StateField
from bbflow.operators.file_fields import AREA_SHARE
from bbflow.operators.operator import Axis, Operator, OperatorKind
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.reading.sections import Parameter, flag, one_of, positive

# As float64: cast to float32 it overflows.
LARGEST = np.float64(1e140)
"""The squares of larger values, summed, are infinite: a single one would leave no mode of any point."""


@dataclass(frozen=True, slots=True)
class FieldSketch(Family):
    """Keeps the mean, and rows whose products are nearly those of the departures from it."""

    rank: int
    """How many rows are left when they shrink; twice as many fit."""
    gathers: str = "area"
    """Points count by their areas, or alike (none)."""
    commutes = False
    counts = "count"

    @property
    def name(self) -> str:
        """One for each rank and weights."""
        return f"sketch{self.rank}_{self.gathers}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return count, mean and rows, what points count by (its root), and which of them have missed a value.

        The steps seen, the rows used and what was lost are the same at all points: there is no other place for them.
        """
        return (
            StateField("count", "i4"), StateField("mean", "f8"), StateField("weight", "f8"), StateField("gone", "u1"),
            StateField("rows", "f8", (2 * self.rank,)),
            StateField("seen", "i4"), StateField("used", "i4"), StateField("lost", "f8"),
        )  # fmt: skip

    def fold(self, views: Views, steps: Steps) -> None:
        """Take steps in, one after the other; those without any valid value are none."""
        if not views["count"].size:
            return
        views["weight"][...] = np.sqrt(steps.others[AREA_SHARE].values[0]) if len(steps.values) else views["weight"]
        for at, values in enumerate(steps.values):
            valid = steps.valid_in(at) & (np.abs(values) < LARGEST)
            if valid.any():
                views["count"][...] += valid
                views["gone"][...] |= ~valid
                self._add(views, np.where(views["gone"], 0.0, values))

    def _add(self, views: Views, values: Array) -> None:
        before = int(views["seen"][0])
        off = values - np.where(views["gone"], 0.0, views["mean"])
        views["mean"][...] += off / (before + 1)
        views["seen"][...] = before + 1
        # The first is the mean itself: it has no departure.
        if not before:
            return
        used = int(views["used"][0])
        views["rows"][used] = np.sqrt(before / (before + 1)) * off * views["weight"]
        if used + 1 == 2 * self.rank:
            rows, lost = self._shrunk(views["rows"])
            _put(views, rows, views["lost"][0] + lost)
        else:
            views["used"][...] = used + 1

    def _shrunk(self, rows: Array) -> tuple[Array, float]:
        """Return as many rows as the rank, and by how much the sum of their products is less, in any direction."""
        _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
        lost = float(sizes[self.rank] ** 2) if len(sizes) > self.rank else 0.0
        kept = np.sqrt(np.maximum(sizes[: self.rank] ** 2 - lost, 0))
        return kept[:, None] * directions[: self.rank], lost

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Put the rows of both together, with one for the difference of the means."""
        if not left["count"].size or not right["seen"][0]:
            return {name: values.copy() for name, values in left.items()}
        if not left["seen"][0]:
            return {name: values.copy() for name, values in right.items()}
        first, second = float(left["seen"][0]), float(right["seen"][0])
        gone = left["gone"] | right["gone"]
        apart = np.where(gone, 0.0, right["mean"] - left["mean"])
        moved = np.sqrt(first * second / (first + second)) * apart * left["weight"]
        own = (side["rows"][: int(side["used"][0])] for side in (left, right))
        rows, lost = np.concatenate([*own, moved[None]]), left["lost"][0] + right["lost"][0]
        # Else a point that one side lacks would take its part in the sketch, and be missing in all patterns.
        rows = np.where(gone, 0.0, rows)
        if len(rows) >= 2 * self.rank:
            rows, more = self._shrunk(rows)
            lost += more
        merged = {name: values.copy() for name, values in left.items()}
        merged["count"] += right["count"]
        merged["mean"] += apart * second / (first + second)
        merged["gone"] = gone
        merged["seen"] += right["seen"]
        _put(merged, rows, lost)
        return merged


def _put(views: Views, rows: Array, lost: float) -> None:
    views["rows"][: len(rows)] = rows
    views["rows"][len(rows) :] = 0
    views["used"][...], views["lost"][...] = len(rows), lost


def patterns(views: Views, *, modes: int) -> Array:
    """Return the leading patterns times the standard deviation of their series, of shape (modes, points).

    The sum of a pattern's squares, weighted by the points' shares of the area, is its variance. The largest value is
    positive. A point with any missing value is missing.
    """
    result = np.full((modes, views["count"].shape[0]), np.nan)
    there = (views["gone"] == 0) & (views["weight"] > 0)
    if not there.any() or not views["seen"][0]:
        return result
    rows = views["rows"][:, there]
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    found = min(modes, len(sizes))
    made = sizes[:found, None] * directions[:found] / np.sqrt(views["seen"][0]) / views["weight"][there]
    largest = np.take_along_axis(made, np.abs(made).argmax(axis=1)[:, None], axis=1)
    result[:, there] = 0
    result[:found, there] = made * np.where(largest < 0, -1, 1)
    return result


def missed(views: Views) -> Array:
    """Return by how much the variances of modes, and of all other directions, are too small at most."""
    with np.errstate(invalid="ignore"):
        return np.asarray(views["lost"] / views["seen"])


def _make(modes: int, rank: int, weights: str, bound: bool) -> tuple[Operator, ...]:
    if modes > rank:
        raise ConfigError(f"{modes} modes need a rank of as many at least, better of four times as many")
    family = FieldSketch(rank, weights)
    axis = Axis("mode", tuple(map(float, range(1, modes + 1))), (("long_name", "mode, by variance"), ("units", "1")))
    own = Operator("eof", family, patterns, "point (empirical orthogonal function)", "empirical orthogonal functions",
                   parameters=(("modes", modes),), axes=(axis,))  # fmt: skip
    error = Operator("eof_error", family, missed, "point (bound on the error of a mode's variance)",
                     "bound on the error of the variance of modes", own_units="({units})2")  # fmt: skip
    return (own, error) if bound else (own,)


KINDS = (
    OperatorKind(
        "eof",
        "leading empirical orthogonal functions (principal components) of the whole field",
        _make,
        {
            "modes": Parameter(positive, "how many", 5),
            "rank": Parameter(positive, "rows of the sketch: the more, the more exact", 50),
            "weights": Parameter(one_of("area", "none"), "what points count by", "area"),
            "bound": Parameter(flag, "if true, eof_error is a bound on the error of the modes' variances", False),
        },
        "eof: {modes: 5}",
    ),
)
