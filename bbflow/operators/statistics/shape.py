"""Skewness and kurtosis: central moments up to the fourth about the running mean, merged by pairs.

The formulas are those of Pébay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order
statistical moments", Sandia SAND2008-6212 (2008), equations 1.5, 2.1, 3.1 and 3.2.
"""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator, plain
from bbflow.operators.steps import Array, DType, Steps, Views

FIELDS = (
    StateField("count", "i4"),
    StateField("mean", "f8"),
    *(StateField(name, "f8") for name in ("m2", "m3", "m4")),
)


@dataclass(frozen=True, slots=True)
class CentralMoments(Family):
    """Keeps the mean and the sums of the second, third and fourth powers of the differences from it."""

    counts = "count"
    name = "central_moments"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return all: none can be had without those before it."""
        return FIELDS

    def fold(self, views: Views, steps: Steps) -> None:
        """Add the moments of the steps, which are taken about their own mean."""
        if not len(steps.values):
            return
        valid, values = steps.valid(), steps.stacked().astype("f8")
        count = np.add.reduce(valid, axis=0, dtype="i4")
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values: as in IEEE 754
            # About the first valid one, so that values that are all the same have no spread at all.
            first = np.take_along_axis(values, valid.argmax(0)[np.newaxis], 0)[0]
            apart = np.where(valid, values - first, 0.0)
            shift = apart.sum(0) / np.maximum(count, 1)
            apart = np.where(valid, apart - shift, 0.0)
            mean = np.where(count > 0, first + shift, 0.0)
            powers = {f"m{power}": (apart**power).sum(0) for power in (2, 3, 4)}
        for name, merged in self.combine(views, {"count": count, "mean": mean, **powers}).items():
            views[name][...] = merged

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Return the moments of both sides about their common mean."""
        # The products of counts below don't fit into their int32 from 46,341 steps on.
        a, b = left["count"].astype("f8"), right["count"].astype("f8")
        n = a + b
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            apart = np.where((a > 0) & (b > 0), right["mean"] - left["mean"], 0.0)
            step = np.where(n > 0, apart / n, 0.0)
            m2, m3 = (left[name] + right[name] for name in ("m2", "m3"))
            crossed = b * left["m2"] - a * right["m2"]
            return {
                "count": left["count"] + right["count"],
                "mean": np.where(a > 0, left["mean"] + b * step, right["mean"]),
                "m2": m2 + a * b * step * apart,
                "m3": m3 + a * b * (a - b) * step**2 * apart - 3 * step * crossed,
                "m4": left["m4"] + right["m4"] + a * b * (a * a - a * b + b * b) * step**3 * apart
                + 6 * step**2 * (b * b * left["m2"] + a * a * right["m2"])
                - 4 * step * (b * left["m3"] - a * right["m3"]),
            }  # fmt: skip


def skewness(views: Views) -> Array:
    """Return (m3 / n) / (m2 / n)**1.5, of the population; missing where all values are the same."""
    count, spread = views["count"], views["m2"]
    return np.where(spread > 0, np.sqrt(count) * views["m3"] / spread**1.5, np.nan)


def kurtosis(views: Views) -> Array:
    """Return n m4 / m2**2 - 3, the excess over a normal distribution's; missing where all values are the same."""
    count, spread = views["count"], views["m2"]
    return np.where(spread > 0, count * views["m4"] / spread**2 - 3, np.nan)


def root_mean_square(views: Views) -> Array:
    """Return the root of mean**2 + m2 / n; infinite if a value is, whose differences are no numbers."""
    count = views["count"]
    square = views["mean"] ** 2 + views["m2"] / count
    return np.where(count > 0, np.sqrt(np.where(np.isnan(square), np.inf, square)), np.nan)


KINDS = (
    plain("skewness", Operator("skewness", CentralMoments(), skewness, "mean (skewness)", "skewness", own_units="1")),
    plain(
        "kurtosis, less the 3 of a normal distribution",
        Operator("kurtosis", CentralMoments(), kurtosis, "mean (excess kurtosis)", "excess kurtosis", own_units="1"),
    ),
    plain(
        "root of the mean square",
        Operator("rms", CentralMoments(), root_mean_square, "root_mean_square", "root mean square"),
    ),
)
