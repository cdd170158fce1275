"""When the steps of a program are, and how it tells that: at several lengths, rounded, once more after a restart."""

import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import Any

import cftime
import numpy as np

CALENDARS = ("standard", "gregorian", "proleptic_gregorian", "julian", "noleap", "365_day", "all_leap", "360_day")
REFERENCES = (
    "days since 2000-01-01", "hours since 1999-12-30 12:00:00", "seconds since 1970-01-01", "days since 1850-1-1",
)  # fmt: skip
WRITTEN = {
    "days since 2000": "days since 2000-01-01",
    "hours since 2000/01/01": "hours since 2000-01-01",
    "minutes since 1999-12-31 18:00 -6:00": "minutes since 2000-01-01",
    "seconds since 2001-1-1 6": "seconds since 2001-01-01 06:00:00",
    "h since 1900-01-01T00:00:00Z": "hours since 1900-01-01",
    "days since 0001-01-01": "days since 0001-01-01",
}
"""Units as programs write them, and as cftime reads them."""
UNIT_S = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "h": 3600.0}
FAR = 1e20
"""Beyond that a time isn't a date."""
TEXT_UNITS = "seconds since 1970-01-01"
"""In which an analysis has dates that are told as text."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a program's steps."""

    told: tuple[Any, ...] | None
    """Of each step as it is written; None if nothing tells it."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """The time's, from the first step on."""
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Step to the attributes that change with it."""
    dates: tuple[cftime.datetime | None, ...] | None = None
    """Of each step, None where its time isn't a date; None if nobody can read the units."""
    error_s: float = 1e-3
    """By how much what is told may be off."""

    @property
    def unit_s(self) -> float:
        """Return the seconds of the unit in which the first step is told."""
        return UNIT_S[self.attributes.get("units", TEXT_UNITS).split()[0]]


@dataclass(frozen=True, slots=True)
class Axis:
    """What times are told by."""

    kind: str
    """number, array or text."""
    calendar: str
    units: str
    start: cftime.datetime
    hours: float
    """Between two steps, mostly."""
    wrong: tuple[str, int] | None = None
    """nan, first or far, and the step that is told so."""
    named: dict[str, str] = field(default_factory=dict)
    """The calendar, as it is named."""
    is_read: bool = True
    """Whether anybody can read it."""


def draw_axis(dice: random.Random, steps: int) -> Axis | None:
    """Draw what tells the time; sometimes a step has a time that isn't a date, or not a later one, or none has one."""
    kind = dice.choice(("number", "number", "array", "text", "none"))
    if kind == "none":
        return None
    calendar, units = dice.choice(CALENDARS), dice.choice(REFERENCES)
    start = cftime.datetime(dice.choice((1850, 1999, 2000, 2023)), dice.randint(1, 12), 28, calendar=calendar)
    axis = Axis(kind, calendar, units, start, dice.choice((1, 6, 24, 24 * 10)), named={"calendar": calendar})
    if kind == "text":
        return axis
    if dice.random() < 0.1:
        axis = replace(axis, wrong=(dice.choice(("nan", "first", "far")), dice.randrange(steps)))
    if calendar == "standard" and dice.random() < 0.5:
        axis = replace(axis, named={})
    if dice.random() < 0.05:
        return replace(axis, named={"calendar": dice.choice(("none", "martian", ""))}, is_read=False)
    if dice.random() < 0.05:
        units = dice.choice(("fortnights since 2000-01-01", "days since 2001-02-31", "days", "K", ""))
        return replace(axis, units=units, is_read=False)
    return axis


