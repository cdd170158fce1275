"""Live progress on a terminal, and plain lines where there is none."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bbflow.errors import printable
from bbflow.landing.replies import StatusReply, StreamStatus
from bbflow.units import format_bytes

FOLD, DRAIN = "fold", "drain"
"""Names of the consumers whose cursors are shown."""

_LINE_EVERY_S = 5.0
_SMOOTHING_S = 3.0


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far one stream is, over all nodes it lands on."""

    name: str
    """As the writers opened it."""
    status: str
    """expected, open, closed or aborted; that of the node which is furthest behind."""
    written: int
    """Steps that the simulation has begun."""
    landed: int
    """Steps that every node has."""
    folded: int | None
    """Landed steps that are safe in the fold's state on every node; None without a fold."""
    drained: int | None
    """Landed steps whose raw data are safe on every node's way out; None without a drain."""
    held: int
    """Most steps that one node keeps."""
    discarded: int
    """Steps that were dropped whole for lack of room."""
    landed_bytes: int
    """On all nodes together."""
    landing_bytes_per_s: float | None
    """Smoothed over a few seconds; None until there are two looks at it."""
    waited_s: float
    """Seconds the simulation waited for room: those of the slowest node."""
    late: int = 0
    """Steps that the analysis left out for their times; they are among those that are folded."""


@dataclass(frozen=True, slots=True)
class ProgressSummary:
    """How far everything is."""

    capacity_bytes: int
    """Of all nodes together."""
    free_bytes: int
    """Of all nodes together."""
    streams: tuple[StreamProgress, ...]
    """In the order of their names."""

    def stream(self, name: str) -> StreamProgress | None:
        """Return a stream's progress, if there is such a stream."""
        return next((stream for stream in self.streams if stream.name == name), None)


def summarise(statuses: Sequence[StatusReply], previous: ProgressSummary | None, elapsed: float) -> ProgressSummary:
    """Put the nodes' replies together.

    Parameters
    ----------
    statuses
        What each node answered to `status`.
    previous
        What the last call returned; rates are taken against it.
    elapsed
        Seconds since then.
    """
    names = sorted({name for status in statuses for name in status.streams})
    return ProgressSummary(
        capacity_bytes=sum(status.capacity for status in statuses),
        free_bytes=sum(status.free for status in statuses),
        streams=tuple(
            _combine(
                name,
                [status.streams[name] for status in statuses if name in status.streams],
                previous.stream(name) if previous else None,
                elapsed,
            )
            for name in names
        ),
    )


def _combine(
    name: str, parts: Sequence[StreamStatus], previous: StreamProgress | None, elapsed: float
) -> StreamProgress:
    """Combine what the nodes say of one stream; nodes that no writer lands on don't hold it back."""
    counting = [part for part in parts if part.local_writers > 0] or list(parts)
    landed_bytes = sum(part.landed_bytes for part in parts)
    order = ("aborted", "expected", "open", "closed")
    return StreamProgress(
        name=name,
        status=min((part.status for part in counting), key=order.index),
        written=max(part.written for part in counting),
        landed=min(part.landed for part in counting),
        folded=_passed(counting, FOLD),
        drained=_passed(counting, DRAIN),
        held=max(part.held for part in counting),
        discarded=max(part.discarded for part in counting),
        landed_bytes=landed_bytes,
        landing_bytes_per_s=_rate(landed_bytes, previous, elapsed),
        waited_s=max(part.waited_s for part in counting),
        late=max(part.late for part in counting),
    )


def _passed(parts: Sequence[StreamStatus], consumer: str) -> int | None:
    """Landed steps that a consumer is past on every node.

    A cursor counts discarded steps too, and a node doesn't say which these were: until the cursor is at
    the end, this is the least it can be.
    """
    if not any(consumer in part.consumers for part in parts):
        return None
    passed = (part.consumers.get(consumer, -1) + 1 - part.discarded for part in parts)
    return min(max(0, min(part.landed, steps)) for part, steps in zip(parts, passed, strict=True))


def _rate(landed_bytes: int, previous: StreamProgress | None, elapsed: float) -> float | None:
    if previous is None or landed_bytes < previous.landed_bytes:
        return None
    if elapsed <= 0:
        return previous.landing_bytes_per_s
    now = (landed_bytes - previous.landed_bytes) / elapsed
    if previous.landing_bytes_per_s is None:
        return now
    # Looks come at uneven times: the longer ago the last one was, the more the new rate counts.
    weight = 1 - math.exp(-elapsed / _SMOOTHING_S)
    return previous.landing_bytes_per_s + weight * (now - previous.landing_bytes_per_s)


