"""Where a step's time comes from, as the configuration and commands write it."""

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import partial
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.windows.calendars import SECONDS_SINCE, Clock, duration
from bbflow.operators.windows.date_texts import read_date
from bbflow.operators.windows.time_units import UNIT_SECONDS
from bbflow.reading.sections import number, one_of, read_as, read_section, text
from bbflow.reading.yaml_files import parse_yaml


@dataclass(frozen=True, slots=True)
class TimeConfig:
    """Where a step's time comes from."""

    by: str = "either"
    """time, steps (their numbers), file (the date in the file's name), or either: what the stream has, else steps if
    nothing needs dates."""
    variable: str = "time"
    """A single value in each step: a number, or a date as text."""
    attribute: str | None = None
    """An attribute of the stream that changes from step to step and tells the time, instead of a variable."""
    start: str | None = None
    """Date of step 0, as text; each step is `interval` after the one before, and nothing in the stream counts."""
    units: str | None = None
    """CF units; by default the attribute ``<variable>/units``."""
    calendar: str | None = None
    """CF calendar; by default the attribute ``<variable>/calendar``."""
    interval: float | None = None
    """Time between two steps, in those units, for counting gaps; by default the smallest one seen."""
    late: str = "incomplete"
    """What becomes of a step that isn't later than the one before: it is left out, and the results are incomplete;
    skip leaves it out and has them complete; or error."""


def read_time(text: str) -> TimeConfig:
    """Read what tells the steps' time, as `written_time` has written it; a single word is a variable's name.

    Raises
    ------
    ConfigError
        If it can't be read.
    """
    try:
        content = parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{text!r} {error}") from None
    return parse_time(content) if isinstance(content, dict) else TimeConfig(variable=text)


def written_time(time: TimeConfig) -> str:
    """Write what tells the steps' time in one line of YAML."""
    default = TimeConfig()
    told = {item.name: getattr(time, item.name) for item in fields(time)}
    changed = {name: value for name, value in told.items() if value != getattr(default, name)}
    if time.interval is not None and not time.units:
        changed["interval"] = (
            f"{time.interval} seconds" if time.start is not None or time.by == "file" else time.interval
        )
    return json.dumps(changed)


def parse_time(content: Any) -> TimeConfig:
    """Check the configuration's key 'time'.

    Raises
    ------
    ConfigError
        If a key is unknown, a value is wrong, or several things would tell the time.
    """
    by = one_of("time", "steps", "file", "either")
    if isinstance(content, str):
        return TimeConfig(by=read_as(by, content, "time"))
    time = read_section(
        TimeConfig,
        content,
        "time",
        by=by,
        variable=text,
        attribute=text,
        start=_date,
        units=text,
        calendar=text,
        interval=_interval,
        late=one_of("incomplete", "skip", "error"),
    )
    given = {key for key, value in (content or {}).items() if value is not None}
    read_as(partial(_check_source, given=given), time, "time")
    time = replace(time, interval=read_as(partial(_in_units, time), time.interval, "time: interval"))
    read_as(_check_clock, time, "time")
    tells = {"variable", "attribute", "start", "units", "calendar"}
    return replace(time, by="time") if given & tells and "by" not in given else time


def _check_source(time: TimeConfig, given: Collection[str]) -> None:
    """Check that exactly one source of the time is given."""
    told = [key for key in ("variable", "attribute", "start") if key in given]
    told += [f"by: {time.by}"] if time.by in ("steps", "file") else []
    if len(told) > 1:
        raise ConfigError(f"{told[0]} and {told[1]} would both tell the time: leave one of them out")
    if time.start is not None and time.interval is None:
        raise ConfigError("start needs an interval too, such as 6h: the time between two steps")


def _in_units(time: TimeConfig, interval: float | timedelta | None) -> float | None:
    """Return an interval as a number in the time's units."""
    is_told = time.start is not None or time.by == "file"
    units = time.units or (SECONDS_SINCE if is_told else "")
    if not isinstance(interval, timedelta):
        if interval is not None and is_told and not time.units:
            raise ConfigError(f"{interval:g} has no unit: write it as 6h, 30min or 1d")
        return interval
    if not units:
        raise ConfigError("it must be a number in the stream's units, or set time: units too")
    return interval / timedelta(seconds=UNIT_SECONDS.get(units.split()[0].lower(), 1.0))


def _date(value: Any) -> str:
    """Read a date; YAML gives one without quotes as a date or a time of Python's."""
    if read_date(str(value)) is None:
        raise ConfigError(f"{value!r} isn't a date: write it as 2000-01-01 or 2000-01-01T06:00:00")
    return str(value)


def _check_clock(time: TimeConfig) -> None:
    """Check that calendar and units can be read; a stream may tell the calendar that has the units' date."""
    units = time.units or "days since 2000-01-01"
    if time.start is not None:
        clock = Clock.of(time.units or SECONDS_SINCE, time.calendar or "standard")
        date = read_date(time.start)
        assert date is not None
        date.number(clock)
        return
    if time.calendar is None:
        with suppress(ConfigError):
            Clock.of(units, "360_day")  # has what the standard one hasn't: 30 February, and months as units
            return
    Clock.of(units, time.calendar or "standard")


def _interval(value: Any) -> float | timedelta:
    seconds = duration(value)
    if seconds is not None:
        return timedelta(seconds=seconds)
    read = number(value)
    if read <= 0:
        raise ConfigError(f"{value!r} must be a number above 0")
    return read
