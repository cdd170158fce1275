"""Calendars: numbers on a time axis and the dates that they stand for."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import cftime  # type: ignore[import-untyped]
import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.operators.steps import Array

CALENDARS = (
    "standard",
    "gregorian",
    "proleptic_gregorian",
    "julian",
    "noleap",
    "365_day",
    "360_day",
    "all_leap",
    "366_day",
)
UNITS = ("microseconds", "milliseconds", "seconds", "minutes", "hours", "days")
UNIT_SECONDS = {
    **dict.fromkeys(("microseconds", "microsecond", "microsec", "microsecs"), 1e-6),
    **dict.fromkeys(("milliseconds", "millisecond", "millisec", "millisecs", "msec", "msecs", "ms"), 1e-3),
    **dict.fromkeys(("seconds", "second", "sec", "secs", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "min", "mins"), 60.0),
    **dict.fromkeys(("hours", "hour", "hr", "hrs", "h"), 3600.0),
    **dict.fromkeys(("days", "day", "d"), 86400.0),
}
"""Seconds of the units of time, as cftime knows them."""
SECONDS_SINCE = "seconds since 1970-01-01 00:00:00"
"""Units of times that are told as dates: whole seconds are exact, as fractions of days aren't."""
UNEVEN = ("months", "month", "years", "year", "common_years", "common_year")
"""Units that are of one length in some calendars only."""
SINCE = re.compile(r"\s*(\S+)\s+since\s+(.*?)\s*", re.IGNORECASE)
NONE = "none"
"""The calendar of a clock without dates."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A time axis of the CF conventions (section 4.4)."""

    units: str
    """Such as 'days since 2000-01-01'."""
    calendar: str = "standard"
    """One of `CALENDARS`, or `NONE`."""
    missing: tuple[float, ...] = field(default=(), compare=False)
    """Numbers that stand for no time: fill values of the stream's time."""

    def __post_init__(self) -> None:
        if self.by_steps:
            return
        if self.calendar.lower() == NONE:
            raise ConfigError(
                f"the calendar {self.calendar!r} has no dates: set time: calendar, such as standard, or count steps "
                "with time: steps"
            )
        if self.calendar.lower() not in CALENDARS:
            raise ConfigError(f"unknown calendar {self.calendar!r}; {nearest(self.calendar.lower(), CALENDARS)}")
        unit = _unit(self.units)
        try:
            self.date(0.0)
        except (ConfigError, ValueError) as error:
            raise ConfigError(
                f"time units {self.units!r} can't be read in the calendar {self.calendar!r}: {_why(unit, error)}"
            ) from None

    @classmethod
    def of(cls, units: str, calendar: str, missing: tuple[float, ...] = ()) -> "Clock":
        """Read an axis as people write it: 'Days Since 2000-01-01' is what cftime and UDUNITS take it for.

        Raises
        ------
        ConfigError
            If it is none.
        """
        found = SINCE.fullmatch(units)
        return cls(f"{found[1].lower()} since {found[2]}" if found else units, calendar, missing)

    @property
    def by_steps(self) -> bool:
        """Whether it counts steps, since these have no time."""
        return (self.units, self.calendar) == ("1", NONE)

    @property
    def attributes(self) -> dict[str, str]:
        """Return the CF attributes of numbers on this axis."""
        return {"units": self.units} | ({} if self.by_steps else {"calendar": self.calendar})

    @property
    def meaning(self) -> dict[str, str]:
        """Return the CF attributes that say what the numbers are."""
        return {"long_name": "step of the simulation"} if self.by_steps else {"standard_name": "time"}

    def date(self, value: float) -> cftime.datetime:
        """Return the date that a number stands for, to the microsecond; of a step's number one that nobody sees.

        Raises
        ------
        ConfigError
            If it is too large for one.
        """
        try:
            return cftime.num2date(value, *self._reckoning)
        except OverflowError:
            raise ConfigError(f"{value:g} {self.units} is no date: let the program write each step's time") from None

    def find_date(self, value: float) -> cftime.datetime | None:
        """Return the date that a number stands for; None if it is missing, or 290,000 years off, as fill values are."""
        if not math.isfinite(value) or value in self.missing:
            return None
        try:
            return self.date(value)
        except (ConfigError, ValueError):
            return None

    def dates(self, values: Sequence[float]) -> list[cftime.datetime]:
        """Return the dates of finite numbers; a hundred take hardly longer than two."""
        return list(cftime.num2date(np.array(values, "f8"), *self._reckoning))

    def number(self, date: cftime.datetime) -> float:
        """Return the number that stands for a date of this calendar."""
        return float(cftime.date2num(date, *self._reckoning))

    @property
    def _reckoning(self) -> tuple[str, str]:
        return ("seconds since 1-1-1", "360_day") if self.by_steps else (self.units, self.calendar)


