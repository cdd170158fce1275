"""The stager: a plan of waves, carried out by fetcher threads that all pass one gate."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bbflow.errors import BbflowError, ConfigError
from bbflow.events import EventLog
from bbflow.host.closable import Closable
from bbflow.phases import PhaseSource
from bbflow.staging.actions import Action, Check, Evict, Ready, Refused, Stage
from bbflow.staging.diary import Diary
from bbflow.staging.fetchers import Fetchers
from bbflow.staging.fetching import Fetched, SmallBatch
from bbflow.staging.files import File, Location, Task
from bbflow.staging.gate import Closed, Decision, Gate
from bbflow.staging.policies import NoAction, Policy
from bbflow.staging.probes import Answers, Probes
from bbflow.staging.retry import Retry, persist
from bbflow.staging.shelf import Shelf
from bbflow.staging.small import copy_batch, copy_whole
from bbflow.staging.submissions import Submission, Submissions
from bbflow.staging.transfers import Transfer, size_of, stage_out
from bbflow.staging.watching import Watch
from bbflow.staging.waves import Waves
from bbflow.stores.sources import Sources, local_path
from bbflow.stores.urls import split_range

Locations = Mapping[str, Location]
"""URL to where a task finds the file, or is to put it."""
_Settled = list[tuple[str, Locations | Exception]]


@dataclass(frozen=True, slots=True)
class StagerState:
    """How far a stager is."""

    staged_bytes: int
    """Of the files that were copied whole."""
    passed_bytes: int
    """That have been asked for, also of files that are under way, and of what is staged out."""
    remaining_bytes: int
    """Of files that are still to be copied, for the tasks that are admitted."""
    used_bytes: int
    """Room that is taken or reserved."""
    capacity_bytes: int
    """Room for files."""
    decision: Decision
    """What transfers may do now."""


MOST_FETCHERS = 1024
"""Each is a thread."""


class Stager(Closable):
    """Prefetches the files of tasks to a burst buffer, wave by wave.

    Parameters
    ----------
    directory
        On the BB; it belongs to this stager alone. What an earlier life left in it is taken over.
    capacity_bytes
        Room for files in it.
    slots
        Tasks that can run at once: a wave.
    policy
        What transfers do while others are in an I/O phase; by default they take no notice.
    phases
        Where those phases are seen; nowhere if None.
    fetchers
        Files that are copied at once.
    lookahead
        Waves whose files may lie ahead of the one that computes.
    oversize
        ``error`` or ``direct``: how a task is treated whose files can't fit.
    options
        Protocol to what its fsspec file system is given.
    retry
        What happens after a failed read.
    events
        Where everything that happens is noted, with times; the picture is drawn from it.
    clock
        Gives seconds since the epoch.

    Raises
    ------
    ConfigError
        If the directory can't be used, or a number is out of range.
    """

    def __init__(
        self,
        directory: Path,
        capacity_bytes: int,
        slots: int,
        *,
        policy: Policy | None = None,
        phases: PhaseSource | None = None,
        fetchers: int = 8,
        lookahead: int = 1,
        oversize: str = "error",
        options: Mapping[str, Mapping[str, Any]] | None = None,
        retry: Retry | None = None,
        events: EventLog | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        policy = policy or NoAction()
        most_fetchers = policy.most_fetchers(fetchers)
        if fetchers < 1 or most_fetchers > MOST_FETCHERS:
            wrong = fetchers if fetchers < 1 else most_fetchers
            raise ConfigError(f"staging needs from one to {MOST_FETCHERS} fetchers, not {wrong}")
        self._waves = Waves(slots, capacity_bytes, lookahead, oversize)
        self._shelf = Shelf(directory)
        self._sources = Sources(options)
        self._retry = retry or Retry()
        self._lock = threading.Lock()
        self._submissions = Submissions()
        self._submitted = 0
        self._tasks: dict[str, Task] = {}
        self._futures: dict[str, Future[Locations]] = {}
        self._made: set[str] = set()
        self._closed = False
        self._diary = Diary(events, clock, slots)
        self.gate = Gate(fetchers, clock)
        """Every chunk passes it."""
        self._probes = Probes(self._size, self._sources.sizes, self._answered)
        self._uploads = ThreadPoolExecutor(2, "bbflow-stage-out")
        self._fetchers = Fetchers(
            most_fetchers,
            self._transfer,
            self._copy_batch,
            lambda: self.gate.batch_bytes,
            self._fetched,
            clock,
        )
        self._watch = Watch(policy, self.gate, phases, self._diary.load, clock, self._diary.decided, self._diary.phase)
        for file in self._shelf.found():
            self._perform(self._waves.found(file))
        self._watch.start()

    def submit(self, key: str, inputs: Sequence[File], outputs: Sequence[File] = ()) -> "Future[Locations]":
        """Plan the next task of the program; this never waits for a transfer.

        Parameters
        ----------
        key
            Its name, unique among tasks that are not final.
        inputs
            What it reads. The source is asked for sizes that aren't given.
        outputs
            What it makes on the BB; a later task may have them as inputs.

        Returns
        -------
        Future of a mapping from str to Path or str
            URL of each file to where it is: a path on the BB, or where it is read and written directly.
            It fails with a `CapacityError` or `SourceError` if the task can't run.

        Raises
        ------
        ConfigError
            If there is such a task, or the stager is closed.
        """
        task = Task(key, tuple(inputs), tuple(outputs))
        with self._lock:
            if self._closed or key in self._tasks:
                why = "the stager is closed" if self._closed else "there is a task of this name: name it differently"
                raise ConfigError(f"task {key!r} can't be staged: {why}")
            # What a task makes has no source that could tell its size.
            unknown = {file.url for file in inputs if file.size_bytes is None} - self._made
            self._tasks[key] = task
            self._made |= {file.url for file in outputs}
            future = self._futures[key] = Future()
            settled = self._plan(self._submissions.add(Submission(task, self._submitted, unknown)))
            self._submitted += 1
        # Without the lock: a probe that answers at once takes it.
        self._probes.ask(sorted(unknown))
        self._settle(settled)
        return future

    def final(self, key: str) -> None:
        """Declare that a task will never run again; unless others use its files, they may go.

        What it has made on the BB stays until it is released.
        """
        with self._lock:
            task = self._tasks.pop(key, None)
            future = self._futures.pop(key, None)
            settled: _Settled = []
            if task is not None:
                self._diary.final(key)
                for file in task.outputs:
                    settled += self._note_made(file.url)
                settled += self._perform(self._waves.final(key))
        if future is not None:
            # Without the lock: whoever waits for it is called from here, and may call us.
            future.cancel()
        self._settle(settled)

    def release(self, url: str) -> None:
        """Release a file that a task made, once no known task uses it."""
        with self._lock:
            self._made.discard(url)
            settled = self._perform(self._waves.release(url))
        self._settle(settled)

    def expect(self, urls: Iterable[str]) -> None:
        """Announce which files tasks will read that aren't submitted yet, in their order; replaces what was announced.

        None of them is staged for that. But of what lies on the BB unused they go last, the farthest first.
        """
        with self._lock:
            self._waves.expect(urls)

    def resize(self, capacity_bytes: int) -> None:
        """Change the capacity, since others share the BB; files in use stay even if they don't fit."""
        with self._lock:
            settled = self._perform(self._waves.resize(capacity_bytes))
        self._settle(settled)

    def path(self, url: str) -> Path:
        """Return where a file lies on the BB, or would lie."""
        return self._shelf.path(url)

    def version(self, url: str) -> str | None:
        """Return which version of its source a file on the BB is a copy of; None if there is no copy."""
        note = self._shelf.note(url)
        return None if note is None else note.version

    def is_admitted(self, key: str) -> bool:
        """Whether a task that isn't final has its files on the BB, or coming; else it waits for room."""
        with self._lock:
            return self._waves.is_admitted(key)

    def stage_out(self, path: Path, url: str) -> "Future[int]":
        """Copy a file, or a directory with all files below it, from the BB to where a URL says; files appear whole.

        Returns
        -------
        Future of int
            Its size in bytes. It fails with a `SourceError` if it can't be written.
        """
        return self._uploads.submit(self._stage_out, path, url)

    def state(self) -> StagerState:
        """Return how far everything is."""
        load = self._diary.load()
        return StagerState(
            staged_bytes=self._diary.staged_bytes,
            passed_bytes=self.gate.passed_bytes,
            remaining_bytes=load.remaining_bytes,
            used_bytes=self._waves.used_bytes,
            capacity_bytes=self._waves.capacity_bytes,
            decision=self.gate.decision,
        )

    def close(self) -> None:
        """End all transfers; tasks that aren't ready fail. What was copied stays for a later life."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            futures = list(self._futures.items())
        # The gate first: transfers that it holds end, and the threads below can be waited for.
        self.gate.close()
        self._watch.close()
        self._probes.close()
        self._uploads.shutdown(cancel_futures=True)
        self._fetchers.close()
        self._diary.close()
        self._shelf.close()
        for key, future in futures:
            _resolve(future, BbflowError(f"task {key!r}: staging was closed before its files were there"))

    # From here on: what the threads do.

    def _size(self, url: str) -> int:
        return persist(lambda: self._sources.facts(url), url, self._retry, sleep=self._sleep).size_bytes

    def _sleep(self, wait_s: float) -> None:
        if self._probes.is_closed.wait(wait_s):
            raise Closed

    def _answered(self, answers: Answers) -> None:
        """Plan what waited for sizes; a probe calls this."""
        with self._lock:
            settled: _Settled = []
            for url, answer in answers.items():
                settled += self._plan(self._submissions.answered(url, answer))
        self._settle(settled)

    def _plan(self, submissions: Sequence[Submission]) -> _Settled:
        """Plan tasks whose sizes are known; one that becomes known later takes its place among them."""
        settled: _Settled = []
        for submission in submissions:
            # While its source was asked, it may have ended, and another task may have its name.
            if self._tasks.get(submission.task.key) is submission.task and not self._closed:
                settled += self._add(submission)
        return settled

    def _add(self, submission: Submission) -> _Settled:
        task, sizes = submission.task, dict[str, int]()
        for url, answer in submission.sizes.items():
            if isinstance(answer, Exception):
                return [(task.key, answer)]
            sizes[url] = answer
        inputs = tuple(replace(f, size_bytes=sizes[f.url]) if f.url in sizes else f for f in task.inputs)
        self._diary.submitted(task.key, submission.order // self._waves.slots)
        return self._perform(self._waves.add(Task(task.key, inputs, task.outputs), submission.order))

    def _perform(self, actions: Sequence[Action]) -> _Settled:
        """Do what the plan wants; the lock is held. Give what futures are to be told without it."""
        settled: _Settled = []
        for action in actions:
            match action:
                case Stage(file, wave) | Check(file, wave):
                    self._diary.wanted(file)
                    self._fetchers.fetch(file, wave)
                case Evict(url):
                    self._shelf.remove(url)
                    self._diary.evicted(url)
                case Ready(key, direct):
                    self._diary.ready(key)
                    settled.append((key, self._locations(key, direct)))
                case Refused(key, error):
                    self._diary.refused(key, error)
                    settled.append((key, error))
        return settled

    def _locations(self, key: str, direct: frozenset[str]) -> Locations:
        task = self._tasks[key]
        found: dict[str, Location] = {}
        for file in task.inputs:
            found[file.url] = _source_of(file.url) if file.url in direct else self._shelf.path(file.url)
        for file in task.outputs:
            direct_path = local_path(file.url) or file.url
            found[file.url] = direct_path if file.url in direct else self._shelf.make_room_for(file.url)
        return found

    def _note_made(self, url: str) -> _Settled:
        path = self._shelf.path(url)
        return self._perform(self._waves.made(File(url, size_of(path)))) if path.exists() else []

    def _stage_out(self, path: Path, url: str) -> int:
        with self._diary.staging_out(size_of(path)):
            return stage_out(path, url, self._sources, self.gate, self._retry, self._sleep)

    def _transfer(self, file: File, rank: int) -> int:
        transfer = Transfer(file, self._sources, self._shelf, self.gate, self._retry, rank, self._sleep)
        return transfer.run().transferred_bytes

    def _copy_batch(self, files: Sequence[File], rank: int) -> SmallBatch:
        copies = (copy_whole(file, self._sources, self._shelf) for file in files)
        return copy_batch(copies, sum(file.size_bytes or 0 for file in files), self.gate, rank)

    def _fetched(self, fetched: Sequence[Fetched]) -> None:
        """Continue the plan after a transfer, or after several; a fetcher calls this."""
        self._diary.copied(fetched)
        with self._lock:
            settled: _Settled = []
            for one in fetched:
                url = one.job.file.url
                if one.error is None:
                    settled += self._perform(self._waves.staged(url))
                else:
                    # Before the plan hears of it, which gives the room to others.
                    self._shelf.remove(url)
                    settled += self._perform(self._waves.failed(url, one.error))
        self._settle(settled)

    def _settle(self, settled: _Settled) -> None:
        """Settle the futures; the lock isn't held, since whoever waits for them may call us."""
        for key, outcome in settled:
            with self._lock:
                future = self._futures.get(key)
                if isinstance(outcome, Exception):
                    self._tasks.pop(key, None)
                    self._futures.pop(key, None)
            if future is not None:
                _resolve(future, outcome)


def _source_of(url: str) -> Location:
    """Return where a file is read directly; a part of one has no path of its own."""
    return url if split_range(url)[1] else local_path(url) or url


def _resolve(future: "Future[Locations]", outcome: Locations | Exception) -> None:
    try:
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except InvalidStateError:
        pass  # it was cancelled meanwhile
