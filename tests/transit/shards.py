"""Runs of a field without BB nodes or Dask: steps are folded region by region, and the states saved, in one process."""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import zarr

from bbflow.cf import StreamAttributes
from bbflow.config import parse_config
from bbflow.landing.contact import NodeAddress
from bbflow.operators.diagnostic import parse_diagnostics
from bbflow.operators.windows.calendars import Clock
from bbflow.transit.chain.saved import STATE_FILE, read_state
from bbflow.transit.chain.saving import Saving
from bbflow.transit.chain.taking_over import carried_on
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.inputs import Inputs
from bbflow.transit.folding.layouts import layout_of
from bbflow.transit.folding.shards import ShardKey, ShardState
from bbflow.transit.folding.slots import OUTER
from bbflow.transit.folding.task import FoldWork, fold_batch
from bbflow.transit.output.fields import Field

NODES = "a", "b", "c", "d"
CLOCK = Clock("hours since 2001-01-28", "noleap")
ATTRIBUTES = StreamAttributes({"time/units": CLOCK.units, "time/calendar": CLOCK.calendar})


def run(
    folder, config, values, hours, regions, *, before=None, batch_steps=3, gone=(), gone_from=None, crash_at=None,
    moves=None, torn=False,
):  # fmt: skip
    """Fold steps of one field and give the saved state.

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
    regions
        Node name, start and count of each shard.
    before
        The state that it goes on from.
    batch_steps
        At most so many steps are folded at once.
    gone, gone_from
        Numbers of shards that get no step from one on.
    crash_at
        Before this step an analysis of the checkpoints takes over.
    moves
        Step to the regions from that one on.
    torn
        Whether the analysis dies while it tells the nodes of each move, and another takes over.
    """
    moves = moves or {}
    (folder / "state").mkdir(parents=True, exist_ok=True)
    saved = read_state(before) if before else None
    folding = carried_on(parse_config({"stream": "fields"} | config), {"": (-1, b"")}, saved)
    offset = saved.number + 1 if saved else 0
    at = 0
    while at < len(hours):
        if crash_at is not None and at >= crash_at:
            folding, crash_at = restarted(folding, saved), None
        regions = moves.get(at, regions)
        keys = keys_of(folding, hours[at], at + offset)
        end = at + 1
        last = min(len(hours), at + batch_steps, gone_from if gone_from is not None and at < gone_from else len(hours))
        while end < last and end not in moves and keys_of(folding, hours[end], end + offset) == keys:
            end += 1
        places = {key: frozenset(ShardKey(node, key, *region) for node, *region in regions) for key in ordered(folding)}
        batch = Batch(tuple(range(at, end)), tuple(hours[at:end]), keys, end - 1, offset=offset, places=places)
        if moved := folding.moved(batch):
            folding = settled(folder, folding, moved, values.shape[1:], saved, torn=torn)
        absent = gone if gone_from is not None and at >= gone_from else ()
        works = [
            work_of(folder, folding, key, batch, values, *region)
            for number, region in enumerate(regions)
            if number not in absent
            for key in folding.config.diagnostics
        ]
        folding.take(batch, [fold_batch(inheriting(folding, works))])
        at = end
    return save(folder, folding, values.shape[1:])


def inheriting(folding, works):
    """Let new shards begin with what was kept of their points before."""
    known = ({work.state.key: work.state for work in works} | folding.states).values()
    return [
        replace(work, inherited=folding.origins.of_shard(work.state, known)) if work.state.keys is None else work
        for work in works
    ]


def ordered(folding):
    return [key for key, item in folding.config.diagnostics.items() if item.needs_order]


def settled(folder, folding, moved, shape, before_it, *, torn):
    """Let some diagnostics go on elsewhere; if torn, only the first node has heard of it when the analysis dies."""
    before = checkpoints(folding)
    path = folder / f"settled-{folding.last_number}"
    saved, _ = saving(folder, folding, shape).save_only(moved, path, ATTRIBUTES, CLOCK)
    gone = folding.settle({key: saved.inherited(key) for key in moved})
    files = [file for state in gone for file in state.files.values()]
    if torn:
        first = min(before)
        return carried_on(folding.config, before | {first: checkpoints(folding)[first]}, before_it)
    for file in files:
        Path(file).unlink()
    return folding


def restarted(folding, saved):
    """Give what another analysis makes of the nodes' checkpoints."""
    return carried_on(folding.config, checkpoints(folding), saved)


def checkpoints(folding):
    return {node: (folding.cursor, folding.checkpoint(node)) for node in NODES}


def keys_of(folding, hour, number):
    return {window.name: window.key(CLOCK.date(hour), number) for window in folding.timeline.windows}


def work_of(folder, folding, diagnostic, batch, values, node, start, count):
    place = tuple(slice(first, first + size) for first, size in zip(start, count, strict=True))
    key = ShardKey(node, diagnostic, start, count)
    state = folding.states.get(key) or ShardState(key, start, count, first_step=batch.numbers[0])
    arrays = tuple(np.ascontiguousarray(values[number][place]).reshape(-1) for number in batch.steps)
    inputs = Inputs(batch.numbers, batch.times, {}, arrays=arrays)
    item = folding.config.diagnostics[diagnostic]
    return FoldWork(state, item, inputs, batch.keys, None, str(folder / "state"), str(folder), {})


def save(folder, folding, shape):
    """Save what a run kept, and read it again."""
    zarr.open_group(folder / "results.zarr", mode="w")
    saving(folder, folding, shape).save(folder / STATE_FILE, folder / "results.zarr", ATTRIBUTES, CLOCK)
    return read_state(folder)


def saving(folder, folding, shape):
    nodes = {name: NodeAddress(name, "", "", str(folder), "") for name in NODES}
    fields = {
        key: Field(key, np.dtype(item.outer_dtype(np.dtype("f8"))).str, shape, ("lat", "lon"), {}, {})
        for key, item in folding.config.diagnostics.items()
    }
    return Saving(folding.kept, fields, nodes, at_once)


def at_once(node, function, *arguments):
    future = Future()
    future.set_result(function(*arguments))
    return future


def statistics(saved):
    """Give all results of a saved state, by diagnostic, window, span and operator."""
    diagnostics = parse_diagnostics(saved.content["operators"], list(saved.content["windows"]))
    found = {}
    for key, item in diagnostics.items():
        field = saved.fields[key]
        layout = layout_of(item, OUTER, np.dtype(field.dtype), field.field.shape)
        for slot, offset in field.offsets.items():
            if slot.level == OUTER:
                state = np.fromfile(saved.path, "u1", layout.nbytes, offset=saved.begin + offset)
                for operator in item.operators:
                    found[key, slot.window, slot.key, operator.name] = operator.finalize(layout, state)
    return found
