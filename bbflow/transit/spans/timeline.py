"""Which spans of time are alive, which end, and which steps are late or missing; without any I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.tolerance import COARSE, ROUNDED, error_s, restart_margin
from bbflow.operators.windows.window import Window
from bbflow.transit.spans.slots import Keys, WindowKey, living, whole_units


class Span(msgspec.Struct, frozen=True, array_like=True):
    """The part of a window's unit span that was folded."""

    key: WindowKey
    """Which span, such as (2000, 1)."""
    first: float
    """Time of its first step, in the stream's units."""
    last: float
    """Time of its last step."""
    steps: int
    """How many steps are in it."""
    missing: int = 0
    """How many steps, by the interval between the others, were expected in gaps before its steps."""


SpanKey = tuple[str, tuple[WindowKey, ...]]
"""A window's name, and the units of its span."""


@dataclass(frozen=True, slots=True)
class Closing:
    """A window's span that ends, or is looked at."""

    window: Window
    """Which window."""
    spans: tuple[Span, ...]
    """Its unit spans, oldest first: several of a running window."""
    inner: frozenset[str]
    """Inner windows that end with it: what `each` makes of their last spans belongs to it."""

    @property
    def keys(self) -> tuple[WindowKey, ...]:
        """Its unit spans."""
        return tuple(span.key for span in self.spans)

    @property
    def key(self) -> SpanKey:
        """The window, and which of its spans."""
        return self.window.name, self.keys

    def ends_inner(self, diagnostic: Diagnostic) -> bool:
        """Whether what a diagnostic's `each` makes of the steps so far belongs to it."""
        return diagnostic.each is not None and diagnostic.each.window.name in self.inner

    @property
    def whole(self) -> Span:
        """All of its unit spans as one, with the key of the last."""
        first, last = self.spans[0], self.spans[-1]
        steps, missing = sum(span.steps for span in self.spans), sum(span.missing for span in self.spans)
        return Span(last.key, first.first, last.last, steps, missing)


FEW = 3
"""Among this many first steps, a gap may be taken for the interval."""
UNEVEN = 0.12
"""Steps whose lengths differ by more than this part may be of any length."""


