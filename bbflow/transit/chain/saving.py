"""Saving: the partial states of all shards and nodes become one file of whole fields, for a run that continues."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np

from bbflow.errors import naming
from bbflow.net.contact import NodeAddress
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.frozen import Frozen
from bbflow.operators.operator import FINISHED_POINTS
from bbflow.operators.own.guard import collecting
from bbflow.operators.state import StateLayout, parts_of
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.chain.comparing import meaning_of
from bbflow.transit.chain.saved import SavedArray, SavedField, SavedState, StateWriter
from bbflow.transit.clusters.cluster import take
from bbflow.transit.folding.alike_fold import AlikeFold
from bbflow.transit.output.fields import ResultField
from bbflow.transit.publication.finish import Partial
from bbflow.transit.publication.reduce import together
from bbflow.transit.spans.slots import BASE, CARRIED, INNER, LEVELS, OUTER, Keys, StateSlot
from bbflow.transit.spans.timeline import Timeline
from bbflow.transit.states.files import combine_files, forget, map_source
from bbflow.transit.states.inherited import Inherited, map_part, remainder
from bbflow.transit.states.kept import Kept
from bbflow.transit.states.shards import Region, Row, ShardKey, ShardState, StatePlace, overlapping, places_of
from bbflow.transit.states.state_layouts import by_region, put_state, state_layout_of
from bbflow.transit.states.tables import Roster, States
from bbflow.zarr_store.chunks import TEXT
from bbflow.zarr_store.growing import GrowingZarr

ALIGNED_BYTES = 64
Run = Callable[..., Any]
"""Submits a function with its arguments to a node, given by its name first, and gives the future."""


@dataclass(frozen=True, slots=True)
class SaveWork(Frozen):
    """What one task adds to the states of one diagnostic."""

    diagnostic: Diagnostic
    """Whose states."""
    target: Inherited
    """The file, what lies where in it, and the spans at its end."""
    directory: str
    """Where the node keeps states."""
    off: Mapping[str, str]
    """Users' operators that have failed, and are called no more."""
    shards: tuple[States, ...] = ()
    """What is added."""
    shared: tuple[Row, ...] = ()
    """And those whose points others have too."""
    spreads: bool = False
    """Whether other hosts add to the file too: it is on disk then when the task is done."""
    clears: bool = False
    """Whether the states have not begun yet."""
    inherited: Inherited | None = None
    """What an earlier run has left, if anything of that is still there."""


def add_fields(works: Sequence[SaveWork]) -> dict[str, str]:
    """Add the states of some fields' shards to a file's; a task where they lie.

    Returns
    -------
    dict
        What failed in users' operators.
    """
    return {name: text for work in works for name, text in add_shards(work).items()}


def add_shards(work: SaveWork) -> dict[str, str]:
    """Add the states of some shards to a file's, and return what failed in users' operators."""
    wholes = {slot: _Whole.of(work, slot) for slot in work.target.offsets}
    with collecting(work.off) as errors:
        if work.clears:
            for whole in wholes.values():
                whole.state_layout.clear(whole.buffer)
        if work.inherited is not None:
            with remainder(work.diagnostic, work.inherited, work.directory) as rest:
                if rest is not None:
                    _add(work, wholes, work.inherited.region, rest, shared=False)
        for _, region, state in work.shared:
            _add(work, wholes, region, state, shared=True)
        for alike in work.shards:
            if alike.like.keys == work.target.keys:
                _add_alike(work, wholes, alike)
            else:
                for _, region, state in alike.rows():
                    _add(work, wholes, region, state, shared=False)
    # The next host's client of the file system sees nothing of pages that are only mapped here.
    if work.spreads:
        for whole in wholes.values():
            if isinstance(whole.buffer, np.memmap):
                whole.buffer.flush()
    return errors


