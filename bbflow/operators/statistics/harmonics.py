"""Harmonics: amplitude and phase of oscillations of given periods, fitted by least squares with the mean.

Each period is fitted by itself, as in the generalised periodogram of Zechmeister and Kürster, "The generalised
Lomb-Scargle periodogram", Astronomy and Astrophysics 496 (2009), 577-584. Where no value is missing and the steps are
even and fill whole periods, it is what Goertzel's recursion and the discrete Fourier transform give. Their sums are
kept, and not the recursion's two numbers: sums merge, in any order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Axis, Operator, OperatorKind
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.reading.sections import Parameter, number

LEAST = 1e-9
"""Of its largest value: below that the determinant tells that the steps can't tell a period's cosine and sine apart."""


@dataclass(frozen=True, slots=True)
class Harmonics(Family):
    """Keeps sums of the values, of each period's cosine and sine, and of their products."""

    periods: tuple[float, ...]
    """In the unit of the stream's time."""
    counts = "count"

    @property
    def name(self) -> str:
        """Those with the same periods are shared."""
        return "harmonics" + "_".join(map(repr, self.periods))

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the count, the first valid value, which the sums are about, and the sums."""
        each = ("x_cos", "x_sin", "cos", "sin", "cos_cos", "cos_sin")
        inner = (len(self.periods),)
        return (
            StateField("count", "i4"),
            StateField("shift", "f8"),
            StateField("x", "f8"),
            *(StateField(name, "f8", inner) for name in each),
        )

    def angles(self, times: Array) -> Array:
        """Return each period's phase at some times, in radians; of shape (periods, times)."""
        periods = np.array(self.periods)[:, None]
        # Within one period first, which is exact: the error of a large angle grows with the time.
        return np.asarray(2 * np.pi * np.mod(times, periods) / periods)

    def fold(self, views: Views, steps: Steps) -> None:
        """Add the sums of some steps."""
        if not len(steps.values):
            return
        values, valid = steps.stacked().astype("f8"), steps.valid()
        first = np.take_along_axis(values, valid.argmax(axis=0)[None], axis=0)[0]
        # About an infinite value all differences would be infinite or none.
        known = valid.any(axis=0) & np.isfinite(first)
        shift = np.where(views["count"] > 0, views["shift"], np.where(known, first, 0.0))
        there, angles = valid.astype("f8"), self.angles(steps.times)
        cos, sin = np.cos(angles), np.sin(angles)
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values: as in IEEE 754
            off = np.where(valid, values - shift, 0.0)
            views["x"][...] += off.sum(axis=0)
            for name, left, right in (
                ("x_cos", cos, off), ("x_sin", sin, off), ("cos", cos, there), ("sin", sin, there),
                ("cos_cos", cos * cos, there), ("cos_sin", cos * sin, there),
            ):  # fmt: skip
                views[name][...] += left @ right
        views["count"][...] += valid.sum(axis=0, dtype="i4")
        views["shift"][...] = shift

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Add the sums of both sides, the right ones about the left shift."""
        shift = np.where(left["count"] > 0, left["shift"], right["shift"])
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.where(right["count"] > 0, right["shift"] - shift, 0.0)
            moved = {"x": off * right["count"], "x_cos": off * right["cos"], "x_sin": off * right["sin"]}
            sums = {name: left[name] + right[name] for name in left if name != "shift"}
            return sums | {name: sums[name] + values for name, values in moved.items()} | {"shift": shift}


def _fit(views: Views) -> tuple[Array, Array]:
    """Return the cosine's and the sine's part of each period, of shape (periods, points)."""
    n = views["count"]
    x, cos, sin = views["x"], views["cos"], views["sin"]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        x_cos, x_sin = views["x_cos"] - x * cos / n, views["x_sin"] - x * sin / n
        cos_cos, cos_sin = views["cos_cos"] - cos * cos / n, views["cos_sin"] - cos * sin / n
        # cos**2 + sin**2 is 1 for each step: that is why no sum of sin**2 is kept.
        sin_sin = n - views["cos_cos"] - sin * sin / n
        determinant = cos_cos * sin_sin - cos_sin**2
        told = determinant > LEAST * n.astype("f8") ** 2
        a = (x_cos * sin_sin - x_sin * cos_sin) / determinant
        b = (x_sin * cos_cos - x_cos * cos_sin) / determinant
    return np.where(told, a, np.nan), np.where(told, b, np.nan)


def amplitude(views: Views) -> Array:
    """Return half the difference of a period's crest and trough; missing where steps can't tell it."""
    return np.asarray(np.hypot(*_fit(views)))


def crest(views: Views, *, periods: tuple[float, ...]) -> Array:
    """Return the time of each period's first crest from time 0 on."""
    a, b = _fit(views)
    length = np.array(periods)[:, None]
    return np.asarray(np.mod(np.arctan2(b, a) / (2 * np.pi), 1) * length)


def _make(periods: tuple[float, ...]) -> tuple[Operator, ...]:
    family = Harmonics(periods)
    axis = Axis("period", periods, (("long_name", "period, in the unit of the stream's time"),))
    return (
        Operator("amplitude", family, amplitude, "point (amplitude of the least-squares harmonic)",
                 "amplitude of the harmonics", axes=(axis,)),
        Operator("crest", family, crest, "point (first crest of the least-squares harmonic from time 0 on)",
                 "crest of the harmonics", own_units="{time}", parameters=(("periods", periods),), axes=(axis,)),
    )  # fmt: skip


def _periods(value: Any) -> tuple[float, ...]:
    given = tuple(float(number(item)) for item in (value if isinstance(value, list | tuple) else [value]))
    if not given or not all(0 < item < np.inf for item in given) or len(set(given)) < len(given):
        raise ConfigError(f"{value!r} must be one or several periods above 0, each once")
    return given


KINDS = (
    OperatorKind(
        "harmonics",
        "amplitude and crest of oscillations of given periods",
        _make,
        {"periods": Parameter(_periods, "in the unit of the stream's time")},
        "harmonics: {periods: [12.42, 24]}",
    ),
)
