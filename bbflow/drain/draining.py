"""What is drained next, and how far the drain is: bookkeeping around `RawStore`."""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.configuring.settings import Config
from bbflow.drain.block_tables import LandedBlock
from bbflow.drain.choosing import Choosing
from bbflow.drain.drain_task import DrainWork
from bbflow.drain.forms import Form
from bbflow.drain.raw import RawStore, is_asked_for, type_of, wanted
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.puts import points_of, seen
from bbflow.stream.records import FOLDED, Block, BlockForm, Step
from bbflow.view.blocks import BlockReader
from bbflow.view.judging import Judging, WholeFields
from bbflow.view.layout import number_of
from bbflow.view.meanings import MeaningChange
from bbflow.view.whole_fields import Layouts, layouts_of

LEAST_BYTES, MOST_BYTES = 128 << 20, 256 << 20


PlannedBlock = tuple[int, int, str, Block]
"""A block's step, the landed one in which it lies, its node, and what is known of it."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is drained of steps that lie alike."""

    kept: Mapping[str, tuple[BlockForm, tuple[str, int]]]
    """Name to one block, its node, and its place among the single values there."""
    placeless: Mapping[str, str]
    """Variables that no store can have, and why."""
    tabled: Mapping[str, Sequence[tuple[str, int]]]
    """Variables whose blocks go into a table: for each its node, and its place in the node's layout."""
    axes: Mapping[str, Sequence[tuple[str, int]]]
    """Coordinates, which the store has once: their blocks are here too, to be compared with it."""
    bare: Sequence[tuple[str, int]]
    """Blocks of integers that have no value that stands for missing ones."""
    reshaped: frozenset[str]
    """Those of `unlike` that differ in their shape alone."""
    unlike: Mapping[str, str]
    """Those whose blocks differ from each other, or from what the store has of them, and how."""
    whole: frozenset[str]
    """Those whose blocks leave no hole."""


@dataclass(slots=True)
class _Going:
    """Where blocks go, as far as they were looked at; the names are those of `Chosen`."""

    placeless: dict[str, str] = field(default_factory=dict)
    tabled: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    axes: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    bare: list[tuple[str, int]] = field(default_factory=list)
    placed: dict[str, list[tuple[tuple[str, int], BlockForm]]] = field(default_factory=dict)
    """Variables that the store may have as an array or a value: where each block is, and its form."""


@dataclass(frozen=True, slots=True)
class RawStep:
    """A step that is complete on all nodes."""

    number: int
    """Its number."""
    time: float
    """Its time, in the stream's units; NaN if it has none."""
    parts: Mapping[str, Step]
    """Node name to what lies there."""


@dataclass(frozen=True, slots=True)
class DrainBatch:
    """Steps that are drained together."""

    start: int
    """Index of the first one on the time axis."""
    numbers: tuple[int, ...]
    """Their numbers; empty if none of the steps is kept."""
    times: tuple[float, ...]
    """Their times."""
    values: Mapping[str, Sequence[Any]]
    """Name to single values of these steps, None where a step lacks it."""
    tabled: Mapping[str, Sequence["PlannedBlock"]]
    """Variables whose blocks go into a table."""
    axes: Mapping[str, Sequence["PlannedBlock"]]
    """Coordinates' blocks, which go into a table if they differ from what the store has."""
    whole: frozenset[str]
    """Variables that have all their values in each of these steps."""
    mixed: frozenset[str]
    """Variables that have a value that stands for missing ones as well."""
    through: int
    """The drain is past this step once they are written."""
    works: tuple[DrainWork, ...]
    """What its tasks do, side by side."""


