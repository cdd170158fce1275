"""Calendars: numbers on a time axis and the dates that they stand for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import cftime  # type: ignore[import-untyped]
import numpy as np

from bbflow.errors import ConfigError, nearest

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
NONE = "none"
"""The calendar of a clock without dates."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A time axis of the CF conventions (section 4.4)."""

    units: str
    """Such as 'days since 2000-01-01'."""
    calendar: str = "standard"
    """One of `CALENDARS`, or `NONE`."""

    def __post_init__(self) -> None:
        if self.by_steps:
            return
        if self.calendar.lower() not in CALENDARS:
            raise ConfigError(f"unknown calendar {self.calendar!r}; {nearest(self.calendar.lower(), CALENDARS)}")
        unit, since, _ = self.units.strip().partition(" since ")
        if not since:
            raise ConfigError(
                f"time units {self.units!r} name no reference date; write '<unit> since <date>', such as "
                "'days since 2000-01-01'"
            )
        try:
            self.date(0.0)
        except ValueError as error:
            hint = "" if unit.lower() in UNITS else f"; {nearest(unit.lower(), UNITS)}"
            raise ConfigError(
                f"time units {self.units!r} can't be read in the calendar {self.calendar!r}: {error}{hint}"
            ) from None

    @property
    def by_steps(self) -> bool:
        """Whether it counts steps, since these have no time."""
        return self.calendar == NONE

    @property
    def attributes(self) -> dict[str, str]:
        """Give the CF attributes of numbers on this axis."""
        return {"units": self.units} | ({} if self.by_steps else {"calendar": self.calendar})

    @property
    def meaning(self) -> dict[str, str]:
        """Give the CF attributes that say what the numbers are."""
        return {"long_name": "step of the simulation"} if self.by_steps else {"standard_name": "time"}

    def date(self, value: float) -> cftime.datetime:
        """Give the date that a number stands for, to the microsecond; of a step's number one that nobody sees.

        Raises
        ------
        ConfigError
            If it is too large for one.
        """
        try:
            return cftime.num2date(value, *self._reckoning)
        except OverflowError:
            raise ConfigError(f"{value:g} {self.units} is no date: let the program write each step's time") from None

    def dates(self, values: Sequence[float]) -> list[cftime.datetime]:
        """Give the dates of finite numbers; a hundred take hardly longer than two."""
        return list(cftime.num2date(np.array(values, "f8"), *self._reckoning))

    def number(self, date: cftime.datetime) -> float:
        """Give the number that stands for a date of this calendar."""
        return float(cftime.date2num(date, *self._reckoning))

    @property
    def _reckoning(self) -> tuple[str, str]:
        return ("seconds since 1-1-1", "360_day") if self.by_steps else (self.units, self.calendar)


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
