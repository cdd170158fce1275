"""What has happened so far: times of tasks, what is still to come, and the events the picture is drawn from."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from bbflow.events import EventLog
from bbflow.phases import Phase
from bbflow.staging.fetching import Fetched
from bbflow.staging.files import File
from bbflow.staging.gate import Decision
from bbflow.staging.watching import Load


@dataclass(slots=True)
class TaskTimes:
    """When a task did what; seconds since the epoch."""

    wave: int
    submitted_s: float
    ready_s: float | None = None


class SlotGuess:
    """Guesses when tasks run: a ready task starts when a slot is free, in the order they became ready.

    Parameters
    ----------
    slots
        Tasks that can run at once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._running: dict[str, float] = {}
        self._queued: dict[str, None] = {}
        self._durations: deque[float] = deque(maxlen=32)

    def ready(self, key: str, now_s: float) -> None:
        """Note a task that may run."""
        self._queued[key] = None
        self._fill(now_s)

    def final(self, key: str, now_s: float) -> float | None:
        """Note a task's end; give when it started, in seconds since the epoch, None if it never did."""
        self._queued.pop(key, None)
        started_s = self._running.pop(key, None)
        if started_s is not None:
            self._durations.append(now_s - started_s)
        self._fill(now_s)
        return started_s

    def _fill(self, now_s: float) -> None:
        while self._queued and len(self._running) < self._slots:
            key = next(iter(self._queued))
            del self._queued[key]
            self._running[key] = now_s

    @property
    def deadline_s(self) -> float | None:
        """When a slot is expected to find no ready task, in seconds since the epoch; None if unknown, or now."""
        if not self._durations or len(self._running) < self._slots:
            return None
        duration_s = median(self._durations)
        return starving_s(sorted(self._running.values()), len(self._queued), duration_s)


def starving_s(started_s: Sequence[float], queued: int, duration_s: float) -> float:
    """Return when a slot finds no ready task, if every task takes the same time.

    Parameters
    ----------
    started_s
        When the running tasks started, sorted; seconds since the epoch.
    queued
        Tasks that are ready and wait for a slot.
    duration_s
        Of a task.
    """
    rounds, slot = divmod(queued, len(started_s))
    return started_s[slot] + (rounds + 1) * duration_s


class Diary:
    """Notes what happens; safe to use from several threads.

    Parameters
    ----------
    events
        Where to write it; nowhere if None.
    clock
        Gives seconds since the epoch.
    slots
        Tasks that can run at once.
    """

    def __init__(self, events: EventLog | None, clock: Callable[[], float], slots: int) -> None:
        self._events, self._clock = events, clock
        self._slots = SlotGuess(slots)
        self._tasks: dict[str, TaskTimes] = {}
        self._lock = threading.Lock()
        self._held: tuple[Decision, float] | None = None
        self.remaining_bytes = 0
        """Still to be copied, for the tasks that are admitted or out of the BB."""
        self.staged_bytes = 0
        """Copied so far."""

    def load(self) -> Load:
        """Return what transfers have to do."""
        with self._lock:
            return Load(self.remaining_bytes, self._slots.deadline_s)

    def submitted(self, key: str, wave: int) -> None:
        """Note a task that was planned."""
        with self._lock:
            self._tasks[key] = TaskTimes(wave, self._clock())

    def wanted(self, file: File) -> None:
        """Note a file that is to be copied."""
        with self._lock:
            self.remaining_bytes += file.size_bytes or 0

    @contextmanager
    def staging_out(self, size_bytes: int) -> Iterator[None]:
        """Count a file that is staged out as something to be transferred, for as long as a ``with`` lasts."""
        with self._lock:
            self.remaining_bytes += size_bytes
        try:
            yield
        finally:
            with self._lock:
                self.remaining_bytes -= size_bytes

    def copied(self, fetched: Sequence[Fetched]) -> None:
        """Note files that were copied, or that can't be."""
        with self._lock:
            for one in fetched:
                self.remaining_bytes -= one.job.file.size_bytes or 0
                self.staged_bytes += one.transferred_bytes
            if self._events is not None:
                self._events.add_all(_transfer_event(one) for one in fetched)

    def ready(self, key: str) -> None:
        """Note a task that may run."""
        with self._lock:
            self._tasks[key].ready_s = self._clock()
            self._slots.ready(key, self._clock())

    def final(self, key: str) -> None:
        """Note a task's end."""
        with self._lock:
            times, now_s = self._tasks.pop(key, None), self._clock()
            if times is not None and times.ready_s is not None:
                started_s = self._slots.final(key, now_s)
                self._add(
                    "task",
                    task=key,
                    wave=times.wave,
                    submitted_s=times.submitted_s,
                    ready_s=times.ready_s,
                    started_s=now_s if started_s is None else started_s,
                    ended_s=now_s,
                )

    def refused(self, key: str, error: Exception) -> None:
        """Note a task that can't run."""
        with self._lock:
            self._tasks.pop(key, None)
            self._add("refused", task=key, reason=str(error), at_s=self._clock())

    def evicted(self, url: str) -> None:
        """Note a file that went."""
        with self._lock:
            self._add("evicted", url=url, at_s=self._clock())

    def phase(self, phase: Phase) -> None:
        """Note a phase of another application, which has ended."""
        with self._lock:
            self._add(
                "phase",
                application=phase.application,
                file_system=phase.file_system,
                started_s=phase.began_s,
                ended_s=phase.ended_s,
                source=phase.source,
            )

    def decided(self, decision: Decision) -> None:
        """Note what transfers may do from now on."""
        with self._lock:
            now_s = self._clock()
            self._end_hold(now_s)
            kind = kind_of(decision)
            self._held = (decision, now_s) if kind else None

    def close(self) -> None:
        """Note what lasts."""
        with self._lock:
            self._end_hold(self._clock())

    def _end_hold(self, now_s: float) -> None:
        if self._held is not None:
            decision, started_s = self._held
            self._add("hold", kind=kind_of(decision), reason=decision.reason, started_s=started_s, ended_s=now_s)
        self._held = None

    def _add(self, event: str, **keys: object) -> None:
        if self._events is not None:
            self._events.add(event, **keys)


def _transfer_event(fetched: Fetched) -> dict[str, object]:
    return {
        "event": "transfer",
        "url": fetched.job.file.url,
        "wave": fetched.job.wave,
        "fetcher": fetched.fetcher,
        "bytes": fetched.transferred_bytes,
        "started_s": fetched.started_s,
        "ended_s": fetched.ended_s,
    }


def kind_of(decision: Decision) -> str | None:
    """Name what a decision does to transfers in a phase: hold, pace or scale; None if it leaves them alone."""
    if decision.hold:
        return "hold"
    if decision.bytes_per_s is not None:
        return "pace"
    return "scale" if decision.fetchers is not None and decision.reason else None