class ProgressLine:
    """Shows how a run goes, for as long as its `with` lasts.

    Parameters
    ----------
    console
        Where to; standard error by default. If that isn't a terminal, a plain line appears every few
        seconds, when something has changed.
    clock
        Gives seconds that never run backwards.

    Examples
    --------
    >>> with ProgressLine() as progress:  # doctest: +SKIP
    ...     progress.update([client.status() for client in clients])
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._live: Live | None = None
        self._summary: ProgressSummary | None = None
        self._stream: str | None = None
        self._updated_s = 0.0
        self._printed_s = -math.inf
        self._printed = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._summary is not None:
            self._print_line(self._summary)

    def update(self, statuses: Sequence[StatusReply], stream: str | None = None) -> ProgressSummary:
        """Show the nodes' newest replies.

        Parameters
        ----------
        statuses
            What each node answered to `status`.
        stream
            The only one to show; all by default.
        """
        now_s = self._clock()
        self._summary = summarise(statuses, self._summary, now_s - self._updated_s)
        self._updated_s, self._stream = now_s, stream
        if self._live is not None:
            self._live.update(draw(self._summary, stream), refresh=True)
        elif now_s - self._printed_s >= _LINE_EVERY_S:
            self._printed_s = now_s
            self._print_line(self._summary)
        return self._summary

    def settle(self, stream: str, steps: int) -> None:
        """Show a stream that is done with: the nodes have forgotten it, maybe before they told of its last steps.

        Parameters
        ----------
        stream
            Its name.
        steps
            How many it had, those that were discarded included.
        """
        known = self._summary.stream(stream) if self._summary is not None else None
        if self._summary is None or known is None:
            return
        landed = steps - known.discarded
        drained = None if known.drained is None else landed
        done = replace(known, status="closed", written=steps, landed=landed, folded=landed, drained=drained)
        others = tuple(done if item.name == stream else item for item in self._summary.streams)
        self._summary = replace(self._summary, streams=others)
        if self._live is not None:
            self._live.update(draw(self._summary, stream), refresh=True)

    def _print_line(self, summary: ProgressSummary) -> None:
        line = plain_line(summary, self._stream)
        if line and line != self._printed:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
            self._printed = line


def _shown(summary: ProgressSummary, stream: str | None) -> list[StreamProgress]:
    return [item for item in summary.streams if stream is None or item.name == stream]


def draw(summary: ProgressSummary, stream: str | None = None) -> Group:
    """Draw progress for a terminal: a row for each stream, and below how full the nodes are.

    Parameters
    ----------
    summary
        Of all nodes.
    stream
        The only one to show; all by default.
    """
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stream")
    for name in ("written", "landed", "folded", "drained", "held", "discarded", "landing", "waited"):
        table.add_column(name, justify="right", no_wrap=True)
    for item in _shown(summary, stream):
        counts = (item.written, item.landed, item.folded, item.drained, item.held, item.discarded)
        table.add_row(
            Text.assemble(_named(item.name, item.status), _late(item)),
            *map(_count, counts),
            _per_s(item),
            f"{item.waited_s:.1f} s",
        )
    full = Table.grid(padding=(0, 1))
    used = summary.capacity_bytes - summary.free_bytes
    full.add_row(
        Text("burst buffer", style="dim"),
        ProgressBar(total=max(summary.capacity_bytes, 1), completed=used, width=24),
        f"{format_bytes(summary.free_bytes)} of {format_bytes(summary.capacity_bytes)} free",
    )
    return Group(table, full)


def plain_line(summary: ProgressSummary, stream: str | None = None) -> str:
    """Write progress in one line for each stream, for logs; empty if there is no stream yet."""
    lines = []
    for item in _shown(summary, stream):
        parts = [f"{printable(item.name)} ({item.status}): {item.written} steps written", f"{item.landed} landed"]
        parts += [f"{item.folded} folded"] if item.folded is not None else []
        parts += [f"{item.late} left out as late"] if item.late else []
        parts += [f"{item.drained} drained"] if item.drained is not None else []
        parts += [f"{item.discarded} discarded"] if item.discarded else []
        parts += [f"{_per_s(item)}"] if item.landing_bytes_per_s is not None else []
        parts.append(f"{format_bytes(summary.free_bytes)} of {format_bytes(summary.capacity_bytes)} free")
        parts.append(f"waited {item.waited_s:.1f} s")
        lines.append(", ".join(parts))
    return "\n".join(lines)


def status_table(statuses: Sequence[StatusReply]) -> Table:
    """Tabulate the nodes, each with its streams below, for ``bbflow status``.

    Parameters
    ----------
    statuses
        What each node answered to `status`.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("node, stream", overflow="fold", min_width=20)
    names = ("landed", "bytes", "folded", "drained", "held", "lost", "waited")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for status in statuses:
        room = f"{format_bytes(status.free)} of {format_bytes(status.capacity)} free"
        table.add_row(Text.assemble((printable(f"{status.name} on {status.host}"), "bold"), f"\n{room}"))
        for item in summarise([status], None, 0.0).streams:
            table.add_row(
                Text.assemble(
                    "  ", _named(item.name, item.status), _late(item), "\n", (_ranks_of(status, item.name), "dim")
                ),
                _count(item.landed),
                format_bytes(item.landed_bytes),
                *map(_count, (item.folded, item.drained, item.held, item.discarded)),
                f"{item.waited_s:.1f} s",
            )
    return table


def _ranks_of(status: StatusReply, stream: str) -> str:
    """Return which ranks land on the node and how, in runs such as ``0-7 shm``."""
    runs: list[tuple[int, int, str]] = []
    for rank, transport in status.streams[stream].ranks:
        if runs and (runs[-1][1], runs[-1][2]) == (rank - 1, transport):
            runs[-1] = (runs[-1][0], rank, transport)
        else:
            runs.append((rank, rank, transport))
    words = [f"{first}-{last} {how}" if last > first else f"{first} {how}" for first, last, how in runs]
    moved = [f"{rank} from {printable(node)}" for rank, node in status.streams[stream].moved]
    return f"    ranks {', '.join(words)}" + (f"; moved: {', '.join(moved)}" if moved else "") if words else ""


def _named(name: str, status: str) -> Text:
    style = {"open": "green", "aborted": "red"}.get(status, "dim")
    return Text.assemble(printable(name), " ", (status, style))


def _late(item: StreamProgress) -> Text:
    """Return how many steps the analysis has left out for their times, if there are some."""
    return Text(f", {item.late:,} left out as late" if item.late else "", style="red")


def _count(steps: int | None) -> str:
    return "-" if steps is None else f"{steps:,}"


def _per_s(item: StreamProgress) -> str:
    rate = item.landing_bytes_per_s
    return "-" if rate is None else f"{format_bytes(rate)}/s"
