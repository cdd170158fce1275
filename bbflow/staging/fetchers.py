"""The fetcher threads: few, so that many readers become few streams (aggregation; Eley, section III-B)."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from bbflow.staging.crew import Crew
from bbflow.staging.fetching import Fetched, FetchJob, SmallBatch
from bbflow.staging.files import File
from bbflow.staging.gate import CHUNK_S, Closed
from bbflow.stores.urls import server_of


class Fetchers:
    """Copies files, in the order in which they are asked for; small ones of one server in batches.

    Parameters
    ----------
    count
        How many threads.
    transfer
        Copies a file, with its place in the order of all files; gives the bytes that it read.
    copy_batch
        Copies small files of one server, with the place of the first.
    batch_bytes
        Tells how much a batch may have.
    done
        Called after each file or batch.
    clock
        Gives seconds since the epoch.
    """

    def __init__(
        self,
        count: int,
        transfer: Callable[[File, int], int],
        copy_batch: Callable[[Sequence[File], int], SmallBatch],
        batch_bytes: Callable[[], int],
        done: Callable[[Sequence[Fetched]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._count = count
        self._transfer, self._copy_batch, self._batch_bytes = transfer, copy_batch, batch_bytes
        self._done, self._clock = done, clock
        self._jobs: deque[FetchJob] = deque()
        self._crews: dict[str, Crew] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._ranks = 0
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"bbflow-fetcher-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def fetch(self, file: File, wave: int) -> None:
        """Copy a file when its turn comes."""
        with self._changed:
            self._jobs.append(FetchJob(file, wave, self._ranks))
            self._ranks += 1
            self._call_one()

    def close(self) -> None:
        """End the threads; the gate must be closed already, so that transfers end too."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        while (jobs := self._next()) is not None:
            try:
                self._work(jobs, number)
            # The gate closes before these threads are told: until they are, what is queued comes back the same way.
            except Closed:
                continue

    def _next(self) -> list[FetchJob] | None:
        """Wait for the next file, or for the next batch of small ones; None if there is nothing more to do."""
        with self._changed:
            while not self._closed:
                if self._has_work:
                    jobs = self._take()
                    self._call_one()
                    return jobs
                self._changed.wait()
        return None

    @property
    def _has_work(self) -> bool:
        return bool(self._jobs) and (not self._jobs[0].is_small or self._crew(self._jobs[0]).has_place)

    def _call_one(self) -> None:
        """Wake a thread if there is something for it to do; it wakes the next one: none is woken for nothing."""
        if self._has_work:
            self._changed.notify()

    def _crew(self, job: FetchJob) -> Crew:
        server = server_of(job.file.url)
        if server not in self._crews:
            self._crews[server] = Crew.of(job.file.url, self._count, CHUNK_S)
        return self._crews[server]

    def _take(self) -> list[FetchJob]:
        """Take the next file, or the small files of one server that come next: as many as leave some for others."""
        jobs = [self._jobs.popleft()]
        if not jobs[0].is_small:
            return jobs
        crew, most_bytes = self._crew(jobs[0]), self._batch_bytes()
        crew.begin()
        size_bytes = jobs[0].file.size_bytes or 0
        most_files = min(crew.files, 1 + len(self._jobs) // crew.threads)
        while len(jobs) < most_files and self._jobs and self._jobs[0].is_small and self._crew(self._jobs[0]) is crew:
            size_bytes += self._jobs[0].file.size_bytes or 0
            if size_bytes > most_bytes:
                break
            jobs.append(self._jobs.popleft())
        return jobs

    def _work(self, jobs: list[FetchJob], number: int) -> None:
        if not jobs[0].is_small:
            self._done([self._fetched(jobs[0], number)])
            return
        started_s, batch = self._clock(), None
        try:
            batch = self._copy_batch([job.file for job in jobs], jobs[0].rank)
        finally:
            self._leave(jobs, batch)
        times_s = [started_s, *(started_s + ended_s for ended_s in batch.ended_s)]
        whole = [
            Fetched(job, number, times_s[at], times_s[at + 1], receipt.transferred_bytes)
            for at, (job, receipt) in enumerate(zip(jobs, batch.receipts, strict=True))
            if receipt is not None
        ]
        if whole:
            self._done(whole)
        for job, receipt in zip(jobs, batch.receipts, strict=True):
            if receipt is None:
                self._done([self._fetched(job, number)])

    def _leave(self, jobs: list[FetchJob], batch: SmallBatch | None) -> None:
        with self._changed:
            crew = self._crew(jobs[0])
            if batch is None:
                crew.end(0, 0.0, 0.0)
            else:
                crew.end(len(jobs), batch.ended_s[-1], batch.cpu_s)
            self._call_one()

    def _fetched(self, job: FetchJob, number: int) -> Fetched:
        started_s, transferred_bytes, failure = self._clock(), 0, None
        try:
            transferred_bytes = self._transfer(job.file, job.rank)
        except Closed:
            raise
        # What a client raises depends on the protocol; a thread that ended by it would leave its tasks waiting forever.
        except Exception as error:
            failure = error
        return Fetched(job, number, started_s, self._clock(), transferred_bytes, failure)
