"""Write the steps of a raw.zarr again, as the simulation did: a program for 'bbflow run'.

So statistics are had of what was rescued. With --continue they extend those of the run that failed.

Example:
  bbflow run analysis.yml --continue bbflow-out -- bbflow replay bbflow-out/rescued/raw.zarr --stream climate
"""

import argparse
from pathlib import Path

from bbflow.drain.replaying import replay
from bbflow.host.log import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("raw", type=Path, metavar="RAW.zarr", help="the store")
    parser.add_argument("--stream", required=True, help="name of the stream")
    parser.add_argument("--after", type=int, default=-1, metavar="STEP", help="only the steps above this one")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    count = replay(options.raw, options.stream, options.after)
    tell(f"{count} steps of {options.raw} written again")
    return 0
