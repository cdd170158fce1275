"""Show the BB nodes of a contact file: capacity, free space, and how far each stream is.

Example:
  bbflow status --contact contact.json
  bbflow status --contact contact.json --watch
"""

import argparse
import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from bbflow.landing.client import status_of
from bbflow.landing.replies import StatusReply
from bbflow.net.contact import read_contact
from bbflow.run.progress import ProgressLine, status_table

WATCH_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")
    parser.add_argument("--watch", action="store_true", help="repeat until Ctrl-C, or until the nodes are gone")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if not options.watch:
        Console().print(status_table(_ask(options.contact)))
        return 0
    with suppress(KeyboardInterrupt), ProgressLine(Console()) as progress:
        while True:
            progress.update(_ask(options.contact))
            time.sleep(WATCH_S)
    return 0


def _ask(contact: Path) -> list[StatusReply]:
    return [status_of(node) for node in read_contact(contact)]
