"""Where a span lies on the time axis of its window."""

from datetime import timedelta
from functools import lru_cache

import cftime  # type: ignore[import-untyped]

from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.window import Window
from bbflow.transit.folding.timeline import Closing, Span

ONE = {"units": "1"}
LEAP_YEARS_APART = 8
"""Years between two leap years, at most."""


def time_attributes(window: Window, clock: Clock) -> dict[str, str]:
    """Return the CF attributes of a window's time axis."""
    bounds = "bounds" if window.keeps is not None else "climatology"
    return {
        **clock.attributes,
        **clock.meaning,
        "axis": "T",
        bounds: f"time_{window.name}_bnds",
    }


def count_variables(window: Window, span: Span) -> dict[str, tuple[int, dict[str, str]]]:
    """Return what is counted of each of a window's spans: the number and its attributes."""
    missing = f"steps that are missing in each {window.name}, by the steps' interval"
    return {
        f"steps_{window.name}": (span.steps, {"long_name": f"steps of the simulation in each {window.name}", **ONE}),
        f"missing_{window.name}": (span.missing, {"long_name": missing, **ONE}),
    }


@lru_cache(maxsize=64)
def bounds_of(closing: Closing, clock: Clock) -> tuple[float, float]:
    """Return where a span begins and ends, in the stream's units."""
    span = closing.whole
    dates = closing.window.bounds(span.key, clock.date(span.first), clock.date(span.last))
    start, end = (clock.number(date) for date in dates)
    return start, end


def stamp_of(closing: Closing, clock: Clock, before: float | None = None) -> float:
    """Return the time of a span: its middle.

    A climatology's is the middle of the first of its spans, or of one as many years (or days) later as it takes for
    the axis to ascend, as coordinates must: its spans are in the order of their keys, January to December, also if the
    stream began in November.

    Parameters
    ----------
    closing
        The span.
    clock
        The stream's calendar.
    before
        The time of the span before it on the axis.
    """
    window = closing.window
    if window.keeps is not None:
        return sum(bounds_of(closing, clock)) / 2
    first = clock.date(closing.whole.first)
    begin, end = window.bounds(closing.whole.key, first, first)
    middle = begin + (end - begin) / 2
    while before is not None and clock.number(middle) <= before:
        middle = middle + timedelta(days=1) if window.recurs == ("hour",) else a_year_later(middle)
    return clock.number(middle)


def a_year_later(date: cftime.datetime) -> cftime.datetime:
    """Return the same date of the next year that has it."""
    for years in range(1, LEAP_YEARS_APART + 1):
        try:
            return date.replace(year=date.year + years)
        except ValueError:  # 29 February
            continue
    raise AssertionError(f"{date} doesn't come again")
