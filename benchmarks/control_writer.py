"""Lands one tiny step, waits until its standard input ends, then lands many; run by control.py."""

import sys

import adios2
import numpy as np

config, steps = sys.argv[1], int(sys.argv[2])
field = np.arange(8.0)
io = adios2.Adios(config).declare_io("field")
with adios2.Stream(io, "out", "w") as stream:
    for number in range(steps + 1):
        stream.begin_step()
        stream.write("field", field, [], [], [8])
        stream.end_step()
        if number == 0:
            print("begun", flush=True)
            sys.stdin.read()
    print("ended", flush=True)
