"""The time of a step: what tells it, what number it is in the units of the stream's clock, and which date that is."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from math import isfinite, nan, prod
from operator import is_
from typing import Any

import cftime  # type: ignore[import-untyped]
import numpy as np
from msgspec import UNSET

from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import ConfigError, nearest
from bbflow.operators.windows.calendars import SECONDS_SINCE, Clock, same_date
from bbflow.operators.windows.date_texts import DIGITS, date_in, read_date, read_digits
from bbflow.operators.windows.time_units import SINCE
from bbflow.operators.windows.tolerance import spacing
from bbflow.stream.attributes import FILE, meant
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.layouts import kept_by_layout
from bbflow.stream.records import Block, Layout, Parts, Step, ToldTime
from bbflow.view.stream import News

SOURCES = ("variable", "attribute", "file")
"""What may tell a time; where several do, the first counts."""
TEXTS = ("char", "int8_t", "uint8_t")
"""Types of the characters of a text that is written as an array."""
LONGEST = 1 << 10
"""A text or a number that tells the time has fewer bytes than that."""
ReadBlock = Callable[[int, Block], Any]
"""Reads an array block of a step, by its number."""


class TimeTelling:
    """Finds what tells the time of one node's steps.

    Parameters
    ----------
    time
        What is configured.
    needs_bounds
        Whether the bounds of steps' times are.
    is_dated
        Whether dates are needed: then the name of the file tells one, if nothing else does.
    read
        Reads blocks of the node.
    """

    def __init__(
        self, time: TimeConfig, read: ReadBlock, *, is_dated: bool = False, needs_bounds: bool = False
    ) -> None:
        self._time, self._read = time, read
        self._attribute = time.attribute or (time.variable if time.by == "either" else None)
        self._by_file = time.by == "file" or (time.by == "either" and is_dated)
        self._known: dict[str, Any] | None = None
        self._since: int | None = None
        self._source: str | None = None
        self._silent: Layout | None = None
        """Steps that lie so tell no time here, as those of most nodes, until attributes say something new."""
        name = time.attribute or time.variable
        self._axis_names = f"{name}/units", f"{name}/calendar"
        self._bounds_name, self._needs_bounds = f"{name}/bounds", needs_bounds
        self._axis: tuple[str | None, str | None] = (None, None)

    def told(self, news: News) -> News:
        """Return news whose steps say what tells their time."""
        if self._known is None:
            self._known, self._since = dict(news.base), news.file_since
            self._axis = self._find_axis()
        steps = tuple([self._with_time(step) for step in news.steps])
        return news if all(map(is_, steps, news.steps)) else replace(news, steps=steps)

    def _with_time(self, step: Step) -> Step:
        assert self._known is not None
        for item in step.attributes:
            self._known[item.name], self._silent = meant(item), None
            if item.name == FILE:
                self._since = step.number if item.since is UNSET else item.since
            if item.name in self._axis_names:
                self._axis = self._find_axis()
        counted = self._time.by == "steps" or self._time.start is not None
        told, bounds = None if counted else self._find(step), self._find_bounds(step) if self._needs_bounds else None
        is_bare = told is None and bounds is None and self._axis == step.axis
        return step if is_bare else replace(step, time=told, axis=self._axis, bounds=bounds)

    def _find_bounds(self, step: Step) -> tuple[float, float] | None:
        """Return the ends of what a step stands for; None if nothing tells them on this node."""
        assert self._known is not None
        name = self._known.get(self._bounds_name)
        for at, form in enumerate(step.layout.forms):
            if form.name == name and form.bytes and prod(form.count) == 2 and form.type not in TEXTS:
                begin, end = np.asarray(self._read(step.number, step.blocks[at])).reshape(-1).tolist()
                return float(begin), float(end)
        return None

    def _find_axis(self) -> tuple[str | None, str | None]:
        """Return units and calendar as they are now.

        Raises
        ------
        ConfigError
            If they change although the configuration says them.
        """
        assert self._known is not None
        units, calendar = (None if told is None else str(told) for told in map(self._known.get, self._axis_names))
        for what, before, now, given in (
            ("units", self._axis[0], units, self._time.units),
            ("calendar", self._axis[1], calendar, self._time.calendar),
        ):
            if given is not None and before not in (None, now):
                raise ConfigError(
                    f"the stream's time {what} change from {before!r} to {now!r}, but time: {what} says {given!r} of "
                    "all steps: take it out of the configuration"
                )
        return units, calendar

    def _find(self, step: Step) -> ToldTime | None:
        """Return what tells a step's time; all steps have it from one source, the first that there is."""
        if step.layout is self._silent:
            return None
        finders = {"variable": self._by_variable, "attribute": self._by_attribute, "file": self._by_name}
        for source in SOURCES if self._source is None else (self._source,):
            if (told := finders[source](step)) is not None:
                self._source = source
                return told
        self._silent = step.layout
        return None

    def _by_variable(self, step: Step) -> ToldTime | None:
        at = None if self._time.attribute else place_of_time(step.layout, self._time.variable)
        if at is None:
            return None
        form = step.layout.forms[at]
        values = np.asarray(self._read(step.number, step.blocks[at]))
        if prod(form.count) == 1 and form.type not in TEXTS:
            return ToldTime("variable", values.reshape(-1)[0].item(), type=form.type)
        texts = [bytes(row).decode("ascii", "replace").strip("\0 ") for row in values.reshape(-1, values.shape[-1])]
        if len(set(texts)) > 1:
            raise ConfigError(
                f"step {step.number}: {form.name} tells {len(texts)} times, from {texts[0]!r} to {texts[-1]!r}, but a "
                "step has one: let the program write one time in each step, or count steps (time: steps; a rescue: "
                "--time steps)"
            )
        return ToldTime("variable", texts[0])

    def _by_attribute(self, step: Step) -> ToldTime | None:
        assert self._known is not None
        value = self._known.get(self._attribute) if self._attribute else None
        if not isinstance(value, int | float | str):
            return None
        if self._time.attribute is None and isinstance(value, str) and read_date(value) is None:
            return None  # a text of that name that nothing says to be a date
        return ToldTime("attribute", value)

    def _by_name(self, step: Step) -> ToldTime | None:
        assert self._known is not None
        name = self._known.get(FILE) if self._by_file else None
        date = date_in(name) if isinstance(name, str) else None
        if date is None:
            return None
        return ToldTime("file", date.text, None if self._since is None else step.number - self._since)


