"""From partial states to the store: reduces the closing windows and writes them."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.host.parsing import load_array
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import Filter
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.chain.saved import SavedState
from bbflow.transit.chain.saving import Saving
from bbflow.transit.clusters.cluster import ASIDE_THREADS, SubmittedTask, take
from bbflow.transit.driver.reducing import Home, Reducing, together
from bbflow.transit.driver.stage import Running
from bbflow.transit.output.claiming import STATE_FILE
from bbflow.transit.output.fields import ResultField, check_shape
from bbflow.transit.output.pyramid_stores import Pyramids
from bbflow.transit.output.results import Prepared, Published, Results, result_name
from bbflow.transit.publication.publish import PublishReceipt, hand_over, publish_fields, reduce_fields
from bbflow.transit.spans.timeline import Closing, SpanKey
from bbflow.transit.states.kept import EndedSpans, Kept
from bbflow.transit.states.shards import Region, Row

Array = np.ndarray[Any, Any]
SETTLED_DIRECTORY = ".settled"
"""In the output: states of fields whose blocks have moved during the run."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Spans that end together, and that workers are writing."""

    spans: Sequence[Prepared]
    """Where they go."""
    tasks: Sequence[SubmittedTask[PublishReceipt]]
    """The tasks."""
    started_s: float
    """When it was begun (seconds since the epoch)."""

    @property
    def is_done(self) -> bool:
        """Whether all of it is written."""
        return all(task.done() for task in self.tasks)


