"""Who is in an ensemble: how the configuration names members, their weights and the starts of their forecasts."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.own.origin import beside
from bbflow.operators.windows.calendars import duration
from bbflow.reading.sections import check_keys, number, positive, text

RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
MOST_STARTS = 100_000


def read_members(value: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Read members' names and weights.

    Parameters
    ----------
    value
        How many there are, called 1, 2, …; a list of names; a map of names to weights; a text such as ``m{01..50}``;
        or a pattern of directories such as ``runs/m*``, whose names they get.

    Returns
    -------
    tuple
        The names, and as many weights, or none.

    Raises
    ------
    ConfigError
        If it is none of these, or a name is given twice.
    """
    if isinstance(value, Mapping):
        names, weights = tuple(map(str, value)), tuple(float(number(item)) for item in value.values())
        for name, weight in zip(names, weights, strict=True):
            if weight <= 0:
                raise ConfigError(f"member {name!r} has the weight {weight:g}: it must be above 0, or leave it out")
    else:
        names, weights = _names(value), ()
    for name in names:
        if not NAME.fullmatch(name):
            raise ConfigError(f"member {name!r} must be a word of letters, digits, _ and -: a directory is called so")
    # Counted, not compared with each other: 10,000 members took seconds.
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise ConfigError(f"member {twice[0]!r} is given twice: each has a name of its own")
    if not names:
        raise ConfigError("there are no members: give their number, or their names")
    return names, weights


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(str(item) if type(item) is int else text(item) for item in value)
    if isinstance(value, str) and (found := RANGE.search(value)):
        first, last = found.groups()
        numbers = range(int(first), int(last) + 1)
        return tuple(f"{value[: found.start()]}{at:0{len(first)}d}{value[found.end() :]}" for at in numbers)
    if isinstance(value, str) and any(sign in value for sign in "*?["):
        folder, _, pattern = value.rpartition("/")
        found_in = Path(beside(), folder)
        names = tuple(sorted(path.name for path in found_in.glob(pattern) if path.is_dir()))
        if not names:
            raise ConfigError(f"no directory is like {value!r} in {found_in.resolve()}")
        return names
    return tuple(str(at) for at in range(1, positive(value) + 1))


def read_starts(value: Any) -> tuple[str, ...]:
    """Read the starts of forecasts: a list of dates, or {from: DATE, to: DATE, every: 7 days}.

    Returns
    -------
    tuple
        Such as 2020-01-01 or 2020-01-01T06, ascending.

    Raises
    ------
    ConfigError
        If a date can't be read, or is given twice.
    """
    if isinstance(value, Mapping):
        check_keys(value, ("from", "to", "every"))
        if missing := sorted({"from", "to", "every"} - {*value}):
            raise ConfigError(f"the key {missing[0]!r} is missing")
        first, last, every_s = _date(value["from"]), _date(value["to"]), duration(value["every"])
        if every_s is None:
            raise ConfigError(f"every: {value['every']!r} is not a duration, such as 7 days or 6h")
        if last < first or (last - first) / timedelta(seconds=every_s) > MOST_STARTS:
            raise ConfigError(f"from {first} to {last} every {value['every']} are no starts, or too many")
        dates, step = [first], timedelta(seconds=every_s)
        while dates[-1] + step <= last:
            dates.append(dates[-1] + step)
    else:
        dates = [_date(item) for item in (value if isinstance(value, list) else [value])]
    if sorted({*dates}) != dates:
        raise ConfigError("each must be later than the one before: put them into their order, each once")
    return tuple(map(_told, dates))


def _date(value: Any) -> datetime:
    try:
        found = datetime.fromisoformat(text(value))
    except ValueError:
        raise ConfigError(f"{value!r} is not a date such as 2020-01-01 or 2020-01-01T06") from None
    if found.microsecond:
        raise ConfigError(f"{value!r} has a part of a second: starts are whole seconds")
    if found.tzinfo is not None:
        raise ConfigError(f"{value!r} names a time zone: starts are on the members' own time axis, so leave it out")
    return found


def _told(date: datetime) -> str:
    """Write a date in letters that names of files may have, without zeros at its end."""
    day, _, clock = date.isoformat(timespec="seconds").replace(":", "").partition("T")
    while clock.endswith("00"):
        clock = clock[:-2]
    return f"{day}T{clock}" if clock else day


def date_parts(start: str) -> tuple[int, ...]:
    """Return year, month, day, hour, minute and second of a start as `read_starts` gives it."""
    day, _, clock = start.partition("T")
    year, month, of_month = map(int, day.split("-"))
    return year, month, of_month, *(int(clock[at : at + 2] or 0) for at in (0, 2, 4))
