"""See what would keep a run from its end, without starting anything: configuration, XML, memory, nodes, Dask.

The exit code is 64 if something is wrong.

Example:
  bbflow check analysis.yml --xml model.xml
  bbflow check analysis.yml --contact contact.json --scheduler scheduler.json
  bbflow check analysis.yml --like run.bp
  bbflow check analysis.yml -- mpiexec -n 4 ./model
"""

import argparse
import os
from pathlib import Path

from bbflow.cli.analysing import add_continue, configured
from bbflow.run.checks.before import check_before, check_engine, check_run, check_select, check_xml
from bbflow.run.checks.finding import FINE, WRONG, Finding
from bbflow.run.checks.memory import check_windows
from bbflow.run.checks.program import check_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("config", type=Path, metavar="CONFIG.yml", help="what to compute, of which stream")
    parser.add_argument("--xml", type=Path, metavar="ADIOS2.xml", help="what the simulation reads")
    parser.add_argument("--contact", type=Path, help="contact file of running BB nodes")
    parser.add_argument("--scheduler", help="a Dask scheduler's address or scheduler file")
    parser.add_argument(
        "--like",
        "--grid",
        type=Path,
        metavar="FILE",
        help="a NetCDF or BP file whose first step is like the stream's: grids, levels, units, weights, blocks, memory",
    )
    add_continue(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    found = [Finding(FINE, "configuration", f"{options.config} can be read")]
    config = configured(options)
    found += check_engine()
    found += check_before(config)
    found += check_xml(options.xml, config) if options.xml else []
    found += check_program(options.simulation) if options.simulation else []
    found += check_select(config)
    found += check_run(config, options.contact, options.scheduler)
    found += check_windows(config) if options.contact is None else []
    if options.like is not None:
        from bbflow.run.checks.like import check_like  # late: it needs ADIOS2 or netCDF4

        found += check_like(config, options.like)
    for item in found:
        print(item)
    return os.EX_USAGE if any(item.kind == WRONG for item in found) else 0