@kept_by_layout
def place_of_time(layout: Layout, variable: str) -> int | None:
    """Find the array that tells a time: a number, or the characters of a text; None if there is none.

    Parameters
    ----------
    layout
        How a step lies.
    variable
        The array's name.
    """
    for at, form in enumerate(layout.forms):
        is_text = form.type in TEXTS and prod(form.count) > 1
        if form.name == variable and 0 < form.bytes < LONGEST and (is_text or prod(form.count) == 1):
            return at
    return None


class StepTimes:
    """Finds the times of a stream's steps.

    Parameters
    ----------
    config
        What is to tell them.
    clock
        In whose units; None if these can't be read: then numbers stay as they are.
    """

    def __init__(self, config: TimeConfig, clock: Clock | None) -> None:
        self._config, self._clock = config, clock or Clock(SECONDS_SINCE)
        self._converts = clock is not None
        self._known: dict[tuple[str | None, str | None], Clock] = {}
        self._start = _number(config.start, self._clock) if config.start is not None else 0.0

    def find(self, number: int, parts: Parts) -> float | None:
        """Return the time of a step; None if nothing tells it.

        Parameters
        ----------
        number
            The step's; counted through a chain of jobs.
        parts
            What there is of it.

        Raises
        ------
        ConfigError
            If what tells it can't be read as a time.
        """
        if self.are_counted:
            return self._start + number * (1.0 if self._clock.by_steps else self._config.interval or 0.0)
        told = told_by(parts, self._config.variable)
        return None if told is None else self._time(number, told)

    @property
    def are_counted(self) -> bool:
        """Whether they follow from the steps' numbers alone."""
        return self._clock.by_steps or self._config.start is not None

    def _time(self, number: int, told: ToldTime) -> float:
        if isinstance(told.value, int | float):
            units = self._config.units or told.axis[0] or ""
            if told.type == "float" and DIGITS.fullmatch(units):
                raise ConfigError(
                    f"step {number}: its time is a float in {units!r}, whose digits are off by days: let the program "
                    "write double precision"
                )
            return self._in_own_units(number, float(told.value), told.axis)
        try:
            first = _number(told.value, self._clock)
        except ConfigError as error:
            raise ConfigError(f"step {number}: its time is told by its {told.source}: {error}") from None
        if told.after == 0:
            return first
        if self._config.interval is None or told.after is None:
            raise ConfigError(
                f"step {number} isn't the first one of the file whose name tells the date {told.value!r}: set time: "
                "interval, such as 6h, or time: variable, if a variable tells it"
            )
        return first + told.after * self._config.interval

    def _in_own_units(self, number: int, value: float, axis: tuple[str | None, str | None]) -> float:
        """Return a time that may be told in other units than the first step's: those of a further file."""
        units, calendar = self._config.units or axis[0], self._config.calendar or axis[1]
        if not self._converts or units is None:
            return value
        if DIGITS.fullmatch(units):
            return self._of_digits(number, value)
        if (units, calendar) not in self._known:
            own = self._clock.calendar if calendar is None else calendar
            self._known[units, calendar] = Clock.of(units, own, self._clock.missing)
        clock = self._known[units, calendar]
        if clock == self._clock:
            return value
        date = clock.find_date(value)
        own_date = None if date is None else same_date(date, self._clock.calendar)
        if date is not None and own_date is None:
            raise ConfigError(
                f"step {number}: the calendar of its time is {clock.calendar}, but that of the steps before is "
                f"{self._clock.calendar}, which has other days: fold them in runs of their own"
            )
        return value if own_date is None else self._clock.number(own_date)

    def _of_digits(self, number: int, value: float) -> float:
        """Return a time that is told by the digits of a number; NaN if they are no date."""
        date = read_digits(value)
        try:
            return nan if date is None else date.number(self._clock)
        except ConfigError as error:
            raise ConfigError(f"step {number}: {error}") from None

    def bounds(self, number: int, parts: Parts) -> tuple[float, float] | None:
        """Return the ends of what a step stands for; None if nothing tells them."""
        for part in parts.values():
            if part.bounds is not None:
                begin, end = (self._in_own_units(number, value, part.axis) for value in part.bounds)
                return begin, end
        return None

    def spacing(self, time: float, parts: Parts) -> float:
        """Return the distance between a step's time and its neighbour, as what tells it has numbers."""
        if self._clock.by_steps:
            return 0.0
        told = None if self.are_counted else told_by(parts, self._config.variable)
        return spacing(time, "double" if told is None or not told.type else told.type)

    def of(self, number: int, parts: Parts) -> float:
        """Return the time of a step, as `find` does.

        Raises
        ------
        ConfigError
            If nothing tells it, too.
        """
        time = self.find(number, parts)
        if time is not None:
            return time
        variable = self._config.variable
        forms = {form.name: form for part in parts.values() for form in part.layout.forms}
        if variable in forms:
            form = forms[variable]
            raise ConfigError(
                f"step {number}: {variable} is to tell its time, but is a {form.kind} of type {form.type} and shape "
                f"{form.shape}: let the program write a single number, or a date as text"
            )
        if self._config.attribute is not None:
            raise ConfigError(f"step {number}: the stream has no attribute {self._config.attribute!r} with its time")
        raise ConfigError(
            f"step {number} has no single value {variable!r} that tells its time; {nearest(variable, forms)} "
            "(set time: variable)"
        )


