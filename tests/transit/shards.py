"""Runs of a field without BB nodes or Dask: steps are folded region by region, and the states saved, in one process."""

import pickle
from dataclasses import replace
from math import prod
from pathlib import Path
from uuid import uuid4

import numpy as np

from bbflow.configuring.config import parse_config
from bbflow.net.contact import NodeAddress
from bbflow.operators.configured import parse_diagnostics
from bbflow.operators.windows.calendars import Clock
from bbflow.store.pool import name_pool
from bbflow.stream.cf import Encoding, StreamAttributes
from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.transit.chain.saved import read_state
from bbflow.transit.chain.saving import Saving
from bbflow.transit.chain.taking_over import carried_on
from bbflow.transit.clusters.thread_cluster import ThreadTask
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.patterns import LaidStep, Pattern
from bbflow.transit.folding.planning import FoldSite
from bbflow.transit.folding.plans import Directories
from bbflow.transit.folding.regions import forms_by_name, regions
from bbflow.transit.folding.task import fold_lane
from bbflow.transit.output.claiming import STATE_FILE
from bbflow.transit.output.fields import ResultField
from bbflow.transit.spans.slots import OUTER
from bbflow.transit.states.files import map_source, remove_states
from bbflow.transit.states.state_layouts import state_layout_of
from bbflow.transit.states.tables import RosterFiles
from bbflow.zarr_store.growing import GrowingZarr

NODES = "a", "b", "c", "d"
CLOCK = Clock("hours since 2001-01-28", "noleap")
ATTRIBUTES = StreamAttributes({"time/units": CLOCK.units, "time/calendar": CLOCK.calendar})


def run(
    folder, config, values, hours, placed, *, before=None, batch_steps=3, gone=(), gone_from=None, crash_at=None,
    moves=None, torn=False, ahead=None, threads=None,
):  # fmt: skip
    """Fold steps of one field and return the saved state.

    Parameters
    ----------
    folder
        For state files and the saved state.
    config
        Its operators and windows; every diagnostic is of the field.
    values
        Of shape (steps, lat, lon).
    hours
        The steps' times.
    placed
        Node name, start and count of each shard.
    before
        The state that it goes on from.
    batch_steps
        At most this many steps are folded at once.
    gone, gone_from
        Numbers of shards that get no step from one on.
    crash_at
        Before this step an analysis of the checkpoints takes over.
    moves
        Step to the regions from that one on.
    torn
        Whether the analysis dies while it tells the nodes of each move, and another takes over.
    threads
        Gives for a step how many threads fold on each node; one if None.
    ahead
        Gives for each span that ends how many batches are folded before it is published, as far as none of them ends
        another; what is read meanwhile stays as it is.
    """
    moves = moves or {}
    landed = Landed(folder, values)
    saved = read_state(before) if before else None
    parsed = parse_config({"stream": "fields", "output": str(folder)} | config)
    folding = carried_on(parsed, {"": (-1, b"")}, saved)
    offset = saved.number + 1 if saved else 0
    at, held = 0, None
    while at < len(hours):
        if crash_at is not None and at >= crash_at:
            folding, crash_at = restarted(folding, saved), None
        placed = moves.get(at, placed)
        keys = keys_of(folding, hours[at], at + offset)
        end = at + 1
        last = min(len(hours), at + batch_steps, gone_from if gone_from is not None and at < gone_from else len(hours))
        while end < last and end not in moves and keys_of(folding, hours[end], end + offset) == keys:
            end += 1
        absent = gone if gone_from is not None and at >= gone_from else ()
        present = tuple(region for number, region in enumerate(placed) if number not in absent)
        pattern = landed.pattern(folding.config.diagnostics, present)
        batch = Batch(at - 1, folding.common.timeline.numbers, offset)
        for step in range(at, end):
            laid = LaidStep(step, hours[step], pattern, landed.parts(step, pattern), {})
            batch.add(laid, batch.passed.after(hours[step]), keys)
        if moved := folding.moved(batch):
            held = held and held.publish()
            folding = settled(folder, folding, moved, values.shape[1:], saved, torn=torn)
        if ahead is not None and folding.closing(keys):
            if held is not None:
                held.publish()
            held = Held(folding, ahead())
        site = landed.site if threads is None else replace(landed.site, threads=len(NODES) * threads(at))
        works = folding.works(batch, site, holds=held is not None).values()
        folding.take(batch, [fold_lane(*pickle.loads(pickle.dumps((work, *plans)))) for work, plans in works])
        if held is not None and held.batches == 0:
            held = held.publish()
        elif held is not None:
            held.batches -= 1
        at = end
    return save(folder, folding, values.shape[1:])


class Held:
    """States that the stored checkpoint names while some batches are folded."""

    def __init__(self, folding, batches):
        self.batches, self._folding = batches, folding
        self._slots = [(row[:2], slot.level, place) for row in folding.states for slot, place in row[2].files.items()]
        self._content = {place: self._bytes(shard, place, level) for shard, level, place in self._slots}

    def _bytes(self, shard, place, level):
        key, (_, count) = shard
        layout = state_layout_of(self._folding.config.diagnostics[key.diagnostic], level, np.dtype("f8"), count)
        return bytes(map_source(place)[: layout.nbytes])

    def publish(self):
        """See that they are as they were, and let go of them."""
        for shard, level, place in self._slots:
            assert self._bytes(shard, place, level) == self._content[place]
        self._folding.states.let_go()


