"""The time of a step as a number in the units of its clock, however the program tells it."""

from dataclasses import replace

from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import ConfigError, nearest
from bbflow.operators.windows.calendars import SECONDS_SINCE, Clock, same_date
from bbflow.operators.windows.date_texts import read_date
from bbflow.operators.windows.time_units import SINCE
from bbflow.operators.windows.tolerance import spacing
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.layouts import kept_by_layout
from bbflow.stream.records import Layout, Parts, ToldTime

SOURCES = ("variable", "attribute", "file")
"""What may tell a time; where several do, the first counts."""


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
    if time.start is not None or (told is not None and isinstance(told.value, str)):
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
                return ToldTime("variable", part.values[at], type=type_, axis=part.axis)
    told = (replace(part.time, axis=part.axis) for part in parts.values() if part.time is not None)
    return min(told, key=lambda told: SOURCES.index(told.source), default=None)


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
