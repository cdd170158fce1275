"""Writes 64 MiB steps through the engine of an XML and prints the times of each; run by landing.py."""

import json
import sys
import time

import adios2
import numpy as np

POINTS = 16 << 20

config, output, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
fields = [np.random.default_rng(seed).random(POINTS, dtype="f4") for seed in range(3)]
warm = np.zeros(POINTS, "f4")
times: dict[str, list[float]] = {"step": [], "put": [], "memcpy": [], "cpu": []}
with adios2.Stream(adios2.Adios(config).declare_io("field"), output, "w") as stream:
    for number in range(steps):
        begun, worked = time.perf_counter(), time.process_time()
        stream.begin_step()
        admitted = time.perf_counter()
        stream.write("time", float(number))
        if number == 0:
            stream.write_attribute("time/units", "days since 2000-01-01")
        stream.write("field", fields[number % 3], [POINTS], [0], [POINTS])
        stream.end_step()
        ended = time.perf_counter()
        times["cpu"].append(time.process_time() - worked)
        np.copyto(warm, fields[(number + 1) % 3])
        copied = time.perf_counter()
        times["step"].append(ended - begun)
        times["put"].append(ended - admitted)
        times["memcpy"].append(copied - ended)
print(json.dumps(times))
