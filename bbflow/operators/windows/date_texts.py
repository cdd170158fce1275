"""Dates as programs write them as text: ISO 8601, WRF's, those in names of files; and as the digits of a number."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import cftime  # type: ignore[import-untyped]

from bbflow.errors import ConfigError
from bbflow.operators.windows.calendars import Clock

_YEAR = r"(?P<year>[-+]?\d{4,6})"
_OF_DAY = r"(?P<hour>\d{1,2})[:_](?P<minute>\d{2})(?:[:_](?P<second>\d{2}(?:[.,]\d+)?))?"
_ZONE = r"\s*(?P<zone>Z|UTC|[-+]\d{2}(?::?\d{2})?)?"
EXTENDED = (
    rf"{_YEAR}-(?P<month>\d{{1,2}})(?:-(?P<day>\d{{1,2}})(?:(?:[T_]|\s+){_OF_DAY}{_ZONE}|-(?P<of_day>\d{{5}}))?)?"
)
"""``2018-06-17``, ``2018-06-17T06:00:00Z``, ``2018-06-17_06:00:00``, ``2018-06``; CESM's ``2018-06-17-21600``."""
BASIC = (
    r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})"
    rf"(?:[T_]?(?P<hour>\d{{2}})(?:(?P<minute>\d{{2}})(?P<second>\d{{2}})?)?{_ZONE})?"
)
"""``20180617``, ``20180617T060000``, ``2018061706``."""
_TEXTS = tuple(re.compile(form, re.IGNORECASE) for form in (EXTENDED, BASIC))
_NAMES = tuple(re.compile(rf"(?<!\d)(?:{form.replace('[-+]?', '')})(?!\d)") for form in (EXTENDED, BASIC))
DIGITS = re.compile(r"\s*days?\s+as\s+%Y%m%d\.%f\s*", re.IGNORECASE)
"""Units of numbers whose digits are a date, and whose fraction is one of its day: as ICON and CDO write them."""
SECONDS_PER_DAY = 86400
PARTS = ("year", "month", "day", "hour", "minute", "second", "of_day", "zone")


@dataclass(frozen=True, slots=True)
class DateText:
    """A date that is written as text; whether there is such a day depends on the calendar."""

    text: str
    """As it was written."""
    day: tuple[int, int, int]
    """Year, month, day."""
    after: timedelta
    """Time since the day began, in the time zone of Greenwich."""

    def number(self, clock: Clock) -> float:
        """Return the number that stands for it.

        Raises
        ------
        ConfigError
            If the clock's calendar has no such day.
        """
        try:
            return clock.number(cftime.datetime(*self.day, calendar=clock.calendar) + self.after)
        except ValueError as error:
            raise ConfigError(
                f"{self.text!r} isn't a date of the calendar {clock.calendar!r} ({error}): set time: calendar"
            ) from None


def read_date(text: str) -> DateText | None:
    """Read a text that is a date, and nothing else; None if it isn't."""
    bare = text.strip("\0 \t\r\n")
    found = (form.fullmatch(bare) for form in _TEXTS)
    return next((_made(match) for match in found if match is not None), None)


def read_digits(value: float) -> DateText | None:
    """Read a number such as 20180617.25, six hours into that day; None if it isn't a date."""
    if not 0 <= value < 10**8:
        return None
    day = read_date(f"{int(value):08d}")
    after_s, off_s = math.fmod(value, 1) * SECONDS_PER_DAY, math.ulp(value) * SECONDS_PER_DAY
    after_s = round(after_s) if abs(after_s - round(after_s)) <= off_s else after_s
    return day and replace(day, text=f"{value:.15g}", after=timedelta(seconds=after_s))


def date_in(name: str) -> DateText | None:
    """Find the one date in a file's name; None if there is none, or there are several."""
    found = list(dates_in(name))
    return found[0] if len(found) == 1 else None


def dates_in(name: str) -> Sequence[DateText]:
    """Find the dates in a file's name, without those in its directories' names."""
    return list(_dates(name.rstrip("/").rpartition("/")[2]))


def _dates(bare: str) -> Iterator[DateText]:
    for form in _NAMES:
        rest = bare
        for match in form.finditer(bare):
            date = _made(match)
            if date is not None:
                rest = rest.replace(match.group(), "", 1)
                yield date
        bare = rest


def _made(match: "re.Match[str]") -> DateText | None:
    """Return the date that was matched; None if a number in it can't be in any calendar."""
    told = dict.fromkeys(PARTS) | match.groupdict()
    year, month, day = (int(told[part] or 1) for part in ("year", "month", "day"))
    hour, minute = int(told["hour"] or 0), int(told["minute"] or 0)
    second = float((told["second"] or "0").replace(",", "."))
    of_day = int(told["of_day"] or 0)
    if not (
        1 <= month <= 12 and 1 <= day <= 31 and hour <= 24 and minute < 60 and second < 61 and of_day <= SECONDS_PER_DAY
    ):
        return None
    after = timedelta(hours=hour, minutes=minute, seconds=second + of_day) - _zone(told["zone"])
    return DateText(match.group(), (year, month, day), after)


def _zone(text: str | None) -> timedelta:
    """Return how far a time zone is ahead of Greenwich's."""
    if text is None or text.upper() in ("Z", "UTC"):
        return timedelta()
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    return timedelta(hours=hours, minutes=minutes) * (-1 if text.startswith("-") else 1)
