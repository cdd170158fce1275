"""Keeping a contact file's key out of core dumps."""

import ctypes
import resource

_PR_SET_DUMPABLE = 4


def keep_from_dumps() -> None:
    """Keep this process from dumps and from its user's other processes; what it starts by exec dumps as before."""
    # Besides dumps this forbids ptrace and /proc/PID/mem to other processes of the user.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def write_no_cores() -> None:
    """Keep this process, and what it starts, from writing core files.

    It is for one that must read in /proc/self what the kernel doesn't give to one that mustn't be dumped.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
