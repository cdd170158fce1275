"""Be one BB node: keep a pool in shared memory and take steps in, until told to stop.

Example, on each BB node of a cluster:
  bbflow node --name $(hostname) --capacity 64GiB --contact /shared/contact.json
"""

import argparse
import shutil
from pathlib import Path

from bbflow.landing.contact import add_node, remove_node
from bbflow.landing.embedded import DEFAULT_DIRECTORY, address, make_root
from bbflow.landing.server import serve
from bbflow.units import parse_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--name", required=True, help="unique in the contact file")
    parser.add_argument("--capacity", default="512MiB", help="size of the pool (default: %(default)s)")
    parser.add_argument(
        "--directory", type=Path, help=f"where to keep the pool (default: a new one in {DEFAULT_DIRECTORY})"
    )
    parser.add_argument("--contact", type=Path, help="contact file to stand in while the node runs")
    parser.add_argument("--with-parent", action="store_true", help="also end when standard input ends")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    capacity = parse_bytes(options.capacity)
    own_root = make_root(DEFAULT_DIRECTORY) if options.directory is None else None
    directory = own_root / options.name if own_root else options.directory
    node = address(options.name, directory.parent if directory.name == options.name else directory)
    if options.contact:
        add_node(options.contact, node)
    try:
        serve(Path(node.directory), options.name, capacity, with_parent=options.with_parent)
    finally:
        if options.contact:
            remove_node(options.contact, options.name)
        if own_root and not any(own_root.iterdir()):
            shutil.rmtree(own_root)
    return 0
