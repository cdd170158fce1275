"""What a child of root's does as a job's user: the program that `children` starts, once for each step.

It begins as root, without anything of root's but what it is told, and is the job's user before it looks at anything
of that user's. Who changes its user like this can't be traced or dumped by that user (ptrace(2), PR_SET_DUMPABLE), so
the secrets that it was told stay its own; a program that is executed as the user could be traced from its first
instruction on.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.errors import BbflowError, describe
from bbflow_slurm.children import NO

if TYPE_CHECKING:
    from bbflow_slurm.streams import JobStream

Facts = Mapping[str, Any]
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
MASK = 0o022


def main() -> int:
    """Take the user's place, do a step, and return the exit code."""
    with os.fdopen(0, "rb") as notes:
        told = json.load(notes)
    os.open(os.devnull, os.O_RDONLY)  # standard input is something
    step = sys.argv[1]
    _limit(told["limits"])
    _become(told["who"])
    # Only now: a change of user undoes what is said here of death signal and dumps (prctl(2)).
    _confine(told["parent"], may_gain=step in _STARTS_PROGRAMS)
    try:
        return 0 if STEPS[step](told["facts"]) is not False else NO
    except BbflowError as error:
        print(f"bbflow-slurm: {error}", flush=True)
    except OSError as error:
        print(f"bbflow-slurm: {describe(error)}", flush=True)
    except MemoryError:
        print(f"bbflow-slurm: {step} needs more memory than it may have", flush=True)
    return 1


def _limit(limits: Facts) -> None:
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
    ):
        if value is not None:
            resource.setrlimit(kind, (value, value))


def _become(who: Facts) -> None:
    """Be the user for good."""
    if os.geteuid() == 0:
        # In this order: whoever isn't root any more can change neither groups nor the group.
        os.setgroups(who["groups"])
        os.setresgid(who["gid"], who["gid"], who["gid"])
        os.setresuid(who["uid"], who["uid"], who["uid"])
    if os.getresuid() != (who["uid"],) * 3:
        raise SystemExit(f"bbflow-slurm: this process is user {os.getresuid()}, not {who['uid']}")
    os.umask(MASK)
    os.environ.update(HOME=who["home"], USER=who["name"], LOGNAME=who["name"])


def _confine(parent: int, *, may_gain: bool) -> None:
    """End with the parent; let no one read this memory; gain nothing by what is executed."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    calls = [(PR_SET_PDEATHSIG, signal.SIGKILL), (PR_SET_DUMPABLE, 0)]
    for call, value in calls if may_gain else [*calls, (PR_SET_NO_NEW_PRIVS, 1)]:
        # prctl is variadic: what isn't given as a long has undefined upper bits.
        if prctl(call, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
            raise SystemExit(f"bbflow-slurm: prctl {call}: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before this would have been noticed
        raise SystemExit("bbflow-slurm: what started this has ended")


# Each step imports what it needs once it is the user.


def _check(facts: Facts) -> bool:
    from bbflow_slurm.asked import check

    return check(facts["script"], facts["pool"], may_read=facts["may_read"])


def _stage_in(facts: Facts) -> None:
    from bbflow_slurm.asked import copying

    copying(facts).stage_in(facts["script"])


def _stage_out(facts: Facts) -> None:
    from bbflow_slurm.asked import copying

    copying(facts).stage_out(facts["script"])


def _remove(facts: Facts) -> None:
    from bbflow.host.held import clear_below

    clear_below(facts["directory"])


def _of_stream(work: Callable[["JobStream", Facts], None]) -> Callable[[Facts], bool]:
    """Make a step of what is done for a job's stream, if it has one."""

    def step(facts: Facts) -> bool:
        from bbflow_slurm.streams import JobStream

        stream = JobStream(Path(facts["directory"]), facts["job"])
        if not stream.is_wanted:
            return False
        work(stream, facts)
        return True

    return step


@_of_stream
def _host_begin(stream: "JobStream", facts: Facts) -> None:
    """Start a host's part of the stream, and wait until the job may begin or not."""
    from bbflow_slurm.hosts import Hosts, begin

    begin(stream, Hosts(facts["host"], tuple(facts["hosts"])), restarts=facts["restarts"], end_s=facts["end_s"])


@_of_stream
def _host_end(stream: "JobStream", facts: Facts) -> None:
    """Announce that the job has ended, and wait until nothing runs on this host any more."""
    stream.end()
    stream.await_end(facts["host"])


@_of_stream
def _fail(stream: "JobStream", facts: Facts) -> None:
    stream.fail(facts["reason"])


@_of_stream
def _await_done(stream: "JobStream", _: Facts) -> None:
    """Announce that the job has ended, and wait for its analysis, wherever it runs."""
    stream.end()
    stream.await_done()


STEPS: Mapping[str, Callable[[Facts], bool | None]] = {
    "check": _check,
    "stage-in": _stage_in,
    "stage-out": _stage_out,
    "remove": _remove,
    "host-begin": _host_begin,
    "host-end": _host_end,
    "fail": _fail,
    "await-done": _await_done,
}
"""What can be asked for."""
_STARTS_PROGRAMS = frozenset({"host-begin"})
"""They start the user's programs, which may be set-user-id ones, as in a job."""

if __name__ == "__main__":
    sys.exit(main())