def dated(times: Sequence[float], attributes: Mapping[str, Any], missing: tuple[float, ...] = ()) -> Array:
    """Return times with NaN for those that stand for no date: readers can't open an axis that has such a number.

    Parameters
    ----------
    times
        In the stream's units.
    attributes
        The CF attributes of the axis; without units that can be read all times stay as they are.
    missing
        Numbers that stand for no time.

    Returns
    -------
    numpy.ndarray
        float64 of the same length.
    """
    values = np.array(times, "f8")
    with suppress(ConfigError):
        clock = Clock.of(str(attributes.get("units", "")), str(attributes.get("calendar", "standard")), missing)
        try:
            clock.dates(values[np.isfinite(values)].tolist())
            unknown = np.isin(values, missing)
        except (OverflowError, ValueError):
            unknown = np.array([clock.find_date(value) is None for value in values.tolist()])
        values[unknown] = np.nan
    return values


PANDAS_CALENDARS, PANDAS_YEARS = ("standard", "gregorian", "proleptic_gregorian"), range(1678, 2262)
"""Dates that xarray has as numbers with a mark for none; others are objects of cftime, which has no such mark."""


def shows_gaps(times: Array, attributes: Mapping[str, Any]) -> bool:
    """Whether readers see that a NaN among times is no date: xarray has the reference date there, where it uses cftime.

    Parameters
    ----------
    times
        As `dated` gives them.
    attributes
        The CF attributes of the axis.
    """
    if not np.isnan(times).any() or "units" not in attributes:
        return True
    clock = Clock.of(str(attributes["units"]), str(attributes.get("calendar", "standard")))
    known = times[np.isfinite(times)]
    years = [date.year for date in clock.dates([0.0, *([known.min(), known.max()] if len(known) else [])])]
    return clock.calendar.lower() in PANDAS_CALENDARS and all(year in PANDAS_YEARS for year in years)


def _unit(units: str) -> str:
    """Return the unit of '<unit> since <date>'."""
    found = SINCE.fullmatch(units)
    if found is None:
        raise ConfigError(
            f"time units {units!r} name no reference date; write '<unit> since <date>', such as 'days since 2000-01-01'"
        )
    return found[1].lower()


def _why(unit: str, error: Exception) -> str:
    """Say what is wrong with units that cftime doesn't take."""
    if unit in UNEVEN:
        return f"{unit} differ in length there; let the program write days or hours since a date"
    return f"{error}{'' if unit in UNITS else f'; {nearest(unit, UNITS)}'}"


STEP_CLOCK = Clock("1", NONE)
"""Counts steps."""


def duration(value: object) -> float | None:
    """Read how long something takes, such as ``6h``, ``30 min`` or ``1 day``.

    Returns
    -------
    float or None
        Seconds; None if it isn't a number with a unit of time.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", str(value), re.IGNORECASE)
    unit = UNIT_SECONDS.get(match.group(2).lower()) if match else None
    if match is None or unit is None or not float(match.group(1)):
        return None
    return float(match.group(1)) * unit
