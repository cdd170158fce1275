"""When files were staged, what was held back for whom, and when tasks ran: the picture of a staging."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bbflow.events import read_events
from bbflow.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Axes, figure, to_png
from bbflow.report.picture import Picture

_MOST_ROWS = 24
_WAVES = (BLUE, ORANGE, GREEN, PURPLE)


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted."""

    started_s: float
    """Seconds since the epoch."""
    ended_s: float
    """Seconds since the epoch."""
    wave: int = 0
    """Of the file or task."""
    bytes: int = 0
    """What was transferred."""
    kind: str = ""
    """Of a hold: hold, pace or scale."""


@dataclass(frozen=True, slots=True)
class StagingEvents:
    """All that happened, by row."""

    phases: Mapping[str, list[Bar]] = field(default_factory=dict)
    """I/O phases of each application."""
    holds: list[Bar] = field(default_factory=list)
    """When transfers were held, paced or scaled down."""
    transfers: Mapping[int, list[Bar]] = field(default_factory=dict)
    """Transfers of each fetcher."""
    tasks: list[Bar] = field(default_factory=list)
    """From a task's probable start to its end."""

    @property
    def bars(self) -> list[Bar]:
        """Everything, in no order."""
        groups = [*self.phases.values(), self.holds, *self.transfers.values(), self.tasks]
        return [bar for group in groups for bar in group]


def read_staging(directory: Path) -> StagingEvents:
    """Read the events of a staging; lines that are none are left out."""
    return parse_staging(read_events(directory))


def parse_staging(events: Iterable[Mapping[str, Any]]) -> StagingEvents:
    """Sort events into rows."""
    phases, transfers = defaultdict(list), defaultdict(list)
    holds: list[Bar] = []
    tasks: list[Bar] = []
    for event in events:
        kind = event.get("event")
        if kind not in ("phase", "hold", "transfer", "task"):
            continue
        bar = Bar(
            float(event["started_s"]),
            float(event["ended_s"]),
            int(event.get("wave", 0)),
            int(event.get("bytes", 0)),
            str(event.get("kind", "")),
        )
        if kind == "phase":
            phases[str(event["application"])].append(bar)
        elif kind == "transfer":
            transfers[int(event["fetcher"])].append(bar)
        else:
            (holds if kind == "hold" else tasks).append(bar)
    return StagingEvents(dict(phases), holds, dict(sorted(transfers.items())), tasks)


def lanes(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Put bars into as few rows as possible without overlap, each in the first row that is free."""
    rows: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: bar.started_s):
        row = next((row for row in rows if row[-1].ended_s <= bar.started_s), None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return rows


def without(bar: Bar, gaps: Iterable[Bar]) -> list[Bar]:
    """Cut gaps out of a bar: what is left of it, in order."""
    left, at_s = [], bar.started_s
    for gap in sorted(gaps, key=lambda gap: gap.started_s):
        if gap.ended_s > at_s and gap.started_s < bar.ended_s:
            if gap.started_s > at_s:
                left.append(replace(bar, started_s=at_s, ended_s=gap.started_s))
            at_s = gap.ended_s
    return [*left, replace(bar, started_s=at_s)] if at_s < bar.ended_s else left


def draw_staging(events: StagingEvents) -> Picture | None:
    """Draw phases, holds, transfers by fetcher and tasks by slot, over seconds; colours are waves.

    Returns
    -------
    Picture or None
        None without events.
    """
    if not events.bars:
        return None
    start_s = min(bar.started_s for bar in events.bars)
    length_s = max(max(bar.ended_s for bar in events.bars) - start_s, 1e-3)
    rows = _rows(events)
    with figure(0.2 * len(rows) + 0.9) as drawing:
        axes = drawing.subplots()
        for number, (_, bars) in enumerate(rows):
            _draw_row(axes, -number, bars, start_s, length_s)
        for phase in (bar for bars in events.phases.values() for bar in bars):
            axes.axvspan(
                phase.started_s - start_s, phase.ended_s - start_s, color=GREY, alpha=0.15, linewidth=0, zorder=0
            )
        axes.set_yticks([-number for number in range(len(rows))], [name for name, _ in rows])
        axes.set_ylim(0.6 - len(rows), 0.6)
        axes.set_xlim(0, length_s * 1.005)
        axes.set_xlabel("seconds")
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        png = to_png(drawing)
    return Picture("staging", "Staging", _CAPTION, png)


def draw_bytes(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]], height_in: float, capacity_bytes: int | None = None
) -> bytes:
    """Draw bytes over seconds, as steps, the first series on top.

    Parameters
    ----------
    series
        Label to seconds and bytes, one or two.
    height_in
        Of the picture, in inches.
    capacity_bytes
        Drawn as a line, if it is known.

    Returns
    -------
    bytes
        The picture, a PNG.
    """
    with figure(height_in) as drawing:
        axes = drawing.subplots()
        for (label, (times, sizes)), colour, order in zip(series.items(), (BLUE, ORANGE), (3, 2), strict=False):
            sizes_mb = [size / 1e6 for size in sizes]
            axes.step(times, sizes_mb, where="post", color=colour, label=label, zorder=order)
        if capacity_bytes:
            axes.axhline(capacity_bytes / 1e6, color=INK, linewidth=0.8, linestyle="--", label="capacity")
        axes.set_xlabel("seconds")
        axes.set_ylabel("MB")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color=GREY, alpha=0.3, linewidth=0.4)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend()
        return to_png(drawing)


def _rows(events: StagingEvents) -> list[tuple[str, list[Bar]]]:
    rows = [(f"phase {name}", bars) for name, bars in sorted(events.phases.items())]
    rows += [("held back", events.holds)] if events.holds else []
    busiest = sorted(events.transfers, key=lambda number: -len(events.transfers[number]))[:_MOST_ROWS]
    holds = [bar for bar in events.holds if bar.kind == "hold"]
    # What is held copies nothing meanwhile; what is paced or scaled goes on.
    for number in sorted(busiest):
        rows.append((f"fetcher {number}", [part for bar in events.transfers[number] for part in without(bar, holds)]))
    return rows + [(f"slot {number}", bars) for number, bars in enumerate(lanes(events.tasks)[:_MOST_ROWS])]


def _draw_row(axes: Axes, level: float, bars: Iterable[Bar], start_s: float, length_s: float) -> None:
    for bar in bars:
        span = (bar.started_s - start_s, max(bar.ended_s - bar.started_s, length_s / 900))
        axes.broken_barh([span], (level - 0.36, 0.72), facecolor=_colour(bar), linewidth=0.2, edgecolor="white")


def _colour(bar: Bar) -> str:
    if bar.kind:
        return INK if bar.kind == "hold" else GREY
    return _WAVES[bar.wave % len(_WAVES)]


_CAPTION = (
    "I/O phases of other applications (shaded through all rows), when transfers were held (dark) or slowed down "
    "(grey) for them, what each fetcher copied, and when tasks ran, by slot. Colours tell the waves apart: the "
    "files of a wave have the colour of its tasks."
)
