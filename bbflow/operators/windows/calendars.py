"""Calendars: numbers on a time axis and the dates that they stand for."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import cftime  # type: ignore[import-untyped]
import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.operators.steps import Array
from bbflow.operators.windows.time_units import PLAIN, UNEVEN, UNIT_SECONDS, Reference, read_units
from bbflow.operators.windows.tolerance import ROUNDED, beside_us, nearest_moment

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
        unit, _, _ = read_units(self.units)
        try:
            self.date(0.0)
        except (ConfigError, ValueError, TypeError) as error:
            raise ConfigError(
                f"time units {self.units!r} can't be read in the calendar {self.calendar!r}: {_why(unit, error)}"
            ) from None

    @classmethod
    @lru_cache  # of a step's units it takes longer than all else that is read of its time
    def of(cls, units: str, calendar: str, missing: tuple[float, ...] = ()) -> "Clock":
        """Read an axis as people write it; its units become such as any reader understands.

        Raises
        ------
        ConfigError
            If it is none.
        """
        if (units, calendar) == ("1", NONE):
            return cls(units, calendar, missing)
        unit, text, reference = read_units(units)
        made = cls(f"{unit} since 2000-01-01", calendar, missing)  # says what is wrong with anything but the date
        return replace(made, units=f"{unit} since {text if PLAIN.fullmatch(text) else made.told(reference, units)}")

    def told(self, reference: Reference, units: str) -> str:
        """Write a reference date in Greenwich's time, as this calendar has it.

        Raises
        ------
        ConfigError
            If it doesn't have that day.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cftime.CFWarning)  # years before 1 are no reason to refuse it
                date = cftime.datetime(*reference.day, calendar=self.calendar) + reference.after
        except ValueError as error:
            raise ConfigError(
                f"time units {units!r} can't be read in the calendar {self.calendar!r}: {error}"
            ) from None
        text = f"{date.year:0{4 if date.year >= 0 else 5}d}-{date.month:02d}-{date.day:02d} "
        text += f"{date.hour:02d}:{date.minute:02d}:{date.second:02d}"
        return text + (f".{date.microsecond:06d}" if date.microsecond else "")

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

    @property
    def unit_s(self) -> float:
        """Seconds of its unit; of one that counts steps 0."""
        if self.by_steps:
            return 0.0
        unit = self.units.partition(" ")[0].lower()
        return UNIT_SECONDS.get(unit) or UNEVEN[unit]

    def date(self, value: float) -> cftime.datetime:
        """Return the date that a number stands for (`tolerance`); of a step's number one that isn't shown.

        Raises
        ------
        ConfigError
            If it is too large for one.
        """
        try:
            return self._whole(value, _date(*self._reckoning, value))
        except OverflowError:
            raise ConfigError(f"{value:g} {self.units} isn't a date: let the program write each step's time") from None

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
        return list(map(self._whole, values, cftime.num2date(np.array(values, "f8"), *self._reckoning)))

    def settled(
        self, value: float, date: cftime.datetime, error_s: float, first: float | None = None
    ) -> tuple[float, cftime.datetime]:
        """Return a number and its date, or those of the moment that they stand for if they may be off by so much.

        Parameters
        ----------
        value
            Of a step's time.
        date
            The one for which it stands.
        error_s
            By how many seconds it may be off.
        first
            The time of the stream's first step; None if this is it.
        """
        own = date if self.by_steps else nearest_moment(date, error_s, _beside_us(self, first))
        return (value, date) if own is date else (self.number(own), own)

    def _whole(self, value: float, date: cftime.datetime) -> cftime.datetime:
        """Return the whole second for which a number stands that float64 can't tell from it."""
        return nearest_moment(date, ROUNDED * math.ulp(value) * self.unit_s) if date.microsecond else date

    def number(self, date: cftime.datetime) -> float:
        """Return the number that stands for a date of this calendar."""
        return _number(*self._reckoning, date)

    @property
    def _reckoning(self) -> tuple[str, str]:
        return ("seconds since 1-1-1", "360_day") if self.by_steps else (self.units, self.calendar)


# A span's begin is looked at when its step comes, for its bounds and for its stamp: each time cftime takes longer than
# all else that is done with it.
@lru_cache(maxsize=256, typed=True)
def _date(units: str, calendar: str, value: float) -> cftime.datetime:
    return cftime.num2date(value, units, calendar)


@lru_cache(maxsize=256)
def _number(units: str, calendar: str, date: cftime.datetime) -> float:
    return float(cftime.date2num(date, units, calendar))


@lru_cache  # one a stream
def _beside_us(clock: Clock, first: float | None) -> int:
    """Return by how many microseconds steps lie beside whole seconds (`tolerance`), by the time of the first one."""
    date = None if first is None else clock.find_date(first)
    return 0 if date is None else beside_us(date)


def dated(times: Sequence[float], attributes: Mapping[str, Any], missing: tuple[float, ...] = ()) -> Array:
    """Return times with NaN for those without a date: readers can't open an axis that has such a number.

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


SAME = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
REFORM = (1582, 10, 15)
"""From this day on the standard calendar is the proleptic Gregorian one (CF conventions, section 4.4.1)."""


def same_calendar(name: str) -> str:
    """Return the one name of a calendar that has several."""
    return SAME.get(name.lower(), name.lower())


def same_date(date: cftime.datetime, calendar: str) -> cftime.datetime | None:
    """Return the same day and time in a calendar; None if that isn't the same instant."""
    own, other = map(same_calendar, (date.calendar, calendar))
    parts = date.year, date.month, date.day, date.hour, date.minute, date.second, date.microsecond
    if own != other and (not {own, other} <= {*PANDAS_CALENDARS} or parts[:3] < REFORM):
        return None
    return cftime.datetime(*parts, calendar=calendar)


def readable(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CF attributes of an axis with units that every reader understands, if we do."""
    with suppress(ConfigError):
        units, calendar = str(attributes.get("units", "")), str(attributes.get("calendar", "standard"))
        return {**attributes, "units": Clock.of(units, calendar).units}
    return dict(attributes)


PANDAS_CALENDARS, PANDAS_YEARS = ("standard", "gregorian", "proleptic_gregorian"), range(1678, 2262)
"""Dates that xarray has as numbers with a mark for none; others are objects of cftime, which has no such mark."""


def shows_gaps(times: Array, attributes: Mapping[str, Any]) -> bool:
    """Whether readers see that a NaN among times isn't a date: xarray with cftime has the reference date there.

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


def _why(unit: str, error: Exception) -> str:
    """Return what is wrong with units that cftime doesn't take."""
    if unit in UNEVEN:
        return f"{unit} differ in length there; let the program write days or hours since a date"
    return str(error)


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
