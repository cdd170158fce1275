"""What commands share that have an analysis: its options, its configuration, and the command of its process."""

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from bbflow.configuring.results_place import continued_place

if TYPE_CHECKING:  # 'bbflow run' starts its analysis before it imports anything large
    from bbflow.configuring.settings import Config


def add_take_over(parser: argparse.ArgumentParser) -> None:
    """Declare the option of an analysis that takes a stream from another one."""
    parser.add_argument(
        "--take-over", action="store_true", help="also if the stream belongs to an analysis with another output"
    )


def add_continue(parser: argparse.ArgumentParser) -> None:
    """Declare the option of a run that continues from another one's state."""
    parser.add_argument(
        "--continue",
        dest="continued",
        type=continued_place,
        metavar="STATE",
        help="continue from an earlier run: its output, a directory or a bucket, or its state.bbflow",
    )


def configured(options: argparse.Namespace) -> "Config":
    """Read the configuration, with what the options change."""
    from bbflow.configuring.config import load_config

    config = load_config(options.config)
    return config if options.continued is None else replace(config, continued=options.continued)


def command_of(options: argparse.Namespace, contact: str) -> list[str]:
    """Return the command of a run's analysis."""
    words = [sys.executable, "-m", "bbflow", "fold", str(options.config), "--contact", contact, "--output-held"]
    words += ["--scheduler", options.scheduler] if options.scheduler else []
    return [*words, "--continue", str(options.continued)] if options.continued is not None else words
