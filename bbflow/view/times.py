"""The time of a step as a number in the units of its clock, however the program tells it."""

from collections.abc import Mapping
from functools import lru_cache

from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import ConfigError, nearest
from bbflow.operators.windows.calendars import SECONDS_SINCE, SINCE, Clock
from bbflow.operators.windows.date_texts import read_date
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.records import Layout, Step, ToldTime

Parts = Mapping[str, Step]
"""Node name to what lies there of a step."""
LAYOUTS = 64
"""Of this many layouts it is kept where the time stands."""
SOURCES = ("variable", "attribute", "file")
"""What may tell a time; where several do, the first counts."""


class StepTimes:
    """Gives the times of a stream's steps.

    Parameters
    ----------
    config
        What is to tell them.
    clock
        In whose units.
    """

    def __init__(self, config: TimeConfig, clock: Clock) -> None:
        self._config, self._clock = config, clock
        self._start = _number(config.start, clock) if config.start is not None else 0.0

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
            return float(told.value)
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
    units, calendar = time.units or own.get("units"), str(time.calendar or own.get("calendar", "standard"))
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
    values = (part.values[at] for part in parts.values() for at in singles_of(part.layout, variable))
    single = next((value for value in values if isinstance(value, int | float | str)), None)
    if single is not None:
        return ToldTime("variable", single)
    told = (part.time for part in parts.values() if part.time is not None)
    return min(told, key=lambda told: SOURCES.index(told.source), default=None)


@lru_cache(LAYOUTS)
def singles_of(layout: Layout, variable: str) -> tuple[int, ...]:
    """Say which of a step's values are of a variable."""
    return tuple(number for number, at in enumerate(layout.singles) if layout.forms[at].name == variable)


def _number(text: str | float, clock: Clock) -> float:
    """Return the number of a date that is told as text."""
    date = read_date(str(text))
    if date is None:
        raise ConfigError(f"{str(text)[:60]!r} is no date, such as 2018-06-17T06:00:00 or 2018-06-17_06:00:00")
    return date.number(clock)
