"""Real streams of given fields, and what an analysis makes of them."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import bbflow_adios2
import numpy as np

from bbflow import start_nodes
from bbflow.operators.own.origin import look_in
from bbflow.transit.output.decoding import open_results

WRITER = """
import json, sys
import adios2
import numpy as np
from adios2.bindings import Mode

folder, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
told = json.load(open(f"{folder}/stream.json"))
io = adios2.Adios(f"{folder}/engine.xml").declare_io("fields")
when = io.define_variable("time", np.zeros(1))
for name, value in told["attributes"].items():
    io.define_attribute(name, value)

def part(shape, step=0):
    # One axis of several is divided; a single one is the first rank's. With each move ranks change places and shares.
    if len(shape) == 1:
        return ([0], list(shape)) if rank == 0 else None
    axis = told["axis"] % len(shape)
    moved = sum(move <= step for move in told["moves"]) % 2
    at = ranks - 1 - rank if moved else rank
    first, end = (min(shape[axis] * n // ranks + moved * (n > 0), shape[axis]) for n in (at, at + 1))
    starts = [first if at == axis else 0 for at in range(len(shape))]
    return starts, [end - first if at == axis else size for at, size in enumerate(shape)]

variables = {}
for name in told["fields"]:
    values = np.load(f"{folder}/{name}.npy", mmap_mode="r")
    steady = name in told["steady"]
    shape = values.shape if steady else values.shape[1:]
    place = part(shape)
    if place:
        region = [slice(first, first + size) for first, size in zip(*place)]
        variable = io.define_variable(name, np.empty(0, values.dtype), list(shape), *place, not told["moves"])
        variables[name] = variable, values, region, steady

engine = io.open("fields", Mode.Write)
for step, time in enumerate(told["times"]):
    engine.begin_step()
    if rank == 0:
        engine.put(when, np.array([time]), Mode.Sync)
    for variable, values, region, steady in variables.values():
        if step in told["moves"] and not steady and values.ndim > 2:
            place = part(values.shape[1:], step)
            variable.set_selection(place)
            region[:] = (slice(first, first + size) for first, size in zip(*place))
        if not steady or step == 0:
            engine.put(variable, np.array((values if steady else values[step])[tuple(region)]), Mode.Sync)
    engine.end_step()
engine.close()
"""
"""Writes one rank's part of every field; arguments: folder, rank, number of ranks."""


def store(folder, fields, times, attributes, *, steady=(), axis=0, moves=()):
    """Put fields where the writers find them.

    Fields are of shape (steps, …), those of `steady` without steps: they are in the first step only. Axis is the
    one that ranks divide, counted from the last if it is negative; at some steps their blocks may move.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in fields.items():
        np.save(folder / f"{name}.npy", values)
    told = {
        "fields": list(fields),
        "steady": list(steady),
        "times": [float(time) for time in times],
        "attributes": attributes,
        "axis": axis,
        "moves": list(moves),
    }
    (folder / "stream.json").write_text(json.dumps(told))
    (folder / "writer.py").write_text(WRITER)
    (folder / "engine.xml").write_text(bbflow_adios2.engine_xml("fields"))


@contextmanager
def writing(folder, contact, ranks):
    """Write a stored stream to its end, then do what the context does; the writers are gone after it."""
    environment = os.environ | bbflow_adios2.environment(contact) | {"PMI_SIZE": str(ranks)}
    words = [sys.executable, folder / "writer.py", folder]
    writers = [
        subprocess.Popen([*words, str(rank), str(ranks)], env=environment | {"PMI_RANK": str(rank)})
        for rank in range(ranks)
    ]
    try:
        assert [writer.wait(300) for writer in writers] == [0] * ranks
        yield
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def analyse(folder, config, *, ranks=1, nodes=1, capacity="8MiB", modules=None):
    """Write a stored stream while an analysis folds it; gives the published results, loaded.

    Modules is a directory with users' operators.
    """
    outcome, results = analysed(folder, config, ranks=ranks, nodes=nodes, capacity=capacity, modules=modules)
    assert outcome.complete
    return results


def analysed(folder, config, *, ranks=1, nodes=1, capacity="8MiB", modules=None):
    """Do the same with a stream that need not be complete; gives the outcome too."""
    if modules is not None:
        look_in(str(modules))
    config = {"stream": "fields", "output": str(folder / "out"), "workers": {"processes": 0, "threads": 1}} | config
    with ExitStack() as stack:
        burst_buffer = stack.enter_context(start_nodes(nodes, capacity))
        analysis = stack.enter_context(burst_buffer.analyse(config))
        with writing(folder, burst_buffer.contact, ranks):
            outcome = analysis.wait(300)
    assert outcome is not None
    with open_results(folder / "out" / "results.zarr") as results:
        return outcome, results.load()