class Draining:
    """Cuts the drain's work.

    Parameters
    ----------
    config
        The run's configuration.
    contact
        Where the nodes are.
    cursors
        For each node, how far it is drained.
    """

    def __init__(self, config: Config, contact: Path, cursors: Mapping[str, int]) -> None:
        self._config = config
        self._contact = contact
        self.batch_bytes = (LEAST_BYTES, MOST_BYTES)
        """A batch has the first number at least, if as many are ready, and the second at most."""
        self._store: RawStore | None = None
        self._time: str | None = None
        self._there: set[int] = set()
        self.cursor = min(cursors.values(), default=-1)
        """Every step up to this one is drained, or not kept."""
        self._begun: deque[DrainBatch] = deque()
        self._before: Mapping[str, range] = {}
        """Variable to the places of steps of which an analysis before this one has written all its values."""
        self._last_files: dict[str, int] = {}
        """Array to the index of the last file that is written by what was begun."""
        self._written: dict[str, tuple[Form, Counter[int]]] = {}
        """Variable to its form, and for each file how many steps were written into it that have all their values."""
        # Looked at once for all steps with the same layout.
        self._chosen = lru_cache(maxsize=16)(self._choose)
        self._to_tables: set[str] = set()
        """Variables that go into tables from now on, since they have changed their shape."""
        self._reader: BlockReader | None = None
        self.choosing: Choosing | None = None
        """What decides about each step, if something must."""

    def open(self, path: Path, attributes: StreamAttributes, time: Mapping[str, str] | None) -> RawStore:
        """Open ``raw.zarr``, or make it; with the CF attributes of its time, None if the steps have no time."""
        self._time = None if time is None else self._config.time.variable
        axis = None if time is None else (self._config.time.variable, time)
        self._store = RawStore(path, self._config.raw, attributes, axis)
        self._there = set(self._store.committed_steps())
        if self.cursor < 0:  # what is there is an earlier job's
            self._store.whole_since.clear()
        self._before = {name: range(first, self.count) for name, first in self._store.whole_since.items()}
        when = self._config.raw.when
        if when is not None or self._config.raw.asked_by is not None:
            fields = WholeFields(self._contact, self._config.stream, attributes)
            holds = None if when is None else Judging(when, "raw: when", fields, attributes).holds
            self.choosing = Choosing(self._config.raw, holds, self._store.last_hit)
        return self._store

    @property
    def reached(self) -> int:
        """Every step up to this one is drained, not kept, or in a batch that is begun."""
        return self._begun[-1].through if self._begun else self.cursor

    @property
    def count(self) -> int:
        """How many steps the store has."""
        return len(self._there)

    @property
    def numbers(self) -> Collection[int]:
        """Their numbers."""
        return self._there

    def commit_late(self, attributes: Mapping[str, Any]) -> None:
        """Add the stream's attributes that have come since the first step; see `RawStore`."""
        if self._store is not None:
            self._store.commit_late(attributes)

    @property
    def lacking(self) -> list[str]:
        """Return what the store can't have."""
        return [] if self._store is None else self._store.lacking

    @property
    def changes(self) -> list[str]:
        """Return what isn't where it began."""
        return [] if self._store is None else self._store.changes

    def look_for_lost(self) -> None:
        """Note which variables lack what this analysis has written: somebody has removed it, or cut it off."""
        if self._store is None:
            return
        for name, (form, files) in self._written.items():
            lost = (form.lost(str(self._store.path), index, steps) for index, steps in files.items())
            if (path := next(filter(None, lost), None)) is not None:
                self._store.note_lost(name, path)
        self._store.look_for_lost()

    def keeps(self, number: int) -> bool:
        """Whether a step is to be drained."""
        return wanted(self._config.raw, number) and (self.choosing is None or self.choosing.keeps(number))

    def some(self, ready: Sequence[int], bytes_of: Callable[[int], int]) -> list[int]:
        """Return the oldest of the steps that are ready: about a quarter of their bytes, one that is kept at least.

        So what a batch costs by itself is little beside its bytes, while the room of the first steps comes back early.
        """
        sizes = [bytes_of(number) if self.keeps(number) else 0 for number in ready]
        least, most = self.batch_bytes
        limit = min(max(sum(sizes) // 4, least), most)
        fits = bisect_right(list(accumulate(sizes)), limit)
        first = next((at for at, size in enumerate(sizes) if size), 0)
        return list(ready[: max(fits, first + 1)])

    def _fitting(self, steps: Sequence[RawStep], changes: Sequence[MeaningChange]) -> Sequence[RawStep]:
        """Return the first of some steps, that fit together; from there on what the store can't have is left out.

        What has changed its shape goes into a table from then on.
        """
        assert self._store is not None
        for at, step in enumerate(steps):
            chosen = self._chosen(layouts_of(step.parts))
            known = self._store.left_out
            unfit = {name: why for name, why in chosen.placeless.items() if name not in known}
            unfit |= {
                name: f"{why}, from step {step.number} on" for name, why in chosen.unlike.items() if name not in known
            }
            stored = chosen.kept.keys() | chosen.tabled.keys()
            unfit |= {
                item.variable: str(item)
                for item in changes
                if item.step <= step.number and item.variable in stored - known
            }
            if unfit and at:
                return steps[:at]
            reshaped = chosen.reshaped - known
            self._to_tables |= reshaped
            if reshaped:
                # What was chosen is by the tables that there were.
                self._chosen.cache_clear()
            for name in unfit.keys() - (reshaped - {item.variable for item in changes}):
                self._store.leave_out(name, unfit[name])
        return steps

    def next_batch(
        self, steps: Sequence[RawStep], through: int, shares: int, changes: Sequence[MeaningChange] = ()
    ) -> DrainBatch:
        """Cut the next batch, which follows those that were begun; it counts after them.

        Parameters
        ----------
        steps
            The next steps to keep, oldest first; it takes the first of them, that fit together.
        through
            Last step that the batch settles, kept or not, if it takes them all.
        shares
            Most tasks that drain side by side.
        changes
            Variables whose numbers are read in another way from some step on: a store has one way.
        """
        assert self._store is not None
        fitting = self._fitting(steps, changes)
        through = steps[len(fitting)].number - 1 if len(fitting) < len(steps) else through
        # After a crash the cursor may be behind what the store has.
        new = [step for step in fitting if step.number not in self._there]
        chosen = [self._chosen(layouts_of(step.parts)) for step in new]
        left_out = self._store.left_out
        start, path = len(self._there) + sum(len(batch.numbers) for batch in self._begun), str(self._store.path)
        # Each once: what is chosen of steps with one layout is one object.
        kept = {name: form for one in {id(one): one for one in chosen}.values() for name, (form, _) in one.kept.items()}
        likes = {name: form for name, form in kept.items() if name not in left_out}
        forms = self._store.forms(likes)
        values = {
            name: [_value(one.kept.get(name), step) for one, step in zip(chosen, new, strict=True)]
            for name, form in likes.items()
            if not form.shape
        }
        numbers, times = tuple(step.number for step in new), tuple(step.time for step in new)
        parts = tuple({node: bare(part) for node, part in step.parts.items()} for step in new)
        known = {form.name: own[-1] // form.steps for form in forms if (own := self._before.get(form.name))}
        back_s, begun = self._config.nodes.back_s, known | self._last_files
        work = DrainWork(
            path, start, numbers, parts, forms, self._contact, self._config.stream, back_s=back_s, begun=begun
        )
        self._last_files |= {form.name: (start + len(numbers) - 1) // form.steps for form in forms if numbers}
        whole = frozenset[str]().union(*(one.whole for one in chosen)).intersection(*(one.whole for one in chosen))
        works, whole = tuple(work.parts(shares)), whole - left_out
        tabled, axes = (
            _planned(new, [one.tabled for one in chosen], left_out),
            _planned(new, [one.axes for one in chosen]),
        )
        mixed = frozenset(name for step, one in zip(new, chosen, strict=True) for name in self._mixed(step, one))
        batch = DrainBatch(start, numbers, times, values, tabled, axes, whole, mixed - left_out, through, works)
        self._begun.append(batch)
        return batch

    def _mixed(self, step: RawStep, chosen: Chosen) -> Iterator[str]:
        assert self._store is not None
        for node, at in chosen.bare:
            block = step.parts[node].blocks[at]
            ends = (block.min, block.max) if block.bytes else (block.value, block.value)
            if block.name in chosen.kept and self._store.is_mixed(block.name, *ends):
                yield block.name

    def _choose(self, layouts: Layouts) -> Chosen:
        assert self._store is not None
        going = _Going()
        for node, layout in layouts:
            singles = {at: place for place, at in enumerate(layout.singles)}
            for at, form in enumerate(layout.forms):
                self._sort(form, (node, at), (node, singles.get(at, -1)), going)
        firsts = {name: own[0] for name, own in going.placed.items()}
        unlike = {name: how for name, own in going.placed.items() if (how := _differ([form for _, form in own]))}
        for name, (_, form) in firsts.items():
            if name not in unlike and (how := self._store.admit(form)):
                unlike[name] = how
        # Of single values the one that counts is kept; of arrays any block tells type and shape.
        kept = {
            name: (form, (node, -1) if form.shape else seen(going.placed[name])[0][0])
            for name, ((node, _), form) in firsts.items()
            if name not in unlike
        }
        whole = frozenset(
            name
            for name, (form, _) in kept.items()
            if points_of([own for _, own in going.placed[name]]) >= prod(form.shape) and self._store.is_filled(name)
        )
        tables = {name: own for name, own in going.tabled.items() if name not in going.placeless}
        reshaped = frozenset(name for name in unlike if self._store.is_reshaped(firsts[name][1]))
        return Chosen(kept, going.placeless, tables, going.axes, going.bare, reshaped, unlike, whole)

    def _sort(self, form: BlockForm, at: tuple[str, int], single: tuple[str, int], going: "_Going") -> None:
        """Note where a block goes: its node and place in the layout there, and its place among the single values."""
        assert self._store is not None
        if form.name == self._time:
            return
        if self._store.is_coordinate(form.name):
            going.axes.setdefault(form.name, []).append(at)
            return
        if not is_asked_for(form, self._config.raw):
            return
        is_tabled = self._store.needs_table(form) or form.name in self._to_tables
        why = (FOLDED if form.folded else "") or self._store.why_not(form)
        why = why or (self._store.tables.why_not(form) if is_tabled else "")
        if why:
            going.placeless[form.name] = why
        elif is_tabled:
            going.tabled.setdefault(form.name, []).append(at)
        else:
            going.placed.setdefault(form.name, []).append((single, form))
            if self._store.is_bare(form):
                going.bare.append(at)

    def _landed(self, number: int, landed: int, node: str, block: Block) -> LandedBlock:
        """Read a block that goes into a table: here, since how long the tables are is known here alone."""
        if block.kind.endswith("Value"):
            dtype = object if block.type == "string" else block.dtype
            return LandedBlock(number, block, np.array([number_of(block.value)], dtype))
        self._reader = self._reader or BlockReader(self._contact, self._config.stream)
        return LandedBlock(number, block, self._reader.read(node, landed, block))

    def take(self, batch: DrainBatch) -> None:
        """Commit a batch that was written: the oldest one that was begun."""
        assert self._store is not None
        oldest = self._begun[0]
        assert batch is oldest, f"steps up to {oldest.through} come before those up to {batch.through}"
        self._begun.popleft()
        for name, blocks in batch.tabled.items():
            self._store.add_blocks(name, [self._landed(*item) for item in blocks])
        for name, blocks in batch.axes.items():
            self._store.compare_coordinate(name, (self._landed(*item) for item in blocks))
        hit = None if self.choosing is None else self.choosing.last_hit(batch.through)
        if hit is not None:
            self._store.note_hit(hit)
        for form in batch.works[0].forms if batch.works else ():
            if form.name in batch.whole:
                before = () if form.name in self._written else self._before.get(form.name, ())
                _, steps = self._written.setdefault(form.name, (form, Counter()))
                places = (*before, *range(batch.start, batch.start + len(batch.numbers)))
                steps.update(place // form.steps for place in places)
        if batch.numbers:
            self._store.commit(batch.start, batch.numbers, batch.times, batch.values, batch.whole, batch.mixed)
            self._there.update(batch.numbers)
        self.cursor = batch.through


def _differ(forms: Sequence[BlockForm]) -> str:
    """Describe how the last of some blocks that is unlike the first differs from it; empty if all are alike."""
    first = forms[0]
    for last in reversed(forms):
        if (last.type, last.shape) != (first.type, first.shape):
            told = (f"{type_of(each)} of shape {each.shape} from rank {each.rank}" for each in (first, last))
            return ", and ".join(told)
    return ""


def _planned(
    steps: Sequence[RawStep],
    chosen: Sequence[Mapping[str, Sequence[tuple[str, int]]]],
    left_out: frozenset[str] = frozenset(),
) -> dict[str, list[PlannedBlock]]:
    found: dict[str, list[PlannedBlock]] = {}
    for step, one in zip(steps, chosen, strict=True):
        for name in one.keys() - left_out:
            parts = [(node, step.parts[node], at) for node, at in one[name]]
            own = [(step.number, part.landed_in, node, part.blocks[at]) for node, part, at in parts]
            found.setdefault(name, []).extend(sorted(own, key=lambda item: item[3].rank))
    return found


def _value(chosen: tuple[BlockForm, tuple[str, int]] | None, step: RawStep) -> Any:
    if chosen is None:
        return None
    node, place = chosen[1]
    return number_of(step.parts[node].values[place])


def bare(part: Step) -> Step:
    """Return what tasks need of a step: its blocks, without what is told of them."""
    return Step(part.number, part.layout, part.sources, part.files, part.values, landed=part.landed)
