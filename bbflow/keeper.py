"""Runs a program for one that may be killed, and then ends all that it has started: a program of its own.

It is run as a file with nothing but the standard library, so that it is small and starts at once. Whatever the program
starts stays below it, orphans too, as it is their subreaper. So it also knows which shared memory of MPICH is theirs.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PARENT_GONE = signal.SIGUSR1
FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2}
SEGMENTS = ("/dev/shm/mpich_shm_", "/dev/shm/mpich_vci_")
"""How MPICH names its segments; it leaves them behind if it is killed."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 20.0
GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when the parent is gone."""

Segment = tuple[str, int]


def keep(parent: int, told: int, command: list[str]) -> int:
    """Run a program.

    Parameters
    ----------
    parent
        Process that it is run for.
    told
        Descriptor that gets the reason if the program can't be started, and ends when it is.
    command
        The program.

    Returns
    -------
    int
        How it ended, as `subprocess` says it.
    """
    waited_for = {PARENT_GONE, signal.SIGCHLD, *FORWARDED}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, PARENT_GONE, 0, 0, 0)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    try:
        os.set_inheritable(told, False)
        program = subprocess.Popen(command, preexec_fn=prepare)
    except OSError as error:
        os.write(told, (error.strerror or str(error)).encode())
        return 1
    os.close(told)
    segments: set[Segment] = set()
    look_s = FIRST_LOOK_S
    while program.poll() is None:
        info = signal.sigtimedwait(waited_for, look_s)
        if os.getppid() != parent or (info and info.si_signo == PARENT_GONE):
            segments |= set(_segments())
            _end_all(program)
        elif info is None:
            segments |= set(_segments())
            look_s = min(2 * look_s, LONGEST_LOOK_S)
        elif info.si_signo in FORWARDED and info.si_pid:  # what the terminal sends, the program gets by itself
            program.send_signal(info.si_signo)
    if not any(_descendants()):
        _remove(segments)
    return program.returncode


def _end_all(program: "subprocess.Popen[bytes]") -> None:
    """End all that runs below this process."""
    end_s = time.monotonic() + GRACE_S
    number = signal.SIGTERM
    for pid in _descendants():
        _send(pid, number)
    while any(_descendants()):
        if time.monotonic() > end_s:
            for pid in _descendants():
                _send(pid, signal.SIGKILL)
        time.sleep(0.02)
        program.poll()
        _reap(program.pid)


def _reap(but: int) -> None:
    """Take leave of orphans that have ended."""
    for pid, (parent, _) in _processes():
        if parent == os.getpid() and pid != but:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _processes() -> Iterator[tuple[int, tuple[int, str]]]:
    """Go through all processes: parent and state."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it has ended
        yield int(name), (int(parent), state)


def _descendants() -> list[int]:
    """Give the living processes below this one."""
    known = dict(_processes())
    below = {os.getpid()}
    while more := {pid for pid, (parent, _) in known.items() if parent in below} - below:
        below |= more
    return [pid for pid in below - {os.getpid()} if known[pid][1] != "Z"]


def _segments() -> Iterator[Segment]:
    """Go through the segments that the processes below this one have mapped, with their inodes."""
    for pid in _descendants():
        try:
            with open(f"/proc/{pid}/maps") as file:
                lines = [line.split(maxsplit=5) for line in file]
        except OSError:
            continue  # it has ended
        yield from ((line[5].rstrip("\n"), int(line[4])) for line in lines if line[5:] and line[5].startswith(SEGMENTS))


def _remove(segments: set[Segment]) -> None:
    for path, inode in segments:
        with suppress(OSError):
            if os.stat(path).st_ino == inode:
                os.unlink(path)


def end_like(code: int) -> None:
    """End as the program has."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    end_like(keep(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