class Publishing:
    """Reduces and publishes windows.

    Parameters
    ----------
    run
        What holds for all stages.
    """

    def __init__(self, run: Running) -> None:
        self._run = run
        self.fields: dict[str, ResultField] = {}
        """What is known of the fields, by the diagnostic's key."""
        self.results: Results | None = None
        """The store, once it is open."""
        self._pyramids = Pyramids(run.config.output)
        self._settled: dict[str, int] = {}
        self._shown: list[tuple[str, int]] = []

    def open(
        self,
        path: Path,
        attributes: StreamAttributes,
        clock: Clock,
        before: Mapping[str, int] | None,
        gappy: Collection[str],
    ) -> Results:
        """Open the store, or make it, as `Results` does; what was lost of it since is noted.

        Some diagnostics may have nothing of a span.
        """
        config = self._run.config
        self.results = Results(path, config.stream, attributes, clock, config.results, before=before)
        if before is not None:
            self.results.look_for_lost(self._without(gappy), mends=True)
        return self.results

    def lost(self, gappy: Collection[str]) -> list[str]:
        """Look what is lost of results and pyramids, and return all that is noted; of a span some may have none."""
        if self.results is None:
            return []
        self.results.look_for_lost(self._without(gappy))
        self.results.note_removed(self._pyramids.lost())
        return self.results.removed

    def _without(self, gappy: Collection[str]) -> set[str]:
        """Return the results that may lack a span: without a value, joined, or such that no one asks for any more."""
        asked = () if self._run.config.is_joined else self._run.config.diagnostics.items()
        whole = [item for key, item in asked if not item.skips_absent and key not in gappy]
        assert self.results is not None
        return self.results.names - {name for item in whole for name in _result_names(item)}

    def take_shown(self) -> tuple[tuple[str, int], ...]:
        """Return each span that was shown since the last call: its window, and where on its axis it lies."""
        shown, self._shown = tuple(self._shown), []
        return shown

    def settled(self, window: str) -> int:
        """Return how many of a window's spans are in its pyramids, and won't be read for them again."""
        return self._settled.get(window, 0)

    def complete_pyramids(self) -> None:
        """Write the levels that an analysis which was killed has left out of the last spans."""
        assert self.results is not None
        self._settled.clear()
        for window, number in self.results.spans.items():
            diagnostics = self._run.config.diagnostics.items()
            own = {key: item for key, item in diagnostics if window in [each.name for each in item.windows]}
            fields = [(self.fields[key], item.operators) for key, item in own.items() if key in self.fields]
            if fields and number:
                named = next(each for item in own.values() for each in item.windows if each.name == window)
                self._pyramids.follow(self.results, named, fields, number - 1)

    def unstored(self) -> list[tuple[str, str]]:
        """Return the results that were asked for and aren't in the store, each with its diagnostic's key."""
        results, diagnostics = self.results, self._run.config.diagnostics.items()
        if results is None:
            return []
        asked = [(key, name) for key, item in diagnostics for name in _result_names(item)]
        return [(key, name) for key, name in asked if not results.has_spans(name)]

    def know(self, fields: Mapping[str, ResultField]) -> None:
        """Learn of fields, or what later attributes say of them.

        Raises
        ------
        ConfigError
            If a global shape has changed.
        """
        for name, field in fields.items():
            known = self.fields.setdefault(name, field)
            check_shape(known, field)
            self.fields[name] = replace(known, attributes=field.attributes, other_units=field.other_units)

    def describe(self) -> None:
        """Describe the results that are there by what is known of their fields now."""
        assert self.results is not None
        for key, item in self._run.config.diagnostics.items():
            if key in self.fields:
                self.results.describe_field(self.fields[key], item.windows, item.operators)

    def publish(self, ended: Sequence[EndedSpans]) -> dict[str, str]:
        """Write windows' spans, and show all of them at once; gives what failed in users' operators."""
        return self.finish(self.begin(ended), ended[-1].kept.errors)

    def begin(self, ended: Sequence[EndedSpans]) -> Publication:
        """Submit what spans have come to for writing, in their order; what was kept must stay until that is done."""
        assert self.results is not None
        started_s = time.time()
        closings = [closing for own in ended for closing in own.closings]
        reducing = [self._reducing(closing, own.kept) for own in ended for closing in own.closings]
        spans = self.results.prepare([(own, each.fields) for own, each in zip(closings, reducing, strict=True)])
        homes = [home for span, each in zip(spans, reducing, strict=True) for home in each.homes(span.targets)]
        return Publication(spans, self._submit(publish_fields, together(homes)), started_s)

    def finish(self, publication: Publication, known: Mapping[str, str]) -> dict[str, str]:
        """Wait until the workers have written spans, and show them; gives what failed in users' operators.

        Parameters
        ----------
        publication
            What was begun.
        known
            What had failed before.
        """
        assert self.results is not None
        errors: dict[str, str] = {}
        sizes: Counter[SpanKey] = Counter()
        for receipt in take(publication.tasks):
            errors.update(receipt.errors)
            sizes.update(receipt.bytes)
        for span in publication.spans:
            # First: files of spans that are shown may be moved to a bucket at any time, and pyramids still read these.
            self._settled.pop(span.closing.window.name, None)
        self.results.show(publication.spans, {**known, **errors})
        for span in publication.spans:
            name = span.closing.window.name
            self._pyramids.follow(self.results, span.closing.window, span.fields.values(), span.index)
            self._shown.append((name, span.index))
            self._settled[name] = self.results.shown(name)
        for span in publication.spans:
            window, whole = span.closing.window.name, span.closing.whole
            label = "-".join(f"{number:02d}" for number in whole.key) or window
            times = {"started_s": publication.started_s, "ended_s": time.time()}
            self._run.log.add("publish", window=window, label=label, bytes=sizes[span.closing.key], **times)
        return errors

    def reduce(self, closing: Closing, kept: Kept) -> tuple[dict[str, Published], dict[str, str]]:
        """Return what a window's span has come to, in memory.

        Returns
        -------
        tuple
            Diagnostic to its description, its statistics, and their results by operator name; and what failed in users'
            operators.
        """
        reducing = self._reducing(closing, kept)
        homes = reducing.homes()
        found: dict[str, dict[str, Array]] = {}
        errors: dict[str, str] = {}
        for home, (results, own) in zip(homes, take(self._submit(reduce_fields, homes)), strict=True):
            errors.update(own)
            found.update(zip((work.diagnostic.key for work in home.works), results, strict=True))
        return {key: (*reducing.fields[key], found[key]) for key in reducing.fields}, errors

    def _reducing(self, closing: Closing, kept: Kept) -> Reducing:
        return Reducing(closing, kept, self.fields, self._run.nodes, self._lanes)

    @property
    def _lanes(self) -> int:
        """How many tasks share a node's fields."""
        return max(self._run.cluster.threads // len(self._run.nodes), 1)

    def _filter(self, diagnostic: str, name: str) -> Filter:
        return next(item for item in self._run.config.diagnostics[diagnostic].filters if item.name == name)

    def _submit(self, function: Any, homes: Sequence[Home]) -> Sequence[SubmittedTask[Any]]:
        """Run a task for each, beside the folds: it gets the works of its host, and what the others hand over."""
        submit_all = partial(self._run.cluster.submit_all, done=self._run.wake, beside=True)
        others = iter(submit_all(hand_over, [work for home in homes for work in home.handed]))
        works = [((home.works, *islice(others, len(home.handed))), home.host) for home in homes]
        return submit_all(function, works)

    def submit(self, node: str, function: Any, *arguments: Any, beside: bool = False) -> Any:
        """Run a task on a node's host, as `Cluster.submit` does."""
        host, done = self._run.nodes[node].host, self._run.wake
        return self._run.cluster.submit(function, *arguments, host=host, done=done, beside=beside)

    def save(
        self, kept: Kept, attributes: StreamAttributes, clock: Clock, *, complete: bool, places: Mapping[str, str]
    ) -> dict[str, str]:
        """Save the states for a run that continues this one; return what failed in users' operators."""
        assert self.results is not None
        saving = Saving(kept, self.fields, self._run.nodes, self.submit, self._lanes + ASIDE_THREADS)
        path = self._run.config.output / STATE_FILE
        return saving.save(path, self.results.path, attributes, clock, complete=complete, places=places)

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
        saving = Saving(kept, self.fields, self._run.nodes, self.submit, self._lanes + ASIDE_THREADS)
        return saving.save_only(keys, path, attributes, clock)

    def publish_rows(self, states: Iterable[Row], number: int) -> list[Path]:
        """Move the rows that passed filters into their tables.

        Parameters
        ----------
        states
            States with rows that were not published.
        number
            The last step that is folded.

        Returns
        -------
        list of Path
            Files that can go once the fold's next checkpoint is stored.
        """
        assert self.results is not None
        files: dict[tuple[str, str], list[tuple[Region, Path]]] = {}
        for key, region, state in states:
            for path in map(Path, state.rows):
                name = path.name.split(".", 1)[0]
                files.setdefault((key.diagnostic, name), []).append((region, path))
        for (diagnostic, name), parts in files.items():
            rows, places = _join_rows(parts)
            field = self.fields[diagnostic]
            told = f"{field.name} {self._filter(diagnostic, name)}"
            self.results.add_rows(f"{field.name}_{name}", told, field, rows, places, number)
        return [path for parts in files.values() for _, path in parts]


def _result_names(item: Diagnostic) -> Iterator[str]:
    """Iterate over what a diagnostic's results are called."""
    for window, operator in product(item.windows, item.operators):
        yield result_name(item.name, window.name, operator.name)


def _join_rows(parts: Sequence[tuple[Region, Path]]) -> tuple[Array, list[Array]]:
    """Join files of rows in the order of steps and return their global indices by dimension."""
    rows, places = [], []
    for (start, count), path in parts:
        loaded = load_array(path)
        local = np.unravel_index(loaded["index"], count) if count else ()
        places.append([at + first for at, first in zip(local, start, strict=True)])
        rows.append(loaded)
    joined = np.concatenate(rows)
    order = np.argsort(joined["step"], kind="stable")
    return joined[order], [np.concatenate(axis)[order] for axis in zip(*places, strict=True)]
