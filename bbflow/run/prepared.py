"""An analysis that gets ready from a run's first moment on: that takes as long as it takes to start the nodes."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

TOLD = "-"
"""In the place of a contact file: its path comes by standard input."""


class PreparedAnalysis:
    """A process that reads the contact file's path from standard input; it is over with this if there comes none.

    Parameters
    ----------
    command
        Starts it.
    environment
        Its environment.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        # A session of its own: Ctrl-C in the terminal is for the simulation first.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=dict(environment))
        """The process."""
        self._told = False

    def begin(self, contact: Path) -> "subprocess.Popen[bytes]":
        """Send it where the nodes are; one that was killed meanwhile has ended like any other."""
        assert self.process.stdin is not None
        self._told = True
        with suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(f"{contact}\n".encode())
        return self.process

    def __enter__(self) -> "PreparedAnalysis":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it with its workers, unless it was told to begin: it has done nothing yet that is worth waiting for."""
        if self._told or self.process.stdin is None:
            return
        with suppress(ProcessLookupError):
            # The group: its workers would outlive it.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.stdin.close()
        self.process.wait()
