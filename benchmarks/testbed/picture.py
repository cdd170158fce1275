"""The picture: application time and HPC phase time of every policy, beside each kind of traffic."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.testbed.results import Figure

COLOURS = ("#8a8a8a", "#d55e00", "#0072b2", "#56b4e9", "#009e73")
WIDTH = 0.16
TOLERANCE = 1.03
"""FullDelay is to keep the HPC application's phase below this."""


def draw(measured: Sequence[Figure], names: Mapping[str, str], passes: int, path: Path) -> None:
    """Draw the figures of the runs whose tasks read their inputs `passes` times."""
    shown = [figure for figure in measured if figure.passes == passes]
    traffics = list(dict.fromkeys(figure.traffic for figure in shown))
    canvas = Canvas(figsize=(11, 4.2), layout="constrained")
    times, phases = canvas.subplots(1, 2)
    for place, policy in enumerate(names):
        for figure in (figure for figure in shown if figure.policy == policy):
            left = traffics.index(figure.traffic) + (place - (len(names) - 1) / 2) * WIDTH
            _bars(times, phases, figure, left, COLOURS[place])
        times.bar(0, 0, color=COLOURS[place], label=names[policy])
    times.set_ylabel("application time (s)\nhatched: slots wait or read")
    phases.set_ylabel("HPC application's phase, to running alone")
    phases.axhline(1, color="black", linewidth=0.8)
    phases.axhline(TOLERANCE, color="black", linewidth=0.8, linestyle=":")
    for axes in (times, phases):
        axes.set_xticks(range(len(traffics)), traffics)
        axes.spines[["top", "right"]].set_visible(False)
    phases.set_xlim(times.get_xlim())
    canvas.legend(loc="outside lower center", ncols=len(names), frameon=False)
    canvas.savefig(path, dpi=150)


def _bars(times: Axes, phases: Axes, figure: Figure, left: float, colour: str) -> None:
    least, greatest = figure.map_spread_s
    spread = [[figure.map_s - least], [greatest - figure.map_s]]
    waited_s = figure.read_s * figure.waves
    times.bar(left, figure.map_s, WIDTH * 0.9, color=colour, yerr=spread, error_kw={"linewidth": 0.8})
    times.bar(left, waited_s, WIDTH * 0.9, color="none", edgecolor="white", hatch="////", linewidth=0)
    if figure.phase_ratio is not None:
        phases.bar(left, figure.phase_ratio, WIDTH * 0.9, color=colour)
        phases.text(left, figure.phase_ratio, f"{figure.phase_ratio:.2f}", ha="center", va="bottom", fontsize=7)
