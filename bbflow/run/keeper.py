"""Runs a program for one that may be killed, and then ends all that it has started: a program of its own.

It is run as a file with nothing but the standard library, so that it is small and starts at once. Whatever the program
starts stays below it, orphans too, as it is their subreaper.

MPICH leaves segments in shared memory behind if it is killed. They are known by their names: a hash of Hydra's name of
the job (pmiserv_utils.c and mpir_pmi.c of MPICH), which is made of the process id of mpiexec, the host, and a random
number whose seed is the second in which it began.
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
ENDING = {signal.SIGINT, signal.SIGTERM}
"""They reach the program's process group, as from a terminal: a script that dies of one would leave what it runs.

The program doesn't ignore them from its start, as what a shell starts in the background does with SIGINT.
"""
FORWARDED = {*ENDING, signal.SIGHUP, signal.SIGUSR2}
MEMORY = "/dev/shm"
LAUNCHERS = ("mpiexec", "mpirun")
"""How the programs are called that MPICH's ranks are started with."""
SEED_S = 30
"""How many seconds after its begin a launcher has named its job."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 20.0
GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when the parent is gone; and for ranks to end after their launcher."""


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
    # Blocked, and taken by sigtimedwait: none is lost between a look and the wait, and none interrupts anything else.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, PARENT_GONE, 0, 0, 0)

    def prepare() -> None:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # fork(2) clears it: without this the program would outlive a keeper that is killed.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    try:
        # The reader waits for its end, so no child may keep it open.
        os.set_inheritable(told, False)
        program = subprocess.Popen(command, preexec_fn=prepare)
    except OSError as error:
        os.write(told, (error.strerror or str(error)).encode())
        return 1
    os.close(told)
    launchers = {program.pid: int(time.time())}
    look_s = FIRST_LOOK_S
    while program.poll() is None:
        info = signal.sigtimedwait(waited_for, look_s)
        # The parent may have died before prctl: then no signal comes, but this process has another parent.
        if os.getppid() != parent or (info and info.si_signo == PARENT_GONE):
            launchers |= _launchers()
            _end_all(program)
        elif info is None:
            launchers |= _launchers()
            look_s = min(2 * look_s, LONGEST_LOOK_S)
        elif info.si_signo in FORWARDED and info.si_pid:  # what the terminal sends, the program gets by itself
            for pid in _in_group() if info.si_signo in ENDING else [program.pid]:
                _send(pid, signal.Signals(info.si_signo))
    _remove_segments(launchers, program.pid)
    return program.returncode


def _remove_segments(launchers: dict[int, int], program: int) -> None:
    """Remove the shared memory that launchers have left behind."""
    segments = _segments(launchers)
    if segments and _are_gone(program):  # who is left may be a rank that uses them
        for path in segments:
            with suppress(OSError):
                os.unlink(path)


def _are_gone(program: int) -> bool:
    """Whether nothing runs below this process any more; ranks end a little later than their launcher."""
    end_s = time.monotonic() + GRACE_S
    while left := any(_descendants()):
        if time.monotonic() > end_s:
            break
        time.sleep(0.02)
        _reap(program)
    return not left


def _end_all(program: "subprocess.Popen[bytes]") -> None:
    """End all that runs below this process."""
    end_s = time.monotonic() + GRACE_S
    number = signal.SIGTERM
    for pid in _descendants():
        _send(pid, number)
    while any(_descendants()):
        if time.monotonic() > end_s:
            for pid in _descendants():
                # All again in each round: what is about to die may still fork.
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
    """Iterate over all processes: parent and state."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it has ended
        yield int(name), (int(parent), state)


def _descendants() -> list[int]:
    """Return the living processes below this one."""
    known = dict(_processes())
    below = {os.getpid()}
    while more := {pid for pid, (parent, _) in known.items() if parent in below} - below:
        below |= more
    return [pid for pid in below - {os.getpid()} if known[pid][1] != "Z"]


def _in_group() -> list[int]:
    """Return the living processes below this one in its process group."""
    found = []
    for pid in _descendants():
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == os.getpgrp():
                found.append(pid)
    return found


def _launchers() -> dict[int, int]:
    """Return the launchers of MPI below this process, and when each began (seconds since the epoch)."""
    found = {}
    for pid in _descendants():
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended
        if name.startswith(LAUNCHERS):
            age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(rest.split()[19]) / os.sysconf("SC_CLK_TCK")
            found[pid] = int(time.time() - age_s)
    return found


def _segments(launchers: dict[int, int]) -> list[str]:
    """Find what the jobs of some launchers have left; what carries no name of theirs is someone else's."""
    ours = {world for pid, began_s in launchers.items() for world in worlds(pid, began_s)}
    found = []
    with suppress(OSError), os.scandir(MEMORY) as entries:
        for entry in entries:
            library, _, world = entry.name.rpartition("_")[0].rpartition("_")
            if library in ("mpich_shm", "mpich_vci") and world in ours:
                found.append(entry.path)
    return found


def worlds(pid: int, began_s: int) -> Iterator[str]:
    """Yield what the job of a launcher may be called in the names of its segments: by MPICH 5.0, and by later ones."""
    libc = ctypes.CDLL(None)
    for second in range(began_s - 1, began_s + SEED_S):
        libc.srand(second)
        job = f"kvs_{pid}_0_{libc.rand()}_{os.uname().nodename}"
        yield from (f"{_fnv(job):x}", f"{_fnv(job + '-1'):x}")


def _fnv(text: str) -> int:
    """Hash a text as FNV-1a does, into 32 bits."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def end_like(code: int) -> None:
    """End as the program has."""
    if code < 0:
        # The program's own core file, if it has left one, isn't replaced by one of this process.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    end_like(keep(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