class Passed(NamedTuple):
    """What has passed by some step: by this it is judged whether a further one is later, and what is missing before it.

    Times, intervals and errors are in the stream's units.
    """

    interval: float | None = None
    """Time between two steps: the one that is configured, else the smallest one seen."""
    last: float | None = None
    """Time of the last step."""
    late: int = 0
    """Steps that were left out."""
    missing: int = 0
    """Steps that were expected in gaps."""
    first: float | None = None
    """Time of the first step."""
    longest: float = 0.0
    """Longest time between two steps without a gap."""
    shortest: float = math.inf
    """Shortest time between two steps."""
    steps: int = 0
    """How many were taken."""
    is_uneven: bool = False
    """Whether the steps are of so many lengths that a gap can't be told from a longer one."""
    error: float = 0.0
    """By how much the times may be off."""
    length: float | None = None
    """Time between the last two steps."""
    is_restarted: bool = False
    """Whether times went back since the last step, as after a restart: what comes may be that step again."""

    def is_late(self, time: float, spacing: float) -> bool:
        """Whether a step isn't later than the last one; one whose time isn't a number, or infinite, is late."""
        if self.last is None or not math.isfinite(time):
            return not math.isfinite(time)
        interval = self.longest if self.is_uneven else self.interval
        margin = restart_margin(time, interval, spacing) if self.is_restarted else ROUNDED * spacing
        return time - self.last <= margin

    def without(self, time: float, spacing: float) -> "Passed":
        """Return the same after a step that was left out."""
        went_back = self.last is not None and time < self.last - ROUNDED * spacing
        return self._replace(late=self.late + 1, is_restarted=self.is_restarted or went_back)

    def after(self, time: float, error: float = 0.0, configured: float | None = None) -> "Passed":
        """Return the same after a step that was taken.

        Parameters
        ----------
        time
            The step's.
        error
            By how much it may be off.
        configured
            The interval that the configuration says.
        """
        if self.last is None:
            return self._replace(last=time, first=time, steps=1, error=error, interval=configured, is_restarted=False)
        passed = time - self.last
        own = self._replace(last=time, steps=self.steps + 1, error=max(error, self.error), is_restarted=False)
        interval, is_uneven = own._interval_with(passed, configured)
        missing = 0 if is_uneven else max(round(passed / interval) - 1, 0)
        return own._replace(
            interval=interval,
            is_uneven=is_uneven,
            missing=self.missing + missing,
            length=passed,
            shortest=min(passed, self.shortest),
            longest=self.longest if missing else max(passed, self.longest),
        )

    def _interval_with(self, passed: float, configured: float | None) -> tuple[float, bool]:
        """Return the interval with one more, and whether it is too uneven to tell gaps.

        The first pair of steps may already have a gap between them, so the smallest interval is taken: steps can be
        missing, but none can come between two that belong together. Months differ by a tenth.
        """
        if configured is not None:
            return configured, False
        if self.interval is None or self.is_uneven:
            return min(passed, self.interval or passed), self.is_uneven
        times = passed / self.interval
        if times < 1:
            whole = self.interval / passed
            had_gap = self.steps <= FEW and abs(whole - round(whole)) <= UNEVEN * whole
            return passed, times < 1 - 2 * UNEVEN and not had_gap
        return self.interval, abs(times - round(times)) > UNEVEN * round(times)

    def error_s(self, time: float, spacing: float, unit_s: float) -> float:
        """Return by how many seconds a step's time may be off.

        Parameters
        ----------
        time
            The step's.
        spacing
            Between it and its neighbour in the type that it was written in.
        unit_s
            Seconds of a unit.
        """
        first = None if self.last is None or time <= self.last else time - self.last
        interval = None if self.is_uneven else self.interval or first
        return error_s(None if interval is None else interval * unit_s, self.steps, spacing * unit_s)

    def is_too_coarse(self, time: float, spacing: float) -> bool:
        """Whether a step's time is of a type that can't tell the steps' times apart."""
        if spacing <= math.ulp(time) or self.last is None or self.is_restarted or time <= self.last:
            return False
        shortest = min(time - self.last, self.shortest)
        return spacing > shortest * COARSE

    @property
    def tolerance(self) -> float:
        """By how much two lengths of steps may differ, as their times may be off."""
        return 2 * max(self.error, ROUNDED * math.ulp(self.last or 0))

    @property
    def differ(self) -> bool:
        """Whether the steps' lengths differ by more than their times may be off."""
        return self.steps > 2 and self.longest - self.shortest > self.tolerance


def too_late(number: int, time: float, *, is_date: bool) -> str:
    """Return the message about a step whose time isn't after the one before, or isn't a date."""
    why = "isn't later than the step before" if is_date else "isn't a date"
    return (
        f"step {number} has the time {time:g}, which {why}: let the simulation write ascending times, or set time: "
        "late: skip to leave such steps out"
    )


def too_coarse(number: int, time: float, spacing: float, passed: Passed, clock: Clock) -> str:
    """Return the message about a step whose time is of a type that can't tell steps apart."""
    shortest = min(time - (passed.last or 0.0), passed.shortest)
    return (
        f"step {number} has the time {time:g} {clock.units} in a type whose numbers are {spacing:.3g} apart there, too "
        f"far to tell steps that are {shortest:.3g} apart: let the program write its time in double precision"
    )


class Windows(NamedTuple):
    """The windows that steps are in."""

    published: tuple[Window, ...]
    """Those whose spans are published, each once."""
    inner: tuple[Window, ...]
    """Those of `each`."""

    @classmethod
    def of(cls, diagnostics: Iterable[Diagnostic]) -> "Windows":
        """Return those of some diagnostics."""
        known = [*diagnostics]
        published = {window.name: window for item in known for window in item.windows}
        return cls(tuple(published.values()), tuple(window for item in known for window in item.inner_windows))

    @property
    def all(self) -> tuple[Window, ...]:
        """Each once, by its name."""
        return tuple({window.name: window for window in (*self.published, *self.inner)}.values())


