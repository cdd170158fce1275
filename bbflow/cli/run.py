"""Run a simulation that writes through ADIOS2 and fold its steps on BB nodes while it runs.

Without --contact it starts BB nodes for this run; without --scheduler threads of this host fold, or Dask's worker
processes, as 'workers' says. The exit code is the simulation's; 3 if it ended well and something is missing.

Example:
  bbflow run analysis.yml -- mpiexec -n 4 ./model --config model.xml
"""

import argparse
import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from bbflow.cli.analysing import add_continue, add_take_over, command_of, configured
from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.host.dumps import keep_from_dumps
from bbflow.host.leftovers import VARIABLE, run_name
from bbflow.host.one_thread import with_one_thread
from bbflow.run.prepared import TOLD, PreparedAnalysis


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "bbflow run CONFIG.yml [options] -- SIMULATION COMMAND…"
    parser.add_argument("config", type=Path, metavar="CONFIG.yml", help="what to compute of which stream")
    parser.add_argument("--member", metavar="NAME", help="run a member of an ensemble that is up")
    add_run_arguments(parser)
    add_continue(parser)
    parser.set_defaults(simulation=[])


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that other commands share."""
    parser.add_argument("--contact", type=Path, help="contact file of running BB nodes")
    parser.add_argument("--scheduler", help="a Dask scheduler's address or scheduler file")
    parser.set_defaults(continued=None)
    add_select(parser)
    add_take_over(parser)
    parser.add_argument("--no-report", action="store_true", help="publish only, draw no report.html")
    parser.add_argument("--overwrite", action="store_true", help="replace what an earlier run left in the output")


def add_select(parser: argparse.ArgumentParser) -> None:
    """Declare the options that choose which IOs land, for a program that reads no XML."""
    for what, name, example in (("io", "IOs", "wrfout_d01_*"), ("file", "files", "*.h0.*")):
        text = f"{name} with names like '{example}' go to the stream, whatever the program sets; may be repeated"
        parser.add_argument(f"--select-{what}", action="append", default=[], metavar="PATTERN", help=text)
    until = "the stream ends with the file of such a name; the program may continue, and writes others as it is"
    parser.add_argument("--until", metavar="PATTERN", help=until)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    keep_from_dumps()
    if not options.simulation:
        raise ConfigError("no simulation is given: bbflow run CONFIG.yml -- COMMAND…")
    return _run_member(options) if options.member else run_simulation(options, options.simulation)


def _run_member(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from bbflow.ensemble.ensemble_config import load_ensemble  # late: a run of its own needs none of it
    from bbflow.run.member import run_member
    from bbflow.run.selecting import with_selected

    if options.continued is not None:
        raise ConfigError("--member: an ensemble continues by itself from what its output has: leave --continue out")
    own = "with --member, since the ensemble has its own nodes, analysis and output"
    refuse(options, own, "contact", "scheduler", "take-over", "overwrite", "no-report")
    analysis = load_ensemble(options.config)
    selected = with_selected(analysis.member, options.select_io, options.select_file, options.until)
    return run_member(replace(analysis, member=selected), options.member, options.simulation, dict(os.environ))


def run_simulation(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run a simulation with its analysis and write the report.

    Parameters
    ----------
    options
        With config, contact, scheduler, continued and overwrite.
    command
        The simulation.

    Returns
    -------
    int
        The exit code.
    """
    if options.contact is None:
        refuse(options, "without --contact, where no other analysis is", "take-over")
    # A batch system ends a job with SIGTERM: what was committed is published as after Ctrl-C. A shell lets what it
    # starts in the background ignore SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    before = with_one_thread()
    analysis = command_of(options, TOLD)
    with run_name() as name, PreparedAnalysis(analysis, os.environ | {VARIABLE: name}) as prepared:
        # late, and in this order: the analysis imports what it needs at the same time, and then the nodes do
        from bbflow.landing.embedded import EmbeddedNodes
        from bbflow.run.selecting import with_selected

        config = with_selected(configured(options), options.select_io, options.select_file, options.until)
        own = config.nodes
        nodes = None if options.contact else EmbeddedNodes(own.count, own.capacity, own.directory, waits=False)
        with nodes or nullcontext():
            from bbflow.run.conducting import RunOptions, conduct

            wanted = RunOptions(
                options.config,
                config,
                command,
                before,
                partial(command_of, options),
                options.contact,
                options.scheduler,
                options.overwrite,
                options.take_over,
                not options.no_report,
            )
            return conduct(wanted, name, nodes, prepared)
