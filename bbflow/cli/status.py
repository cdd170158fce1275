"""Show the BB nodes of a contact file: capacity, free space, and how far each stream is.

Example:
  bbflow status --contact contact.json
"""

import argparse
from pathlib import Path

from rich.console import Console

from bbflow.landing.client import request_once
from bbflow.landing.contact import read_contact
from bbflow.progress import status_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    statuses = [request_once(node, "status") for node in read_contact(options.contact)]
    Console().print(status_table(statuses))
    return 0
