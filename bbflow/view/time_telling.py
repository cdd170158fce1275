"""What tells the steps' time where that isn't a single value: small arrays, attributes, names of files."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from operator import is_
from typing import Any

import numpy as np
from msgspec import UNSET

from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import ConfigError
from bbflow.operators.windows.date_texts import date_in, read_date
from bbflow.stream.attributes import FILE, meant
from bbflow.stream.layouts import kept_by_layout
from bbflow.stream.records import Block, Layout, Step, ToldTime
from bbflow.view.stream import News
from bbflow.view.times import SOURCES

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
