"""Which spans of time are alive, which end, and which steps are late or missing; without any I/O."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from bbflow.operators.windows.window import Window
from bbflow.transit.folding.slots import Keys, WindowKey, living, whole_units


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
    def whole(self) -> Span:
        """All of its unit spans as one, with the key of the last."""
        first, last = self.spans[0], self.spans[-1]
        steps, missing = sum(span.steps for span in self.spans), sum(span.missing for span in self.spans)
        return Span(last.key, first.first, last.last, steps, missing)


class Passed(NamedTuple):
    """What a timeline has counted."""

    interval: float | None = None
    """Time between two steps, in the stream's units: the smallest one seen, or the one that is configured."""
    last: float | None = None
    """Time of the last step."""
    late: int = 0
    """Steps that were left out."""
    missing: int = 0
    """Steps that were expected in gaps."""
    first: float | None = None
    """Time of the first step."""


class TimelineRecord(msgspec.Struct, frozen=True):
    """A timeline, as it stands in checkpoints and saved states."""

    spans: Mapping[str, tuple[Span, ...]] = {}
    """Window to its spans that are alive."""
    current: Keys | None = None
    """Spans that the last step is in."""
    numbers: Passed = Passed()
    """What was counted."""


class Timeline:
    """Follows the times of the steps.

    Parameters
    ----------
    published
        Windows whose spans are published.
    inner
        Windows of `each`.
    interval
        Time between two steps, in the stream's units; the smallest one seen if None.
    """

    def __init__(self, published: Sequence[Window], inner: Sequence[Window], interval: float | None = None) -> None:
        self._published, self._inner = tuple(published), tuple(inner)
        self._interval = interval
        self._spans: dict[str, dict[WindowKey, Span]] = {window.name: {} for window in self.windows}
        self._current: Keys | None = None
        self.first: float | None = None
        """Time of the first step."""
        self.last: float | None = None
        """Time of the last step."""
        self.late = 0
        """Steps that weren't later than the one before: they were left out."""
        self.missing = 0
        """Steps that were expected in gaps."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """All windows, each once."""
        return tuple({window.name: window for window in (*self._published, *self._inner)}.values())

    @property
    def begun(self) -> bool:
        """Whether any step was taken."""
        return self._current is not None

    @property
    def current(self) -> Keys:
        """Spans that the last step is in; there must be one."""
        assert self._current is not None
        return self._current

    def alive(self, window: Window) -> tuple[WindowKey, ...]:
        """Return the unit spans of a window whose statistics are needed further."""
        return tuple(sorted(self._spans[window.name]))

    def is_late(self, time: float, before: float | None = None) -> bool:
        """Whether a step isn't later than the one before it, by default the last one that was taken.

        One whose time is no number, or infinite, isn't.
        """
        last = self.last if before is None else before
        return not math.isfinite(time) or (last is not None and time <= last)

    def closing(self, keys: Keys | None) -> list[Closing]:
        """Return what ends before a step with some spans, or with the stream.

        Parameters
        ----------
        keys
            The spans of the next step; None if there is none.
        """
        if self._current is None:
            return []
        ended = {name for name, key in self._current.items() if keys is None or keys[name] != key}
        inner = frozenset(window.name for window in self._inner if window.name in ended)
        found = []
        for window in self._published:
            if window.keeps is None:  # a climatology: each of its spans goes on next year, until the stream ends
                spans = sorted(self._spans[window.name].items()) if keys is None else []
                found += [Closing(window, (span,), inner) for _, span in spans]
            elif window.name in ended:
                found += self._of(window, inner)
        return found

    def open(self) -> list[Closing]:
        """Return what is open now, as if every inner span ended."""
        inner = frozenset(window.name for window in self._inner)
        found = []
        for window in self._published if self._current is not None else ():
            if window.keeps is None:
                found += [Closing(window, (span,), inner) for _, span in sorted(self._spans[window.name].items())]
            else:
                found += self._of(window, inner)
        return found

    def _of(self, window: Window, inner: frozenset[str]) -> list[Closing]:
        assert self._current is not None
        current, spans = self._current[window.name], self._spans[window.name]
        # A running window ends with each of its units, but its first ones lack units before: they are not published.
        keys = None if current is None else whole_units(window, spans, current)
        return [] if keys is None else [Closing(window, tuple(spans[key] for key in keys), inner)]

    def take(self, times: Sequence[float], keys: Keys, late: int) -> None:
        """Take a batch in.

        Parameters
        ----------
        times
            Of its steps, ascending.
        keys
            The spans that all of them are in.
        late
            How many steps were left out.
        """
        self.late += late
        if not times:
            return
        self.first = times[0] if self.first is None else self.first
        missing = 0
        for time in times:
            missing += self._missing_before(time)
            self.last = time
        self.missing += missing
        for window in self.windows:
            self._add(window, keys[window.name], times, missing)
        self._current = dict(keys)

    def _add(self, window: Window, key: WindowKey | None, times: Sequence[float], missing: int) -> None:
        spans = self._spans[window.name]
        alive = living(window, spans, key)
        self._spans[window.name] = spans = {known: span for known, span in spans.items() if known in alive}
        if key is not None:
            old = spans.get(key, Span(key, times[0], times[0], 0))
            steps, missing = old.steps + len(times), old.missing + missing
            spans[key] = msgspec.structs.replace(old, last=times[-1], steps=steps, missing=missing)

    def _missing_before(self, time: float) -> int:
        if self.last is None:
            return 0
        passed = time - self.last
        # The first pair of steps may already have a gap between them, so the smallest interval seen is taken: steps
        # can be missing, but none can come between two that belong together.
        if self._interval is None or self._interval > passed > 0:
            self._interval = passed
        return max(round(passed / self._interval) - 1, 0)

    @property
    def record(self) -> TimelineRecord:
        """What stands of it in a checkpoint."""
        return TimelineRecord(
            {name: tuple(spans.values()) for name, spans in self._spans.items()},
            None if self._current is None else dict(self._current),
            Passed(self._interval, self.last, self.late, self.missing, self.first),
        )

    def restore(self, record: TimelineRecord) -> None:
        """Take the place of the one that gave a record; windows that aren't wanted any more are left out."""
        own = set(self._spans)
        for name in own & set(record.spans):
            self._spans[name] = {span.key: span for span in record.spans[name]}
        if record.current is not None:
            self._current = {name: record.current[name] for name in own}
        self._interval, self.last, self.late, self.missing, self.first = record.numbers

    def go_on(self, record: TimelineRecord) -> None:
        """Go on from an earlier run that gave a record; an interval that is configured stays."""
        interval = self._interval
        self.restore(record)
        self._interval = self._interval if interval is None else interval
