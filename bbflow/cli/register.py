"""Hand the values of a stream to a function of a shared library, where they lie, until the stream is closed.

Example, and one with MPI:
  bbflow register model --contact contact.json --map ./libmax.so:map_max --reduce ./libmax.so:reduce_max --output max
  bbflow register model --contact contact.json --variable tas --mpi --map ./libspectrum.so:spectrum --output spectra
"""

import argparse
from pathlib import Path

from bbflow.host.log import tell
from bbflow.registered.map_reduce import register
from bbflow.registered.registration import Function, Registration, parse_group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("stream", help="name of the stream, which need not be there yet")
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")
    parser.add_argument("--map", required=True, metavar="LIB:FUNC", help="gets the values of each block")
    parser.add_argument("--reduce", metavar="LIB:FUNC", help="gets all that map wrote (default: that is the output)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="gets the result, at the end")
    parser.add_argument("--variable", help="whose values (default: the stream's only array)")
    parser.add_argument(
        "--group", metavar="N", help="hand over N steps of a node at once, or 'all' (default: each block by itself)"
    )
    parser.add_argument(
        "--mpi", action="store_true", help="the functions take (int in_fd, int out_fd, MPI_Comm): a rank for each node"
    )
    parser.add_argument(
        "--launch",
        metavar="WORDS",
        help="run map beside BB nodes of other hosts with these words before it, such as 'ssh {host}' "
        "(default: their blocks are fetched)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    outcome = register(
        Registration(
            options.contact,
            options.stream,
            Function.parse(options.map),
            options.output.resolve(),
            Function.parse(options.reduce) if options.reduce else None,
            options.variable,
            parse_group(options.group) if options.group else None,
            options.mpi,
            options.launch,
        )
    )
    if outcome.missing:
        tell(
            f"{outcome.missing} of {outcome.missing + (outcome.steps or 0)} steps were discarded, or gone "
            "before this registration: they are not in the result"
        )
    return 0
