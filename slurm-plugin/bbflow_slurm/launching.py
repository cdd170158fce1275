"""A job's stream on the site's own hosts: this program is started on each of them."""

import shlex
import subprocess
import sys

from bbflow.errors import NodeError
from bbflow_slurm.jobs import JobSpace


def begin_everywhere(space: JobSpace) -> None:
    """Start the parts of a job's stream, and wait until it is known whether the job may begin."""
    if space.stream_hosts and space.stream.is_wanted:
        _run_everywhere(space, "host-begin", "--restarts", _restarts(space.path.name))


def end_everywhere(space: JobSpace) -> None:
    """Say that a job has ended, and wait for its analysis, wherever it runs."""
    if not space.stream.is_wanted:
        return
    if space.stream_hosts:
        _run_everywhere(space, "host-end")
    elif space.is_stream_host(is_set=False):
        space.stream.end()
        space.stream.await_done()


def _restarts(job: str) -> str:
    """Ask Slurm how often a job has begun before."""
    words = ["scontrol", "--oneliner", "show", "job", job]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return next((word.partition("=")[2] for word in said.split() if word.startswith("Restarts=")), "0")


def _run_everywhere(space: JobSpace, command: str, *options: str) -> None:
    """Run a command on all hosts at once.

    Raises
    ------
    NodeError
        If it fails on one.
    """
    names = " ".join(space.stream_hosts)
    running = {}
    for host in space.stream_hosts:
        words = [command, space.path.name, "--set", "--host", host, "--hosts", names, *options]
        # what runs it, such as ssh, lets a shell read the words again
        launch = shlex.split(space.stream_launch.format(host=host))
        running[host] = subprocess.Popen([*launch, *map(shlex.quote, words)], stdin=subprocess.DEVNULL)
    failed = [host for host, process in running.items() if process.wait()]
    if failed:
        raise NodeError(f"{command} failed on {', '.join(failed)}: see what {sys.argv[0]} said there")
