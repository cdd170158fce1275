"""Connections of another process, which break, and ports."""

import ctypes
import os
import socket
from contextlib import contextmanager

C = ctypes.CDLL(None, use_errno=True)
PIDFD_GETFD = 438  # of all Linux; Python has no name for it
NOBODY = bytes(16)  # an address of no family: who connects to that resets its connection


@contextmanager
def a_port():
    """A port that nobody else gets while its server is away, those included who connect from here."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def break_connections(process, spared_port=None):
    """Reset a child's TCP connections, but for those to a port, as a network does that fails; return how many."""
    broken = 0
    whole = os.pidfd_open(process.pid)
    for name in os.listdir(f"/proc/{process.pid}/fd"):
        own = C.syscall(PIDFD_GETFD, whole, int(name), 0)
        if own < 0:
            continue  # it has been closed since
        if not os.readlink(f"/proc/self/fd/{own}").startswith("socket:"):
            os.close(own)
            continue
        with socket.socket(fileno=own) as connection:
            try:
                is_other = connection.family in (socket.AF_INET, socket.AF_INET6)
                if is_other and connection.getpeername()[1] != spared_port:
                    broken += C.connect(own, NOBODY, len(NOBODY)) == 0
            except OSError:
                continue  # it listens, or the other side was first
    os.close(whole)
    return broken
