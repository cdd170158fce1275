"""Fold a stream of BB nodes that are there, until it ends; what another analysis began is carried on with.

Example:
  bbflow fold analysis.yml --contact contact.json --scheduler scheduler.json
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bbflow.config import Config, load_config
from bbflow.course import INCOMPLETE
from bbflow.leftovers import name_semaphores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("config", type=Path, metavar="CONFIG.yml", help="what to compute")
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")
    parser.add_argument("--scheduler", help="a Dask scheduler's address or file (default: a local cluster)")
    add_continue(parser)
    add_take_over(parser)
    parser.add_argument(
        "--finish", action="store_true", help="fold no further step: publish what is folded, and save its state"
    )
    parser.add_argument(
        "--lost",
        action="append",
        default=[],
        metavar="NODE",
        help="go on without this BB node, which is gone for good; results say which points lack which steps",
    )
    parser.add_argument("--output-held", action="store_true", help="who starts this holds the output for it")


def add_take_over(parser: argparse.ArgumentParser) -> None:
    """Declare the option of an analysis that takes a stream from another one."""
    parser.add_argument(
        "--take-over", action="store_true", help="also if the stream belongs to an analysis with another output"
    )


def add_continue(parser: argparse.ArgumentParser) -> None:
    """Declare the option of a run that goes on from another one's state."""
    parser.add_argument(
        "--continue",
        dest="continued",
        type=Path,
        metavar="STATE",
        help="go on from an earlier run: its output, or its state.bbflow",
    )


def configured(options: argparse.Namespace) -> Config:
    """Read the configuration, with what the options change."""
    config = load_config(options.config)
    return config if options.continued is None else replace(config, continued=options.continued)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from bbflow.api import connect  # late: 'bbflow run' shares the options above, and imports neither Dask nor xarray

    name_semaphores()
    config = configured(options)
    asked: dict[str, Any] = {"output_held": options.output_held, "take_over": options.take_over, "lost": options.lost}
    with connect(options.contact).analyse(config, options.scheduler, folds=not options.finish, **asked) as analysis:
        outcome = analysis.wait()
    for error in outcome.errors if outcome else ():
        print(f"bbflow: {error}", file=sys.stderr)
    return 0 if outcome is not None and outcome.complete else INCOMPLETE
