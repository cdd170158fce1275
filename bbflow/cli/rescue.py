"""Write the steps that BB nodes hold of a stream to a raw.zarr, without folding anything, and let go of them.

It takes over from an analysis that has failed. All variables are written; statistics can be had of them later
(`bbflow replay`). A directory has a store for each stream that was rescued to it: raw.zarr, raw_2.zarr and so on.

Example:
  bbflow rescue climate --contact contact.json --output rescued --take-over
"""

import argparse
from pathlib import Path

from bbflow.configuring.step_time import read_time
from bbflow.drain.rescuing import Rescue, check_known
from bbflow.host.log import tell
from bbflow.run.course import INCOMPLETE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("stream", help="name of the stream")
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")
    parser.add_argument("--output", type=Path, default=Path("rescued"), help="directory for the store")
    parser.add_argument("--take-over", action="store_true", help="also if the stream belongs to an analysis")
    parser.add_argument("--owner", default="", help="whose analysis it continues, as the nodes know it")
    parser.add_argument(
        "--time",
        default="time",
        metavar="WHAT",
        help="what tells the steps' time: a variable, or a map as in the configuration (default: time)",
    )
    parser.add_argument(
        "--schema", metavar="NAME", help="by which conventions the program writes (default: recognised)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if not options.owner:  # else it is a run's, whose program may open the stream later
        check_known(options.contact, options.stream)
    rescued = Rescue(
        options.contact,
        options.stream,
        options.output,
        read_time(options.time),
        schema=options.schema,
        owner=options.owner,
        take_over=options.take_over,
    ).run()
    tell(f"{rescued.steps} steps rescued to {rescued.store}")
    for text in rescued.left_out:
        tell(f"left out there: {text}")
    for text in rescued.refused:
        tell(f"the stream lacks something: {text}")
    return 0 if rescued.complete and not rescued.left_out else INCOMPLETE