@dataclass(frozen=True, slots=True)
class _Whole:
    """The state of a whole field, in the file."""

    state_layout: StateLayout
    """How it lies."""
    buffer: Any
    """Its bytes."""
    fields: Mapping[tuple[str, str], Array]
    """Its fields, each with the field's shape as its last axes."""
    path: str
    """The file."""
    offset: int
    """Its first byte there."""

    @classmethod
    def of(cls, work: SaveWork, slot: StateSlot) -> "_Whole":
        state_layout, offset = (
            work.target.state_layout(work.diagnostic, slot, work.target.shape),
            work.target.offsets[slot],
        )
        size = state_layout.nbytes
        # No bytes can't be mapped.
        buffer = map_part(work.target.path, offset, size, "r+") if size else bytearray(1)
        return cls(state_layout, buffer, by_region(state_layout, buffer, work.target.shape), work.target.path, offset)

    def write(self, part: Partial, state_layout: StateLayout) -> None:
        """Write whole rows of the field, tile by tile: to map the file's pages would take longer.

        Parameters
        ----------
        part
            What is known of the rows.
        state_layout
            Of its states.
        """
        views, row = [state_layout.views(state) for state in part.states], prod(part.count[1:])
        first, scratch = (
            (part.start[0] if part.start else 0) * row,
            bytearray(state_layout.nbytes_of(min(FINISHED_POINTS, state_layout.points))),
        )
        with naming(str(self.path)), open(self.path, "r+b") as file:
            for points in parts_of(state_layout.points, FINISHED_POINTS):
                tile = state_layout.part(views, points, scratch)
                for (family, name), offset in self.state_layout.places.items():
                    values = tile[family][name]
                    for number, own in enumerate(values.reshape(-1, values.shape[-1])):
                        at = number * self.state_layout.points + first + points.start
                        file.seek(self.offset + offset + at * own.itemsize)
                        file.write(own.data)


def _add(
    work: SaveWork, wholes: Mapping[StateSlot, _Whole], region: Region, state: ShardState, *, shared: bool
) -> None:
    with _advanced(work, region, state) as files:
        for slot, whole in wholes.items():
            places = places_of(files, _sources(slot, work.target.keys))
            if places:
                state_layout = work.target.state_layout(work.diagnostic, slot, region[1])
                own = _state_of(state_layout, slot, places)
                put_state(whole.fields, state_layout, region, own, shared=shared)


def _add_alike(work: SaveWork, wholes: Mapping[StateSlot, _Whole], alike: States) -> None:
    """Add the states of some shards, whose points are no one else's: of small ones that lie alike together."""
    for slot, whole in wholes.items():
        for part in together(work.diagnostic, alike, _sources(slot, work.target.keys)):
            state_layout = work.target.state_layout(work.diagnostic, slot, part.count)
            if part.states and part.count[1:] == work.target.shape[1:]:
                whole.write(part, state_layout)
            elif part.states:
                put_state(whole.fields, state_layout, part.region, part.merged(state_layout), shared=False)


def _state_of(state_layout: StateLayout, slot: StateSlot, places: Sequence[StatePlace]) -> bytearray:
    own = bytearray(state_layout.nbytes)
    if slot.level == CARRIED:
        own[:] = map_source(places[0])[: state_layout.nbytes]
    else:
        combine_files(state_layout, places, own)
    return own


@contextmanager
def _advanced(work: SaveWork, region: Region, state: ShardState) -> Iterator[Mapping[StateSlot, StatePlace]]:
    """Hand on the spans of a shard that has had no step for so long that they have ended; what that makes goes then."""
    if state.keys == work.target.keys:
        yield state.files
        return
    roster = Roster.of([ShardKey("", work.diagnostic.key, (), ())], [region], (0,) * len(LEVELS))
    lane = f"{work.directory}/{uuid4().hex}"
    try:
        yield AlikeFold(state, roster, lane, {work.diagnostic.key: work.diagnostic}, work.target.keys).advance()
    finally:
        forget(lane)


def _sources(slot: StateSlot, current: Keys) -> list[StateSlot]:
    """Return the places of what belongs to a state, the earlier first: the open steps go into their spans."""
    if slot.level == CARRIED or current[slot.window] != slot.key:
        return [slot]
    return [slot, BASE[slot.level]]


