"""From partial states to the store: reduces the closing windows and writes them."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from distributed import KilledWorker

from bbflow.cf import StreamAttributes
from bbflow.config import Config
from bbflow.errors import ConfigError
from bbflow.events import EventLog
from bbflow.landing.contact import NodeAddress
from bbflow.operators import Operator
from bbflow.operators.windows.calendars import Clock
from bbflow.transit.chain.heritage import Inherited, Origins
from bbflow.transit.chain.saved import STATE_FILE
from bbflow.transit.chain.saving import Saving
from bbflow.transit.cluster import Cluster
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.folding.reduce import ReducedSpan, finalize, merge_remainder, merge_shards
from bbflow.transit.folding.shards import ShardKey, ShardState
from bbflow.transit.folding.slots import OUTER, slots_of
from bbflow.transit.folding.states import remove_shards
from bbflow.transit.folding.timeline import Closing
from bbflow.transit.output.fields import Field
from bbflow.transit.output.results import Results

Array = np.ndarray[Any, Any]
SETTLED_DIRECTORY = ".settled"
"""In the output: states of fields whose blocks have moved during the run."""
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
        self.config = config
        """The run's configuration."""
        self._nodes = nodes
        self._cluster = cluster
        self._log = log
        self.fields: dict[str, Field] = {}
        """What is known of the fields, by the diagnostic's key."""
        self.origins = Origins()
        """What shards began with."""
        self._filters = {
            (name, item.name): item for name, diagnostic in config.diagnostics.items() for item in diagnostic.filters
        }
        self.results: Results | None = None
        """The store, once it is open."""
        self.errors: dict[str, str] = {}
        """What failed in users' operators, which are called no more."""

    def open(self, path: Path, attributes: StreamAttributes, clock: Clock) -> Results:
        """Open the store, or make it."""
        self.results = Results(path, self.config.stream, attributes, clock)
        return self.results

    def know(self, fields: Mapping[str, Field]) -> None:
        """Learn of fields.

        Raises
        ------
        ConfigError
            If a global shape has changed.
        """
        for name, field in fields.items():
            known = self.fields.setdefault(name, field)
            if known.shape != field.shape:
                raise ConfigError(
                    f"the shape of {name} changed from {known.shape} to {field.shape}: its statistics can't go on; "
                    "take it out of 'operators'"
                )

    def publish(self, closing: Closing, states: Mapping[ShardKey, ShardState]) -> None:
        """Write one window's span."""
        assert self.results is not None
        started_s = time.time()
        size = self.results.publish(closing, self.reduce(closing, states), self.errors)
        name = closing.window.name
        label = "-".join(f"{number:02d}" for number in closing.whole.key) or name
        self._log.add("publish", window=name, label=label, started_s=started_s, ended_s=time.time(), bytes=size)

    def reduce(self, closing: Closing, states: Mapping[ShardKey, ShardState]) -> Published:
        """Merge the states of a window's span over shards and nodes.

        Returns
        -------
        dict
            Diagnostic to its description, its statistics, and their results by operator name.
        """
        try:
            return self._reduce(closing, states)
        except KilledWorker:  # perhaps by a user's code
            self.config = self.config.isolated()
            return self._reduce(closing, states)

    def _reduce(self, closing: Closing, states: Mapping[ShardKey, ShardState]) -> Published:
        pending = {}
        for name, diagnostic in self.config.diagnostics.items():
            shards = _by_node(states, name)
            rest = self._rest(closing, states, name)
            if closing.window in diagnostic.windows and diagnostic.operators and (shards or rest):
                inner = diagnostic.each is not None and diagnostic.each.window.name in closing.inner
                span = ReducedSpan(closing.window, closing.keys, inner, self.errors)
                parts = [self.submit(node, merge_shards, diagnostic, span, own) for node, own in sorted(shards.items())]
                field, node = self.fields[name], min(shards or self._nodes)
                if rest is not None:
                    directory = self._nodes[node].state_directory
                    parts.insert(0, self.submit(node, merge_remainder, diagnostic, span, rest, directory))
                pending[name] = (
                    field,
                    diagnostic.operators,
                    self.submit(node, finalize, diagnostic, field.shape, parts),
                )
        found = {name: (field, ops, *future.result()) for name, (field, ops, future) in pending.items()}
        for *_, errors in found.values():
            self.errors.update(errors)
        return {name: (field, operators, arrays) for name, (field, operators, arrays, _) in found.items()}

    def _rest(self, closing: Closing, states: Mapping[ShardKey, ShardState], name: str) -> Inherited | None:
        """Give what was kept before and no shard has taken over, if that has anything of the span."""
        taken = [state.region for key, state in states.items() if key.diagnostic == name]
        rest = self.origins.of(name, taken)
        own = slots_of(OUTER, closing.window, closing.keys)
        return rest if rest is not None and any(slot in rest.offsets for slot in own) else None

    def submit(self, node: str, function: Any, *arguments: Any) -> Any:
        """Run a task on a node's host."""
        return self._cluster.submit(function, *arguments, host=self._nodes[node].host, done=lambda: None)

    def save(self, folding: Folding, attributes: StreamAttributes, clock: Clock) -> None:
        """Save the states for a run that goes on."""
        assert self.results is not None
        saving = Saving(folding, self.fields, self._nodes, self.submit)
        saving.save(self.config.output / STATE_FILE, self.results.path, attributes, clock)

    def settle(
        self, keys: Collection[str], folding: Folding, attributes: StreamAttributes, clock: Clock
    ) -> list[ShardState]:
        """Save the states of diagnostics whose blocks have moved: new shards begin with that.

        Returns
        -------
        list of ShardState
            Those that can go once the fold's next checkpoint is stored.
        """
        path = self.config.output / SETTLED_DIRECTORY / f"{folding.last_number}.bbflow"
        path.parent.mkdir(exist_ok=True)
        saving = Saving(folding, self.fields, self._nodes, self.submit)
        return folding.settle(keys, saving.save_only(keys, path, attributes, clock))

    def remove(self, states: Iterable[ShardState]) -> None:
        """Remove states that are done with, where they lie."""
        labels: dict[str, list[str]] = {}
        for state in states:
            labels.setdefault(state.key.node, []).append(state.key.label)
        pending = [
            self.submit(node, remove_shards, self._nodes[node].state_directory, own) for node, own in labels.items()
        ]
        for future in pending:
            future.result()

    def publish_rows(self, folding: Folding) -> list[Path]:
        """Move the rows that passed filters into their tables.

        Returns
        -------
        list of Path
            Files that can go once the fold's next checkpoint is stored.
        """
        assert self.results is not None
        files: dict[tuple[str, str], list[tuple[ShardState, Path]]] = {}
        for state in folding.take_rows():
            for path in map(Path, state.rows):
                name = path.name.split(".", 1)[0]
                files.setdefault((state.key.diagnostic, name), []).append((state, path))
        for (diagnostic, name), parts in files.items():
            rows, places = _join_rows(parts)
            field = self.fields[diagnostic]
            told = f"{field.name} {self._filters[diagnostic, name]}"
            self.results.add_rows(f"{field.name}_{name}", told, field, rows, places, folding.number)
        return [path for parts in files.values() for _, path in parts]


def _by_node(states: Mapping[ShardKey, ShardState], diagnostic: str) -> dict[str, list[ShardState]]:
    nodes: dict[str, list[ShardState]] = {}
    for key, state in states.items():
        if key.diagnostic == diagnostic:
            nodes.setdefault(key.node, []).append(state)
    return nodes


def _join_rows(parts: Sequence[tuple[ShardState, Path]]) -> tuple[Array, list[Array]]:
    """Join files of rows in the order of steps and give their global indices by dimension."""
    rows, places = [], []
    for state, path in parts:
        loaded = np.load(path)
        local = np.unravel_index(loaded["index"], state.count) if state.count else ()
        places.append([at + first for at, first in zip(local, state.start, strict=True)])
        rows.append(loaded)
    joined = np.concatenate(rows)
    order = np.argsort(joined["step"], kind="stable")
    return joined[order], [np.concatenate(axis)[order] for axis in zip(*places, strict=True)]