class StepDates:
    """Keeps the dates of steps that come next: one alone takes longer than all else that is planned of a step."""

    def __init__(self) -> None:
        self._known: dict[float, cftime.datetime | None] = {}

    def of(self, time: float, clock: Clock, ahead: Iterable[float | None]) -> cftime.datetime | None:
        """Return the date of a step; None if its time stands for none.

        Parameters
        ----------
        time
            The step's, in the stream's units.
        clock
            The stream's, always the same.
        ahead
            The times of steps that may be asked for next, None for those without one; looked at now and then only.
        """
        if not isfinite(time) or time in clock.missing:
            return None
        if time not in self._known:
            times = [value for value in (time, *ahead) if value is not None and isfinite(value)]
            try:
                self._known = dict(zip(times, clock.dates(times), strict=True))
            except (OverflowError, ValueError):  # one of them has no date: it is found one by one which
                self._known = {value: clock.find_date(value) for value in times}
        return self._known[time]


def clock_of(time: TimeConfig, attributes: StreamAttributes, told: ToldTime | None) -> Clock | None:
    """Return the clock of a stream's steps; None if there are no units, and no dates that need none.

    Parameters
    ----------
    time
        What is configured: it comes before what the stream says.
    attributes
        Of the stream.
    told
        What tells the time of the first step, if anything does.

    Raises
    ------
    ConfigError
        If units or calendar are unknown, or times are packed.
    """
    name = time.attribute or time.variable
    own, encoding = attributes.of(name), attributes.encoding(name)
    axis = (None, None) if told is None else told.axis
    units = time.units or axis[0] or own.get("units")
    told_calendar = axis[1] if axis[0] is not None else own.get("calendar")  # that of this step, not of a later one
    calendar = str(time.calendar or told_calendar or "standard")
    is_date = (told is not None and isinstance(told.value, str)) or DIGITS.fullmatch(str(units)) is not None
    if time.start is not None or is_date:
        is_axis = time.units is not None or SINCE.fullmatch(str(units)) is not None
        return Clock.of(str(units) if is_axis else SECONDS_SINCE, calendar)
    if units is not None and encoding.is_packed:
        raise ConfigError(f"{name} is packed by scale_factor or add_offset: let the program write plain times")
    return None if units is None else Clock.of(str(units), calendar, encoding.missing)


