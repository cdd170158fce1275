"""Programs that Put exactly what a test says, one rank or several, and what an analysis makes of that."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from bbflow import start_nodes
from bbflow.transit.outcome import Outcome
from testsupport.processes import finish_well
from testsupport.writers import write_config, writing

PROGRAM = """
import json
told = json.loads((here / "program.json").read_text())
for name, value in told["attributes"].items():
    io.define_attribute(name, value)
known = {}
engine = io.open("out", Mode.Write)
for at, step in enumerate(told["steps"]):
    engine.begin_step()
    for name, file, shape, start in step[rank]:
        values = np.load(here / file)
        if name not in known:
            known[name] = io.define_variable(name, values, *([shape, start, list(values.shape)] if shape else []))
        elif shape:
            known[name].set_shape(shape)
            known[name].set_selection([start, list(values.shape)])
        engine.put(known[name], values, Mode.Sync)
    engine.end_step()
engine.close()
"""


@dataclass(frozen=True)
class Part:
    """A part of a global array."""

    values: np.ndarray
    shape: tuple[int, ...]
    start: tuple[int, ...]


def part(values, size, at, axis=0):
    """The part of one of several ranks that divide an axis evenly."""
    first, end = (values.shape[axis] * n // size for n in (at, at + 1))
    start = tuple(first if own == axis else 0 for own in range(values.ndim))
    return Part(np.take(values, range(first, end), axis), values.shape, start)


@dataclass(frozen=True)
class Ran:
    """What came of it."""

    outcome: Outcome
    output: Path

    @property
    def results(self):
        with xr.open_zarr(self.output / "results.zarr", decode_times=False) as results:
            return results.load()

    @property
    def told(self):
        return "\n".join(self.outcome.errors)


def write_program(folder, ranks, contact, attributes=None):
    """Run a program to its end; as `run_program`, without an analysis."""
    steps = [
        [_stored(folder, at, rank, own) for rank, own in enumerate(step)]
        for at, step in enumerate(zip(*ranks, strict=True))
    ]
    (folder / "program.json").write_text(json.dumps({"attributes": attributes or {}, "steps": steps}))
    engines = [write_config(folder, Writers=str(len(ranks)), Rank=str(rank)) for rank in range(len(ranks))]
    with ExitStack() as stack:
        begun = [
            stack.enter_context(writing(contact, PROGRAM, engine, rank=rank, writers=len(ranks)))
            for rank, engine in enumerate(engines)
        ]
        for process in begun:
            finish_well(process)


def run_program(folder, ranks, config, attributes=None, nodes=1, capacity="16MiB"):
    """Run a program and an analysis of it.

    Parameters
    ----------
    folder
        For all files.
    ranks
        For each rank its steps, each a list of pairs of a variable's name and what is Put: a `Part`, an array, or a
        number; in their order, so that a name may be there twice.
    config
        The analysis'.
    attributes
        Of the stream.
    nodes, capacity
        Of the burst buffer.
    """
    config = {"stream": "model", "output": str(folder / "out"), "windows": ["run"], "time": "steps"} | config
    config = {"workers": {"processes": 0, "threads": 1}} | config
    with ExitStack() as stack:
        burst_buffer = stack.enter_context(start_nodes(nodes, capacity))
        analysis = stack.enter_context(burst_buffer.analyse(config))
        write_program(folder, ranks, burst_buffer.contact, attributes)
        outcome = analysis.wait(100)
    assert outcome is not None
    return Ran(outcome, folder / "out")


def _stored(folder, at, rank, step):
    told = []
    for number, (name, what) in enumerate(step):
        values = what.values if isinstance(what, Part) else np.asarray(what)
        shape, start = (what.shape, what.start) if isinstance(what, Part) else (values.shape, (0,) * values.ndim)
        file = f"{at}-{rank}-{number}.npy"
        np.save(folder / file, values)
        told.append((name, file, list(shape), list(start)))
    return told
