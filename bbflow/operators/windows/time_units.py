"""Units of time axes, '<unit> since <date>': a checked grammar that leaves nothing unread.

The CF conventions (1.12, section 4.4) take UDUNITS' grammar; beside it are read dates with slashes, as CDO and GrADS
write them, and the names of zones that stand for Greenwich's time. cftime's own parser drops what it doesn't know.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from bbflow.errors import ConfigError, nearest

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
FULL = {UNIT_SECONDS[unit]: unit for unit in UNITS}
"""Seconds to the unit's name that every reader knows: xarray takes no 'h'."""
UNEVEN = {
    **dict.fromkeys(("months", "month"), 30 * 86400.0),
    **dict.fromkeys(("years", "year", "common_years", "common_year"), 365 * 86400.0),
}
"""Seconds of the units that are of one length in some calendars only: months in 360_day, common years in noleap."""
SINCE = re.compile(r"\s*(\S+)\s+since\s+(.*?)\s*", re.IGNORECASE | re.DOTALL)
EXAMPLE = "such as 'days since 2000-01-01'"

_DATE = (
    r"(?P<year>[-+]?\d{1,6})(?P<cut>[-/])(?P<month>\d{1,2})(?:(?P=cut)(?P<day>\d{1,2}))?(?!\d)"
    r"|(?P<year4>[-+]?\d{1,4})(?!\d)|(?P<year8>\d{4})(?P<month8>\d{2})(?P<day8>\d{2})?(?!\d)"
)
_CLOCK = (
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2}(?:\.\d*)?))?)?(?![\d:])"
    r"|(?P<hour4>\d{2})(?P<minute4>\d{2})(?P<second4>\d{2})?(?![\d:])"
)
_ZONE = r"(?P<name>Z|UTC|GMT)|(?P<sign>[-+])(?P<zone>\d{1,2}(?::\d{1,2})?|\d{3,4})|(?<=\s)(?P<ahead>\d{1,2}:\d{1,2})"
REFERENCE = re.compile(
    rf"(?:{_DATE})(?:(?:\s*T\s*|\s+)(?:{_CLOCK})(?:\s*(?:{_ZONE}))?|\s*(?P<bare>Z|UTC|GMT))?", re.IGNORECASE
)
"""'2000', '2000-1', '2000/01/01', '20000101', '2000-01-01T06:00:00.5Z', '2000-1-1 6 -3', '2000-1-1 0:0:0 +0530'."""
PLAIN = re.compile(r"-?\d{4,6}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?")
"""Reference dates that every reader takes for the same: they stay as they were written."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The date from which a time axis counts."""

    day: tuple[int, int, int]
    """Year, month, day; whether there is such a day depends on the calendar."""
    after: timedelta
    """Time since that day began in Greenwich."""


def read_units(units: str) -> tuple[str, str, Reference]:
    """Read the units of a time axis.

    Parameters
    ----------
    units
        Such as 'Hours since 2000-1-1 12:00 -6:00'.

    Returns
    -------
    tuple
        The unit by its full name, the reference date as it was written, and as it was read.

    Raises
    ------
    ConfigError
        If any part of it can't be read.
    """
    found = SINCE.fullmatch(units)
    if found is None:
        raise ConfigError(f"time units {units!r} name no reference date; write '<unit> since <date>', {EXAMPLE}")
    unit = found[1].lower()
    if unit not in UNIT_SECONDS and unit not in UNEVEN:
        raise ConfigError(f"time units {units!r}: the unit {found[1]!r} isn't known; {nearest(unit, UNITS)}")
    reference = _reference(found[2])
    if reference is None:
        raise ConfigError(
            f"time units {units!r}: {found[2]!r} isn't a reference date: write year-month-day and perhaps "
            "hour:minute:second with a zone, such as 2000-01-01 06:00:00 -3:00"
        )
    return FULL[UNIT_SECONDS[unit]] if unit in UNIT_SECONDS else unit, found[2], reference


def _reference(text: str) -> Reference | None:
    found = REFERENCE.fullmatch(text)
    if found is None:
        return None
    told = found.groupdict()
    if told["cut"] == "/" and len(told["year"].lstrip("+-")) < 4:
        return None  # 01/02/2000 and 01/02/03 are read in several orders
    year = int(told["year"] or told["year4"] or told["year8"])
    month, day = (int(told[part] or told[f"{part}8"] or 1) for part in ("month", "day"))
    hour, minute = (int(told[part] or told[f"{part}4"] or 0) for part in ("hour", "minute"))
    second = Fraction((told["second"] or told["second4"] or "0").rstrip("."))
    zone = _zone(told["sign"], told["zone"] or told["ahead"])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60) or zone is None:
        return None
    if (second * 1_000_000).denominator != 1:
        return None  # dates have microseconds
    return Reference((year, month, day), timedelta(hours=hour, minutes=minute, microseconds=int(second * 10**6)) - zone)


def _zone(sign: str | None, text: str | None) -> timedelta | None:
    """Return how far a zone is ahead of Greenwich's; None if no zone is.

    As UDUNITS has it, a number up to 24 counts hours, and one of three or four digits hours and minutes.
    """
    if text is None:
        return timedelta()
    hours, minutes = text.split(":") if ":" in text else (text, "0") if len(text) < 3 else (text[:-2], text[-2:])
    ahead = timedelta(hours=int(hours), minutes=int(minutes))
    if int(minutes) >= 60 or ahead > timedelta(hours=24):
        return None
    return -ahead if sign == "-" else ahead
