"""Spans: how the calendar, or the number of steps, is cut into pieces that follow each other."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from math import inf

import cftime  # type: ignore[import-untyped]

Key = tuple[int, ...]
Bounds = tuple[cftime.datetime, cftime.datetime]

DAY_S = 86400
MONTH_S = 30 * DAY_S
"""About; only for the order of windows."""


class Spans(ABC):
    """Pieces of time that don't overlap; keys of later ones are greater.

    Instances are frozen dataclasses: hashable, equal if they cut alike, small when pickled.
    """

    @property
    @abstractmethod
    def seconds(self) -> float:
        """About how long one is."""

    @abstractmethod
    def key(self, date: cftime.datetime, step: int) -> Key | None:
        """Return the span that a step is in; None if it's in none."""

    @abstractmethod
    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Return a span's begin and end (not in it), for the dates of the first and the last step in it."""

    @abstractmethod
    def follows(self, earlier: Key, later: Key) -> bool:
        """Whether the later span begins where the earlier one ends."""


@dataclass(frozen=True, slots=True)
class Run(Spans):
    """All steps in one span."""

    @property
    def seconds(self) -> float:
        """Longer than any other."""
        return inf

    def key(self, date: cftime.datetime, step: int) -> Key:
        """Return the empty key."""
        return ()

    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Return the dates of the steps themselves."""
        return first, last

    def follows(self, earlier: Key, later: Key) -> bool:
        """No span follows the only one."""
        return False


@dataclass(frozen=True, slots=True)
class StepsSpan(Spans):
    """How many steps at a time, by their numbers: a step that never came leaves its span shorter."""

    count: int
    """Steps in each; the first span begins with step 0, whose key is (0,)."""

    @property
    def seconds(self) -> float:
        """Shorter than a span of the calendar, which may well hold fewer steps."""
        return self.count * 1e-6

    def key(self, date: cftime.datetime, step: int) -> Key:
        """Return the number of the span."""
        return (step // self.count,)

    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Return the dates of the steps themselves: when the next one comes is unknown."""
        return first, last

    def follows(self, earlier: Key, later: Key) -> bool:
        """Whether the numbers are consecutive."""
        return later[0] == earlier[0] + 1


@dataclass(frozen=True, slots=True)
class Hours(Spans):
    """How many hours at a time; days and weeks too.

    Keys count the hours from midnight of the calendar's Julian day 0, as `cftime.datetime.toordinal` has it.
    """

    count: int
    """Hours in each."""
    since: tuple[int, int, int] | None = None
    """Year, month and day at whose midnight a span begins; None for Julian day 0, which is a Monday."""
    weekday: int = 0
    """Moves spans without `since` by this many days: 0 lets weeks begin on Monday, 6 on Sunday."""

    @property
    def seconds(self) -> float:
        """How long one is."""
        return self.count * 3600.0

    def key(self, date: cftime.datetime, step: int) -> Key:
        """Return the hour with which the span begins."""
        hours = date.toordinal() * 24 + date.hour
        return (hours - (hours - self._origin(date)) % self.count,)

    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Return the hours at which the span begins and the next one does."""
        days, hours = divmod(key[0], 24)
        start = midnight(first) + timedelta(days=days - first.toordinal(), hours=hours)
        return start, start + timedelta(hours=self.count)

    def follows(self, earlier: Key, later: Key) -> bool:
        """Whether the later begins this many hours after the earlier one."""
        return later[0] == earlier[0] + self.count

    def _origin(self, date: cftime.datetime) -> int:
        if self.since is None:
            return self.weekday * 24
        year, month, day = self.since
        return int(midnight(date).replace(year=year, month=month, day=day).toordinal()) * 24


@dataclass(frozen=True, slots=True)
class Months(Spans):
    """How many months at a time; years too. Keys are the year and month with which a span begins."""

    count: int
    """Months in each."""
    year: int = 2000
    """A year in which a span begins."""
    month: int = 1
    """The month with which it does."""

    @property
    def seconds(self) -> float:
        """About how long one is."""
        return float(self.count * MONTH_S)

    def key(self, date: cftime.datetime, step: int) -> Key:
        """Return the year and month with which the span begins."""
        index = month_index(date)
        return month_key(index - (index - _index((self.year, self.month))) % self.count)

    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Return the first of the span's first month and of the next one's."""
        return month_begin(_index(key), first), month_begin(_index(key) + self.count, first)

    def follows(self, earlier: Key, later: Key) -> bool:
        """Whether the later begins this many months after the earlier one."""
        return _index(later) == _index(earlier) + self.count


@dataclass(frozen=True, slots=True)
class Seasons(Spans):
    """Consecutive months of every year, such as DJF; steps in other months are in no span.

    Keys are the year and month with which a season begins: DJF 2000 is that of December 1999.
    """

    months: tuple[tuple[int, ...], ...]
    """The months of each season, in their order; December is followed by January."""

    @property
    def seconds(self) -> float:
        """About how long the shortest is."""
        return float(min(map(len, self.months)) * MONTH_S)

    def key(self, date: cftime.datetime, step: int) -> Key | None:
        """Return the year and month with which the season begins."""
        for months in self.months:
            if date.month in months:
                return month_key(month_index(date) - months.index(date.month))
        return None

    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Return the first of the season's first month and of the one after its last."""
        return month_begin(_index(key), first), month_begin(_index(key) + self._length(key), first)

    def follows(self, earlier: Key, later: Key) -> bool:
        """Whether the later begins in the month after the earlier one."""
        return _index(later) == _index(earlier) + self._length(earlier)

    def _length(self, key: Key) -> int:
        return next(len(months) for months in self.months if months[0] == key[1])


def midnight(date: cftime.datetime) -> cftime.datetime:
    """Return the begin of a date's day."""
    return date.replace(hour=0, minute=0, second=0, microsecond=0)


def month_index(date: cftime.datetime) -> int:
    """Return the number of a date's month; consecutive months have consecutive ones.

    Calendars without a year 0 go from the year -1 to 1, so theirs before that move up by one.
    """
    year = date.year + 1 if date.year < 0 and not date.has_year_zero else date.year
    return int(year * 12 + date.month - 1)


def month_key(index: int) -> Key:
    """Return the year and month of a month's number."""
    return index // 12, index % 12 + 1


def month_begin(index: int, like: cftime.datetime) -> cftime.datetime:
    """Return the begin of a month, in the calendar of a date."""
    year, month = month_key(index)
    if year < 1 and not like.has_year_zero:
        year -= 1
    return midnight(like.replace(year=year, month=month, day=1))


def _index(key: Key) -> int:
    return key[0] * 12 + key[1] - 1
