"""Merge the states of separate runs, such as the members of an ensemble, and publish what comes of them.

Merged is what the states hold: whole runs, climatologies, and the spans that were open at the end. The output gets
results.zarr, and a state that can be merged further.

Example:
  bbflow merge member1/ member2/ member3/ --output ensemble/
"""

import argparse
import sys
from pathlib import Path

from bbflow.host.log import tell
from bbflow.run.course import INCOMPLETE
from bbflow.transit.chain.merging import merge_states


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "states", type=Path, nargs="+", metavar="STATE", help="state.bbflow of a run, or the output directory with it"
    )
    parser.add_argument("--output", type=Path, required=True, help="directory for results.zarr and the merged state")
    parser.add_argument(
        "--operators",
        type=Path,
        metavar="DIRECTORY",
        help="where operators of your own lie, if states need some",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    merged = merge_states(options.states, options.output, options.operators)
    for span in merged.left_out:
        tell(f"{span} is left out: some run had steps in it, but has published it")
    for path in merged.incomplete:
        tell(f"the results of {path} are incomplete, and so are these")
    for text in merged.lacking:
        tell(text)
    tell(f"{merged.state.runs} runs in {options.output / 'results.zarr'}", sys.stdout)
    return INCOMPLETE if merged.left_out or merged.incomplete or merged.lacking else 0