def slots_to_save(diagnostic: Diagnostic, timeline: Timeline) -> list[StateSlot]:
    """Return the places of the states that a run which continues needs: of all spans that are alive."""
    levels = [(OUTER, window) for window in diagnostic.windows]
    levels += [(INNER, diagnostic.each.window)] if diagnostic.each else []
    slots = [StateSlot(level, window.name, key) for level, window in levels for key in timeline.alive(window)]
    return slots + ([BASE[CARRIED]] if diagnostic.transforms else [])


def place_states(
    diagnostic: Diagnostic, dtype: str, shape: tuple[int, ...], slots: Sequence[StateSlot], begin: int
) -> tuple[dict[StateSlot, int], int]:
    """Place states from some byte on; gives the byte after them too."""
    offsets = {}
    for slot in slots:
        offsets[slot] = begin
        begin += (
            -(-state_layout_of(diagnostic, slot.level, np.dtype(dtype), shape).nbytes // ALIGNED_BYTES) * ALIGNED_BYTES
        )
    return offsets, begin


def find_shared(states: Sequence[States]) -> list[Array]:
    """Return whether each of some shards shares points with others: shards of operators that need no order."""
    regions = [region for alike in states for region in alike.roster.regions]
    shared = np.zeros(len(regions), bool)
    shared[[number for pair in overlapping(regions) for number in pair]] = True
    ends = np.cumsum([alike.count for alike in states], dtype=int).tolist()
    return [shared[end - alike.count : end] for alike, end in zip(states, ends, strict=True)]


def coordinates_of(results: Path) -> list[tuple[SavedArray, Array]]:
    """Read what the results have besides statistics: coordinates, their bounds, and operators' axes."""
    store, found = GrowingZarr(results), []
    for name in store.arrays:
        node = store.metadata(name)
        dims = tuple(node.get("dimension_names") or ())
        is_number = node["data_type"] != TEXT and np.dtype(node["data_type"]).kind in "iuf"
        if len(dims) == len(node["shape"]) and not any(dim.startswith("time_") for dim in dims) and is_number:
            values = store.read(name)
            saved = SavedArray(name, values.dtype.str, dims, values.shape, dict(node["attributes"]), 0)
            found.append((saved, values))
    return found


def place_coordinates(
    coordinates: Sequence[tuple[SavedArray, Array]], begin: int
) -> tuple[list[tuple[SavedArray, Array]], int]:
    """Place coordinates from some byte on; gives the byte after them too."""
    placed = []
    for item, values in coordinates:
        placed.append((msgspec.structs.replace(item, offset=begin), values))
        begin += -(-values.nbytes // ALIGNED_BYTES) * ALIGNED_BYTES
    return placed, begin


class Saving:
    """Saves what a run kept.

    Parameters
    ----------
    kept
        That.
    fields
        By the diagnostic's key.
    nodes
        Addresses by name.
    run
        Submits tasks.
    lanes
        How many tasks share a node's fields.
    """

    def __init__(
        self, kept: Kept, fields: Mapping[str, ResultField], nodes: Mapping[str, NodeAddress], run: Run, lanes: int
    ) -> None:
        self._kept, self._fields, self._nodes, self._run, self._lanes = kept, fields, nodes, run, lanes
        self._diagnostics = {key: item for key, item in kept.config.diagnostics.items() if self._dtype(key)}

    def save(
        self,
        path: Path,
        results: Path,
        attributes: StreamAttributes,
        clock: Clock,
        *,
        complete: bool,
        places: Mapping[str, str],
    ) -> dict[str, str]:
        """Write the state file of a run.

        Parameters
        ----------
        path
            Where it goes.
        results
            The results' store, which has the coordinates.
        attributes, clock
            Of the stream.
        complete
            Whether the results lack nothing.
        places
            Variables by which fields are placed, to digests of their values.

        Returns
        -------
        dict
            What failed in users' operators.
        """
        return self._save(path, coordinates_of(results), attributes, clock, complete=complete, places=places)[1]

    def save_only(
        self, keys: Collection[str], path: Path, attributes: StreamAttributes, clock: Clock
    ) -> tuple[SavedState, dict[str, str]]:
        """Write a state file of some diagnostics, for this run itself; gives what it says, and what failed."""
        self._diagnostics = {key: item for key, item in self._diagnostics.items() if key in keys}
        return self._save(path, [], attributes, clock, complete=True, places={})

    def _save(
        self,
        path: Path,
        found: Sequence[tuple[SavedArray, Array]],
        attributes: StreamAttributes,
        clock: Clock,
        *,
        complete: bool,
        places: Mapping[str, str],
    ) -> tuple[SavedState, dict[str, str]]:
        coordinates, end = place_coordinates(found, 0)
        state = self._describe(attributes, clock, [item for item, _ in coordinates], end)
        state = replace(state, complete=complete, places=dict(places))
        writer = StateWriter(path, state)
        for item, values in coordinates:
            writer.put(item.offset, values)
        errors: dict[str, str] = {}
        errors |= self._fill(writer.state, {})
        # One host after another: where shards share points, each reads what is there and writes the sum.
        for _, nodes in groupby(sorted(self._nodes), lambda node: self._nodes[node].host):
            errors |= self._fill(writer.state, dict.fromkeys(nodes))
        return writer.finish(), errors

    def _dtype(self, key: str) -> str:
        before = self._kept.origins.of(key)
        known = [alike.like.dtype for alike in self._kept.of(key) if alike.like.dtype]
        return (known or ([before.dtype] if before else [""]))[0]

    def _describe(
        self, attributes: StreamAttributes, clock: Clock, coordinates: Sequence[SavedArray], end: int
    ) -> SavedState:
        kept, fields = self._kept, {}
        for key, diagnostic in self._diagnostics.items():
            field, dtype = self._fields[key], self._dtype(key)
            slots = slots_to_save(diagnostic, kept.timeline)
            offsets, end = place_states(diagnostic, dtype, field.shape, slots, end)
            fields[key] = SavedField(meaning_of(diagnostic, np.dtype(dtype)), field, dtype, offsets)
        return SavedState(
            kept.config.stream,
            clock,
            1,
            kept.last_number,
            kept.timeline,
            kept.errors,
            attributes.values,
            kept.config.content,
            fields,
            tuple(coordinates),
            end,
            tuple(sorted(attributes.variables or ())),
        )

    def _fill(self, state: SavedState, nodes: Collection[str]) -> dict[str, str]:
        """Add what some nodes of one host have; none of them stand for what is there before all others."""
        works, home = [], min(nodes or self._nodes)
        spreads = len({address.host for address in self._nodes.values()}) > 1
        for key, diagnostic in self._diagnostics.items():
            target = state.inherited(key)
            own = [(alike, shared) for alike, shared in self._split[key] if alike.roster.node in nodes]
            if own or not (nodes or self._is_whole(key, target)):
                work = SaveWork(
                    diagnostic,
                    target,
                    self._nodes[home].state_directory,
                    self._kept.errors,
                    tuple(alike.chosen(~shared) for alike, shared in own if not shared.all()),
                    tuple(row for alike, shared in own for row in alike.rows(shared)),
                    spreads,
                )
                works.append(work if nodes else self._first(work, key))
        shares = [tuple(works[at :: self._lanes]) for at in range(min(self._lanes, len(works)))]
        pending = [self._run(home, add_fields, share) for share in shares]
        return {name: text for errors in take(pending) for name, text in errors.items()}

    @cached_property
    def _split(self) -> dict[str, list[tuple[States, Array]]]:
        """Diagnostic to its states, and which of them have points in common with others."""
        states = {key: self._kept.of(key) for key in self._diagnostics}
        return {key: list(zip(own, find_shared(own), strict=True)) for key, own in states.items()}

    def _is_whole(self, key: str, target: Inherited) -> bool:
        """Whether each point has all states: then it doesn't matter what is there before."""
        alike = [item for item, _ in self._split[key]]
        slots = [_sources(slot, target.keys) for slot in target.offsets]
        filled = all(
            item.like.keys == target.keys and all(places_of(item.like.files, own) for own in slots) for item in alike
        )
        points = sum(int(item.roster.shapes.prod(axis=1).sum()) for item in alike)
        return filled and points == prod(target.shape) and not any(shared.any() for _, shared in self._split[key])

    def _first(self, work: SaveWork, key: str) -> SaveWork:
        return replace(work, clears=True, inherited=self._kept.origins.of(key, self._kept.regions(key)))