class Timeline(msgspec.Struct, frozen=True):
    """Which spans are alive, as it stands in checkpoints and saved states, too."""

    spans: Mapping[str, tuple[Span, ...]] = {}
    """Window to its spans that are alive."""
    current: Keys | None = None
    """Spans that the last step is in; None before the first step."""
    numbers: Passed = Passed()
    """What has passed by the last step."""

    def of(self, windows: Windows) -> "Timeline":
        """Return the same with those windows: others aren't wanted any more."""
        names = [window.name for window in windows.all]
        current = None if self.current is None else {name: self.current[name] for name in names}
        return Timeline({name: self.spans.get(name, ()) for name in names}, current, self.numbers)

    def going_on(self, configured: float | None) -> "Timeline":
        """Return the same for a run that continues from it; an interval that is configured stays."""
        interval = self.numbers.interval if configured is None else configured
        return msgspec.structs.replace(self, numbers=self.numbers._replace(interval=interval, is_restarted=True))

    def alive(self, window: Window) -> tuple[WindowKey, ...]:
        """Return the unit spans of a window whose statistics are needed further."""
        return tuple(sorted(span.key for span in self.spans[window.name]))

    def steps_in(self, keys: Keys) -> int:
        """Return how many steps were taken since any of some spans began."""
        spans = {(name, span.key): span.steps for name, own in self.spans.items() for span in own}
        return min((spans.get((name, key), 0) for name, key in keys.items() if key is not None), default=0)

    def closing(self, windows: Windows, keys: Keys | None) -> list[Closing]:
        """Return what ends before a step with some spans, or with the stream.

        Parameters
        ----------
        windows
            Which there are.
        keys
            The spans of the next step; None if there is none.
        """
        if self.current is None:
            return []
        ended = {name for name, key in self.current.items() if keys is None or keys[name] != key}
        # A climatology's spans continue next year, until the stream ends.
        return self._closings(windows, ended, recurring=keys is None)

    def open(self, windows: Windows) -> list[Closing]:
        """Return what is open now, as if every inner span ended."""
        return [] if self.current is None else self._closings(windows, set(self.current), recurring=True)

    def _closings(self, windows: Windows, ended: Set[str], *, recurring: bool) -> list[Closing]:
        assert self.current is not None
        inner = frozenset(window.name for window in windows.inner if window.name in ended)
        found = []
        for window in windows.published:
            spans = {span.key: span for span in self.spans[window.name]}
            current = self.current[window.name]
            if window.keeps is None:
                found += [Closing(window, (spans[key],), inner) for key in sorted(spans)] if recurring else []
            elif window.name in ended and current is not None:
                # A running window ends with each of its units, but its first ones lack units before: they aren't shown.
                keys = whole_units(window, spans, current)
                found += [] if keys is None else [Closing(window, tuple(spans[key] for key in keys), inner)]
        return found

    def after(self, windows: Windows, times: Sequence[float], keys: Keys, passed: Passed) -> "Timeline":
        """Return the timeline after some more steps.

        Parameters
        ----------
        windows
            Which there are.
        times
            Of the steps, ascending.
        keys
            The spans that all of them are in.
        passed
            What has passed by the last of them.
        """
        if not times:
            return msgspec.structs.replace(self, numbers=passed)
        missing = passed.missing - self.numbers.missing
        spans = {window.name: self._spans(window, keys[window.name], times, missing) for window in windows.all}
        return Timeline(spans, dict(keys), passed)

    def _spans(self, window: Window, key: WindowKey | None, times: Sequence[float], missing: int) -> tuple[Span, ...]:
        known = {span.key: span for span in self.spans[window.name]}
        alive = living(window, known, key)
        spans = {own: span for own, span in known.items() if own in alive}
        if key is not None:
            old = spans.get(key, Span(key, times[0], times[0], 0))
            steps, missing = old.steps + len(times), old.missing + missing
            spans[key] = msgspec.structs.replace(old, last=times[-1], steps=steps, missing=missing)
        return tuple(spans.values())
