"""From partial states to the store: reduces the closing windows and writes them."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.cf import StreamAttributes
from bbflow.config import Config
from bbflow.errors import ConfigError
from bbflow.events import EventLog
from bbflow.landing.contact import NodeAddress
from bbflow.operators import Operator
from bbflow.operators.calendars import Clock
from bbflow.operators.windows import Window
from bbflow.records import Block
from bbflow.transit.cluster import Cluster
from bbflow.transit.fold import split
from bbflow.transit.folding import Folding, Span
from bbflow.transit.reduce import finalize, merge_shards
from bbflow.transit.results import Field, Results
from bbflow.transit.shards import ShardKey, ShardState

Array = np.ndarray[Any, Any]
Published = dict[str, tuple[Field, Sequence[Operator], dict[str, Array]]]


class Publishing:
    """Reduces and publishes windows.

    Parameters
    ----------
    config
        The run's configuration.
    nodes
        Addresses by name.
    cluster
        Where states are merged.
    log
        Gets an event for each window.
    """

    def __init__(self, config: Config, nodes: Mapping[str, NodeAddress], cluster: Cluster, log: EventLog) -> None:
        self._config = config
        self._nodes = nodes
        self._cluster = cluster
        self._log = log
        self._fields: dict[str, Field] = {}
        self._filters = {
            (variable, item.name): item
            for variable, chosen in config.variables.items()
            for item in split(chosen.operators)[1]
        }
        self.results: Results | None = None
        """The store, once it is open."""

    def open(self, path: Path, attributes: StreamAttributes, clock: Clock) -> Results:
        """Open the store, or make it."""
        self.results = Results(path, self._config.stream, attributes, clock)
        return self.results

    def know_fields(self, blocks: Iterable[Block], attributes: StreamAttributes) -> None:
        """Learn of the variables that have operators.

        Raises
        ------
        ConfigError
            If a global shape has changed.
        """
        for block in blocks:
            if block.name in self._config.variables and block.type != "string":
                self._know(block.name, block.dtype.str, block.shape, attributes)

    def know_states(self, states: Iterable[ShardState], attributes: StreamAttributes) -> None:
        """Learn of the variables whose states an earlier analysis left, where no block is there to ask."""
        ends: dict[tuple[str, str], list[tuple[int, ...]]] = {}
        for state in states:
            key = state.key
            end = tuple(at + size for at, size in zip(key.start, key.count, strict=True))
            ends.setdefault((key.variable, state.dtype), []).append(end)
        for (variable, dtype), corners in ends.items():
            if variable not in self._fields:
                shape = tuple(max(axis) for axis in zip(*corners, strict=True))
                self._know(variable, dtype, shape, attributes)

    def _know(self, name: str, dtype: str, shape: tuple[int, ...], attributes: StreamAttributes) -> None:
        known = self._fields.get(name)
        if known is None:
            self._fields[name] = Field(name, dtype, shape, attributes.dimensions(name, len(shape)))
        elif known.shape != shape:
            raise ConfigError(
                f"the shape of {name} changed from {known.shape} to {shape}: its statistics can't go on; take "
                "it out of 'operators'"
            )

    def publish(self, window: Window, span: Span, folding: Folding) -> None:
        """Write one window's span."""
        assert self.results is not None
        started_s = time.time()
        size = self.results.publish(window, span, self.reduce(window, folding))
        label = "-".join(f"{number:02d}" for number in span.key) or window.name
        self._log.add("publish", window=window.name, label=label, started_s=started_s, ended_s=time.time(), bytes=size)

    def reduce(self, window: Window, folding: Folding) -> Published:
        """Merge the states of a window over shards and nodes.

        Returns
        -------
        dict
            Variable to its description, its statistics, and their results by operator name.
        """
        pending = {}
        for name, config in self._config.variables.items():
            operators, _ = split(config.operators)
            shards = _by_node(folding.states, name)
            if window in config.windows and operators and shards:
                base = config.windows[0].name
                parts = [
                    self._submit(node, merge_shards, operators, window.name, base, states)
                    for node, states in shards.items()
                ]
                field, node = self._fields[name], next(iter(shards))
                pending[name] = field, operators, self._submit(node, finalize, operators, field.shape, parts)
        return {name: (field, ops, future.result()) for name, (field, ops, future) in pending.items()}

    def _submit(self, node: str, function: Any, *arguments: Any) -> Any:
        return self._cluster.submit(function, *arguments, host=self._nodes[node].host, done=lambda: None)

    def publish_rows(self, folding: Folding) -> list[Path]:
        """Move the rows that passed filters into their tables.

        Returns
        -------
        list of Path
            Files that can go once the fold's next checkpoint is stored.
        """
        assert self.results is not None
        files: dict[tuple[str, str], list[tuple[ShardKey, Path]]] = {}
        for key, paths in folding.take_rows().items():
            for path in map(Path, paths):
                name = path.name.split(".", 1)[0]
                files.setdefault((key.variable, name), []).append((key, path))
        for (variable, name), parts in files.items():
            rows, places = _join_rows(parts)
            told = f"{variable} {self._filters[variable, name]}"
            self.results.add_rows(f"{variable}_{name}", told, self._fields[variable], rows, places, folding.cursor)
        return [path for parts in files.values() for _, path in parts]


def _by_node(states: Mapping[ShardKey, ShardState], variable: str) -> dict[str, list[ShardState]]:
    nodes: dict[str, list[ShardState]] = {}
    for key, state in states.items():
        if key.variable == variable:
            nodes.setdefault(key.node, []).append(state)
    return nodes


def _join_rows(parts: Sequence[tuple[ShardKey, Path]]) -> tuple[Array, list[Array]]:
    """Join files of rows in the order of steps and give their global indices by dimension."""
    rows, places = [], []
    for key, path in parts:
        loaded = np.load(path)
        local = np.unravel_index(loaded["index"], key.count) if key.count else ()
        places.append([at + first for at, first in zip(local, key.start, strict=True)])
        rows.append(loaded)
    joined = np.concatenate(rows)
    order = np.argsort(joined["step"], kind="stable")
    return joined[order], [np.concatenate(axis)[order] for axis in zip(*places, strict=True)]
