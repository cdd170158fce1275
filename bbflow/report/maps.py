"""Maps of the results: for each variable the last span of each window, one row a statistic."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bbflow.report.canvas import Array, Axes, add_scale, bands, draw_bands, figure, to_png
from bbflow.report.drawn_fields import DrawnAxis, Statistic, degrees
from bbflow.report.picture import Picture, attempt
from bbflow.report.quantities import Display, choose_display, pretty_units
from bbflow.zarr_store.stored_names import stored_name

OPERATORS = ("mean", "std", "min", "max", "sum", "count")
"""The order of rows; others follow."""
_MOST_CELLS = 900
_OWN_SCALE = ("sum", "count")  # grow with the window's length
_WINDOWS = ("run", "month", "year", "season", "day", "clim_month")
"""The ones that come first where there are too many; others follow."""
_MOST_WINDOWS = 3
_MOST_DEGREES = 1e4
_MOST_ROWS = 4  # of a figure: more would not fit a page


def draw_maps(statistics: Sequence[Statistic], left_out: list[str]) -> list[Picture]:
    """Draw every statistic that has a place, one picture a variable; more than four rows take two.

    Parameters
    ----------
    statistics
        Of all variables and windows. Those without a dimension are left to the time series,
        those with the same value everywhere are told in the caption.
    left_out
        Gets a sentence for each picture that can't be drawn.
    """
    pictures: list[Picture] = []
    for variable in dict.fromkeys(statistic.variable for statistic in statistics):
        placed = _shown([item for item in statistics if item.variable == variable and item.axes and not item.places])
        operators = in_order({item.operator for item in placed if not item.uniform})
        for first in range(0, len(operators), _MOST_ROWS):
            part = operators[first : first + _MOST_ROWS]
            suffix = "" if first == 0 else f"_{first // _MOST_ROWS + 1}"
            uniform = [item for item in placed if item.uniform] if first == 0 else []
            drawn = variable, placed, part, uniform, suffix
            pictures += attempt(left_out, f"the map of {variable} ({', '.join(part)})", _draw_variable, *drawn)
    return pictures


def _shown(placed: Sequence[Statistic]) -> list[Statistic]:
    """Leave out the windows that don't fit into a row."""
    names = sorted({item.window for item in placed}, key=_importance)[:_MOST_WINDOWS]
    return [item for item in placed if item.window in names]


def _importance(window: str) -> tuple[int, str]:
    return (_WINDOWS.index(window) if window in _WINDOWS else len(_WINDOWS), window)


def in_order(operators: Iterable[str]) -> list[str]:
    """Sort names of operators as a reader expects them."""
    return sorted(operators, key=lambda name: (OPERATORS.index(name) if name in OPERATORS else 99, name))


def displays(statistics: Sequence[Statistic]) -> dict[str, Display]:
    """Choose how each operator of one variable is shown, the same for all windows."""
    sized = [item.last for item in statistics if item.operator not in _OWN_SCALE]
    largest = max((abs(value) for values in sized for value in _range(values)), default=0.0)
    chosen = {}
    for operator in {item.operator for item in statistics}:
        own = [item for item in statistics if item.operator == operator]
        ranges = [_range(item.last) for item in own]
        lowest, highest = min(low for low, _ in ranges), max(high for _, high in ranges)
        chosen[operator] = choose_display(own[0].units, operator, lowest, highest, largest)
    return chosen


def describe(statistics: Sequence[Statistic]) -> str:
    """Name a variable in words, with its level if it has more than one."""
    first = statistics[0]
    level = f" at {first.level}" if first.level else ""
    return f"{first.variable}{level}"


def describe_at_length(statistics: Sequence[Statistic]) -> str:
    """Name a variable with its long name."""
    long_name = statistics[0].long_name
    return describe(statistics) + (f", {long_name}" if long_name else "")


def window_name(item: Statistic) -> str:
    """Name the last window of a statistic."""
    return "whole run" if item.window == "run" else item.labels[-1]


def _draw_variable(
    variable: str,
    placed: Sequence[Statistic],
    operators: Sequence[str],
    uniform: Sequence[Statistic],
    suffix: str,
) -> Picture:
    windows = sorted({item.window for item in placed}, key=lambda name: (name == "run", name))
    shown = {(item.operator, item.window): item for item in placed if not item.uniform}
    display = displays(placed)
    own_scales = any(operator in _OWN_SCALE for operator in operators)
    for axis in {axis.name: axis for item in placed for axis in item.axes}.values():
        _check_drawable(axis)
    with figure(_row_height(placed[0].axes, len(windows)) * len(operators) + 0.25) as drawing:
        grid = drawing.subplots(len(operators), len(windows), squeeze=False)
        for row, operator in enumerate(operators):
            found = [shown.get((operator, window)) for window in windows]
            together = _limits([item for item in found if item], display[operator])
            mesh = None
            for column, item in enumerate(found):
                axes = grid[row, column]
                if item is None:
                    axes.set_axis_off()
                    continue
                own = _limits([item], display[operator]) if operator in _OWN_SCALE else together
                mesh = _draw_panel(axes, item, display[operator], own)
                axes.label_outer()
                if mesh is not None and own_scales:
                    add_scale(drawing, mesh, [axes], display[operator].units)
            if mesh is not None and not own_scales:
                add_scale(drawing, mesh, list(grid[row]), display[operator].units)
        png = to_png(drawing)
    name = stored_name(f"maps_{variable}{suffix}")
    return Picture(name, describe_at_length(placed), _caption(placed, operators, uniform), png)


