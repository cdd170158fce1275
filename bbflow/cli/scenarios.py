"""Scenarios on the command line: which one the options name, and what simulating it has come to."""

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import bbflow_catalogs
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bbflow.errors import ConfigError, nearest
from bbflow.simulate.measured import measured
from bbflow.simulate.profile import scenario_of_events
from bbflow.simulate.runs import Result
from bbflow.simulate.scenario import Scenario, checked_ways, load_scenario, varied, with_trace
from bbflow.units import format_bytes

_WIDE = 140
"""Columns of a table that no terminal bounds."""
_SITE = "montage"
"""Where the tasks of a trace run if nothing is said."""
CATALOG = Path(bbflow_catalogs.__file__).parent / "scenarios"


def add_scenario_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say which scenario, shared with `plan`."""
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO", help="a .yml file, or a name from the catalog")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="make a scenario of the events there")
    parser.add_argument(
        "--trace", type=Path, metavar="JSON", help="tasks of this trace, at the site of SCENARIO (default: montage)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another value of a key")
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=A,B,…", help="several values of a key")
    parser.add_argument("--policy", "--way", action="append", metavar="NAME", help="compare only these")


def scenario_of(options: argparse.Namespace) -> Scenario:
    """Find the scenario that the options name, with the values that they set.

    Raises
    ------
    ConfigError
        If there is none, or a value is wrong.
    """
    if options.scenario is None and options.profile is None and options.trace is None:
        raise ConfigError("name a scenario, or --profile with a directory that has events.jsonl, or --trace")
    if options.trace and options.profile:
        raise ConfigError("--trace and --profile both say which tasks there are: give one of them")
    if options.trace:
        scenario = with_trace(load_scenario(find(options.scenario or _SITE)), options.trace)
    elif options.scenario is None:
        scenario = scenario_of_events(options.profile)
    else:
        scenario = load_scenario(find(options.scenario))
        scenario = measured(scenario, options.profile) if options.profile else scenario
    for knob, values in knobs_of(options.set).items():
        if len(values) != 1:
            raise ConfigError(f"--set {knob}: one value, not {len(values)}; --vary takes several")
        scenario = varied(scenario, knob, values[0])
    if options.policy:
        scenario = dataclasses.replace(scenario, ways=checked_ways(scenario.content["kind"], options.policy))
    return scenario


def find(name: str) -> Path:
    """Return the file of a scenario: the path itself, or that of a name in the catalog.

    Raises
    ------
    ConfigError
        If there is neither.
    """
    path = Path(name)
    if path.exists():
        return path
    known = {each.stem: each for each in CATALOG.glob("*.yml")}
    if name not in known:
        raise ConfigError(f"there is no scenario {name!r}, neither as a file nor by name; {nearest(name, known)}")
    return known[name]


def knobs_of(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read ``key=a,b,c`` words; a value in brackets keeps its commas.

    Raises
    ------
    ConfigError
        If one is none.
    """
    knobs: dict[str, tuple[str, ...]] = {}
    for word in words:
        knob, equals, values = word.partition("=")
        if not equals or not knob or not values:
            raise ConfigError(f"{word!r} isn't KEY=VALUE")
        knobs[knob] = tuple(values.split(","))
    return knobs


def shown_progress(total: int) -> Progress:
    """Return a bar on standard error that goes away by itself."""
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task("simulating", total=total)
    return progress


def as_json(scenario: Scenario, results: Sequence[Result]) -> Mapping[str, object]:
    """Return everything that was found, for another program; what isn't a number is null."""
    rows = [
        {"knobs": dict(result.knobs), "way": result.way}
        | {key: None if math.isnan(value) else value for key, value in result.figures.items()}
        for result in results
    ]
    return {"scenario": scenario.name, "title": scenario.title, "assumed": list(scenario.assumed), "results": rows}


def print_table(scenario: Scenario, results: Sequence[Result]) -> None:
    """Print a row for each variation and way, and what had to be assumed."""
    figures = [name for name in results[0].figures if any(result.figures[name] for result in results)]
    table = Table(title=scenario.title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in (*results[0].knobs, "way"):
        table.add_column(name.rpartition(".")[2], no_wrap=True)
    for name in figures:
        table.add_column(name.removesuffix("_bytes"), justify="right", no_wrap=True)
    for result in results:
        table.add_row(*result.knobs.values(), result.way, *(written(name, result.figures[name]) for name in figures))
    console = Console()
    Console(width=None if console.is_terminal else _WIDE).print(table)
    for line in scenario.assumed:
        print(f"assumed: {line}")


def written(name: str, value: float) -> str:
    """Write a figure as its name's unit asks for."""
    if math.isnan(value):
        return "-"
    return format_bytes(value) if name.endswith("_bytes") else f"{value:.4g}"
