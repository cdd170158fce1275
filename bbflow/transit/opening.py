"""What the first step tells: the calendar, the variables, the coordinates."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from bbflow.cf import StreamAttributes
from bbflow.config import Config, TimeConfig
from bbflow.drain.raw import assemble
from bbflow.errors import ConfigError, nearest
from bbflow.landing.contact import NodeAddress
from bbflow.operators.windows.calendars import Clock
from bbflow.records import Block
from bbflow.transit.cluster import Cluster

PlacedBlock = tuple[str, Block]
"""The name of a node, and a block that lies there."""


class CoordinateStore(Protocol):
    """A store that keeps coordinate variables."""

    def is_coordinate(self, name: str) -> bool:
        """Whether a coordinate variable of this name is there."""

    def add_coordinate(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Write a coordinate variable."""


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


def write_coordinates(
    blocks: Sequence[PlacedBlock],
    stores: Sequence[CoordinateStore],
    attributes: StreamAttributes,
    nodes: Mapping[str, NodeAddress],
    cluster: Cluster,
) -> None:
    """Copy the coordinate variables (1-D, named as a dimension) of a step into the stores that lack them."""
    arrays = [block for _, block in blocks if block.shape]
    dims = {dim for block in arrays for dim in attributes.dimensions(block.name, len(block.shape))}
    for dim in sorted(dims):
        own = [(node, block) for node, block in blocks if block.name == dim and len(block.shape) == 1]
        lacking = [store for store in stores if own and not store.is_coordinate(dim)]
        if lacking:
            parts = [(nodes[node].pool, block) for node, block in own]
            host = nodes[own[0][0]].host
            values = cluster.submit(read_whole, parts, host=host, done=lambda: None).result()
            for store in lacking:
                store.add_coordinate(dim, values)


def read_whole(parts: Sequence[tuple[str, Block]]) -> np.ndarray[Any, Any]:
    """Read all blocks of a variable, each with its pool's path, into one array; a task where the blocks lie."""
    return assemble(parts).copy()
