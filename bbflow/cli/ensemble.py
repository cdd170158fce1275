"""Start an ensemble's analysis, which takes members as they come, look at it, or end it.

Example:
  bbflow ensemble run analysis.yml --at-once 4 -- ./model --seed {member}

  bbflow ensemble up analysis.yml
  bbflow run analysis.yml --member 7 -- ./model     # on each member's own, all at once or in waves
  bbflow ensemble status analysis.yml
  bbflow ensemble wait analysis.yml
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.host.log import tell

if TYPE_CHECKING:
    from bbflow.ensemble.ensemble_settings import EnsembleAnalysis
    from bbflow.run.ensemble_control import Ensemble

MOST_NAMED = 10
ACTIONS = {
    "plan": "say what the states of open times come to",
    "up": "start BB nodes and the analysis, which end with the last member",
    "run": "bring it up, run all members' program, which stands after --, with {member} and {start} in it, and wait",
    "status": "say how each member is",
    "report": "write report.html: plumes, ranks, spread and error, maps, and the members",
    "lost": "wait no more for a member: what it gave stays",
    "spare": "let a member that hasn't begun not start: there is enough",
    "down": "end it: what members have given is published",
    "wait": "wait until it is over; 0 if nothing is missing, else 3",
    "keep": "be the process behind 'up'",
    "serve": "be the analysis alone, with BB nodes that are there",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        action.add_argument("config", type=Path, metavar="CONFIG.yml", help="the ensemble's configuration")
        if name in ("up", "run", "keep", "serve"):
            action.add_argument("--contact", type=Path, help="contact file of BB nodes that are there")
            action.add_argument("--scheduler", help="a Dask scheduler's address or scheduler file")
        if name == "serve":
            action.add_argument("--keeper", type=int, help=argparse.SUPPRESS)
        if name == "run":
            action.add_argument("--at-once", type=int, default=1, help="members at once (default: %(default)s)")
            action.set_defaults(simulation=[])
        if name == "plan":
            action.add_argument("--points", type=int, required=True, help="points of a field, after its space")
            action.add_argument(
                "--times", type=int, required=True, help="a run's times that are open at once: in waves, all"
            )
            action.add_argument("--type", default="f4", help="type of the variables (default: %(default)s)")
        if name in ("lost", "spare"):
            action.add_argument("member", help="its name")
            action.add_argument("--why", default="asked for", help="what status and results say of it")
        if name == "down":
            action.add_argument("--no-wait", action="store_true", help="don't wait until all is published")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from bbflow.ensemble.ensemble_config import load_ensemble  # late, as all below: 'up' only starts a process

    analysis = load_ensemble(options.config)
    code: int = globals()[f"_{options.action}"](options, analysis)
    return code


def _plan(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.ensemble.state_sizes import tell_room

    if min(options.points, options.times) < 1:
        raise ConfigError("--points and --times must be 1 or more")
    sizes = dict.fromkeys((field.name for field in analysis.fields), (options.points, options.type))
    for text in tell_room(analysis, sizes, options.times):
        print(text)
    return 0


def _up(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    _ensemble(options).up(options.contact, options.scheduler)
    print(f"ensemble {analysis.ensemble.name} of {len(analysis.ensemble.runs)} members is up")
    return 0


def _run(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.run.course import INCOMPLETE

    if not options.simulation:
        raise ConfigError("give the members' program after --, such as -- ./model --seed {member}")
    if options.at_once < 1:
        raise ConfigError(f"--at-once: {options.at_once} isn't 1 or more")
    ensemble = _ensemble(options)
    if ensemble.is_up:
        refuse(options, "on an ensemble that is up", "contact", "scheduler")
    else:
        _up(options, analysis)
    failed = [name for name, code in ensemble.run_all(options.simulation, options.at_once).items() if code]
    if ensemble.settle():
        return 0
    _tell(ensemble)
    if failed and ensemble.status().state == "running":
        tell(
            f"{len(failed)} members failed, {', '.join(failed[:MOST_NAMED])}: the same command starts them "
            "again, 'bbflow ensemble down' publishes without them"
        )
    return INCOMPLETE


def _ensemble(options: argparse.Namespace) -> "Ensemble":
    from bbflow.run.ensemble_control import Ensemble

    return Ensemble(options.config)


def _keep(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.run.ensemble import keep

    return keep(options.config, analysis, options.contact, options.scheduler)


def _serve(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from contextlib import ExitStack

    from bbflow.host.leftovers import name_semaphores
    from bbflow.net.certificate import certificate_of
    from bbflow.run.course import INCOMPLETE
    from bbflow.run.ensemble import serve

    if options.contact is None:
        raise ConfigError("serve needs --contact: 'bbflow ensemble up' starts BB nodes too")
    name_semaphores()
    with ExitStack() as stack:
        cluster = None
        if options.scheduler:
            from bbflow.transit.clusters.dask_cluster import connected_cluster

            cluster = stack.enter_context(connected_cluster(options.scheduler, certificate_of(options.contact)))
        return 0 if serve(analysis, options.contact, cluster, keeper=options.keeper) else INCOMPLETE


def _status(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from rich.console import Console
    from rich.table import Table

    from bbflow.ensemble.status import is_up, read_status
    from bbflow.units import format_bytes

    status = read_status(analysis.output)
    counted = Counter(member.standing for member in status.members)
    console = Console(markup=False, emoji=False)  # members' errors and names may have brackets
    state = status.state if status.state != "running" or is_up(analysis.output) else "not running"
    console.print(f"ensemble {status.name}: {state}; " + ", ".join(f"{n} {name}" for name, n in counted.items()))
    shown = ", ".join(f"{number} of {window}" for window, number in status.shown.items())
    console.print(
        f"complete: {shown or 'nothing'}; open: {status.open_moments} ({format_bytes(status.state_bytes)} in memory)"
    )
    table = Table("member", "standing", "attempts", "times", "why")
    for member in status.members:
        table.add_row(member.name, member.standing, str(member.attempts), str(member.times), member.why)
    console.print(table)
    for text in status.said:
        console.print(text)
    return 0


def _report(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.report.ensemble_report import write_ensemble_report

    print(write_ensemble_report(analysis.output))
    return 0


def _lost(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    _ensemble(options).lose(options.member, options.why)
    return 0


def _spare(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    _ensemble(options).spare(options.member, options.why)
    return 0


def _down(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    _ensemble(options).down()
    return 0 if options.no_wait else _wait(options, analysis)


def _wait(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.run.course import INCOMPLETE

    ensemble = _ensemble(options)
    if ensemble.wait():
        return 0
    _tell(ensemble)
    return INCOMPLETE


def _tell(ensemble: "Ensemble") -> None:
    """Print what is missing."""
    for text in ensemble.status().said:
        tell(text)
