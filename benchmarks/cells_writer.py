"""Writes a float32 field of cells and levels as fast as it can; run by cells.py, in its directory.

Prints the process's CPU time, and how long its Puts took (seconds, JSON).
"""

import json
import sys
import time

import adios2.bindings as adios2
import bbflow_adios2
import numpy as np


def main() -> None:
    """Write."""
    cells, levels, steps = map(int, sys.argv[1:])
    adios = adios2.ADIOS()
    io = adios.DeclareIO("cells")
    io.SetEngine("Plugin")
    io.SetParameters({"PluginName": "bbflow", "PluginLibrary": bbflow_adios2.LIBRARY, "Stream": "cells"})
    field = np.random.default_rng(1).random((levels, cells), dtype="f4")
    centres = dict(zip(("clat", "clon"), np.load("centres.npy"), strict=True))
    when, ta = (
        io.DefineVariable("time", np.zeros(1)),
        io.DefineVariable("ta", field, [levels, cells], [0, 0], [levels, cells]),
    )
    places = {name: io.DefineVariable(name, own, [cells], [0], [cells]) for name, own in centres.items()}
    told = {"time/units": "hours since 2000-01-01", "ta/coordinates": "clat clon"}
    for name, value in (told | {"clat/units": "degrees_north", "clon/units": "degrees_east"}).items():
        io.DefineAttribute(name, value)
    for name, dims in (("ta", ["lev", "cell"]), ("clat", ["cell"]), ("clon", ["cell"])):
        io.DefineAttribute(f"{name}/_ARRAY_DIMENSIONS", dims)
    engine, put_s = io.Open("cells", adios2.Mode.Write), 0.0
    for step in range(steps):
        engine.BeginStep()
        engine.Put(when, np.array([6.0 * step]), adios2.Mode.Sync)
        if step == 0:
            for name, own in places.items():
                engine.Put(own, centres[name], adios2.Mode.Sync)
        began_s = time.perf_counter()
        engine.Put(ta, field, adios2.Mode.Sync)
        put_s += time.perf_counter() - began_s
        engine.EndStep()
    engine.Close()
    print(json.dumps({"cpu_s": time.process_time(), "put_s": put_s}))


if __name__ == "__main__":
    main()
