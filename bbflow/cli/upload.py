"""Bring to its bucket what a run with an output there has left in its work directory.

Example:
  bbflow upload bbflow-work/bucket/run1
"""

import argparse
import sys
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.log import tell
from bbflow.run.course import INCOMPLETE
from bbflow.stores.moved import noted_place
from bbflow.transit.output.claiming import locked_output
from bbflow.transit.output.copying import Copying


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("work", type=Path, metavar="DIR", help="the run's work directory")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    url = noted_place(options.work)
    if url is None:
        raise ConfigError(f"{options.work} isn't a work directory of a run with an output in a bucket")
    with locked_output(options.work):
        errors = Copying(options.work, url, moves=True).finish()
    for error in errors:
        tell(str(error))
    if not errors:
        tell(f"all of {options.work} is in {url}", sys.stdout)
    return INCOMPLETE if errors else 0
