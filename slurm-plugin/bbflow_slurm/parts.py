"""What is done for a job's stream as its user, in a child of root's: see `child`."""

from collections.abc import Mapping
from typing import Any

from bbflow_slurm.streams import JobStream

Facts = Mapping[str, Any]


def begin(stream: JobStream, facts: Facts) -> None:
    """Start a host's part of the stream, and wait until the job may begin or not."""
    from bbflow_slurm.hosts import Hosts, begin

    begin(stream, Hosts(facts["host"], tuple(facts["hosts"])), restarts=facts["restarts"], end_s=facts["end_s"])


def end(stream: JobStream, facts: Facts) -> None:
    """Announce that the job has ended, and wait until nothing runs on this host any more."""
    stream.end()
    stream.await_end(facts["host"])


def fail(stream: JobStream, facts: Facts) -> None:
    """Fail the job."""
    stream.fail(facts["reason"])


def await_done(stream: JobStream, _: Facts) -> None:
    """Announce that the job has ended, and wait for its analysis, wherever it runs."""
    stream.end()
    stream.await_done()
