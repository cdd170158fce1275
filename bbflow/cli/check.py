"""See what would keep a run from its end, without starting anything: configuration, XML, memory, nodes, Dask.

The exit code is 64 if something is wrong. With --site it measures this host, two minutes at most, and says what a
scenario of `bbflow simulate` has otherwise.

Example:
  bbflow check analysis.yml --xml model.xml
  bbflow check analysis.yml --contact contact.json --scheduler scheduler.json
  bbflow check analysis.yml --like run.bp
  bbflow check analysis.yml -- mpiexec -n 4 ./model
  bbflow check ensemble.yml --like member.nc --times 365
  bbflow check --site exascale --storage /scratch
"""

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.cli.analysing import add_continue, configured
from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.host.leftovers import SHARED_MEMORY
from bbflow.run.checks.before import check_before, check_engine, check_run, check_select, check_xml
from bbflow.run.checks.finding import FINE, WRONG, Finding
from bbflow.run.checks.memory import check_windows
from bbflow.run.checks.program import check_program
from bbflow.run.checks.window_ends import check_ends

if TYPE_CHECKING:
    from bbflow.ensemble.ensemble_settings import EnsembleAnalysis

OF_RUN = ("xml", "contact", "scheduler", "like", "times", "continued", "simulation")
"""Options that say how a run would be."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("config", type=Path, nargs="?", metavar="CONFIG.yml", help="what to compute of which stream")
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
    parser.add_argument("--times", type=int, help="of an ensemble, a run's times that are open at once: in waves, all")
    parser.add_argument("--site", metavar="SCENARIO", help="compare this host with one of a scenario, a file or name")
    parser.add_argument("--storage", type=Path, metavar="DIR", help="on the site's shared storage (default: here)")
    add_continue(parser)
    parser.set_defaults(simulation=[])


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.config is None:
        return _print(_site(options))
    if options.site is not None:
        raise ConfigError("--site looks at this host, and needs no configuration: leave one of both out")
    refuse(options, "without --site", "storage")
    found = [Finding(FINE, "configuration", f"{options.config} can be read")]
    ensemble = _ensemble(options)
    config = configured(options) if ensemble is None else ensemble.member
    found += check_engine()
    found += check_before(config)
    found += check_xml(options.xml, config) if options.xml else []
    found += check_program(options.simulation) if options.simulation else []
    found += check_select(config)
    found += check_run(config, options.contact, options.scheduler)
    found += check_windows(config) if options.contact is None and ensemble is None else []
    found += check_ends(config) if ensemble is None else []
    states = None
    if options.like is not None:
        from bbflow.run.checks.like import check_like  # late: it needs ADIOS2 or netCDF4

        more, states = check_like(config, options.like)
        found += more
    if ensemble is not None:
        from bbflow.run.checks.ensemble_findings import check_ensemble

        found += check_ensemble(ensemble, states, options.times)
    return _print(found)


def _print(found: Iterable[Finding]) -> int:
    """Print each thing that was found, as soon as it is there, and return the exit code."""
    kinds = []
    for item in found:
        print(item, flush=True)
        kinds.append(item.kind)
    return os.EX_USAGE if WRONG in kinds else 0


def _site(options: argparse.Namespace) -> Iterator[Finding]:
    """Measure this host."""
    name = options.site
    if name is None:
        raise ConfigError("name a configuration, or --site with a scenario to compare this host with")
    if any(vars(options).get(other) for other in OF_RUN):
        raise ConfigError("--site looks at this host, not at a run: of other options it takes --storage only")
    from bbflow.cli.scenarios import find  # late: simulating needs what drives stagings
    from bbflow.run.checks.site import check_site

    return check_site(find(name), SHARED_MEMORY, options.storage or Path())


def _ensemble(options: argparse.Namespace) -> "EnsembleAnalysis | None":
    """Read an ensemble's configuration; None if it is that of a run."""
    from bbflow.ensemble.ensemble_config import is_ensemble, load_ensemble  # late: a run of its own needs none of it

    if not is_ensemble(options.config):
        if options.times is not None:
            raise ConfigError("--times is for an ensemble's configuration, which has the key 'ensemble'")
        return None
    if options.continued is not None:
        raise ConfigError("an ensemble continues by itself from what its output has: leave --continue out")
    if options.times is not None and options.times < 1:
        raise ConfigError(f"--times: {options.times} isn't 1 or more")
    return load_ensemble(options.config)
