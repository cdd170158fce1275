"""A directory of its own for each run on the burst buffer, and what dead runs left there."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

from bbflow.belongings import make, remove
from bbflow.errors import ConfigError

LOCK = "owner.lock"
"""Locked by the owner as long as it lives."""


class RunDirectory:
    """A new directory on the burst buffer; directories of this host's dead runs go.

    Parameters
    ----------
    parent
        On the burst buffer.
    label
        The executor's.

    Raises
    ------
    ConfigError
        If the directory can't be made.
    """

    def __init__(self, parent: Path, label: str) -> None:
        prefix = f"bbflow-parsl-{socket.gethostname()}-"
        try:
            for path in parent.glob(f"{prefix}*"):
                _remove_if_dead(path)
            self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}{label}-", dir=parent)).absolute()
            make(self.path, "**")
        except OSError as error:
            raise ConfigError(f"can't make a directory on the burst buffer {parent}: {error.strerror}") from None
        # Whoever finds the lock under its name finds it locked.
        self._lock = os.open(self.path / f"{LOCK}.new", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / f"{LOCK}.new").rename(self.path / LOCK)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        remove(self.path)
        os.close(self._lock)


def _remove_if_dead(path: Path) -> None:
    try:
        lock = os.open(path / LOCK, os.O_RDWR)
    except OSError:
        return  # not ours, or being made right now
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        remove(path)
    finally:
        os.close(lock)
