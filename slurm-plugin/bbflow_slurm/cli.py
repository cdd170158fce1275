"""The program `bbflow-slurm`, which Slurm's daemons run: each subcommand is one moment in a job's life."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bbflow.errors import BbflowError, describe
from bbflow.host.log import tell

if TYPE_CHECKING:
    from bbflow_slurm.jobs import JobSpace
    from bbflow_slurm.launching import StreamPart
    from bbflow_slurm.site import Site

VARIABLE = "BBFLOW_BB"
"""Of the job: its directory on the burst buffer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code; what went wrong is one line."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass  # Slurm's daemons may have closed standard input: no file that is opened here is to be in its place
    os.close(descriptor)
    options = _parser().parse_args(arguments)
    os.umask(0o022)
    try:
        options.run(options)
    except BbflowError as error:
        tell(str(error), program="bbflow-slurm")
        return 1
    except OSError as error:
        tell(describe(error), program="bbflow-slurm")
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
    _add_owner(check, required=False)
    setup = add("setup", _setup, "job")
    _add_owner(setup, required=True)
    setup.add_argument("--bytes", type=int, default=0, help="what the job asked for")
    add("stage-in", _stage_in, "job", "script")
    add("paths", _paths, "job", "file")
    add("stage-out", _stage_out, "job", "script")
    add("teardown", _teardown, "job")
    add("hosts-begin", _hosts_begin, "job")
    add("hosts-end", _hosts_end, "job")
    for name, run in (("host-begin", _host_begin), ("host-end", _host_end)):
        command = add(name, run, "job")
        _add_host(command)
        _add_owner(command, required=True)
        command.add_argument("--set", action="store_true", help="it is one of the site's own")
    host = add("host", _host, "directory", "job")
    _add_host(host)
    host.add_argument("--end-s", type=float, default=3600.0, help="how long the analysis is given after the job")
    add("lasting", _lasting, "directory", "job")
    return parser


def _add_owner(command: argparse.ArgumentParser, *, required: bool) -> None:
    command.add_argument("--uid", type=int, required=required, help="the job's user")
    command.add_argument("--gid", type=int, required=required, help="and group")


def _add_host(command: argparse.ArgumentParser) -> None:
    command.add_argument("--host", required=True, help="this one, as --hosts has it")
    command.add_argument("--hosts", type=str.split, default=[], help="all of the stream's, with blanks between")
    command.add_argument("--restarts", type=int, default=0, help="how often the job has begun before")


def _site(options: argparse.Namespace) -> "Site":
    from bbflow_slurm.site import read_site

    return read_site(options.config)


def _space(options: argparse.Namespace) -> "JobSpace":
    from bbflow_slurm.jobs import JobSpace

    return JobSpace(_site(options), options.job)


def _pools(options: argparse.Namespace) -> None:
    """Report the room that may be given away."""
    print(json.dumps(_site(options).pools))


def _check(options: argparse.Namespace) -> None:
    """Report what is wrong with a job script, when it is submitted."""
    from bbflow.host.held import open_regular
    from bbflow_slurm.jobs import MOST_SCRIPT_BYTES, check_script
    from bbflow_slurm.user import Owner

    owner = None if options.uid is None else Owner(options.uid, options.uid if options.gid is None else options.gid)
    check_script(open_regular(Path(options.script), MOST_SCRIPT_BYTES), owner, pool=_site(options).pool_of_all)


def _setup(options: argparse.Namespace) -> None:
    """Make the job's directory."""
    from bbflow_slurm.launching import tear_down
    from bbflow_slurm.user import Owner

    tear_down(_site(options), options.job)
    _space(options).set_up(Owner(options.uid, options.gid, options.bytes))


def _stage_in(options: argparse.Namespace) -> None:
    """Copy what the job reads."""
    tell(_space(options).stage_in(Path(options.script)), sys.stdout, "bbflow-slurm")


def _paths(options: argparse.Namespace) -> None:
    """Write the job's variables."""
    Path(options.file).write_text(f"{VARIABLE}={_space(options).path}\n")


def _stage_out(options: argparse.Namespace) -> None:
    """Copy what the job has made."""
    if said := _space(options).stage_out(Path(options.script)):
        tell(said, sys.stdout, "bbflow-slurm")


def _teardown(options: argparse.Namespace) -> None:
    """Remove what the job has on the burst buffer."""
    from bbflow_slurm.launching import tear_down

    tear_down(_site(options), options.job)


def _hosts_begin(options: argparse.Namespace) -> None:
    """Start a job's stream on the site's hosts, if it has one and they are to have it."""
    from bbflow_slurm.launching import begin_everywhere

    begin_everywhere(_site(options), options.job)


def _hosts_end(options: argparse.Namespace) -> None:
    """Announce that the job has ended, and wait for its analysis."""
    from bbflow_slurm.launching import end_everywhere

    end_everywhere(_site(options), options.job)


def _part(options: argparse.Namespace) -> "StreamPart | None":
    """Return a host's part of a job's stream; None if hosts of this kind have none."""
    from bbflow_slurm.launching import StreamPart
    from bbflow_slurm.user import Owner

    site = _site(options)
    if options.set != bool(site.stream_hosts):
        return None
    return StreamPart(site, options.job, options.host, Owner(options.uid, options.gid))


def _host_begin(options: argparse.Namespace) -> None:
    """Start a host's part of a job's stream, if it has one."""
    if part := _part(options):
        part.begin(options.hosts, options.restarts)


def _host_end(options: argparse.Namespace) -> None:
    """End a host's part of a job's stream, once its analysis has all there is."""
    if part := _part(options):
        part.end()


def _host(options: argparse.Namespace) -> None:
    """Be a host's part of a job's stream, as its user: host-begin starts this."""
    from bbflow_slurm.hosts import Hosts, serve
    from bbflow_slurm.streams import JobStream

    stream = JobStream(Path(options.directory), options.job)
    hosts = Hosts(options.host, tuple(options.hosts))
    serve(stream, hosts, restarts=options.restarts, end_s=options.end_s)


def _lasting(options: argparse.Namespace) -> None:
    """Last as long as a job: its analysis takes this for the simulation."""
    from bbflow_slurm.hosts import last
    from bbflow_slurm.streams import JobStream

    last(JobStream(Path(options.directory), options.job))


if __name__ == "__main__":
    sys.exit(main())
