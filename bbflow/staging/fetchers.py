"""The fetcher threads: few, so that many readers become few streams (aggregation; Eley, section III-B)."""

import itertools
import queue
import threading
import time
from collections.abc import Callable

from bbflow.staging.files import File
from bbflow.staging.gate import Closed

_Job = tuple[int, File, int]


class Fetchers:
    """Copies files, in the order in which they are asked for.

    Parameters
    ----------
    count
        How many threads.
    transfer
        Copies a file, with its place in the order of all files; gives the bytes that it read.
    done
        Called after each file, with the number of its wave, the fetcher's number, when it began (seconds since
        the epoch), the bytes that were read, and the error if it failed.
    clock
        Gives seconds since the epoch.
    """

    def __init__(
        self,
        count: int,
        transfer: Callable[[File, int], int],
        done: Callable[[File, int, int, float, int, Exception | None], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._transfer, self._done, self._clock = transfer, done, clock
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ranks = itertools.count()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"bbflow-fetcher-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def fetch(self, file: File, wave: int) -> None:
        """Copy a file when its turn comes."""
        self._jobs.put((next(self._ranks), file, wave))

    def close(self) -> None:
        """End the threads; the gate must be closed already, so that transfers end too."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        while (job := self._jobs.get()) is not None:
            rank, file, wave = job
            started_s, transferred_bytes, failure = self._clock(), 0, None
            try:
                transferred_bytes = self._transfer(file, rank)
            except Closed:
                continue
            except Exception as error:
                failure = error
            self._done(file, wave, number, started_s, transferred_bytes, failure)
