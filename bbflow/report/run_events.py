"""What happened during a run, read back from ``events.jsonl``."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class EventSpan:
    """One piece of work on steps, or on a window of the results."""

    row: str
    """Who did it: the node's name, or the window's."""
    started_s: float
    """Seconds since the epoch."""
    ended_s: float
    """Seconds since the epoch."""
    bytes: int
    """What was landed, folded, drained or published."""
    first_step: int = 0
    """First of the steps it covers; without meaning for a publish."""
    last_step: int = -1
    """Last of them, included."""
    every: int = 1
    """Only every this many of them were done."""
    stored_bytes: int | None = None
    """Of a drain, what was written: less than its bytes if fields repeat, or are compressed; None if as many."""
    repeated_bytes: int = 0
    """Of a drain, what was the same as in the step before, and was not written again."""


@dataclass(frozen=True, slots=True)
class SpanEnd:
    """How the run ended."""

    status: str
    """complete or incomplete."""
    waited_s: float
    """Seconds the simulation waited for room in the burst buffer."""
    discarded: int
    """Steps that were dropped whole for lack of room."""
    steps: int
    """Steps of the stream."""
    ended_s: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Events:
    """All events of a run, each kind in the order of the file."""

    landed: tuple[EventSpan, ...] = ()
    """One step each, from BeginStep to its commit."""
    folds: tuple[EventSpan, ...] = ()
    """One batch of steps on one node each."""
    drains: tuple[EventSpan, ...] = ()
    """One batch of steps on one node each."""
    publishes: tuple[EventSpan, ...] = ()
    """One window of the results each."""
    end: SpanEnd | None = None
    """None while the run continues, or if it was cut off."""
    unreadable: int = 0
    """Lines that are no event, a torn last line included."""

    @property
    def spans(self) -> tuple[EventSpan, ...]:
        """All work of all kinds."""
        return self.landed + self.folds + self.drains + self.publishes

    @property
    def wall_s(self) -> float:
        """Seconds from the first event to the last; 0 without events."""
        ends = [span.ended_s for span in self.spans]
        if not ends:
            return 0.0
        last = max(ends) if self.end is None else max(*ends, self.end.ended_s)
        return last - min(span.started_s for span in self.spans)


def read_events(path: Path) -> Events | None:
    """Read a run's events.

    Returns
    -------
    Events or None
        None if there is no such file.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return None
    return parse_events(text.splitlines())


def parse_events(lines: Iterable[str]) -> Events:
    """Make events of the lines of a file; a line that isn't an event is counted, never an error."""
    kinds: dict[str, list[EventSpan]] = {"landed": [], "fold": [], "drain": [], "publish": []}
    end: SpanEnd | None = None
    unreadable = 0
    for line in filter(str.strip, lines):
        try:
            content = json.loads(line)
            kind = str(content["event"])
            if kind == "end":
                end = _end(content)
            elif kind in kinds:
                kinds[kind].append(_span(kind, content))
        except (ValueError, KeyError, TypeError, OverflowError):
            unreadable += 1
    return Events(
        landed=tuple(kinds["landed"]),
        folds=tuple(kinds["fold"]),
        drains=tuple(kinds["drain"]),
        publishes=tuple(kinds["publish"]),
        end=end,
        unreadable=unreadable,
    )


def _span(kind: str, content: Mapping[str, Any]) -> EventSpan:
    size = int(content["bytes"])
    if kind == "landed":
        step = int(content["step"])
        return EventSpan("simulation", float(content["began_s"]), float(content["committed_s"]), size, step, step)
    times = float(content["started_s"]), float(content["ended_s"])
    if kind == "publish":
        return EventSpan(str(content["window"]), *times, size)
    return EventSpan(
        str(content["node"]),
        *times,
        size,
        int(content["first_step"]),
        int(content["last_step"]),
        int(content.get("every", 1)),
        int(content.get("stored_bytes", size)),
        int(content.get("repeated_bytes", 0)),
    )


def _end(content: Mapping[str, Any]) -> SpanEnd:
    return SpanEnd(
        status=str(content["status"]),
        waited_s=float(content["waited_s"]),
        discarded=int(content["discarded"]),
        steps=int(content["steps"]),
        ended_s=float(content["ended_s"]),
    )
