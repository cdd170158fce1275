"""CF attributes of the results, their store and their time axes, and where spans lie on these."""

from collections.abc import Container, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import cftime  # type: ignore[import-untyped]
import numpy as np

from bbflow.operators.operator import Axis, Operator
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.window import Window
from bbflow.stream.cf import CF_VERSION
from bbflow.transit.output.fields import ResultField, reinterpreted
from bbflow.transit.spans.timeline import Closing, Span
from bbflow.zarr_store.stored_names import stored_name

Described = tuple[tuple[str, ...], np.ndarray[Any, Any], dict[str, str]]
"""Dimensions, values and attributes of a variable."""
ONE = {"units": "1"}
LEAP_YEARS_APART = 8
"""Years between two leap years, at most."""


def result_attributes(field: ResultField, window: Window, operator: Operator, clock: Clock) -> dict[str, Any]:
    """Return the CF attributes of a result."""
    own = dict(field.attributes)
    # What a statistic does along time takes the place of 'point': CF has one method for an axis.
    earlier = str(own.pop("cell_methods", "")).replace("time: point", "").strip()
    return reinterpreted(own, operator, field.other_units, clock) | {
        "long_name": f"{operator.long_name} of {own.get('long_name', field.name)}",
        "cell_methods": f"{earlier} {window.cell_methods(operator.cell_method)}".strip(),
        "bbflow_long_name": own.get("long_name", field.name),
        "bbflow_variable": field.name,
        "bbflow_window": window.name,
        "bbflow_operator": operator.name,
    }


def with_known_references(attributes: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Leave names of variables out that aren't in the store."""
    kept = dict(attributes)
    names = [own for own in map(stored_name, str(kept.pop("coordinates", "")).split()) if own in known]
    if {"mesh", "location"} <= kept.keys():  # of UGRID
        mesh = stored_name(str(kept.pop("mesh")))
        kept |= {"mesh": mesh} if mesh in known else {}
        if mesh not in known:
            del kept["location"]
    return kept | ({"coordinates": " ".join(names)} if names else {})


def time_attributes(window: Window, clock: Clock) -> dict[str, str]:
    """Return the CF attributes of a window's time axis."""
    # CF's climatological axes name their bounds by an attribute of their own (section 7.4).
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
        year = date.year + years
        if year == 0 and not date.has_year_zero:  # cftime would make a date of another calendar
            continue
        try:
            return date.replace(year=year)
        except ValueError:  # 29 February
            continue
    raise AssertionError(f"{date} doesn't come again")


def axis_name(field: ResultField, operator: Operator, axis: Axis) -> str:
    """Name a dimension that an operator's results have besides their field's."""
    return stored_name(f"{field.name}_{operator.name}_{axis.name}")


def axis_variables(name: str, axis: Axis, field: ResultField) -> dict[str, Described]:
    """Return the coordinate of an operator's axis, and its bounds if it has some, those first.

    Attributes in braces are the field's own, or are left out.
    """
    filled = {key: _filled(value, field.attributes) for key, value in axis.attributes}
    attributes = {key: value for key, value in filled.items() if value is not None}
    coordinate = np.array(axis.values, "f8")
    if not axis.bounds:
        return {name: ((name,), coordinate, attributes)}
    edges = np.stack([axis.bounds[:-1], axis.bounds[1:]], axis=-1).astype("f8")
    bounds = f"{name}_bnds"
    return {bounds: ((name, "bnds"), edges, {}), name: ((name,), coordinate, attributes | {"bounds": bounds})}


def _filled(value: str, own: Mapping[str, Any]) -> str | None:
    if not value.startswith("{"):
        return value
    given = own.get(value.strip("{}"))
    return None if given is None else str(given)


def store_attributes(of_stream: Mapping[str, Any], stream: str, made: datetime) -> dict[str, Any]:
    """Return the store's attributes: the stream's, and how the results came to be (CF conventions, section 2.6.2).

    Parameters
    ----------
    of_stream
        The stream's own.
    stream
        Its name.
    made
        When the store was made.
    """
    line = f"{made.isoformat(timespec='seconds')} bbflow: statistics of stream {stream}, while it was written"
    earlier = str(of_stream.get("history", "")).strip()
    defaults = {"title": f"Statistics of stream {stream}", "source": f"stream {stream} of a simulation"}
    own = {"Conventions": CF_VERSION, "bbflow_stream": stream, "bbflow_status": "running"}
    return defaults | dict(of_stream) | {"history": f"{line}\n{earlier}".strip()} | own
