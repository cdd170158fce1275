"""Area-weighted means of the monthly results over time, as small multiples."""

from collections.abc import Sequence

import numpy as np

from bbflow.report.canvas import BLUE, GREY, Array, Axes, figure, to_png
from bbflow.report.fields import Statistic
from bbflow.report.maps import describe, displays, in_order
from bbflow.report.picture import Picture
from bbflow.report.quantities import Display


def draw_series(statistics: Sequence[Statistic], steps: Sequence[int]) -> Picture | None:
    """Draw a row of panels for each variable, a panel for each statistic.

    Parameters
    ----------
    statistics
        Of all variables; only those of months are drawn. A count that stays the same all over is left out.
    steps
        Steps in each month, where known.

    Returns
    -------
    Picture or None
        None if there is no monthly result.
    """
    monthly = [item for item in statistics if item.window == "month"]
    drawn = [item for item in monthly if item.operator != "count" or not item.uniform]
    if not drawn:
        return None
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
                axes.set_title(f"{describe([own[operator]])}, {operator} ({shown.units})")
        png = to_png(drawing)
    return Picture("series", "Global means, month by month", _caption(drawn, steps), png)


def _draw_panel(axes: Axes, item: Statistic, display: Display, ticks: int) -> None:
    values = display.apply(item.means)
    months = np.arange(len(values))
    axes.plot(months, values, color=BLUE, linewidth=1.2, marker="o" if len(values) <= 36 else "", markersize=2.5)
    axes.grid(axis="y", linewidth=0.3, color=GREY, alpha=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.03)
    axes.set_ylim(*_span(values, float(np.nanmax(np.abs(item.means * display.factor), initial=0.0))))
    axes.locator_params(axis="y", nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.6g}".replace("-", "\N{MINUS SIGN}"))
    stride = -(-len(values) // ticks)
    stride = -(-stride // 12) * 12 if stride > 6 else stride  # whole years where there are some
    axes.set_xticks(months[::stride], list(item.labels)[::stride])


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
        "Mean over all cells of each monthly statistic, "
        + ("weighted by the cosine of latitude." if weighted else "weighted by area where latitudes are known.")
    ]
    levels = sorted({f"{item.variable} at {item.level}" for item in drawn if item.level})
    if levels:
        sentences.append(f"Drawn of {', '.join(levels)}.")
    if len(steps) > 1 and steps[-1] < max(steps):
        sentences.append(f"The last month holds {steps[-1]} steps, the fullest {max(steps)}.")
    return " ".join(sentences)