class Landed:
    """Steps of a field in one pool that all nodes share."""

    def __init__(self, folder, values):
        (folder / "state").mkdir(parents=True, exist_ok=True)
        self._pool, self._values, self._patterns = folder / f"pool-{uuid4().hex}", values, {}
        self._step_bytes = 2 * values[0].nbytes  # regions may overlap
        with self._pool.open("wb") as file:
            file.truncate(self._step_bytes * len(values))
        name_pool(self._pool, self._step_bytes * len(values))
        directories = Directories(str(self._pool), str(folder / "state"), str(folder))
        self.site = FoldSite(dict.fromkeys(NODES, directories), 1, {"x": Encoding()})

    def pattern(self, diagnostics, placed):
        """Return how steps lie that have these regions."""
        if placed not in self._patterns:
            forms, place = {}, 0
            for node, start, count in placed:
                size = 8 * prod(count)
                shape = self._values.shape[1:]
                form = BlockForm("x", "double", "GlobalArray", shape, start, count, 0, 0, place, size)
                forms.setdefault(node, []).append(form)
                place += size
            found = {key: regions(item, forms_by_name(forms)) for key, item in diagnostics.items()}
            places = {key: frozenset(found[key]) for key, item in diagnostics.items() if item.needs_order}
            layouts = {node: Layout.of(tuple(own)) for node, own in forms.items()}
            self._patterns[placed] = Pattern(layouts, found, places)
        return self._patterns[placed]

    def parts(self, step, pattern):
        """Land a step; gives what there is of it on each node."""
        first = step * self._step_bytes
        with self._pool.open("r+b") as file:
            for layout in pattern.layouts.values():
                for form in layout.forms:
                    region = tuple(slice(at, at + size) for at, size in zip(form.start, form.count, strict=True))
                    file.seek(first + form.place)
                    file.write(self._values[step][region].astype("f8").tobytes())
        layouts = pattern.layouts.items()
        return {
            node: Step(step, layout, np.full(len(layout.reach), first, "<i8").tobytes()) for node, layout in layouts
        }


def settled(folder, folding, moved, shape, before_it, *, torn):
    """Continue some diagnostics elsewhere; if torn, only the first node has heard of it when the analysis dies."""
    before = checkpoints(folding)
    path = folder / f"settled-{folding.common.last_number}"
    saved, _ = saving(folder, folding, shape).save_only(moved, path, ATTRIBUTES, CLOCK)
    gone = {path for key, _, state in folding.states if key.diagnostic in moved for path in state.paths}
    folding.settle({key: saved.inherited(key) for key in moved})
    files = gone - folding.states.files
    if torn:
        first = min(before)
        return carried_on(folding.config, before | {first: checkpoints(folding)[first]}, before_it)
    for file in files:
        Path(file).unlink()
    return folding


def restarted(folding, saved):
    """Return what another analysis makes of the nodes' checkpoints."""
    return carried_on(folding.config, checkpoints(folding), saved)


def checkpoints(folding):
    RosterFiles(folding.config.output).keep(table.roster for table in folding.states.tables)
    return {node: (folding.cursor, folding.checkpoints()(node)) for node in NODES}


def keys_of(folding, hour, number):
    return {window.name: window.key(CLOCK.date(hour), number) for window in folding.windows.all}


def save(folder, folding, shape):
    """Save what a run kept, remove its states, and read what was saved."""
    GrowingZarr(folder / "results.zarr").commit()
    saving(folder, folding, shape).save(
        folder / STATE_FILE, folder / "results.zarr", ATTRIBUTES, CLOCK, complete=True, places={}
    )
    remove_states(str(folder / "state"), folding.lanes.run)  # else this process keeps them mapped
    return read_state(folder)


def saving(folder, folding, shape):
    nodes = {name: NodeAddress(name, "", "", str(folder), "") for name in NODES}
    fields = {
        key: ResultField(key, np.dtype(item.outer_dtype(np.dtype("f8"))).str, shape, ("lat", "lon"), {}, {})
        for key, item in folding.config.diagnostics.items()
    }
    return Saving(folding.kept, fields, nodes, at_once, 2)


def at_once(node, function, *arguments):
    future = ThreadTask()
    future.set_result(function(*arguments))
    return future


def statistics(saved):
    """Return all results of a saved state, by diagnostic, window, span and operator."""
    diagnostics = parse_diagnostics(saved.content["operators"], list(saved.content["windows"]))
    found = {}
    for key, item in diagnostics.items():
        field = saved.fields[key]
        state_layout = state_layout_of(item, OUTER, np.dtype(field.dtype), field.field.shape)
        for slot, offset in field.offsets.items():
            if slot.level == OUTER:
                state = np.fromfile(saved.path, "u1", state_layout.nbytes, offset=saved.begin + offset)
                for operator in item.operators:
                    found[key, slot.window, slot.key, operator.name] = operator.finalize(state_layout, state)
    return found
