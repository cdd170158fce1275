"""A window: which steps' statistics go together."""

from dataclasses import dataclass
from datetime import timedelta

import cftime  # type: ignore[import-untyped]

from bbflow.operators.windows.spans import Bounds, Key, Run, Spans, StepsSpan

INSTANT = timedelta(microseconds=1)
"""The resolution of dates."""
NESTED_METHODS = ("mean", "minimum", "maximum", "sum")
"""Methods of CF for which 'within years, over years' says all."""


@dataclass(frozen=True, slots=True)
class Window:
    """Groups the steps whose statistics go together.

    Three sorts: a partition of time (a month); a running window, which ends with each unit span (a day) and takes
    in the n last ones; a climatology, whose keys come again every year or day.

    A step on the boundary of two spans is in the later one, as in CDO and xarray, unless the window is closed on
    the right: that is for means and instants which are stamped with the end of what they stand for.
    """

    name: str
    """Its label in results, a word."""
    spans: Spans
    """How time is cut."""
    keeps: int | None = 1
    """How many unit spans' states live at once: 1 for a partition, n for a running window of n units, None for a
    climatology, whose keys are all published at the end of the run."""
    recurs: tuple[str, ...] = ()
    """Of a climatology, those parts of the date with which a span begins that are its key, such as month and day;
    'season' is the month, with 0 for December, so that DJF comes first."""
    start: timedelta = timedelta(0)
    """How long after midnight days, and with them months and years, begin."""
    closed: str = "left"
    """On which side spans hold their boundary: left or right."""
    late: timedelta = timedelta(0)
    """How long after what they stand for steps come, such as two days where five end that are dated by their middle."""

    def key(self, date: cftime.datetime, step: int = 0) -> Key | None:
        """Return the unit span that a step is in; None if it's in none, such as one in January for the season JJA.

        Parameters
        ----------
        date, step
            The step's date and number.

        Returns
        -------
        tuple of int or None
            Such as (2000, 1) for a month. Keys of later spans are greater, but those of a climatology recur.
        """
        shifted = self._shifted(date)
        key = self.spans.key(shifted, step)
        if key is None or not self.recurs:
            return key
        begin, _ = self.spans.bounds(key, shifted, shifted)
        return tuple(begin.month % 12 if part == "season" else getattr(begin, part) for part in self.recurs)

    def bounds(self, key: Key, first: cftime.datetime, last: cftime.datetime) -> Bounds:
        """Return a span's begin and end, in the calendar of its dates.

        Parameters
        ----------
        key
            The span; of a running window any of its units.
        first, last
            Dates of the first and the last step in it, of a running window in its n units.

        Returns
        -------
        tuple of cftime.datetime
            Of a partition's span its own bounds, of a running window those of its units from the first to the last
            one, of a climatology the begin of the first and the end of the last span (CF conventions, section
            7.4). Of steps and of the whole run `first` and `last`.
        """
        keys = (key, key) if self.keeps == 1 else tuple(self._unit(date) for date in (first, last))
        (begin, _), (_, end) = (self.spans.bounds(unit, first, last) for unit in keys)
        return begin + self.start, end + self.start

    def follows(self, earlier: Key, later: Key) -> bool:
        """Whether the later of two unit spans begins where the earlier one ends."""
        return not self.recurs and self.spans.follows(earlier, later)

    def cell_methods(self, method: str) -> str:
        """Return what CF's cell_methods says of time, such as 'time: mean within years time: mean over years'."""
        if not self.recurs:
            return f"time: {method}"
        period = "days" if self.recurs == ("hour",) else "years"
        name, _, comment = method.partition(" ")
        told = comment or ("" if name in NESTED_METHODS else "(of all values at once)")
        return f"time: {name} within {period} time: {name} over {period} {told}".rstrip()

    @property
    def has_boundary(self) -> bool:
        """Whether a step may lie on the boundary of two spans: the calendar cuts time, and not the steps' number."""
        return not isinstance(self.spans, StepsSpan | Run)

    @property
    def level(self) -> float:
        """The finer, the greater."""
        return -self.spans.seconds

    def _unit(self, date: cftime.datetime) -> Key:
        key = self.spans.key(self._shifted(date), 0)
        assert key is not None, f"{date} is in no span of {self.name}"
        return key

    def _shifted(self, date: cftime.datetime) -> cftime.datetime:
        shift = self.start + self.late + (INSTANT if self.closed == "right" else timedelta(0))
        return date - shift if shift else date
