"""List the operators, windows, spaces and known names that the configuration may use, with an example each.

Example:
  bbflow operators
  bbflow operators std
  bbflow operators timpctl,90
  bbflow operators --cdo
"""

import argparse
from collections.abc import Iterable
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bbflow.errors import ConfigError
from bbflow.operators.names.cdo_index import index
from bbflow.operators.names.listing import SECTIONS, ListedName, find, overview


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="describe this one only, with its parameters")
    parser.add_argument(
        "--cdo",
        action="store_true",
        help="print each of CDO's operators, and names of NCL, Ferret and ESMValTool, with what to write for it here",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    console = Console()
    if options.cdo and options.name is not None:
        raise ConfigError(f"--cdo prints all of CDO's names: leave it or {options.name!r} out")
    if options.cdo:
        print(index(), end="")
    elif options.name is None:
        console.print(overview_table(overview()))
    else:
        for entry in find(options.name):
            console.print(entry_table(entry))
    return 0


def overview_table(entries: Iterable[ListedName]) -> Table:
    """Tabulate all names, by section."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for name in ("name", "what it is", "example"):
        table.add_column(name, overflow="fold")
    ordered = sorted(entries, key=lambda entry: SECTIONS.index(entry.section))
    for section, items in groupby(ordered, key=lambda entry: entry.section):
        table.add_row(Text(section, style="bold"))
        for entry in items:
            table.add_row(Text(f"  {entry.name}"), Text(entry.summary), Text(entry.example, style="cyan"))
    return table


def entry_table(entry: ListedName) -> Table:
    """Tabulate everything about one."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, title_justify="left", title_style="bold")
    table.title = f"{entry.name} ({entry.section})"
    table.add_column()
    table.add_column(overflow="fold")
    table.add_row("", Text(entry.summary))
    table.add_row("example", Text(entry.example, style="cyan"))
    if entry.means:
        table.add_row("means", Text(entry.means, style="cyan"))
    for name, told in entry.parameters:
        table.add_row(Text(name), Text(told))
    return table
