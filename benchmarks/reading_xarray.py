"""Read every step of a field through xarray into the same warm memory; print the times as JSON.

Usage: reading_xarray.py CONTACT.json
"""

import json
import sys
from time import perf_counter

import numpy as np
import xarray as xr


def main() -> None:
    """Time a plain copy of as many bytes, a copy out of the dataset, and a maximum over it as it lies."""
    times: dict[str, list[float]] = {"memcpy": [], "get": [], "max": []}
    with xr.open_dataset(sys.argv[1], engine="bbflow", stream="field") as dataset:
        field = dataset.field
        values, source = np.zeros(field.shape[1:], np.float32), np.ones(field.shape[1:], np.float32)
        for index in range(len(field)):
            start = perf_counter()
            np.copyto(values, field[index].values)
            times["get"].append(perf_counter() - start)
            start = perf_counter()
            field[index].values.max()
            times["max"].append(perf_counter() - start)
            start = perf_counter()
            np.copyto(values, source)
            times["memcpy"].append(perf_counter() - start)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
