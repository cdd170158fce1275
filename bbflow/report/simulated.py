"""The picture of simulated scenarios: time, and what others feel, by what was varied."""

import math
from collections.abc import Sequence

from bbflow.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Axes, figure, to_png
from bbflow.simulate.runs import Result

_COLOURS = (GREY, ORANGE, BLUE, PURPLE, GREEN, INK)
_SECOND = {
    "slowdown": "others' phases, to alone",
    "waited_s": "simulation waits (s)",
    "time_cost": "time x cost",
}
"""What stands beside the time, the first that a scenario has."""


def draw_results(title: str, results: Sequence[Result]) -> bytes:
    """Draw one line, or one bar, for each way.

    Parameters
    ----------
    title
        Of the scenario.
    results
        At least one; the last of the varied keys is the x axis, ways and other keys are lines.

    Returns
    -------
    bytes
        A PNG.
    """
    second = next((name for name in _SECOND if name in results[0].figures), None)
    with figure(3.2) as drawing:
        axes = drawing.subplots(1, 2 if second else 1, squeeze=False)[0]
        axes[0].set_title(title)
        _draw(axes[0], results, [result.time_s for result in results], "time (s)")
        if second:
            _draw(axes[1], results, [result.figures[second] for result in results], _SECOND[second])
        if results[0].knobs:
            axes[0].legend()
        return to_png(drawing)


def _draw(axes: Axes, results: Sequence[Result], values: Sequence[float], label: str) -> None:
    axes.set_ylabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    if not results[0].knobs:
        places = range(len(results))
        heights = [0.0 if math.isnan(value) else value for value in values]
        axes.bar(places, heights, color=[_COLOURS[place % len(_COLOURS)] for place in places])
        axes.set_xticks(places, [result.way.partition(":")[0] for result in results], rotation=20)
        return
    knob = list(results[0].knobs)[-1]
    lines: dict[str, tuple[list[str], list[float]]] = {}
    for result, value in zip(results, values, strict=True):
        others = [f"{key.rpartition('.')[2]} {said}" for key, said in result.knobs.items() if key != knob]
        xs, ys = lines.setdefault(", ".join([result.way, *others]), ([], []))
        xs.append(result.knobs[knob])
        ys.append(value)
    for place, (name, (xs, ys)) in enumerate(lines.items()):
        axes.plot(xs, ys, marker="o", markersize=3, color=_COLOURS[place % len(_COLOURS)], label=name)
    axes.set_xlabel(knob)
    axes.set_ylim(bottom=0)
