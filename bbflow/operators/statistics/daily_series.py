"""All days of some years: what is kept for statistics that need each of a point's values more than once."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.steps import Array, DType, Steps, Views

DATES = ("year", "dayofyear")
LEAP = 366
FEBRUARY_29 = 59
"""Its place in a leap year, from 0."""
WHOLE = 360
"""Days that the shortest calendar's years have: a year whose last day has no such number isn't over."""


@dataclass(frozen=True, slots=True)
class DailySeries(Family):
    """Keeps the value of each day of some years; steps of other years are left out."""

    first: int
    """The first year."""
    last: int
    """The last year."""

    dates = DATES

    @property
    def name(self) -> str:
        """One for each choice of years."""
        return f"days of {self.first} to {self.last}"

    @property
    def years(self) -> int:
        """How many."""
        return self.last - self.first + 1

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the days, 366 in each year, in float64 unless they are float32; and which of each year have come."""
        kept = "f4" if dtype == np.dtype("f4") else "f8"
        return (
            StateField("days", kept, (self.years * LEAP,), empty=np.nan),
            StateField("begin", "i2", (self.years,), merge="min"),
            StateField("end", "i2", (self.years,), merge="max", empty=0),
        )

    def fold(self, views: Views, steps: Steps) -> None:
        """Put each day into its place."""
        years, days = (steps.others[name].values for name in DATES)
        for at, values in enumerate(steps.values):
            if not values.size or not self.first <= years[at][0] <= self.last:
                continue
            year, day = int(years[at][0]) - self.first, int(days[at][0])
            views["days"][year * LEAP + day - 1] = np.where(steps.valid_in(at), values, np.nan)
            np.minimum(views["begin"][year], day, out=views["begin"][year])
            np.maximum(views["end"][year], day, out=views["end"][year])

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Take each day from the side that has it."""
        return {
            "days": np.where(np.isnan(left["days"]), right["days"], left["days"]),
            "begin": np.minimum(left["begin"], right["begin"]),
            "end": np.maximum(left["end"], right["end"]),
        }


class Days(NamedTuple):
    """The days of some points in some years, one after the other."""

    values: Array
    """Of shape (days, points), in float64; NaN where missing."""
    years: Array
    """Year of each, from 0."""
    numbers: Array
    """Number of each in its year, from 0."""
    lengths: Array
    """Days of each year, as far as they have come."""
    whole: Array
    """Whether a year has come from its first to its last day."""

    def of(self, year: int) -> Array:
        """Return the values of one year."""
        return np.asarray(self.values[self.years == year])

    def some(self, first: int, last: int) -> "Days":
        """Return some of the years, the last one included, counted from the first of them."""
        chosen = (self.years >= first) & (self.years <= last)
        own = slice(first, last + 1)
        return Days(
            self.values[chosen], self.years[chosen] - first, self.numbers[chosen], self.lengths[own], self.whole[own]
        )

    def around(self, days: int) -> Array:
        """Return for each day the places of those around it, of shape (days, window); -1 beyond the ends."""
        places = np.arange(len(self.values))[:, None] + np.arange(days) - days // 2
        return np.where((places >= 0) & (places < len(self.values)), places, -1)

    def dates(self) -> Array:
        """Return the place of each day's date in a leap year, from 0."""
        moved = (self.lengths[self.years] != LEAP) & (self.lengths[self.years] > WHOLE)
        return np.asarray(self.numbers + (moved & (self.numbers >= FEBRUARY_29)))


def days_of(views: Views, points: slice) -> Days:
    """Return the days of some points of a state: those of a year up to the last one that came for any of them."""
    lengths, begins = views["end"].max(axis=1), views["begin"].min(axis=1)
    years = np.repeat(np.arange(len(lengths)), lengths)
    numbers = np.concatenate([np.arange(length) for length in lengths]) if len(lengths) else np.arange(0)
    values = views["days"][years * LEAP + numbers, points].astype("f8")
    return Days(values, years, numbers, lengths.astype(int), (begins == 1) & (lengths >= WHOLE))
