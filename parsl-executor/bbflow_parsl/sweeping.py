"""Removes the directory of a run from a burst buffer once none of its processes lives.

On a node it is a program of its own, as workers are killed. It is run as a file, and imports nothing but the standard
library: it is there as long as the workers are.
"""

import fcntl
import os
import shutil
import sys

ALIVE = "alive"
"""Locked by the process that uses the directory, or by several together; it names that by its inode."""


def mark(descriptor: int, directory: str) -> None:
    """Write into `ALIVE` that the directory is ours: one that lacks it, or is a copy, is never removed."""
    os.pwrite(descriptor, _name_of(directory), 0)


def is_marked(descriptor: int, directory: str) -> bool:
    """Whether a directory is the one whose `ALIVE` this is: one that has taken its place is not."""
    try:
        return os.pread(descriptor, 64, 0) == _name_of(directory)
    except OSError:
        return False


def _name_of(directory: str) -> bytes:
    return str(os.stat(directory).st_ino).encode()


def remove_if_dead(directory: str, wait: bool) -> None:
    """Remove a directory if no process uses it, or once none does."""
    try:
        descriptor = os.open(os.path.join(directory, ALIVE), os.O_RDWR)
    except OSError:
        return  # it is gone, or not ours, or being made right now
    try:
        # Each process that uses the directory has a shared lock: an exclusive one means that all are gone.
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return
    else:
        if is_marked(descriptor, directory):
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    remove_if_dead(sys.argv[1], wait=True)
