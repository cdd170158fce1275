"""Writes blocks of several sizes through the engine of an XML, and prints how fast; run by fabrics.py."""

import json
import sys
import time

SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)
STEPS = 8
"""For each size; the first two count for nothing."""
LARGEST_BYTES = 256 << 20
MOST_BLOCKS = 64


def main(config: str) -> None:
    """Write them; print Gbit/s of the median step for each size, and CPU seconds for each GB of the largest."""
    import adios2  # late: who imports the sizes needs none of it
    import numpy as np

    values = np.random.default_rng(0).random(LARGEST_BYTES // 4, dtype="f4")
    told: dict[str, float] = {}
    with adios2.Stream(adios2.Adios(config).declare_io("field"), "out", "w") as stream:
        for size in SIZES:
            blocks, points = min(MOST_BLOCKS, LARGEST_BYTES // size), size // 4
            times, worked = [], 0.0
            for step in range(STEPS):
                stream.begin_step()
                begun, began_cpu = time.perf_counter(), time.process_time()
                for block in range(blocks):
                    part = values[block * points :][:points]
                    stream.write(f"field-{size}", part, [blocks * points], [block * points], [points])
                stream.end_step()
                if step >= 2:
                    times.append(time.perf_counter() - begun)
                    worked += time.process_time() - began_cpu
            told[str(size)] = 8e-9 * blocks * size / sorted(times)[len(times) // 2]
    told["cpu"] = worked / (len(times) * blocks * size / 1e9)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
