"""The dates of steps, found for many at once."""

import math
from collections.abc import Iterable

import cftime  # type: ignore[import-untyped]

from bbflow.operators.windows.calendars import Clock


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
        if not math.isfinite(time) or time in clock.missing:
            return None
        if time not in self._known:
            times = [value for value in (time, *ahead) if value is not None and math.isfinite(value)]
            try:
                self._known = dict(zip(times, clock.dates(times), strict=True))
            except (OverflowError, ValueError):  # one of them has no date: it is found one by one which
                self._known = {value: clock.find_date(value) for value in times}
        return self._known[time]
