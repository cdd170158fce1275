"""What is registered: which functions for which stream, and where the result goes."""

import shlex
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bbflow.errors import ConfigError

ALL_STEPS = sys.maxsize
"""Length of a group that takes all."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a shared library."""

    library: Path
    """The library."""
    symbol: str
    """The function, as ``extern "C"``."""

    def __str__(self) -> str:
        return f"{self.library}:{self.symbol}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``LIB:FUNC``.

        Raises
        ------
        ConfigError
            If it is not of that form, or there is no such file.
        """
        library, _, symbol = text.rpartition(":")
        if not library or not symbol.isidentifier():
            raise ConfigError(f"{text!r} is not of the form LIB:FUNC, such as ./libmax.so:map_max")
        path = Path(library).resolve()
        if not path.is_file():
            raise ConfigError(f"there is no library {path}: compile it with 'g++ -shared -fPIC'")
        return cls(path, symbol)


@dataclass(frozen=True, slots=True)
class Registration:
    """What `bbflow register` was told."""

    contact: Path
    """Contact file of the BB nodes."""
    stream: str
    """The stream."""
    map: Function
    """Gets the values."""
    output: Path
    """Gets the result."""
    reduce: Function | None = None
    """Gets what all `map` calls wrote; without it, that is the result."""
    variable: str | None = None
    """Whose values; None: the stream's only array."""
    group: int | None = None
    """How many steps of a node are handed over at once; None: each block by itself."""
    mpi: bool = False
    """Whether both functions are of the form that takes a communicator."""
    launch: str | None = None
    """What starts a process on another host, with {host} for its name, such as ``ssh {host}``."""

    def launcher(self, host: str) -> list[str]:
        """Return the words before a command that runs beside a node on a host; none if it runs here."""
        return shlex.split(self.launch.format(host=host)) if self.launch and host != socket.gethostname() else []

    def is_beside(self, host: str) -> bool:
        """Whether the function runs on a host, so that it sees the pool there."""
        return self.launch is not None or host == socket.gethostname()


def parse_group(text: str) -> int:
    """Read a number of steps, or ``all``.

    Raises
    ------
    ConfigError
        If it is neither.
    """
    if text == "all":
        return ALL_STEPS
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"group {text!r} is neither a whole number from 1 nor 'all'")
    return int(text)
