"""Reading as the tasks do, through the whole stack: for two seconds, or until standard input is closed."""

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.testbed.objects import REQUEST_BYTES, open_store

PROBE_S = 2.0


def read_until(ended: Callable[[], bool], key: str, readers: int) -> int:
    """Read one object's head again and again with several readers; returns the bytes received."""
    store = open_store()

    def read(_: int) -> int:
        received_bytes = 0
        while not ended():
            received_bytes += len(store.get_range(key, start=0, end=REQUEST_BYTES))
        return received_bytes

    with ThreadPoolExecutor(readers) as threads:
        return sum(threads.map(read, range(readers)))


def closed_input() -> Callable[[], bool]:
    """Watch standard input: the function says whether it is closed."""
    closed = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        closed.set()

    threading.Thread(target=watch, daemon=True).start()
    return closed.is_set


def main(key: str, readers: int, *, while_open: bool) -> None:
    """Read; print when reading began on the monotonic clock (s), and afterwards the bytes and when it ended."""
    begun_s = time.monotonic()
    ended = closed_input() if while_open else lambda: time.monotonic() >= begun_s + PROBE_S
    print(begun_s, flush=True)
    received_bytes = read_until(ended, key, readers)
    print(json.dumps([received_bytes, time.monotonic()]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), while_open=sys.argv[3:] == ["while-open"])