def draw_times(dice: random.Random, axis: Axis | None, steps: int, second: int) -> Times:
    """Draw the times of an axis.

    Parameters
    ----------
    dice
        Of this draw's own.
    axis
        What tells them.
    steps
        How many there are.
    second
        First step that is written when the program opens its file again, `steps` if it never does.
    """
    if axis is None:
        return Times(None)
    hours = [0.0, *accumulate(axis.hours * _lengths(dice, steps))]
    numbers = list(range(steps))
    again = range(second, second)
    if second < steps and dice.random() < 0.5:
        back = dice.randint(1, min(3, second))
        numbers[second:] = [number - back for number in numbers[second:]]
        again = range(second, min(second + back, steps))
    dates = [axis.start + timedelta(hours=hours[number]) for number in numbers]
    if axis.kind == "text":
        texts = tuple(date.strftime("%Y-%m-%dT%H:%M:%S") for date in dates)
        return Times(texts, {"calendar": axis.calendar}, dates=tuple(dates))
    return _as_numbers(dice, axis, dates, second, again)


def _lengths(dice: random.Random, steps: int) -> np.ndarray[Any, Any]:
    """Draw how long steps are, in those of the axis."""
    if dice.random() < 0.75:
        return np.ones(steps)
    return np.array([dice.choice((1.0, 1.0, 0.5, 2.0, 3.0)) for _ in range(steps)])


def _as_numbers(dice: random.Random, axis: Axis, dates: list[cftime.datetime], second: int, again: range) -> Times:
    written = {0: axis.units}
    if axis.is_read and dice.random() < 0.3:
        written[0] = dice.choice(list(WRITTEN))
    if axis.is_read and second < len(dates) and dice.random() < 0.5:
        written[second] = dice.choice(list(WRITTEN))
    of_step = [written.get(second if step >= second else 0, written[0]) for step in range(len(dates))]
    told: list[Any] = [_number(date, axis, units) for date, units in zip(dates, of_step, strict=True)]
    shortest_s = min((abs((b - a).total_seconds()) for a, b in pairwise(dates) if a != b), default=0.0)
    off_s = 0.0
    if dice.random() < 0.5:  # what a restart file of float32 had
        for step in again:
            between_s = float(np.spacing(abs(np.float32(told[step])))) * _unit_s(of_step[step])
            if between_s < shortest_s / 8:
                told[step], off_s = float(np.float32(told[step])), max(off_s, between_s)
    meant: list[Any] = list(dates)
    if axis.wrong is not None:
        kind, step = axis.wrong
        told[step] = {"nan": float("nan"), "first": _number(dates[0], axis, of_step[step]), "far": -1e30}[kind]
        meant[step] = dates[0] if kind == "first" else None
    told, error_s = _rounded(dice, told, of_step, second, is_wrong=axis.wrong is not None)
    return Times(
        tuple(np.array([number]) for number in told) if axis.kind == "array" else tuple(told),
        {"units": written[0]} | axis.named,
        {step: {"units": units} for step, units in written.items() if step},
        tuple(meant) if axis.is_read else None,
        error_s + off_s + 1e-3,
    )


def _rounded(
    dice: random.Random, told: list[float], units: list[str], second: int, *, is_wrong: bool
) -> tuple[list[Any], float]:
    """Round times as programs do, and return by how many seconds they are off at most."""
    how = dice.choice(("plain", "plain", "added", "float32", "whole"))
    if how == "float32":
        times = [np.float32(time) for time in told]
        known = [(time, unit) for time, unit in zip(times, units, strict=True) if abs(time) < FAR]
        return times, max((float(np.spacing(abs(time))) * _unit_s(unit) for time, unit in known), default=0.0)
    if how == "whole" and not is_wrong and all(time == round(time) for time in told):
        return [np.int64(time) for time in told], 0.0
    if how == "added" and not is_wrong:
        parts = [part for part in (told[:second], told[second:]) if part]
        return [time for part in parts for time in accumulate(np.diff(part).tolist(), initial=part[0])], 0.0
    return list(told), 0.0


def _number(date: cftime.datetime, axis: Axis, units: str) -> float:
    units = WRITTEN.get(units, units) if axis.is_read else REFERENCES[0]
    return float(cftime.date2num(date, units, calendar=axis.calendar))


def _unit_s(units: str) -> float:
    return UNIT_S.get(units.partition(" ")[0], 1.0)
