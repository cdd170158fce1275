"""Forget an ended stream on all BB nodes, with every step that was not folded or drained.

Example:
  bbflow drop climate --contact contact.json
"""

import argparse
from pathlib import Path

from bbflow.landing.client import tell_node
from bbflow.landing.requests import DropRequest
from bbflow.net.contact import read_contact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("stream", help="name of the stream")
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    for node in read_contact(options.contact):
        tell_node(node, DropRequest(stream=options.stream))
    return 0
