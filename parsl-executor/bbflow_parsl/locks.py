"""Locks between the processes of one node: of the kernel's, so that a dead process holds none."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_S = 0.01
"""How often is looked for what can't be waited for."""


def lock(path: Path, shared: bool = False, wait: bool = True) -> int | None:
    """Lock a file, which is made if it isn't there.

    Returns
    -------
    int or None
        A descriptor, to be closed when it is over; None if others hold the lock and `wait` is false.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock alone for as long as a ``with`` lasts."""
    descriptor = lock(path)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def one_of(directory: Path, count: int) -> Iterator[int]:
    """Hold one of some places, in turn with others who wait; give its number, the lowest that is free.

    Parameters
    ----------
    directory
        Of the locks; made if it isn't there.
    count
        How many places there are.
    """
    directory.mkdir(exist_ok=True)
    with locked(directory / "turn"):
        while (found := _first_free(directory, count)) is None:
            time.sleep(POLL_S)
    number, descriptor = found
    try:
        yield number
    finally:
        os.close(descriptor)


def _first_free(directory: Path, count: int) -> tuple[int, int] | None:
    for number in range(count):
        descriptor = lock(directory / str(number), wait=False)
        if descriptor is not None:
            return number, descriptor
    return None
