"""What the first step tells: the calendar, the variables, the coordinates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.cf import StreamAttributes
from bbflow.config import Config, TimeConfig
from bbflow.errors import ConfigError, nearest
from bbflow.landing.contact import NodeAddress
from bbflow.operators.windows.calendars import Clock
from bbflow.transit.cluster import Cluster
from bbflow.view.blocks import BlockReader
from bbflow.view.layout import PlacedBlock

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class FirstStep:
    """The first step that an analysis sees: of the stream, or after a restart."""

    number: int
    """ADIOS2's step number."""
    placed: Sequence[PlacedBlock]
    """Its blocks; none if there is no step any more."""
    contact: Path
    """Where the nodes are."""
    stream: str
    """Whose step it is."""
    nodes: Mapping[str, NodeAddress]
    """Addresses by name."""
    cluster: Cluster
    """Where blocks are read."""

    def whole(self, name: str) -> Array:
        """Read a variable that is there, on the host of its first block."""
        own = [(node, block) for node, block in self.placed if block.name == name]
        host = self.nodes[own[0][0]].host
        task = self.cluster.submit(
            read_whole, self.contact, self.stream, self.number, own, host=host, done=lambda: None
        )
        values: Array = task.result()
        return values


def make_clock(time: TimeConfig, attributes: StreamAttributes) -> Clock:
    """Give the stream's calendar: what is configured, else what its attributes say.

    Raises
    ------
    ConfigError
        If neither gives units, or units or calendar are unknown.
    """
    own = attributes.of(time.variable)
    units = time.units or own.get("units")
    if units is None:
        raise ConfigError(
            f"the stream has no attribute {time.variable}/units: set time: units, such as 'days since 2000-01-01'"
        )
    return Clock(units, time.calendar or own.get("calendar", "standard"))


def check_variables(config: Config, names: Iterable[str]) -> None:
    """Check that the first step has all that the configuration names.

    Raises
    ------
    ConfigError
        If not; the message gives the nearest name that is there.
    """
    there = set(names)
    needed = [name for item in config.diagnostics.values() for name in item.variables]
    for where, wanted in (("operators", needed), ("raw", config.raw.variables or ())):
        for name in wanted:
            if name not in there:
                raise ConfigError(
                    f"{where}: stream {config.stream!r} has no variable {name!r} in its first step; "
                    f"{nearest(name, there)}"
                )


def read_whole(contact: Path, stream: str, step: int, placed: Sequence[PlacedBlock]) -> Array:
    """Read all blocks of a variable into one array; a task."""
    return BlockReader(contact, stream).assemble(step, placed).copy()
