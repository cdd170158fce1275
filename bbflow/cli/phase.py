"""Announce an I/O phase from a shell script, so that staging and draining give way to it.

'begin' prints a token, which 'end' takes. An announcement ends by itself with its lease, so that a job that died
delays no one: give one that is longer than the phase. 'run' announces for as long as a command runs.

Example:
  export BBFLOW_PHASES=/pfs/phases
  token=$(bbflow phase begin ocean-model --lease 300); cp checkpoint /pfs/; bbflow phase end "$token"
  bbflow phase run ocean-model -- cp checkpoint /pfs/
"""

import argparse
import subprocess
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bbflow.errors import ConfigError
from bbflow.phases import PFS, Board, io_phase
from bbflow.phases.board import LEASE_S
from bbflow.units import parse_seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--directory", type=Path, help="of the announcements (default: $BBFLOW_PHASES)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="begin|end|run|list")
    for name, summary in (("begin", "announce a phase"), ("run", "announce a phase while a command runs")):
        action = actions.add_parser(name, help=summary)
        action.add_argument("application", help="who is in it")
        action.add_argument("--file-system", default=PFS, help=f"where (default {PFS})")
        action.add_argument(
            "--lease", type=parse_seconds, default=LEASE_S, metavar="SECONDS", help=f"default {LEASE_S:g}"
        )
        if name == "run":
            action.set_defaults(simulation=[])
    end = actions.add_parser("end", help="say that a phase has ended")
    end.add_argument("token", help="what 'begin' printed")
    actions.add_parser("list", help="show the phases that last now")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    code: int = {"begin": _begin, "end": _end, "run": _run, "list": _list}[options.action](options)
    return code


def _begin(options: argparse.Namespace) -> int:
    board = Board(options.directory)
    board.sweep()
    print(board.begin(options.application, options.file_system, options.lease).token)
    return 0


def _end(options: argparse.Namespace) -> int:
    if Board(options.directory).end(options.token):
        return 0
    raise ConfigError(f"phase {options.token!r} isn't there: it has ended before, or its lease was over")


def _run(options: argparse.Namespace) -> int:
    if not options.simulation:
        raise ConfigError("no command is given: bbflow phase run APPLICATION -- COMMAND…")
    with io_phase(options.application, options.directory, options.file_system, options.lease):
        try:
            return subprocess.run(options.simulation, check=False).returncode
        except OSError as error:
            raise ConfigError(f"can't run {options.simulation[0]}: {error.strerror}") from None


def _list(options: argparse.Namespace) -> int:
    table = Table("application", "file system", "since", "lease", box=None, pad_edge=False, header_style="bold")
    now_s = time.time()
    for item in Board(options.directory).read():
        phase = item.phase
        since, lease = f"{now_s - phase.began_s:.1f} s", f"{item.expires_s - now_s:.0f} s left"
        table.add_row(phase.application, phase.file_system, since, lease)
    Console(markup=False, emoji=False).print(table)  # what others have called themselves
    return 0