def _draw_panel(axes: Axes, item: Statistic, display: Display, limits: Array) -> Any:
    axes.set_title(f"{item.operator}, {window_name(item)}")
    values = display.apply(item.last)
    if len(item.axes) == 1:
        axis = item.axes[0]
        order = np.argsort(axis.values, kind="stable")
        axes.plot(axis.values[order], values[order], linewidth=1.2)
        axes.set_ylabel(display.units)
        _label(axes, "x", axis)
        axes.grid(linewidth=0.3)
        return None
    rows, columns = item.axes
    row_order, column_order = _thinned(rows), _thinned(columns)
    x_edges, y_edges = _edges(columns, column_order), _edges(rows, row_order)
    cells = values[np.ix_(row_order, column_order)]
    mesh = draw_bands(axes, x_edges, y_edges, cells, limits, display.colours)
    _label(axes, "x", columns)
    _label(axes, "y", rows)
    axes.set_xlim(x_edges[0], x_edges[-1])
    return mesh


def _check_drawable(axis: DrawnAxis) -> None:
    """Check that a coordinate is one: a fill value among latitudes would make a map of nothing else.

    Raises
    ------
    ValueError
        If not.
    """
    if not np.isfinite(axis.values).all():
        raise ValueError(f"the coordinate {axis.name} has values that are not finite")
    if axis.kind in ("lat", "lon") and np.abs(axis.values).max(initial=0.0) > _MOST_DEGREES:
        raise ValueError(f"the coordinate {axis.name} has values that are no angles")


def _limits(items: Sequence[Statistic], display: Display) -> Array:
    """Bands that cover all but the outermost hundredths of the values."""
    parts = [item.last[np.isfinite(item.last)].ravel() for item in items]
    values = display.apply(np.concatenate(parts))
    lowest, highest = np.percentile(values, [1, 99])
    return bands(float(lowest), float(highest), display.symmetric)


def _range(values: Array) -> tuple[float, float]:
    present = values[np.isfinite(values)]
    return (float(present.min()), float(present.max())) if present.size else (0.0, 0.0)


def _thinned(axis: DrawnAxis) -> Array:
    """Return indices in ascending order of the coordinate, few enough to draw."""
    return np.argsort(axis.values, kind="stable")[:: -(-len(axis.values) // _MOST_CELLS)]


def _edges(axis: DrawnAxis, order: Array) -> Array:
    """Edges of cells, half-way between their centres."""
    centres = axis.values[order].astype("f8")
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middles = (centres[1:] + centres[:-1]) / 2.0
    edges = np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])
    # The cells of a row that lies on a pole end there.
    return edges.clip(-90, 90) if axis.kind == "lat" else edges


def _label(axes: Axes, which: str, axis: DrawnAxis) -> None:
    """Write latitudes and longitudes as atlases do; a pressure axis points down."""
    side = axes.xaxis if which == "x" else axes.yaxis
    if axis.kind in ("lat", "lon") and axis.units:
        step = {"lat": 30, "lon": 60}[axis.kind]
        low, high = float(axis.values.min()), float(axis.values.max())
        if high - low < 3 * step:
            side.set_major_formatter(lambda value, _: degrees(value, axis.kind))
            return
        ticks = np.arange(np.ceil(low / step - 0.1) * step, high + 0.1 * step, step)
        side.set_ticks(list(ticks), [degrees(tick, axis.kind) for tick in ticks])
        return
    if axis.kind == "plev" and which == "y":
        axes.invert_yaxis()
    side.set_label_text(f"{axis.name} ({axis.units})" if axis.units else axis.name)


def _row_height(axes: Sequence[DrawnAxis], columns: int) -> float:
    """Inches of one row of panels: true to scale on a latitude-longitude grid, within reason."""
    width = 7.3 / columns
    if len(axes) == 2 and [axis.kind for axis in axes] == ["lat", "lon"] and len(axes[1].values) > 1:
        ratio = float(np.ptp(axes[0].values) / max(np.ptp(axes[1].values), 1e-9))
    else:
        ratio = 0.5
    return width * min(max(ratio, 0.4), 1.2) + 0.3


def _caption(placed: Sequence[Statistic], operators: Sequence[str], uniform: Sequence[Statistic]) -> str:
    first = placed[0]
    sentences = []
    last = {item.window: item.labels[-1] for item in placed}
    if operators and last.keys() == {"month", "run"}:
        sentences.append(f"Left the last month ({last['month']}), right the whole run ({last['run']}).")
    elif operators and len(last) > 1:
        sentences.append("Of each window the last span.")
    if any(operator not in _OWN_SCALE for operator in operators) and len(first.axes) == 2:
        sentences.append("Panels of one row share a scale, which spans the middle 98 % of the values.")
    if any(not np.isfinite(item.last).all() for item in placed) and len(first.axes) == 2:
        sentences.append("Grey cells have no value.")
    if any(len(axis.values) > _MOST_CELLS for axis in first.axes):
        sentences.append("The grid is thinned for drawing.")
    for operator in in_order({item.operator for item in uniform}):
        values = [_constant(item) for item in uniform if item.operator == operator]
        sentences.append(f"Not drawn, because it is the same everywhere: {operator} = {', '.join(values)}.")
    return " ".join(sentences)


def _constant(item: Statistic) -> str:
    present = item.last[np.isfinite(item.last)]
    units = "" if item.operator == "count" else pretty_units(item.units)
    value = f"{present.flat[0]:g} {units}".rstrip() if present.size else "no value"
    return f"{value} ({window_name(item)})"
