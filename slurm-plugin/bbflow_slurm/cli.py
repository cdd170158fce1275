"""The program `bbflow-slurm`, which Slurm's daemons run: each subcommand is one moment in a job's life."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.errors import BbflowError, describe
from bbflow_slurm.directives import Pool, Wishes, parse_script

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
    check = add("check", _check, "script")
    check.add_argument("--uid", type=int, help="the job's user, who must be able to read the analysis")
    check.add_argument("--gid", type=int, default=0)
    setup = add("setup", _setup, "job")
    setup.add_argument("--uid", type=int, required=True)
    setup.add_argument("--gid", type=int, required=True)
    setup.add_argument("--bytes", type=int, default=0, help="what the job asked for")
    add("stage-in", _stage_in, "job", "script")
    add("paths", _paths, "job", "file")
    add("stage-out", _stage_out, "job", "script")
    add("teardown", _teardown, "job")
    add("hosts-begin", _hosts_begin, "job")
    add("hosts-end", _hosts_end, "job")
    for name, run in (("host-begin", _host_begin), ("host-end", _host_end), ("host", _host)):
        command = add(name, run, "job")
        command.add_argument("--host", required=True, help="this one, as --hosts has it")
        command.add_argument("--hosts", type=str.split, default=[], help="all of the stream's, with blanks between")
        command.add_argument("--restarts", type=int, default=0, help="how often the job has begun before")
        command.add_argument("--set", action="store_true", help="it is one of the site's own")
    add("lasting", _lasting, "directory", "job")
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
    from bbflow_slurm.site import read_site

    analysis = _wishes(options.script, read_site(options.config).pool_of_all).analysis
    if analysis is not None and options.uid is not None:
        from bbflow_slurm.user import Owner, become

        become(Owner(options.uid, options.gid, 0))
        with analysis.open():
            pass


def _setup(options: argparse.Namespace) -> None:
    """Make the job's directory."""
    from bbflow_slurm.user import Owner

    _space(options).set_up(Owner(options.uid, options.gid, options.bytes))


def _stage_in(options: argparse.Namespace) -> None:
    """Copy what the job reads."""
    wishes = _wishes(options.script)
    size_bytes = _space(options).stage_in(wishes.stage_in, wishes.analysis)
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


def _hosts_begin(options: argparse.Namespace) -> None:
    """Start a job's stream on the site's hosts, if it has one and they are to have it."""
    from bbflow_slurm.launching import begin_everywhere

    begin_everywhere(_space(options))


def _hosts_end(options: argparse.Namespace) -> None:
    """Say that the job has ended, and wait for its analysis."""
    from bbflow_slurm.launching import end_everywhere

    end_everywhere(_space(options))


def _host_begin(options: argparse.Namespace) -> None:
    """Start a host's part of a job's stream, if it has one."""
    space = _space(options)
    if not space.is_stream_host(is_set=options.set):
        return
    from bbflow_slurm.hosts import Hosts, begin

    words = ["--config", str(options.config.absolute())]
    begin(space.stream, Hosts(options.host, tuple(options.hosts)), words, restarts=options.restarts)


def _host_end(options: argparse.Namespace) -> None:
    """End a host's part of a job's stream, once its analysis has all there is."""
    space = _space(options)
    if not space.is_stream_host(is_set=options.set):
        return
    from bbflow_slurm.streams import END_S

    space.stream.end()
    space.stream.await_end(options.host, END_S)


def _host(options: argparse.Namespace) -> None:
    """Be a host's part of a job's stream: host-begin starts this."""
    from bbflow_slurm.hosts import Hosts, serve

    serve(_space(options).stream, Hosts(options.host, tuple(options.hosts)), restarts=options.restarts)


def _lasting(options: argparse.Namespace) -> None:
    """Last as long as a job: its analysis takes this for the simulation."""
    from bbflow_slurm.hosts import last
    from bbflow_slurm.streams import JobStream

    last(JobStream(Path(options.directory), options.job))


def _wishes(script: str, pool: Pool | None = None) -> Wishes:
    with open(script, encoding="utf-8", errors="surrogateescape") as file:
        return parse_script(file, pool)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
