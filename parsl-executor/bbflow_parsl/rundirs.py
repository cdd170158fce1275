"""A directory of its own for each run on the burst buffer, and what dead runs left there."""

import os
import socket
import tempfile
from pathlib import Path

from bbflow.belongings import make, remove
from bbflow.errors import ConfigError
from bbflow.locks import lock

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
        held = lock(self.path / f"{LOCK}.new")
        assert held is not None
        self._lock = held
        (self.path / f"{LOCK}.new").rename(self.path / LOCK)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        remove(self.path)
        os.close(self._lock)


def _remove_if_dead(path: Path) -> None:
    try:
        descriptor = lock(path / LOCK, wait=False, create=False)
    except OSError:
        return  # not ours, or being made right now
    if descriptor is not None:
        remove(path)
        os.close(descriptor)
