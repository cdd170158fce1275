"""Windows: the spans of time over which statistics run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import cftime  # type: ignore[import-untyped]

from bbflow.errors import ConfigError, nearest

Key = tuple[int, ...]
Bounds = tuple[cftime.datetime, cftime.datetime]


@dataclass(frozen=True, slots=True)
class Window:
    """Cuts time into spans; those of a finer window lie within those of every coarser one.

    A span's key is a tuple of numbers; keys of later spans are greater.
    """

    name: str
    """What the configuration calls it."""
    level: int
    """The finer, the greater."""
    key_of: Callable[[cftime.datetime], Key]
    """Says which span a date is in."""
    bounds_of: Callable[[Key, cftime.datetime, cftime.datetime], Bounds]
    """Says where a span begins and ends."""

    def key(self, date: cftime.datetime) -> Key:
        """Give the span that a date is in, such as (2000, 1) for a month."""
        return self.key_of(date)

    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Give a span's begin and end, in the calendar of its dates.

        Parameters
        ----------
        key
            The span.
        first, last
            Dates of the first and the last step in it.

        Returns
        -------
        tuple of cftime.datetime
            Of a span of the calendar its own bounds, the end not in it; of the whole run `first` and `last`.
        """
        return self.bounds_of(key, first, last)


def _month_key(date: cftime.datetime) -> Key:
    return date.year, date.month


def _month_bounds(key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
    start = _midnight(first.replace(year=key[0], month=key[1], day=1))
    # No month has more than 31 days or fewer than 20 (October 1582), so this is a date in the next one.
    return start, _midnight((start + timedelta(days=31)).replace(day=1))


def _midnight(date: cftime.datetime) -> cftime.datetime:
    return date.replace(hour=0, minute=0, second=0, microsecond=0)


def _run_key(date: cftime.datetime) -> Key:
    return ()


def _run_bounds(key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
    return first, last


WINDOWS: Mapping[str, Window] = {
    window.name: window
    for window in (
        Window("run", 0, _run_key, _run_bounds),
        Window("month", 30, _month_key, _month_bounds),
    )
}
"""All windows by name; a level between leaves room for year (10), season (20) and day (40)."""


def finest(windows: Iterable[Window]) -> Window:
    """Give the window that steps are folded into; coarser ones are combined of its spans.

    Parameters
    ----------
    windows
        At least one.
    """
    return max(windows, key=lambda window: window.level)


def parse_windows(names: Sequence[Any]) -> tuple[Window, ...]:
    """Make windows of their names.

    Returns
    -------
    tuple of Window
        Finest first, whatever the order of the names.

    Raises
    ------
    ConfigError
        If there is none, or a name is unknown or there twice.
    """
    if not names:
        raise ConfigError(f"no windows are given; valid are {', '.join(sorted(WINDOWS))}")
    for name in names:
        if name not in WINDOWS:
            raise ConfigError(f"unknown window {name!r}; {nearest(str(name), WINDOWS)}")
        if list(names).count(name) > 1:
            raise ConfigError(f"window {name!r} is there twice: take one out")
    return tuple(sorted((WINDOWS[name] for name in names), key=lambda window: -window.level))
