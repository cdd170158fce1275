"""Children of root's that work as a job's user: what is a user's is opened, read and run in these, never by root.

A child is a program of its own: it has none of its parent's memory, descriptors (but those that it is given) or
environment. What it needs is on its standard input, as JSON, secrets too. `child` is what it runs. Its parent holds
it, and ends it by what the kernel knows it by; what it says is a text, of which only so much is read.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from bbflow.errors import BbflowError
from bbflow_slurm.groups import ControlGroup
from bbflow_slurm.user import Owner, identity

KEPT = ("PATH", "SLURM_CONF", "LANG", "TZ")
"""Of the environment."""
MOST_SAID_BYTES = 8192
"""What is read of what a child says."""
NO = 3
"""Exit code of a child that was asked something, and says no."""
_POLL_S = 0.1
_GONE_S = 5.0


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What a child may take."""

    time_s: float
    """Of the clock; then it is killed."""
    memory_bytes: int | None = None
    """Data that it has in memory; None for no bound."""
    file_bytes: int | None = None
    """The largest file that it may write; None for no bound."""


class FailedError(BbflowError):
    """A child has failed; the message is what it said."""


class GivenUpError(BbflowError):
    """A child was ended, on request or since its time was over."""


def ask(
    owner: Owner,
    step: str,
    facts: Mapping[str, Any],
    limits: ChildLimits,
    *,
    descriptors: Sequence[int] = (),
    group: ControlGroup | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[bool, str]:
    """Do something as a job's user.

    Parameters
    ----------
    owner
        Who.
    step
        What: a function of `child.STEPS`.
    facts
        What it is told. Only the child sees it.
    limits
        What it may take.
    descriptors
        What it inherits, under the same numbers.
    group
        To which it belongs with all that it starts; None if it runs no code of the user's.
    is_over
        Whether it is to be ended now.

    Returns
    -------
    bool, str
        Whether it said yes, and what else.

    Raises
    ------
    FailedError
        If it failed; the message is its own.
    GivenUpError
        If its time was over, or `is_over`.
    """
    if any(descriptor < 3 for descriptor in descriptors):
        raise ValueError(f"descriptors {descriptors} are in the place of standard ones")
    told = {"who": asdict(identity(owner)), "limits": asdict(limits), "parent": os.getpid(), "facts": dict(facts)}
    process = _started(step, told, descriptors, group)
    try:
        said = _listen(process, time.monotonic() + limits.time_s, is_over)
    finally:
        _end(process)
    if said is None:
        why = "it isn't wanted any more" if is_over() else f"its {limits.time_s:.0f} s were over"
        raise GivenUpError(f"{step} was ended: {why}")
    text = printable(said)
    if process.returncode not in (0, NO):
        raise FailedError(text or f"{step} failed ({process.returncode})")
    return process.returncode == 0, text


def _started(
    step: str, told: Mapping[str, Any], descriptors: Sequence[int], group: ControlGroup | None
) -> "subprocess.Popen[bytes]":
    """Start a child that reads on its standard input what it is told."""
    notes = os.memfd_create("bbflow-slurm")
    try:
        os.write(notes, json.dumps(told).encode())
        os.lseek(notes, 0, os.SEEK_SET)
        return subprocess.Popen(
            [sys.executable, "-I", "-m", "bbflow_slurm.child", step],
            stdin=notes,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            env={name: os.environ[name] for name in KEPT if name in os.environ},
            cwd="/",
            start_new_session=True,
            preexec_fn=None if group is None else group.join,  # this process has one thread
        )
    finally:
        os.close(notes)


def _listen(process: "subprocess.Popen[bytes]", end_s: float, is_over: Callable[[], bool]) -> bytes | None:
    """Return the first bytes of what a child says until it ends; None if it is to end before."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    said, is_done = b"", False
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while True:
            is_done = process.poll() is not None
            while part := _part(process.stdout.fileno()):
                said = (said + part)[:MOST_SAID_BYTES]
                if not is_done:
                    break  # one that never stops saying something must not keep us from looking at the clock
                if len(said) == MOST_SAID_BYTES:
                    return said
            if is_done:
                return said
            if is_over() or time.monotonic() > end_s:
                return None
            if part == b"":
                time.sleep(_POLL_S)  # it has closed its end
            else:
                waiting.select(_POLL_S)


def _part(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, MOST_SAID_BYTES)
    except BlockingIOError:
        return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a child that hasn't been waited for, whose number is therefore no one else's."""
    assert process.stdout is not None
    process.stdout.close()
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a file system doesn't answer; the child dies when it does
            process.wait(_GONE_S)


def printable(said: bytes) -> str:
    """Return what a child said as one line of signs that can be printed."""
    lines = said.decode(errors="replace").strip().splitlines()
    text = "; ".join(line.strip().removeprefix("bbflow-slurm: ") for line in lines)
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
