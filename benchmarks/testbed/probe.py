"""Whether the bed carries what it promises: reading as the tasks do, for two seconds, through the whole stack."""

import sys
import threading
import time

from benchmarks.testbed.objects import REQUEST_BYTES, open_store

PROBE_S = 2.0


def read_for(duration_s: float, key: str, readers: int) -> float:
    """Read one object's head again and again with several readers; returns bytes per second."""
    store, received = open_store(), [0] * readers
    begun_s = time.monotonic()

    def read(number: int) -> None:
        while time.monotonic() < begun_s + duration_s:
            received[number] += len(store.get_range(key, start=0, end=REQUEST_BYTES))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(received) / (time.monotonic() - begun_s)


if __name__ == "__main__":
    print(read_for(PROBE_S, sys.argv[1], int(sys.argv[2])))
