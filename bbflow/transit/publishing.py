"""From partial states to the store: reduces the closing windows and writes them."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.cf import StreamAttributes
from bbflow.errors import ConfigError
from bbflow.operators import Operator
from bbflow.operators.filter import Filter
from bbflow.operators.windows.calendars import Clock
from bbflow.transit.chain.saved import STATE_FILE, SavedState
from bbflow.transit.chain.saving import Saving
from bbflow.transit.folding.inherited import Inherited
from bbflow.transit.folding.kept import Kept
from bbflow.transit.folding.reduce import ReducedSpan, finalize, merge_remainder, merge_shards
from bbflow.transit.folding.shards import ShardState
from bbflow.transit.folding.slots import OUTER, slots_of
from bbflow.transit.folding.states import remove_shards
from bbflow.transit.folding.timeline import Closing
from bbflow.transit.output.fields import Field
from bbflow.transit.output.results import Results
from bbflow.transit.running import Running

Array = np.ndarray[Any, Any]
SETTLED_DIRECTORY = ".settled"
"""In the output: states of fields whose blocks have moved during the run."""
Published = dict[str, tuple[Field, Sequence[Operator], dict[str, Array]]]


class Publishing:
    """Reduces and publishes windows.

    Parameters
    ----------
    run
        What holds for all stages.
    """

    def __init__(self, run: Running) -> None:
        self._run = run
        self.fields: dict[str, Field] = {}
        """What is known of the fields, by the diagnostic's key."""
        self.results: Results | None = None
        """The store, once it is open."""

    def open(self, path: Path, attributes: StreamAttributes, clock: Clock) -> Results:
        """Open the store, or make it."""
        self.results = Results(path, self._run.config.stream, attributes, clock)
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

    def publish(self, closing: Closing, kept: Kept) -> dict[str, str]:
        """Write one window's span; gives what failed in users' operators."""
        assert self.results is not None
        started_s = time.time()
        reduced, errors = self.reduce(closing, kept)
        size = self.results.publish(closing, reduced, {**kept.errors, **errors})
        name = closing.window.name
        label = "-".join(f"{number:02d}" for number in closing.whole.key) or name
        self._run.log.add("publish", window=name, label=label, started_s=started_s, ended_s=time.time(), bytes=size)
        return errors

    def reduce(self, closing: Closing, kept: Kept) -> tuple[Published, dict[str, str]]:
        """Merge the states of a window's span over shards and nodes.

        Returns
        -------
        tuple
            Diagnostic to its description, its statistics, and their results by operator name; and what failed in users'
            operators.
        """
        pending = {}
        for name, diagnostic in kept.config.diagnostics.items():
            shards = _by_node(kept.of(name))
            rest = _rest(closing, kept, name)
            if closing.window in diagnostic.windows and diagnostic.operators and (shards or rest):
                inner = diagnostic.each is not None and diagnostic.each.window.name in closing.inner
                span = ReducedSpan(closing.window, closing.keys, inner, kept.errors)
                parts = [self.submit(node, merge_shards, diagnostic, span, own) for node, own in sorted(shards.items())]
                field, node = self.fields[name], min(shards or self._run.nodes)
                if rest is not None:
                    directory = self._run.nodes[node].state_directory
                    parts.insert(0, self.submit(node, merge_remainder, diagnostic, span, rest, directory))
                pending[name] = (
                    field,
                    diagnostic.operators,
                    self.submit(node, finalize, diagnostic, field.shape, parts),
                )
        found = {name: (field, ops, *future.result()) for name, (field, ops, future) in pending.items()}
        errors = {key: text for *_, own in found.values() for key, text in own.items()}
        return {name: (field, operators, arrays) for name, (field, operators, arrays, _) in found.items()}, errors

    def _filter(self, diagnostic: str, name: str) -> Filter:
        return next(item for item in self._run.config.diagnostics[diagnostic].filters if item.name == name)

    def submit(self, node: str, function: Any, *arguments: Any) -> Any:
        """Run a task on a node's host."""
        return self._run.cluster.submit(function, *arguments, host=self._run.nodes[node].host, done=lambda: None)

    def save(self, kept: Kept, attributes: StreamAttributes, clock: Clock) -> dict[str, str]:
        """Save the states for a run that goes on; gives what failed in users' operators."""
        assert self.results is not None
        saving = Saving(kept, self.fields, self._run.nodes, self.submit)
        return saving.save(self._run.config.output / STATE_FILE, self.results.path, attributes, clock)

    def settle(
        self, keys: Collection[str], kept: Kept, attributes: StreamAttributes, clock: Clock
    ) -> tuple[SavedState, dict[str, str]]:
        """Save the states of diagnostics whose blocks have moved: new shards begin with that.

        Returns
        -------
        tuple
            What was saved, and what failed in users' operators.
        """
        path = self._run.config.output / SETTLED_DIRECTORY / f"{kept.last_number}.bbflow"
        path.parent.mkdir(exist_ok=True)
        saving = Saving(kept, self.fields, self._run.nodes, self.submit)
        return saving.save_only(keys, path, attributes, clock)

    def remove(self, states: Iterable[ShardState]) -> None:
        """Remove states that are done with, where they lie."""
        labels: dict[str, list[str]] = {}
        for state in states:
            labels.setdefault(state.key.node, []).append(state.key.label)
        pending = [
            self.submit(node, remove_shards, self._run.nodes[node].state_directory, own) for node, own in labels.items()
        ]
        for future in pending:
            future.result()

    def publish_rows(self, holding: Iterable[ShardState], number: int) -> list[Path]:
        """Move the rows that passed filters into their tables.

        Parameters
        ----------
        holding
            States with rows that were not published.
        number
            The last step that is folded.

        Returns
        -------
        list of Path
            Files that can go once the fold's next checkpoint is stored.
        """
        assert self.results is not None
        files: dict[tuple[str, str], list[tuple[ShardState, Path]]] = {}
        for state in holding:
            for path in map(Path, state.rows):
                name = path.name.split(".", 1)[0]
                files.setdefault((state.key.diagnostic, name), []).append((state, path))
        for (diagnostic, name), parts in files.items():
            rows, places = _join_rows(parts)
            field = self.fields[diagnostic]
            told = f"{field.name} {self._filter(diagnostic, name)}"
            self.results.add_rows(f"{field.name}_{name}", told, field, rows, places, number)
        return [path for parts in files.values() for _, path in parts]


def _by_node(states: Iterable[ShardState]) -> dict[str, list[ShardState]]:
    nodes: dict[str, list[ShardState]] = {}
    for state in states:
        nodes.setdefault(state.key.node, []).append(state)
    return nodes


def _rest(closing: Closing, kept: Kept, name: str) -> Inherited | None:
    """Give what was kept before and no shard has taken over, if that has anything of the span."""
    rest = kept.origins.of(name, [state.region for state in kept.of(name)])
    own = slots_of(OUTER, closing.window, closing.keys)
    return rest if rest is not None and any(slot in rest.offsets for slot in own) else None


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
