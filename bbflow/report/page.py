"""The report's page: numbers put in words, and the template filled."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from bbflow import units
from bbflow.report.maps import describe, displays, in_order
from bbflow.report.picture import Picture
from bbflow.report.results_reader import DrawnResults
from bbflow.report.summary import Summary

_MOST_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that stands on the page."""

    summary: Summary
    """Figures of the run."""
    results: DrawnResults
    """What was read of the results store."""
    maps: Sequence[Picture]
    """One or more for each variable."""
    series: Sequence[Picture]
    """Means over time, one or more for each window."""
    timeline: Picture | None
    """Of the run."""
    notes: Sequence[str]
    """What is missing, in sentences."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the summary."""

    name: str
    """What it counts."""
    value: str
    """With its unit."""
    remark: str = ""
    """What it is compared with."""


@dataclass(frozen=True, slots=True)
class MeansRow:
    """Global means of one variable."""

    name: str
    """Variable, with its level."""
    long_name: str
    """In words."""
    cells: tuple[str, ...]
    """One for each operator of the table."""


def render_page(page: Page) -> str:
    """Fill the template; names from the data are escaped."""
    operators, rows = means_table(page.results)
    return fill(
        Path(__file__).with_name("report.html"),
        page=page,
        status=page.summary.status,
        status_text=_STATUS.get(page.summary.status, page.summary.status),
        stream=page.results.stream,
        movement=movement_figures(page.summary),
        steps=step_figures(page.summary),
        operators=operators,
        means=rows,
        weighted=all(item.weighted for item in page.results.statistics),
    )


def fill(template: Path, **values: object) -> str:
    """Fill a template; it may extend ``frame.html``, and use ``parts.html``, whatever its own folder.

    Parameters
    ----------
    template
        The file.
    values
        What it names; texts are escaped.
    """
    folders = [template.parent, Path(__file__).parent]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters["base64"] = lambda content: b64encode(content).decode()
    return environment.get_template(template.name).render(values)


def step_figures(summary: Summary) -> list[Figure]:
    """Put the steps and the time in words."""
    share = summary.waited_share
    return [
        Figure("Steps landed", f"{summary.steps_landed:,}", _discarded(summary)),
        Figure("Steps folded", f"{summary.steps_folded:,}", _of(summary.steps_folded, summary.steps_landed)),
        Figure("Steps drained", f"{summary.steps_drained:,}", _of(summary.steps_drained, summary.steps_landed)),
        Figure(
            "Simulation waited",
            "unknown" if summary.waited_s is None else seconds(summary.waited_s),
            "" if share is None else f"{percent(share)} of {seconds(summary.wall_s)} wall time",
        ),
    ]


def movement_figures(summary: Summary) -> list[Figure]:
    """Put the bytes in words."""
    rate = summary.landing_bytes_per_s
    return [
        Figure(
            "Landed on the burst buffer",
            units.format_bytes(summary.landed_bytes),
            "" if rate is None else f"{units.format_bytes(rate)}/s on average",
        ),
        Figure(
            "Drained to the PFS",
            units.format_bytes(summary.drained_bytes),
            _drained(summary),
        ),
        Figure(
            "Results written",
            units.format_bytes(summary.results_bytes),
            _of(summary.results_bytes, summary.landed_bytes),
        ),
        Figure("Data movement saved", *_saved(summary.saved)),
    ]


def means_table(results: DrawnResults) -> tuple[list[str], list[MeansRow]]:
    """Tabulate each variable's area-weighted means over the whole run.

    Returns
    -------
    list of str, list of MeansRow
        Operators (columns) and variables (rows); both empty if there is no such result.
    """
    run = [item for item in results.statistics if item.window == "run" and item.operator != "count"]
    operators = in_order({item.operator for item in run})[:_MOST_COLUMNS]
    rows = []
    for variable in dict.fromkeys(item.variable for item in run if item.operator in operators):
        of_variable = [item for item in results.statistics if item.variable == variable]
        display = displays(of_variable)
        own = {item.operator: item for item in run if item.variable == variable}
        cells = []
        for operator in operators:
            shown = display.get(operator)
            if operator in own and shown is not None:
                value = shown.apply(own[operator].means[-1:])[0]
                cells.append(f"{value:.4g} {shown.units}".strip().replace("-", "\N{MINUS SIGN}", 1))
            else:
                cells.append("")
        first = next(iter(own.values()))
        rows.append(MeansRow(describe([first]), first.long_name, tuple(cells)))
    return operators, rows


def seconds(duration_s: float) -> str:
    """Write a duration for people."""
    if duration_s < 120:
        return f"{duration_s:.3g} s"
    minutes, rest = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def percent(share: float) -> str:
    """Write a share with as many digits as it deserves."""
    shown = f"{100 * share:.3g}" if abs(share) >= 0.1 else f"{100 * share:.2g}"
    return "99.9 %" if shown == "100" and share < 1 else f"{shown} %"


def _of(part: int, landed: int) -> str:
    return f"{percent(part / landed)} of the landed" if landed else ""


def _drained(summary: Summary) -> str:
    said = [_of(summary.drained_bytes, summary.landed_bytes)]
    if summary.drained_bytes < summary.chosen_bytes:
        said.append(f"stored of {units.format_bytes(summary.chosen_bytes)}")
    if summary.repeated_bytes:
        said.append(f"{units.format_bytes(summary.repeated_bytes)} of repeats stored once")
    return ", ".join(filter(None, said))


def _discarded(summary: Summary) -> str:
    if summary.steps_discarded is None:
        return ""
    return f"{summary.steps_discarded:,} discarded" if summary.steps_discarded else "none discarded"


def _saved(saved: float | None) -> tuple[str, str]:
    if saved is None:
        return "unknown", ""
    if saved < 0:
        return "none", f"{percent(-saved)} more than the raw steps alone"
    return percent(saved), "against writing every raw step to the PFS"


_STATUS = {
    "complete": "Complete",
    "incomplete": "Incomplete: the simulation ended early. What it had committed is in the results.",
    "running": "Running: these are the results so far.",
    "unknown": "Unknown: nothing was recorded.",
}
