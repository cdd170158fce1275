"""Writing the report: what is read, drawn and put on the page."""

from collections.abc import Sequence
from glob import escape
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.atomic import write_whole
from bbflow.host.belongings import claim
from bbflow.report import REPORT_FILES
from bbflow.report.drawn_fields import Statistic
from bbflow.report.maps import draw_maps
from bbflow.report.mean_series import draw_series
from bbflow.report.page import Page, render_page
from bbflow.report.picture import Picture, attempt
from bbflow.report.results_reader import read_results
from bbflow.report.run_events import Events, read_events
from bbflow.report.run_timeline import draw_timeline
from bbflow.report.summary import summarise

MOST_DRAWN = 100
"""Statistics of windows, of whole variables: each takes a tenth of a second and more."""


def write_report(output: Path, most_drawn: int = MOST_DRAWN) -> Path:
    """Write the report of a run, also of one that is still running or was cut off.

    Parameters
    ----------
    output
        The run's directory. What of ``results.zarr`` and ``events.jsonl`` is missing or broken is
        said in the report.
    most_drawn
        Statistics of windows that get pictures.

    Returns
    -------
    Path
        Of ``report.html``. The pictures are in ``figures/`` beside it.

    Raises
    ------
    ConfigError
        If there is no such directory.
    """
    page = page_of(output, most_drawn)
    _write_pictures(output, [*page.maps, *page.series, *filter(None, (page.timeline,))])
    report = output / "report.html"
    write_whole(report, render_page(page).encode())
    return report


def page_of(output: Path, most_drawn: int = MOST_DRAWN) -> Page:
    """Read a run's directory and draw its pictures; nothing is written.

    Raises
    ------
    ConfigError
        If there is no such directory.
    """
    if not output.is_dir():
        raise ConfigError(f"there is no directory {output}: give the output directory of a run")
    events = read_events(output / "events.jsonl")
    results = read_results(output / "results.zarr")
    drawn, undrawn = _first_variables(results.statistics, most_drawn), list[str]()
    timeline = attempt(undrawn, "the timeline", draw_timeline, events or Events())
    return Page(
        summary=summarise(events or Events(), results.status),
        results=results,
        maps=draw_maps(drawn, undrawn),
        series=draw_series(drawn, results.steps, undrawn),
        timeline=next(iter(timeline), None),
        notes=(*_notes(events), *results.notes, *_left_out(drawn, results.statistics), *undrawn),
    )


def _first_variables(statistics: Sequence[Statistic], most: int) -> list[Statistic]:
    """Return what is drawn: a page of hundreds of variables would take minutes, and wouldn't be read."""
    drawn: list[Statistic] = []
    for variable in dict.fromkeys(item.variable for item in statistics):
        own = [item for item in statistics if item.variable == variable]
        if drawn and len(drawn) + len(own) > most:
            break
        drawn += own
    return drawn


def _left_out(drawn: Sequence[Statistic], statistics: Sequence[Statistic]) -> list[str]:
    some, all_ = (len({item.variable for item in items}) for items in (drawn, statistics))
    return [f"Drawn are the first {some} of {all_} variables; results.zarr has all of them."] if some < all_ else []


def _notes(events: Events | None) -> list[str]:
    if events is None:
        return ["There is no events.jsonl: bytes, waiting time and timeline are unknown."]
    notes = []
    if events.unreadable:
        lines = "line" if events.unreadable == 1 else "lines"
        notes.append(f"{events.unreadable} {lines} of events.jsonl can't be read and were left out.")
    if events.end is None:
        notes.append("events.jsonl has no end: the run hasn't ended yet, or was cut off.")
    return notes


def _write_pictures(output: Path, pictures: list[Picture]) -> None:
    claim(output, *REPORT_FILES, *(escape(f"figures/{picture.name}.png") for picture in pictures))
    (output / "figures").mkdir(exist_ok=True)
    for picture in pictures:
        write_whole(output / "figures" / f"{picture.name}.png", picture.png)
