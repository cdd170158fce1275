"""Locks between processes: of the kernel's, so that a dead process holds none."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bbflow.errors import ConfigError

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Error numbers of file systems that have no locks."""


def lock(path: str | Path, shared: bool = False, wait: bool = True, create: bool = True) -> int | None:
    """Lock a file.

    Parameters
    ----------
    path
        Which file.
    shared
        Whether others may hold it together with us.
    wait
        Whether to wait until others let it go.
    create
        Whether it is made if it isn't there.

    Returns
    -------
    int or None
        A descriptor, to be closed when it is over; None if others hold the lock and `wait` is false.

    Raises
    ------
    OSError
        If the file can't be opened, or its file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0), 0o600)
    try:
        # Not fcntl's locks: those are gone as soon as the process closes any descriptor of the file.
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold a file's lock alone for as long as a ``with`` lasts."""
    descriptor = lock(path)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_alone(path: Path, refusal: str, *, create: bool) -> Iterator[None]:
    """Hold a file's lock for as long as a ``with`` lasts, unless another process does.

    Parameters
    ----------
    path
        The file; where its file system has no locks, none is refused.
    refusal
        What is said if another process holds it.
    create
        Whether it is made if it isn't there.

    Raises
    ------
    ConfigError
        If another process holds it.
    """
    try:
        descriptor = lock(path, wait=False, create=create)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        yield
        return
    if descriptor is None:
        raise ConfigError(refusal)
    try:
        yield
    finally:
        os.close(descriptor)
