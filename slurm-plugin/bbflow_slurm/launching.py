"""A job's stream: root's part of it, on its hosts and for all of them."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bbflow.errors import BbflowError, ConfigError, NodeError
from bbflow.host.log import tell
from bbflow_slurm.children import ChildLimits, GivenUpError, ask
from bbflow_slurm.groups import ControlGroup
from bbflow_slurm.jobs import JobSpace
from bbflow_slurm.site import Site
from bbflow_slurm.streams import START_S
from bbflow_slurm.user import Owner

MARGIN_S = 60.0
"""What a child is given to say that its time is over before it is killed for that."""
_ASKS = ChildLimits(time_s=30.0)


class StreamPart:
    """A host's part of a job's stream.

    Parameters
    ----------
    site
        Its file.
    job
        Slurm's number.
    host
        This one, as Slurm or the site names it.
    owner
        Whose the job is.

    Raises
    ------
    ConfigError
        If that isn't a host's name.
    """

    def __init__(self, site: Site, job: str, host: str, owner: Owner) -> None:
        self._path = JobSpace(site, job).path
        if not is_host(host):
            raise ConfigError(f"{host!r} isn't a host's name")
        self._owner, self._end_s, self._name = owner, site.end_s, f"{job}-{host}"
        self._facts = {"directory": str(self._path), "job": job, "host": host}

    def begin(self, hosts: Sequence[str], restarts: int) -> None:
        """Start it, and wait until it is known whether the job may begin.

        Raises
        ------
        BbflowError
            If it can't be started; the job's user is told, too.
        """
        facts: dict[str, Any] = {"hosts": [*hosts], "restarts": restarts, "end_s": self._end_s}
        try:
            group = ControlGroup(self._name).make()
            if not self._ask("host-begin", ChildLimits(START_S + MARGIN_S), group, **facts):
                group.end()
        except BbflowError as error:
            self._ask("fail", _ASKS, reason=f"{self._facts['host']}: {error}")
            raise

    def end(self) -> None:
        """End it, once its analysis has all there is; nothing that it has started is left.

        Raises
        ------
        NodeError
            If it took too long.
        """
        try:
            self._ask("host-end", ChildLimits(self._end_s))
        except GivenUpError:
            raise NodeError(
                f"the analysis of job {self._facts['job']} didn't end within {self._end_s:.0f} s on "
                f"{self._facts['host']}: it was killed"
            ) from None
        finally:
            ControlGroup(self._name).end()

    def _ask(self, step: str, limits: ChildLimits, group: ControlGroup | None = None, **facts: Any) -> bool:
        return ask(self._owner, step, self._facts | facts, limits, group=group)[0]


def is_host(name: str) -> bool:
    """Whether something may be a host's name, and so part of a file's."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}", name) is not None


def begin_everywhere(site: Site, job: str) -> None:
    """Start the parts of a job's stream on the site's hosts, and wait until it is known whether the job may begin."""
    space = JobSpace(site, job)
    noted = space.noted
    if site.stream_hosts and noted is not None and noted.stream:
        space.note_stream("begun")
        _run_everywhere(site, job, noted.owner, "host-begin", START_S + 2 * MARGIN_S, "--restarts", _restarts(job))


def end_everywhere(site: Site, job: str) -> None:
    """Announce that a job has ended, and wait for its analysis, wherever it runs, as long as the site allows."""
    space = JobSpace(site, job)
    noted = space.noted
    if noted is None or not noted.stream:
        return
    if not site.stream_hosts:
        try:
            ask(noted.owner, "await-done", {"directory": str(space.path), "job": job}, ChildLimits(site.end_s))
        except GivenUpError:
            print(f"bbflow-slurm: the analysis of job {job} didn't end within {site.end_s:.0f} s: it isn't waited for")
    elif noted.stream == "begun":
        _run_everywhere(site, job, noted.owner, "host-end", site.end_s + 2 * MARGIN_S)
        space.note_stream("wanted")


def tear_down(site: Site, job: str) -> None:
    """Remove what a job has on the burst buffer, and what is left of its stream on the site's hosts."""
    space = JobSpace(site, job)
    noted = space.noted
    try:
        if noted is not None and noted.stream == "begun":
            end_everywhere(site, job)
    except NodeError as error:
        tell(str(error), program="bbflow-slurm")
    finally:
        space.tear_down()


def _restarts(job: str) -> str:
    """Ask Slurm how often a job has begun before; nothing in what it says is the user's."""
    words = ["squeue", "--noheader", "--jobs", job, "--Format", "RestartCnt"]
    said = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL).stdout.strip()
    return said if re.fullmatch("[0-9]{1,9}", said) else "0"


def _run_everywhere(site: Site, job: str, owner: Owner, command: str, patience_s: float, *options: str) -> None:
    """Run a command on all hosts at once.

    Raises
    ------
    NodeError
        If it fails on one, or takes too long.
    """
    names = " ".join(site.stream_hosts)
    who = ["--uid", str(owner.uid), "--gid", str(owner.gid)]
    running = {}
    for host in site.stream_hosts:
        words = [command, job, "--set", "--host", host, "--hosts", names, *who, *options]
        # what runs it, such as ssh, lets a shell read the words again
        launch = shlex.split(site.stream_launch.format(host=host))
        running[host] = subprocess.Popen([*launch, *map(shlex.quote, words)], stdin=subprocess.DEVNULL)
    end_s = time.monotonic() + patience_s
    failed = [host for host, process in running.items() if _code(process, end_s)]
    if failed:
        raise NodeError(f"{command} failed on {', '.join(failed)}: see what {Path(sys.argv[0]).name} said there")


def _code(process: "subprocess.Popen[bytes]", end_s: float) -> int:
    try:
        return process.wait(max(end_s - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
