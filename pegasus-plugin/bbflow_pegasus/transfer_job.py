"""Stages the files of one transfer job: bbflow's own transfers, through one gate, each replica in its turn."""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from shutil import disk_usage

from bbflow.errors import BbflowError, CapacityError
from bbflow.events import EventLog
from bbflow.staging import Decision, File, Gate, Retry
from bbflow.staging.diary import Diary
from bbflow.staging.fetchers import Fetchers
from bbflow.staging.fetching import Fetched, Receipt, SmallBatch
from bbflow.staging.gate import CHUNK_S, Closed
from bbflow.staging.policies import NoAction
from bbflow.staging.small import copy_batch, copy_whole
from bbflow.staging.transfers import Transfer, stage_out
from bbflow.staging.watching import Watch
from bbflow.stores.sources import local_path
from bbflow.units import format_bytes
from bbflow_pegasus.conduct import Conduct
from bbflow_pegasus.credentials import SiteCredentials
from bbflow_pegasus.crowd import LOOK_S, Crowd, Together
from bbflow_pegasus.requests import Request, TransferPlace
from bbflow_pegasus.statistics import Attempt
from bbflow_pegasus.targets import Target


class TransferJob:
    """Stages requests.

    Parameters
    ----------
    conduct
        When transfers may run.
    credentials
        For those who read and write files.
    threads
        Files that are copied at once.
    retry
        What happens after a failure.
    """

    def __init__(self, conduct: Conduct, credentials: SiteCredentials, threads: int, retry: Retry) -> None:
        self._conduct, self._credentials = conduct, credentials
        self._threads, self._retry = threads, retry
        # Who takes no notice of phases waits for its turn only, and asks for more at once: each request costs.
        self._gate = Gate(threads, chunk_s=LOOK_S if isinstance(conduct.policy, NoAction) else CHUNK_S)
        self._requests: Sequence[Request] = ()
        self._attempts: list[Attempt] = []
        self._ended = threading.Semaphore(0)

    def run(self, requests: Sequence[Request]) -> list[Attempt]:
        """Stage all of them, and tell how each attempt went; the last of each request counts.

        Raises
        ------
        CapacityError
            If the file system of the targets has less room than the files need.
        """
        check_room(requests)
        self._requests, self._attempts = requests, []
        with self._watched() as diary:
            count = self._conduct.policy.most_fetchers(self._threads)
            fetchers = Fetchers(
                count, self._stage, self._stage_small, lambda: self._gate.batch_bytes, partial(self._done, diary)
            )
            for request in requests:
                file = File(request.sources[0].url, request.size_bytes)
                diary.wanted(file)
                fetchers.fetch(file, 0)
            try:
                for _ in requests:
                    self._ended.acquire()
            finally:
                self._gate.close()
                fetchers.close()
        have = staged(self._attempts)
        # Only then: Pegasus runs a job that has failed again, which continues by these notes.
        if all(request.target.url in have for request in requests):
            for request in requests:
                if request.target.protocol == "file":
                    Target(Path(request.target.url)).forget()
        return self._attempts

    @contextmanager
    def _watched(self) -> Iterator[Diary]:
        """Keep the gate as the policy says, for as long as a ``with`` lasts."""
        with ExitStack() as stack:
            events = None
            if self._conduct.notes is not None:
                self._conduct.notes.mkdir(parents=True, exist_ok=True)
                events = EventLog(self._conduct.notes)
                stack.callback(events.close)
            diary = Diary(events, time.time, 1)
            policy, decided = self._conduct.policy, diary.decided
            if self._conduct.crowd is not None:
                crowd = Crowd(self._conduct.crowd, time.time, self._conduct.run, self._conduct.wave)
                stack.callback(crowd.leave)  # first: SIGTERM may come while the announcement is written
                crowd.join()
                policy = Together(policy.max_delay_s, policy=policy, place=crowd.place)
                decided = partial(_note, diary, crowd)
            source = self._conduct.phase_source()
            watch = Watch(policy, self._gate, source, diary.load, time.time, decided, diary.phase)
            stack.callback(diary.close)
            stack.callback(watch.close)
            watch.start()
            yield diary

    def _done(self, diary: Diary, fetched: Sequence[Fetched]) -> None:
        diary.copied(fetched)
        for _ in fetched:
            self._ended.release()

    def _stage_small(self, files: Sequence[File], rank: int) -> SmallBatch:
        """Stage requests for small files, as far as they come in one piece."""
        copies = map(self._copy_small, self._requests[rank : rank + len(files)])
        return copy_batch(copies, sum(file.size_bytes or 0 for file in files), self._gate, rank)

    def _copy_small(self, request: Request) -> Receipt | None:
        source, began_s = request.sources[0], time.time()
        if request.target.protocol != "file":
            return None
        try:
            sources, url = self._credentials.open(source)
        except BbflowError:
            return None  # the long way says what is wrong
        target = Target(Path(request.target.url), local_path(url))
        receipt = copy_whole(File(url, request.size_bytes, request.checksum), sources, target)
        if receipt is not None:
            self._attempts.append(Attempt(request, source, began_s, time.time() - began_s, receipt.size_bytes))
        return receipt

    def _stage(self, _: File, rank: int) -> int:
        """Stage a request from the first of its replicas that can be had; return the bytes that were read."""
        request, read_bytes = self._requests[rank], 0
        for source in request.sources:
            started_s, size_bytes, failure = time.time(), 0, None
            try:
                size_bytes, read_bytes = self._copy(request, source, rank)
            except Closed:
                raise
            except Exception as error:
                failure = error
            duration_s = time.time() - started_s
            self._attempts.append(Attempt(request, source, started_s, duration_s, size_bytes, failure))
            # Of another replica there would be as many bytes.
            if failure is None or isinstance(failure, CapacityError):
                break
        return read_bytes

    def _copy(self, request: Request, source: TransferPlace, rank: int) -> tuple[int, int]:
        """Copy from one replica; return the file's size and what was read of it."""
        if request.target.protocol != "file":
            sources, url = self._credentials.open(request.target)
            size_bytes = stage_out(Path(source.url), url, sources, self._gate, self._retry)
            return size_bytes, size_bytes
        path = Path(request.target.url)
        sources, url = self._credentials.open(source)
        local = local_path(url)
        # Onto itself, as by two names of one directory: what lies in a copy's place is removed before the copy comes.
        if local is not None and path.exists() and local.exists() and os.path.samefile(local, path):
            return path.stat().st_size, 0
        file = File(url, request.size_bytes, request.checksum)
        target = Target(path, local)
        target.make_room()
        receipt = Transfer(file, sources, target, self._gate, self._retry, rank).run()
        return receipt.size_bytes, receipt.transferred_bytes


def _note(diary: Diary, crowd: Crowd, decision: Decision) -> None:
    """Note a decision: a job that waits for its turn isn't held for an I/O phase."""
    diary.decided(decision if crowd.place().after is None else Decision())


def staged(attempts: Iterable[Attempt]) -> set[str]:
    """Return the targets that have their file."""
    return {attempt.request.target.url for attempt in attempts if attempt.error is None}


def check_room(requests: Sequence[Request]) -> None:
    """Check that files whose size is known can fit, before the first of them is copied.

    Raises
    ------
    CapacityError
        If they can't.
    """
    paths = [(Path(request.target.url), request) for request in requests if request.target.protocol == "file"]
    new = [(path, request.size_bytes or 0) for path, request in paths if not path.exists()]
    if not new:
        return
    place = next(parent for parent in new[0][0].parents if parent.exists())
    need_bytes, free_bytes = sum(size for _, size in new), disk_usage(place).free
    if need_bytes > free_bytes:
        raise CapacityError(
            f"{len(new)} files need {format_bytes(need_bytes)} on the file system of {place}, which has "
            f"{format_bytes(free_bytes)} left: something else fills it; free space there, or plan with less capacity"
        )
