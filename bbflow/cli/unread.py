"""Standard output whose reader is gone, such as that of ``bbflow files ls | head``."""

import os
import select
import signal

STDOUT = 1
EXIT_CODE = 128 + signal.SIGPIPE
"""What a shell gives for a program that SIGPIPE has ended; we ignore it, since peers on the network may hang up too."""


def is_unread() -> bool:
    """Whether standard output is a pipe whose reader has gone."""
    poll = select.poll()
    poll.register(STDOUT, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def drop() -> None:
    """Discard what was printed and isn't written yet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
