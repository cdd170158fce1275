"""Start an ensemble's analysis, which takes members as they come, look at it, or end it.

Example:
  bbflow ensemble up analysis.yml
  bbflow run analysis.yml --member 7 -- ./model     # on each member's own, all at once or in waves
  bbflow ensemble status analysis.yml
  bbflow ensemble wait analysis.yml
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.errors import ConfigError, NodeError

if TYPE_CHECKING:
    from bbflow.ensemble.settings import EnsembleAnalysis

POLL_S = 0.2
UP_S = 60.0
ACTIONS = {
    "plan": "say what the states of open times come to",
    "up": "start BB nodes and the analysis, which end with the last member",
    "status": "say how each member is",
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
        if name in ("up", "keep", "serve"):
            action.add_argument("--contact", type=Path, help="contact file of BB nodes that are there")
            action.add_argument("--scheduler", help="a Dask scheduler's address or scheduler file")
        if name == "plan":
            action.add_argument("--points", type=int, required=True, help="points of a field, after its space")
            action.add_argument("--times", type=int, required=True, help="times that are open at once: in waves, all")
            action.add_argument("--type", default="f4", help="type of the variables (default: %(default)s)")
        if name in ("lost", "spare"):
            action.add_argument("member", help="its name")
            action.add_argument("--why", default="somebody said so", help="what status and results say of it")
        if name == "down":
            action.add_argument("--no-wait", action="store_true", help="don't wait until all is published")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from bbflow.ensemble.config import load_ensemble  # late, as all below: 'up' only starts a process

    analysis = load_ensemble(options.config)
    code: int = globals()[f"_{options.action}"](options, analysis)
    return code


def _plan(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.ensemble.folding import room_for
    from bbflow.units import format_bytes

    if min(options.points, options.times) < 1:
        raise ConfigError("--points and --times must be 1 or more")
    room, total = room_for(analysis, options.points, options.type), 0
    for window, nbytes in room.items():
        total += nbytes * options.times
        told = f"{format_bytes(nbytes)} for each {window}"
        print(f"{told}, {format_bytes(nbytes * options.times)} for {options.times} that are open at once")
    members, capacity = len(analysis.ensemble.members), analysis.ensemble.states.capacity
    print(
        f"{format_bytes(total)} in all, while the fields of {members} members would take "
        f"{format_bytes(len(analysis.fields) * members * options.times * options.points * 8)} as float64"
    )
    if total > capacity:
        print(
            f"{format_bytes(total - capacity)} of it go to disk, in the output, since states: capacity is "
            f"{format_bytes(capacity)}; less is needed with windows first (each), a coarser grid (space), fewer or "
            "coarser percentiles (error), or scores without the CRPS (crps: false)"
        )
    return 0


def _up(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.ensemble.places import CONTACT, DOWN, LOG, STATUS, claim_ensemble

    output = analysis.output
    if _is_up(analysis):
        raise ConfigError(f"the ensemble in {output} is up already: see 'bbflow ensemble status'")
    output.mkdir(parents=True, exist_ok=True)
    claim_ensemble(output)
    for name in (DOWN, STATUS):
        (output / name).unlink(missing_ok=True)
    words = [sys.executable, "-m", "bbflow", "ensemble", "keep", str(options.config)]
    words += ["--contact", str(options.contact)] if options.contact else []
    words += ["--scheduler", options.scheduler] if options.scheduler else []
    with (output / LOG).open("ab") as log:
        began = log.tell()
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline_s = time.monotonic() + UP_S
    while not ((output / CONTACT).exists() and (output / STATUS).exists()):
        if process.poll() is not None:
            said = (output / LOG).read_bytes()[began:].decode(errors="replace").strip().splitlines()
            raise NodeError(said[-1].removeprefix("bbflow: ") if said else "the ensemble's process ended at once")
        if time.monotonic() > deadline_s:
            raise NodeError(f"the ensemble didn't come up within {UP_S:.0f} s: see {output / LOG}")
        time.sleep(POLL_S)
    print(f"ensemble {analysis.ensemble.name} of {len(analysis.ensemble.members)} members is up")
    return 0


def _is_up(analysis: "EnsembleAnalysis") -> bool:
    from bbflow.run.ensemble import is_up

    return is_up(analysis.output)


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
        return 0 if serve(analysis, options.contact, cluster) else INCOMPLETE


def _status(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from rich.console import Console
    from rich.table import Table

    from bbflow.run.ensemble import read_status
    from bbflow.units import format_bytes

    status = read_status(analysis.output)
    counted = Counter(member.standing for member in status.members)
    console = Console()
    state = status.state if status.state != "running" or _is_up(analysis) else "not running"
    console.print(f"ensemble {status.name}: {state}; " + ", ".join(f"{n} {name}" for name, n in counted.items()))
    shown = ", ".join(f"{number} of {window}" for window, number in status.shown.items())
    console.print(
        f"complete: {shown or 'nothing'}; open: {status.open_moments} ({format_bytes(status.state_bytes)} in memory)"
    )
    table = Table("member", "standing", "attempts", "times", "why")
    for member in status.members:
        table.add_row(member.name, member.standing, str(member.attempts), str(member.times), member.why)
    console.print(table)
    return 0


def _lost(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    return _mark(options, analysis, "lost")


def _spare(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    return _mark(options, analysis, "spared")


def _mark(options: argparse.Namespace, analysis: "EnsembleAnalysis", standing: str) -> int:
    from bbflow.ensemble.roster import MemberRoster, Standing
    from bbflow.run.member import check_member

    check_member(analysis, options.member)
    roster = MemberRoster(analysis.output)
    known = roster.members((options.member,))[options.member]
    if standing == "spared" and known.standing is not Standing.ANNOUNCED:
        raise ConfigError(
            f"member {options.member} is {known.standing.value}: only one that hasn't begun can be spared"
        )
    roster.mark(options.member, Standing(standing), options.why)
    return 0


def _down(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.ensemble.places import DOWN

    if not _is_up(analysis):
        raise ConfigError(f"the ensemble in {analysis.output} isn't up")
    (analysis.output / DOWN).touch()
    return 0 if options.no_wait else _wait(options, analysis)


def _wait(options: argparse.Namespace, analysis: "EnsembleAnalysis") -> int:
    from bbflow.ensemble.places import CONTACT
    from bbflow.run.course import INCOMPLETE
    from bbflow.run.ensemble import read_status

    gone = 0
    while True:
        status = read_status(analysis.output)
        if status.state != "running":
            return 0 if status.state == "complete" else INCOMPLETE
        gone = 0 if _is_up(analysis) or (analysis.output / CONTACT).exists() else gone + 1
        if gone > 3:
            raise NodeError(f"the ensemble in {analysis.output} isn't up any more: 'bbflow ensemble up' carries on")
        time.sleep(POLL_S)
