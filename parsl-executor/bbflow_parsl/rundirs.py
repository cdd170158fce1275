"""A directory of its own for each run on the burst buffer, and what dead runs left there."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.locks import lock
from bbflow_parsl.sweeping import ALIVE, is_marked, mark, remove_if_dead


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
                remove_if_dead(str(path), wait=False)
            self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}{label}-", dir=parent)).absolute()
            held = lock(self.path / ALIVE)
        except OSError as error:
            raise ConfigError(
                f"can't make a directory on the burst buffer {parent}: {error.strerror}; name one that is yours"
            ) from None
        assert held is not None
        self._lock = held
        mark(held, str(self.path))

    def remove(self) -> None:
        """Remove it with all that is in it."""
        # Another directory may have taken the name since.
        if is_marked(self._lock, str(self.path)):
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
