"""Options of all commands that stage files: how many at once, how far ahead, and what they give way to."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.host.log import tell
from bbflow.operators.own.origin import look_in
from bbflow.phases import Board, BoardSource, PhaseSource, SourcesTogether, observe
from bbflow.staging.policies import parse_policy

TRANSFER_OPTIONS = ("lookahead", "policy", "phases", "observe", "file-system", "fetchers")
"""Their names."""


def add_transfer_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument("--lookahead", type=int, default=1, help="waves that are staged ahead (default 1)")
    parser.add_argument("--policy", default="no-action", help="delay policy, also module:Name (default no-action)")
    parser.add_argument("--phases", type=Path, metavar="DIR", help="where I/O phases are announced")
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        metavar="KIND:NAME",
        help="see phases in traffic: nfs:MOUNT, lustre:FSNAME, jobs:FSNAME, disk:DEVICE",
    )
    parser.add_argument("--file-system", metavar="NAME", help="only phases of this file system count")
    parser.add_argument("--fetchers", type=int, default=8, help="files that are copied at once (default 8)")


def transfers_of(options: argparse.Namespace) -> Mapping[str, Any]:
    """Return what a `Stager` takes of them.

    Raises
    ------
    ConfigError
        If there is no such policy, or it could never see a phase.
    """
    places: list[PhaseSource] = [observe(what) for what in options.observe]
    if options.phases is None:
        refuse(options, "without --phases", "file-system")
    else:
        if not options.phases.exists():
            tell(f"{options.phases} wasn't there: it is made, and phases are seen once others announce them in it")
        Board(options.phases).sweep()
        places.insert(0, BoardSource(options.phases, options.file_system))
    look_in(str(Path.cwd()))  # for a policy of one's own
    policy = parse_policy(options.policy)
    if not places and policy.needs_phases:
        raise ConfigError(f"policy {options.policy}: without --phases or --observe no phase would ever be seen")
    return {
        "policy": policy,
        "phases": SourcesTogether(places),
        "fetchers": options.fetchers,
        "lookahead": options.lookahead,
    }
