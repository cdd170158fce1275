"""The command line `bbflow-pegasus`: one module a subcommand, each with `add_arguments` and `run`."""

import sys
from collections.abc import Sequence

from bbflow.cli import Program

COMMANDS = {
    "config": "make Pegasus stage through a burst buffer: change its catalogs and properties, or change them back",
    "plan": "run pegasus-plan so that its workflow has waves",
    "wave": "divide a planned workflow into waves",
    "report": "show what a run did: waves, transfers, holds, jobs, and bytes on the burst buffer",
    "layout": "plan waves for the refiner (pegasus-plan runs this)",
    "transfer": "transfer files as pegasus-transfer does, giving way to I/O phases (Pegasus runs this)",
}
BBFLOW_PEGASUS = Program("bbflow-pegasus", __name__, "Burst-buffer staging for Pegasus workflows.", COMMANDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of bbflow-pegasus and return its exit code.

    Pegasus plans sub-workflows by the program that the transformation catalog names, and gives it pegasus-plan's words
    alone, which begin with a property: then that is what is done.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    return BBFLOW_PEGASUS.main(["plan", *words] if words and words[0].startswith("-D") else words)


def transfer() -> int:
    """Be pegasus-transfer, as the transformation catalog names it: its arguments, no subcommand, 1 for any failure."""
    return min(main(["transfer", *sys.argv[1:]]), 1)
