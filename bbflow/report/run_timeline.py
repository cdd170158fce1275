"""When the simulation wrote, and when its steps were folded, drained and published."""

from collections.abc import Mapping, Sequence

import numpy as np

from bbflow.report.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, Array, Axes, figure, to_png
from bbflow.report.picture import Picture
from bbflow.report.run_events import Events, EventSpan

_MOST_BARS = 250  # more can't be told apart
_BINS = 200


def draw_timeline(events: Events) -> Picture | None:
    """Draw the run as rows of bars over seconds since its start, and below how many steps waited.

    Rows with very many bars show the share of time that was busy instead, so that drawing takes the
    same time whatever the number of steps.

    Returns
    -------
    Picture or None
        None without events.
    """
    rows = timeline_rows(events)
    if not rows:
        return None
    start_s = min(span.started_s for span in events.spans)
    length_s = max(events.wall_s, 1e-3)
    with figure(0.3 * len(rows) + 2.3) as drawing:
        bars, waiting = drawing.subplots(2, 1, sharex=True, height_ratios=[0.3 * len(rows) + 0.1, 1.5])
        for number, (name, spans) in enumerate(rows.items()):
            _draw_row(bars, -number, spans, start_s, length_s, _COLOURS[name.split()[0]])
        bars.set_yticks([-number for number in range(len(rows))], list(rows))
        bars.set_ylim(0.55 - len(rows), 0.55)
        bars.tick_params(axis="y", length=0)
        bars.spines[["top", "right", "left"]].set_visible(False)
        _draw_backlog(waiting, events, start_s, length_s)
        png = to_png(drawing)
    return Picture("timeline", "Timeline", _caption(rows), png)


def timeline_rows(events: Events) -> dict[str, list[EventSpan]]:
    """Sort the work into rows: the simulation, the folds and drains of each node, the publishes."""
    rows: dict[str, list[EventSpan]] = {}
    kinds = (("fold", events.folds), ("drain", events.drains))
    if events.landed:
        rows["simulation"] = list(events.landed)
    for kind, spans in kinds:
        for node in sorted({span.row for span in spans}):
            rows[f"{kind} {node}"] = [span for span in spans if span.row == node]
    if events.publishes:
        rows["publish"] = list(events.publishes)
    return rows


def busy_share(spans: Sequence[EventSpan], start_s: float, length_s: float, bins: int) -> Array:
    """Return the share of each of some equal parts of a time that spans cover.

    Parameters
    ----------
    spans
        Work; where spans overlap, time counts once.
    start_s, length_s
        The time, in seconds.
    bins
        Number of parts.

    Returns
    -------
    ndarray
        Shape (bins,), from 0 to 1.
    """
    edges = start_s + np.linspace(0.0, length_s, bins + 1)
    starts = np.sort(np.array([span.started_s for span in spans]))
    order = np.argsort([span.started_s for span in spans], kind="stable")
    ends = np.maximum.accumulate(np.array([span.ended_s for span in spans])[order])
    starts = np.maximum(starts, np.concatenate([[starts[0]], ends[:-1]]))  # cut off what overlaps
    durations = np.maximum(ends - starts, 0.0)
    before = np.concatenate([[0.0], np.cumsum(durations)])
    last = np.searchsorted(starts, edges, side="right") - 1
    inside = np.clip(edges - starts[last], 0.0, durations[last])
    busy = np.where(last >= 0, before[last] + inside, 0.0)
    return (np.diff(busy) / (length_s / bins)).clip(0, 1)


def backlog(events: Events, done: Sequence[EventSpan]) -> tuple[Array, Array]:
    """Return how many landed steps still waited for some work, over time.

    Parameters
    ----------
    events
        Of the run.
    done
        Folds or drains. With several nodes the one that is furthest behind counts. Where only every nth step is kept,
        only those wait to be drained.

    Returns
    -------
    ndarray, ndarray
        Times in seconds since the epoch, and steps from then on; both of shape (changes,).
    """
    every = done[0].every
    times = np.unique([span.ended_s for span in (*events.landed, *done)])
    nodes = [[span for span in done if span.row == node] for node in {span.row for span in done}]
    behind = [_finished(spans, times, every) for spans in nodes]
    return times, np.maximum(_finished(events.landed, times, every) - np.min(behind, axis=0), 0)


