"""Whether the bed carries what it promises: reading as the tasks do, for two seconds, through the whole stack."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.testbed.objects import REQUEST_BYTES, open_store

PROBE_S = 2.0


def read_for(duration_s: float, key: str, readers: int) -> float:
    """Read one object's head again and again with several readers; returns bytes per second."""
    store = open_store()
    begun_s = time.monotonic()

    def read(_: int) -> int:
        received_bytes = 0
        while time.monotonic() < begun_s + duration_s:
            received_bytes += len(store.get_range(key, start=0, end=REQUEST_BYTES))
        return received_bytes

    with ThreadPoolExecutor(readers) as threads:
        received_bytes = sum(threads.map(read, range(readers)))
    return received_bytes / (time.monotonic() - begun_s)


if __name__ == "__main__":
    print(read_for(PROBE_S, sys.argv[1], int(sys.argv[2])))
