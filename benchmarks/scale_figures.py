"""The figures of docs/scale.md, drawn from the tables of the documentation: `python -m benchmarks.scale_figures`."""

import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

from matplotlib import rc_context
from matplotlib.ticker import LogLocator, NullLocator

from bbflow.report.canvas import BLUE, ORANGE, Axes, figure

DOCS = Path(__file__).parents[1] / "docs"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_COUNT = re.compile(r"([\d,]+) (variable|rank|node)s?\b")
_TIME = re.compile(r"([\d.]+) (us|ms|s)\b")
Points = Sequence[tuple[float, float]]


def rows_of(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the rows of the first table below a heading, the one with the titles first.

    Parameters
    ----------
    page
        Markdown.
    heading
        As it stands there.
    """
    table = page.partition(f"\n## {heading}\n")[2].partition("\n| ")[2]
    for line in f"| {table}".splitlines():
        if not line.startswith("|"):
            return
        if not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def count_of(text: str, *things: str) -> int:
    """Multiply how many variables, ranks or nodes a title says that there are."""
    return prod(int(number.replace(",", "")) for number, thing in _COUNT.findall(text) if thing in things)


def seconds_of(text: str) -> float:
    """Return the first time that a cell tells (seconds)."""
    found = _TIME.search(text)
    if found is None:
        raise ValueError(f"no time is in {text!r}")
    return float(found[1]) * UNITS[found[2]]


def against_nodes(page: str) -> dict[str, Points]:
    """Return by its title what each row of times of the emulation's table says: nodes, and seconds."""
    titles, *rows = rows_of(page, "A thousand nodes")
    nodes = [count_of(title, "node") for title in titles[1:]]
    return {
        title: list(zip(nodes, map(seconds_of, cells), strict=True))
        for title, *cells in rows
        if all(map(_TIME.search, cells))
    }


def against_blocks(page: str) -> dict[str, Points]:
    """Return by its title what each column of `scale` says of one node: blocks of a step, and seconds."""
    titles, _, *rows = rows_of(page, "Scale: what does a step cost with many variables, ranks and nodes?")
    own = [row for row in rows if "nodes" not in row[0]]
    return {
        title: [(count_of(row[0], "variable", "rank"), seconds_of(row[at])) for row in own]
        for at, title in enumerate(titles[1:], 1)
    }


def draw(path: Path) -> None:
    """Draw driver, agent and publication against nodes, and against ranks times variables, into an SVG."""
    nodes, blocks = against_nodes((DOCS / "scale.md").read_text()), against_blocks((DOCS / "benchmarks.md").read_text())
    with figure(4.2) as drawing, rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        above, below = drawing.subplots(2, 3)
        for axes, starts in zip(above, ("driver's CPU time", "last commit", "publication"), strict=True):
            shown = {title: points for title, points in nodes.items() if title.startswith(starts)}
            _draw_panel(axes, shown, "nodes (emulated ranks)")
        for axes, title in zip(below, ("driver, per step", "agent, per block", "longest publication"), strict=True):
            _draw_panel(axes, {title: blocks[title]}, "ranks x variables, one node")
        drawing.savefig(path, format="svg", metadata={"Date": None})


def _draw_panel(axes: Axes, lines: dict[str, Points], label: str) -> None:
    for (title, points), colour in zip(lines.items(), (BLUE, ORANGE), strict=False):
        xs, ys = zip(*sorted(points), strict=True)
        axes.loglog(xs, ys, "o-", color=colour, markersize=3, linewidth=1, label=title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=5))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")  # powers of ten would be formulas, which the report doesn't have
    axes.set_xlabel(label)
    axes.set_ylabel("s")
    if len(lines) > 1:
        axes.legend(loc="center", bbox_to_anchor=(0.5, 0.55), fontsize=6.5)
    else:
        axes.set_title(next(iter(lines)))
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw(DOCS / "scale.svg")