def _finished(spans: Sequence[EventSpan], times: Array, every: int) -> Array:
    """Count the steps that were finished by some times, those that never landed included: one of this many."""
    ended = np.array([span.ended_s for span in spans])
    order = np.argsort(ended, kind="stable")
    steps = np.maximum.accumulate(np.array([span.last_step // every + 1 for span in spans])[order])
    return np.concatenate([[0], steps])[np.searchsorted(ended[order], times, side="right")]


def _peaks(times: Array, steps: Array, length_s: float) -> tuple[Array, Array]:
    """Reduce a curve of steps to its highest value in each of some equal parts of the time."""
    starts = np.linspace(0, length_s, _BINS, endpoint=False)
    highest = steps[np.searchsorted(times, starts, side="right") - 1]
    part = np.minimum((times / length_s * _BINS).astype(int), _BINS - 1)
    np.maximum.at(highest, part, steps)
    return starts, highest


def _draw_row(
    axes: Axes, level: float, spans: Sequence[EventSpan], start_s: float, length_s: float, colour: str
) -> None:
    bottom, height = level - 0.36, 0.72
    if len(spans) > _MOST_BARS:
        edges = np.linspace(0, length_s, _BINS + 1)
        share = busy_share(spans, start_s, length_s, _BINS)
        axes.broken_barh([(0, length_s)], (bottom, height), facecolor=colour, alpha=0.12, linewidth=0)
        axes.stairs(bottom + height * share, edges, baseline=bottom, fill=True, color=colour, linewidth=0)
        return
    least_s = length_s / 900  # a bar that short is still seen
    bars = [(span.started_s - start_s, max(span.ended_s - span.started_s, least_s)) for span in spans]
    # White edges would cover a short bar.
    gaps = [0.3 if duration_s > 5 * least_s else 0.0 for _, duration_s in bars]
    axes.broken_barh(bars, (bottom, height), facecolor=colour, edgecolor="white", linewidths=gaps)


def _draw_backlog(axes: Axes, events: Events, start_s: float, length_s: float) -> None:
    drains = [span for span in events.drains if span.bytes]
    for name, done, colour in (("to be folded", events.folds, ORANGE), ("to be drained", drains, GREEN)):
        if events.landed and done:
            times, steps = backlog(events, done)
            times, steps = np.append(0.0, times - start_s), np.append(0, steps)
            if len(times) > 4 * _BINS:
                times, steps = _peaks(times, steps, length_s)
            axes.step(
                np.append(times, length_s),
                np.append(steps, steps[-1]),
                where="post",
                color=colour,
                linewidth=1.1,
                label=name,
            )
    axes.set_xlim(0, length_s * 1.005)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the first step began")
    axes.set_ylabel("landed steps")
    axes.grid(linewidth=0.3, color=GREY, alpha=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 0.97), ncols=2, borderaxespad=0, borderpad=0.2)


def _caption(rows: Mapping[str, Sequence[EventSpan]]) -> str:
    sentences = [
        "Above: a bar of the simulation is one step from BeginStep to its commit, other bars are one batch "
        "of steps or one window of the results. Below: steps that had landed and were still to be folded, "
        "or drained (of several nodes, the one that was furthest behind)."
    ]
    dense = [name for name, spans in rows.items() if len(spans) > _MOST_BARS]
    if dense:
        sentences.append(
            f"Rows with too many bars to tell apart ({', '.join(dense)}) show the share of time that was "
            "busy, as height: a full row is busy all the time. The curves show the most steps in each part."
        )
    return " ".join(sentences)


_COLOURS = {"simulation": BLUE, "fold": ORANGE, "drain": GREEN, "publish": PURPLE}
