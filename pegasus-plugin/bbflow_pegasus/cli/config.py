"""Make Pegasus stage through a burst buffer: its catalogs and properties change, the workflow doesn't.

Shows what it changes, then asks. It can be said again with other settings, and taken back by --undo.

Example:
  bbflow-pegasus config --to /bb/pegasus --capacity 2TiB --slots 64 --policy full-delay --phases /pfs/phases
  bbflow-pegasus plan --conf pegasus.properties --sites condorpool --staging-site condorpool=bb workflow.yml
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow_pegasus.checking import faults
from bbflow_pegasus.configuring import Change, Files, configure, undo
from bbflow_pegasus.settings import BurstBufferSite

_OF_SITE = (
    *("to", "capacity", "site", "compute", "slots", "lookahead", "policy", "phases", "observe", "file-system"),
    *("threads", "node-directory", "serve-jobs", "transfers-at"),
)
"""Options that say how the site is to be."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--to", metavar="DIR", help="on the burst buffer: a path, or s3://user@endpoint/bucket/prefix")
    parser.add_argument("--capacity", metavar="SIZE", help="room for files there, such as 2TiB")
    parser.add_argument("--site", default="bb", metavar="NAME", help="of the staging site (default bb)")
    parser.add_argument(
        "--compute", action="append", metavar="SITE", help="where jobs run; may be repeated (default condorpool)"
    )
    parser.add_argument("--slots", type=int, default=1, help="jobs that run at once (default 1)")
    parser.add_argument("--lookahead", type=int, default=1, help="waves that are staged ahead (default 1)")
    parser.add_argument("--policy", default="no-action", help="delay policy (default no-action)")
    parser.add_argument("--phases", metavar="DIR", help="where I/O phases are announced")
    parser.add_argument("--observe", action="append", default=[], metavar="KIND:NAME", help="see phases in traffic")
    parser.add_argument("--file-system", metavar="NAME", help="only phases of this file system count")
    parser.add_argument("--threads", type=int, help="files that a transfer job copies at once")
    parser.add_argument("--node-directory", metavar="DIR", help="on each node's own burst buffer: jobs work there")
    parser.add_argument("--serve-jobs", action="store_true", help="copy jobs' files too: their hosts have this bbflow")
    parser.add_argument("--transfers-at", default="local", metavar="SITE", help="where transfers run (default local)")
    parser.add_argument("--conf", type=Path, default=Path("pegasus.properties"), help="default pegasus.properties")
    parser.add_argument("--undo", action="store_true", help="restore everything as it was")
    parser.add_argument("--check", action="store_true", help="only say what is missing in the files as they are")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--yes", action="store_true", help="don't ask")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    files = Files.beside(options.conf.absolute())
    if options.check:
        refuse(options, "with --check", *_OF_SITE, "undo", "dry-run", "yes")
        found = list(faults(files))
        print("\n".join(found) or "everything is as it should be")
        return min(len(found), 1)
    if options.undo:
        refuse(options, "with --undo", *_OF_SITE)
        return _make(undo(files), options)
    if options.phases is None:
        refuse(options, "without --phases", "file-system")
    buffer = _buffer(options)
    code = _make(configure(buffer, files), options)
    if not code:
        print(f"now plan with: bbflow-pegasus plan --staging-site {buffer.staging_sites}, and all else as always")
    return code


def _buffer(options: argparse.Namespace) -> BurstBufferSite:
    if not (options.to and options.capacity):
        raise ConfigError("say where the burst buffer is, and how much it holds: --to DIR --capacity SIZE")
    return BurstBufferSite(
        directory=options.to,
        capacity=options.capacity,
        site=options.site,
        compute=tuple(options.compute or ("condorpool",)),
        slots=options.slots,
        lookahead=options.lookahead,
        policy=options.policy,
        phases=options.phases,
        observe=tuple(options.observe),
        file_system=options.file_system,
        threads=options.threads,
        node_directory=options.node_directory,
        transfers_at=options.transfers_at,
        serve_jobs=options.serve_jobs,
    )


def _make(changes: Sequence[Change], options: argparse.Namespace) -> int:
    """Show the changes, and make them if that is wanted; 1 if it isn't."""
    shown = [change for change in changes if not change.path.name.startswith(".")]
    for change in shown:
        print(change.shown())
    if not shown:
        print("everything is as it should be")
    if options.dry_run:
        return 0
    if shown and not options.yes and not _agreed(len(shown)):
        print("nothing was changed", file=sys.stderr)
        return 1
    for change in changes:
        change.make()
    return 0


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("there is no terminal to ask at: say --yes to change the files, or --dry-run to see how")
    return input(f"change {'this file' if count == 1 else f'these {count} files'}? [y/N] ").strip().lower() in (
        "y",
        "yes",
    )
