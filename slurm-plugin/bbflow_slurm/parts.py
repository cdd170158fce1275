"""What is done for a job's stream as its user, in a child of root's: see `child`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bbflow_slurm.streams import JobStream

Facts = Mapping[str, Any]


def begin(facts: Facts) -> bool:
    """Start a host's part of the stream, and wait until the job may begin or not; False if there is no stream."""
    stream = _stream(facts)
    if not stream.is_wanted:
        return False
    from bbflow_slurm.hosts import Hosts, begin

    begin(stream, Hosts(facts["host"], tuple(facts["hosts"])), restarts=facts["restarts"], end_s=facts["end_s"])
    return True


def end(facts: Facts) -> bool:
    """Announce that the job has ended, and wait until nothing runs on this host any more."""
    stream = _stream(facts)
    if not stream.is_wanted:
        return False
    stream.end()
    stream.await_end(facts["host"])
    return True


def fail(facts: Facts) -> None:
    """Fail the job, if it has a stream."""
    stream = _stream(facts)
    if stream.is_wanted:
        stream.fail(facts["reason"])


def await_done(facts: Facts) -> bool:
    """Announce that the job has ended, and wait for its analysis, wherever it runs."""
    stream = _stream(facts)
    if not stream.is_wanted:
        return False
    stream.end()
    stream.await_done()
    return True


def _stream(facts: Facts) -> JobStream:
    return JobStream(Path(facts["directory"]), facts["job"])
