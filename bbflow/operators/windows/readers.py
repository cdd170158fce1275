"""Reading what the configuration says of windows: each gives the value or raises `ConfigError`."""

import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from bbflow.errors import ConfigError, nearest

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
LETTERS = "".join(name[0] for name in MONTHS).upper()
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def month(value: Any) -> int:
    """Read a month: 1 to 12, or its name, of which three letters are enough."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= len(MONTHS):
        return value
    word = str(value).lower()
    if word[:3] not in MONTHS or not word.isalpha():
        raise ConfigError(f"{value!r} isn't a month; {nearest(word, MONTHS)}")
    return MONTHS.index(word[:3]) + 1


def weekday(value: Any) -> int:
    """Read the name of a weekday, or its first three letters; 0 for Monday."""
    word = str(value).lower()
    for number, name in enumerate(WEEKDAYS):
        if len(word) >= 3 and name.startswith(word):
            return number
    raise ConfigError(f"{value!r} isn't a weekday; {nearest(word, WEEKDAYS)}")


def year(value: Any) -> int:
    """Read a year."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{value!r} isn't a year: write a whole number")
    return value


def date(value: Any) -> tuple[int, int, int]:
    """Read a date that every calendar has; YAML gives one as a `datetime.date`."""
    found = re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})", str(value))
    numbers = tuple(map(int, found.groups())) if found else (0, 0, 0)
    if numbers[0] < 1 or not 1 <= numbers[1] <= 12 or not 1 <= numbers[2] <= 28:
        raise ConfigError(f"{value!r} isn't a date: write year-month-day, with a day up to 28, such as 2000-01-01")
    return numbers[0], numbers[1], numbers[2]


def time_of_day(value: Any) -> timedelta:
    """Read when a day begins, such as '12:00'; YAML reads that, unquoted, as 720 minutes."""
    found = re.fullmatch(r"(\d{1,2}):(\d{2})", str(value))
    minutes = int(found[1]) * 60 + int(found[2]) if found else value
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not 0 <= minutes < 24 * 60:
        raise ConfigError(f"{value!r} is no time of day: write '12:00'")
    return timedelta(minutes=minutes)


def season_months(value: Any) -> tuple[tuple[int, ...], ...]:
    """Read seasons: DJF, [DJF, JJAS], [6, 7, 8, 9] or [[12, 1, 2], JJA]."""
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if all(isinstance(item, int) for item in items):
        items = [items]
    seasons = tuple(_season(item) for item in items)
    used = [number for season in seasons for number in season]
    if not used or len(set(used)) < len(used):
        raise ConfigError(f"{value!r} has a month in two seasons, or none at all: give them windows of their own")
    return tuple(sorted(seasons, key=lambda season: season[0] % len(MONTHS)))


def _season(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        return _season_of_letters(value)
    if not isinstance(value, Sequence) or not value:
        raise ConfigError(f"{value!r} isn't a season: write its letters (JJAS) or a list of its months")
    months = tuple(month(item) for item in value)
    if any(later != earlier % len(MONTHS) + 1 for earlier, later in pairwise(months)):
        raise ConfigError(f"{list(months)} are not consecutive months: December is followed by January")
    return months


def _season_of_letters(value: str) -> tuple[int, ...]:
    """Read the first letters of months; two at least, which are enough to tell them."""
    start = (LETTERS * 2).find(value.upper())
    if not 2 <= len(value) <= len(LETTERS) or start < 0:
        raise ConfigError(f"{value!r} are not the first letters of consecutive months: write such as DJF, or numbers")
    return tuple((start + offset) % len(LETTERS) + 1 for offset in range(len(value)))