def told_by(parts: Parts, variable: str) -> ToldTime | None:
    """Return what tells a step's time; None if nothing does.

    Parameters
    ----------
    parts
        What there is of the step.
    variable
        A single value that does, if there is one.
    """
    for part in parts.values():
        for at, type_ in singles_of(part.layout, variable):
            if isinstance(part.values[at], int | float | str):
                return ToldTime("variable", part.values[at], type=type_, axis=_axis_of(part, parts))
    told = ((part.time, part) for part in parts.values() if part.time is not None)
    first = min(told, key=lambda own: SOURCES.index(own[0].source), default=None)
    return None if first is None else replace(first[0], axis=_axis_of(first[1], parts))


def _axis_of(part: Step, parts: Parts) -> tuple[str | None, str | None]:
    """Return units and calendar of a part's time, which only the node of rank 0 may know."""
    axes = (own.axis for own in chain((part,), parts.values()))
    return next((axis for axis in axes if axis != (None, None)), (None, None))


@kept_by_layout
def singles_of(layout: Layout, variable: str) -> tuple[tuple[int, str], ...]:
    """Return a step's values of a variable, the last one that each rank has Put, and their types."""
    forms = ((number, layout.forms[at]) for number, at in enumerate(layout.singles))
    last = {form.rank: (number, form.type) for number, form in forms if form.name == variable}
    return tuple(own for _, own in sorted(last.items()))


def _number(text: str | float, clock: Clock) -> float:
    """Return the number of a date that is told as text."""
    date = read_date(str(text))
    if date is None:
        raise ConfigError(f"{str(text)[:60]!r} isn't a date, such as 2018-06-17T06:00:00 or 2018-06-17_06:00:00")
    return date.number(clock)
