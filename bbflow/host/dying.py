"""Whether the process behind a connection that has ended is gone, with all that writes memory for it."""

import os
import select
import socket
import struct
from pathlib import Path

EXITING = 0x4
"""The kernel's PF_EXITING."""


def dying_process(peer: socket.socket) -> int | None:
    """Return a descriptor that becomes readable when the process at the other end of a socket is gone.

    A process that ends closes its connections before its devices: what these still copy comes after the connection's
    end, and not after the process'.

    Parameters
    ----------
    peer
        A connection that has ended.

    Returns
    -------
    int or None
        None if there is nothing to wait for: the process is gone already, lives on, is on another host, or can't be
        known (another container's, Linux before 5.3).
    """
    if peer.family != socket.AF_UNIX:
        return None
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", credentials)[0]
    try:
        # If the peer is long gone the number may be another process', which isn't exiting; from here on it is held.
        process = os.pidfd_open(pid)
    except OSError:
        return None
    ended = select.poll()
    ended.register(process, select.POLLIN)
    if not ended.poll(0) and _is_exiting(pid):
        return process
    os.close(process)
    return None


def _is_exiting(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return bool(int(fields[6]) & EXITING)  # proc(5), field 9
