"""The program `bbflow-slurm`, which Slurm's controller runs: each subcommand is one moment in a job's life."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.errors import BbflowError, describe
from bbflow_slurm.directives import Wishes, parse_script

if TYPE_CHECKING:
    from bbflow_slurm.jobs import JobSpace

VARIABLE = "BBFLOW_BB"
"""Of the job: its directory on the burst buffer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code; what went wrong is one line."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except BbflowError as error:
        print(f"bbflow-slurm: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bbflow-slurm: {describe(error)}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bbflow-slurm", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("/etc/slurm/bbflow.yml"), help="default: %(default)s")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], *words: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=(run.__doc__ or "").partition("\n")[0])
        for word in words:
            command.add_argument(word)
        command.set_defaults(run=run)
        return command

    add("pools", _pools)
    add("check", _check, "script")
    setup = add("setup", _setup, "job")
    setup.add_argument("--uid", type=int, required=True)
    setup.add_argument("--gid", type=int, required=True)
    setup.add_argument("--bytes", type=int, default=0, help="what the job asked for")
    add("stage-in", _stage_in, "job", "script")
    add("paths", _paths, "job", "file")
    add("stage-out", _stage_out, "job", "script")
    add("teardown", _teardown, "job")
    return parser


# The controller waits for 'check' while a user does: it starts without what copies.


def _space(options: argparse.Namespace) -> "JobSpace":
    from bbflow_slurm.jobs import JobSpace
    from bbflow_slurm.site import read_site

    return JobSpace(read_site(options.config), options.job)


def _pools(options: argparse.Namespace) -> None:
    """Tell what there is to give away."""
    from bbflow_slurm.site import read_site

    print(json.dumps(read_site(options.config).pools))


def _check(options: argparse.Namespace) -> None:
    """Say what is wrong with a job script, when it is submitted."""
    _wishes(options.script)


def _setup(options: argparse.Namespace) -> None:
    """Make the job's directory."""
    from bbflow_slurm.jobs import Owner

    _space(options).set_up(Owner(options.uid, options.gid, options.bytes))


def _stage_in(options: argparse.Namespace) -> None:
    """Copy what the job reads."""
    wishes = _wishes(options.script)
    size_bytes = _space(options).stage_in(wishes.stage_in)
    print(f"bbflow-slurm: {size_bytes} bytes are there")


def _paths(options: argparse.Namespace) -> None:
    """Write the job's variables."""
    Path(options.file).write_text(f"{VARIABLE}={_space(options).path}\n")


def _stage_out(options: argparse.Namespace) -> None:
    """Copy what the job has made."""
    wishes = _wishes(options.script)
    for source in _space(options).stage_out(wishes.stage_out):
        print(f"bbflow-slurm: the job didn't make {source}: nothing is staged out for it")


def _teardown(options: argparse.Namespace) -> None:
    """Remove what the job has on the burst buffer."""
    _space(options).tear_down()


def _wishes(script: str) -> Wishes:
    with open(script, encoding="utf-8", errors="surrogateescape") as file:
        return parse_script(file)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
