"""Read every step of a field into the same warm memory; print the times as JSON.

Usage: reading_reader.py CONFIG.xml NAME
"""

import json
import sys
from time import perf_counter

import adios2
import numpy as np
from adios2.bindings import Mode, StepMode, StepStatus


def main() -> None:
    """Time a plain copy of as many bytes, BeginStep, Get and EndStep of each step, and Get with a maximum."""
    io = adios2.Adios(sys.argv[1]).declare_io("field")
    engine = io.open(sys.argv[2], Mode.Read)
    times: dict[str, list[float]] = {"memcpy": [], "get": [], "step": [], "max": []}
    values = source = np.empty(0, np.float32)
    while True:
        start = perf_counter()
        if engine.begin_step(StepMode.Read, -1.0) != StepStatus.OK:
            break
        field = io.inquire_variable("field")
        if not values.size:
            values, source = np.zeros(field.shape(), np.float32), np.ones(field.shape(), np.float32)
        field.set_selection([[0] * len(field.shape()), field.shape()])
        got = perf_counter()
        engine.get(field, values, Mode.Sync)
        times["get"].append(perf_counter() - got)
        values.max()
        times["max"].append(perf_counter() - got)
        looked = perf_counter()
        engine.end_step()
        times["step"].append(perf_counter() - start - (looked - got) + times["get"][-1])
        start = perf_counter()
        np.copyto(values, source)
        times["memcpy"].append(perf_counter() - start)
    engine.close()
    print(json.dumps(times))


if __name__ == "__main__":
    main()
