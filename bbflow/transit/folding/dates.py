"""The dates of steps, found for many at once."""

import math
from collections.abc import Iterable

import cftime  # type: ignore[import-untyped]

from bbflow.operators.windows.calendars import Clock


class StepDates:
    """Keeps the dates of steps that come next: one alone takes longer than all else that is planned of a step."""

    def __init__(self) -> None:
        self._known: dict[float, cftime.datetime] = {}

    def of(self, time: float, clock: Clock, ahead: Iterable[float | None]) -> cftime.datetime:
        """Give the date of a step.

        Parameters
        ----------
        time
            The step's, in the stream's units.
        clock
            The stream's, always the same.
        ahead
            The times of steps that may be asked for next, None for those without one; looked at now and then only.
        """
        if time not in self._known:
            times = [value for value in (time, *ahead) if value is not None and math.isfinite(value)]
            try:
                self._known = dict(zip(times, clock.dates(times), strict=True))
            except (OverflowError, ValueError):  # which of them it is will be seen when its turn comes
                self._known = {}
        known = self._known.get(time)
        return clock.date(time) if known is None else known
