"""Area-weighted means of the results over time, as small multiples."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np

from bbflow.report.canvas import BLUE, GREY, Array, Axes, figure, to_png
from bbflow.report.drawn_fields import Statistic
from bbflow.report.maps import describe, displays, in_order
from bbflow.report.picture import Picture, attempt
from bbflow.report.quantities import Display

SEVERAL = (BLUE, "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#24303c", GREY)
"""Colours of several lines, which most people can tell apart (Okabe and Ito)."""
_MOST_COLUMNS = 5
_TITLES = {
    "month": "month by month",
    "day": "day by day",
    "year": "year by year",
    "clim_month": "the same month of all years",
    "clim_season": "the same season of all years",
    "clim_hour": "the same hour of all days",
    "clim_dayofyear": "the same day of all years",
}


def draw_series(
    statistics: Sequence[Statistic], steps: Mapping[str, Sequence[int]], left_out: list[str]
) -> list[Picture]:
    """Draw a row of panels for each variable, a panel for each statistic, one picture for each window.

    Parameters
    ----------
    statistics
        Of all variables and windows but the whole run. A count that stays the same all over is left out.
    steps
        Steps in each span, by window, where known.
    left_out
        Gets a sentence for each picture that can't be drawn.

    Returns
    -------
    list of Picture
        Months first; more than five statistics take more pictures.
    """
    drawn = [item for item in statistics if item.window != "run" and (item.operator != "count" or not item.uniform)]
    windows = sorted({item.window for item in drawn}, key=lambda name: (name != "month", name))
    pictures: list[Picture] = []
    for window in windows:
        own = [item for item in drawn if item.window == window]
        operators = in_order({item.operator for item in own})
        for first in range(0, len(operators), _MOST_COLUMNS):
            part = [item for item in own if item.operator in operators[first : first + _MOST_COLUMNS]]
            number = "" if first == 0 else f"_{first // _MOST_COLUMNS + 1}"
            name = f"series{'' if window == 'month' else f'_{window}'}{number}"
            drawn_of = name, part, statistics, steps.get(window, ())
            what = f"the picture of means of {', '.join(operators[first : first + _MOST_COLUMNS])} in each {window}"
            pictures += attempt(left_out, what, _draw_window, *drawn_of)
    return pictures


def _draw_window(
    name: str, drawn: Sequence[Statistic], statistics: Sequence[Statistic], steps: Sequence[int]
) -> Picture:
    variables = list(dict.fromkeys(item.variable for item in drawn))
    operators = in_order({item.operator for item in drawn})
    with figure(1.45 * len(variables) + 0.35) as drawing:
        grid = drawing.subplots(len(variables), len(operators), squeeze=False, sharex=True)
        for row, variable in enumerate(variables):
            own = {item.operator: item for item in drawn if item.variable == variable}
            display = displays([item for item in statistics if item.variable == variable])
            for column, operator in enumerate(operators):
                axes = grid[row, column]
                if operator not in own:
                    axes.set_axis_off()
                    continue
                shown = display[operator]
                _draw_panel(axes, own[operator], shown, ticks=3 if len(operators) <= 3 else 2)
                units = "" if shown.units in ("", "1") else f" ({shown.units})"
                axes.set_title(f"{describe([own[operator]])}, {operator}{units}")
        png = to_png(drawing)
    window = drawn[0].window
    return Picture(name, f"Means over all cells, {_TITLES.get(window, window)}", _caption(drawn, steps), png)


def _draw_panel(axes: Axes, item: Statistic, display: Display, ticks: int) -> None:
    values = display.apply(item.lines)
    spans = np.arange(len(values))
    for column, colour in zip(range(values.shape[1]), cycle(SEVERAL), strict=False):
        label = item.places[column] if item.places else None
        mark = "o" if len(values) <= 36 else ""
        axes.plot(spans, values[:, column], color=colour, linewidth=1.2, marker=mark, markersize=2.5, label=label)
    if item.places:
        axes.legend(fontsize=5, frameon=False, loc="best")
    axes.grid(axis="y", linewidth=0.3, color=GREY, alpha=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.03)
    axes.set_ylim(*_span(values, float(np.nanmax(np.abs(item.lines * display.factor), initial=0.0))))
    axes.locator_params(axis="y", nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.6g}".replace("-", "\N{MINUS SIGN}"))
    stride = -(-len(values) // ticks)
    stride = -(-stride // 12) * 12 if stride > 6 and item.window == "month" else stride  # whole years
    axes.set_xticks(spans[::stride], list(item.labels)[::stride])


def _span(values: Array, magnitude: float) -> tuple[float, float]:
    """Limits of the vertical axis: never so narrow that rounding errors look like a signal."""
    present = values[np.isfinite(values)]
    if present.size == 0:
        return 0.0, 1.0
    lowest, highest = float(present.min()), float(present.max())
    signal = highest - lowest > 1e-6 * magnitude
    margin = 0.12 * (highest - lowest) if signal else 0.01 * magnitude or 1.0
    return lowest - margin, highest + margin


def _caption(drawn: Sequence[Statistic], steps: Sequence[int]) -> str:
    weighted = all(item.weighted for item in drawn)
    sentences = [
        "Mean over all cells of each statistic, "
        + ("weighted by the cosine of latitude." if weighted else "weighted by area where latitudes are known.")
    ]
    if any(item.places for item in drawn):
        sentences.append("Of a list of points, each is drawn.")
    levels = sorted({f"{item.variable} at {item.level}" for item in drawn if item.level})
    if levels:
        sentences.append(f"Drawn of {', '.join(levels)}.")
    if len(steps) > 1 and steps[-1] < max(steps):
        sentences.append(f"The last span holds {steps[-1]} steps, the fullest {max(steps)}.")
    return " ".join(sentences)
