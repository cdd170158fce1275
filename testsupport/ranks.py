"""Ranks that write with the engine, each a process that was forked from one: many of them need little memory.

`python -m testsupport.ranks STREAM RANKS STEPS EVERY_S [KEY=VALUE …]`, with the engine in its environment; further
words are parameters of the engine.
"""

import os
import sys
import time
import traceback

import adios2
import numpy as np
from adios2.bindings import Mode

ROWS, COLUMNS = 4, 16
"""Of each rank's block."""


def shape_of(ranks):
    """Return the shape of the field."""
    return ROWS * ranks, COLUMNS


def field(step, ranks):
    """Return what all ranks write of a step, float32."""
    places = np.arange(ranks * ROWS * COLUMNS).reshape(shape_of(ranks))
    return ((7 * places + 29 * step) % 251).astype("f4")


def write(stream, ranks, rank, steps, every_s, told):
    """Write a stream's steps, hours of a day, as one of its ranks."""
    io = adios2.Adios().declare_io(stream)
    io.set_engine("Plugin")
    given = {"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "OpenTimeoutSecs": "900"}
    io.set_parameters(given | {"Stream": stream, "Rank": str(rank), "Writers": str(ranks)} | told)
    when = io.define_variable("time", np.zeros(1)) if rank == 0 else None
    if when is not None:
        io.define_attribute("time/units", "hours since 2001-01-01")
    start, count = (ROWS * rank, 0), (ROWS, COLUMNS)
    tas = io.define_variable("tas", np.zeros(1, "f4"), shape_of(ranks), start, count)
    engine = io.open(stream, Mode.Write)
    began_s = time.monotonic()
    for step in range(steps):
        engine.begin_step()
        if when is not None:
            engine.put(when, np.array([float(step)]), Mode.Sync)
        engine.put(tas, field(step, ranks)[ROWS * rank : ROWS * (rank + 1)], Mode.Sync)
        engine.end_step()
        time.sleep(max(began_s + step * every_s - time.monotonic(), 0.0))
    engine.close()


def main():
    """Fork all ranks, and wait for them; 0 if all have written all."""
    stream, ranks, steps, every_s, *words = sys.argv[1:]
    told = dict(word.split("=", 1) for word in words)
    children = []
    for rank in range(int(ranks)):
        child = os.fork()
        if not child:
            code = 1
            try:
                write(stream, int(ranks), rank, int(steps), float(every_s), told)
                code = 0
            except RuntimeError:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]  # all of them: none is left behind
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
