"""The gate that every chunk passes: pause, pace and number of fetchers, changeable while they run."""

import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

PAUSE_S = 0.05
"""A pause holds every transfer within this time: a chunk is made small enough."""
CHUNK_S = PAUSE_S / 3
"""A chunk is to take this long: rates are guessed from the last chunks, and a phase is seen only at the next look."""
LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES = 4 << 10, 8 << 20


@dataclass(frozen=True, slots=True)
class Decision:
    """What transfers may do from now on."""

    hold: bool = False
    """No chunk begins."""
    bytes_per_s: float | None = None
    """Pace of all fetchers together; None for as fast as it goes."""
    fetchers: int | None = None
    """At most this many chunks at once; None for all fetchers."""
    stop_s: float | None = None
    """No chunk begins that can't end before this time (seconds since the epoch)."""
    reason: str = ""
    """Why, in a few words, for the log."""


class Closed(Exception):  # noqa: N818 - it is a signal, not an error
    """The gate was closed for good: let the transfer be."""


class Gate:
    """Makes chunks pass, wait or slow down, as the newest decision says.

    Parameters
    ----------
    fetchers
        At most this many chunks at once.
    clock
        Gives seconds since the epoch.
    chunk_s
        How long a chunk is to take: a decision that holds, holds after this long.
    """

    def __init__(self, fetchers: int, clock: Callable[[], float] = time.time, chunk_s: float = CHUNK_S) -> None:
        self.fetchers = fetchers
        self._clock = clock
        self._chunk_s = chunk_s
        self._changed = threading.Condition()
        self._decision = Decision()
        self._in_flight = 0
        self._ranks: list[int] = []
        self._next_s = -math.inf
        self._rate = 0.0
        self._latency_s = math.inf
        self._closed = False
        self.passed_bytes = 0
        """Bytes of all chunks that have begun."""
        self.waiting = 0
        """Chunks that may not begin yet."""

    @property
    def decision(self) -> Decision:
        """What holds now."""
        return self._decision

    @property
    def chunk_bytes(self) -> int:
        """How much the next chunk should ask for."""
        return next_chunk_bytes(self._rate, self._decision.bytes_per_s, self._chunk_s)

    @property
    def batch_bytes(self) -> int:
        """How much a batch of small files may have: less than a chunk's most only if there is a pace."""
        return next_chunk_bytes(math.inf, self._decision.bytes_per_s)

    def apply(self, decision: Decision) -> None:
        """Apply a decision to every chunk from now on."""
        with self._changed:
            if decision.bytes_per_s != self._decision.bytes_per_s:
                # A new pace counts from now: what a slow one would still wait for its last chunk may be minutes.
                self._next_s = -math.inf
            self._decision = decision
            self._changed.notify_all()

    def close(self) -> None:
        """Close the gate: who waits, and who comes, gets `Closed`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @contextmanager
    def transfer(self, rank: int) -> Iterator[None]:
        """Take part as a transfer of several chunks, for as long as a ``with`` lasts.

        Parameters
        ----------
        rank
            Of all transfers that take part, those with the lowest ranks have the fetchers: few files come whole,
            rather than many in part.
        """
        with self._changed:
            insort(self._ranks, rank)
        try:
            yield
        finally:
            with self._changed:
                self._leave(rank)

    @contextmanager
    def chunk(self, size_bytes: int, rank: int | None = None) -> Iterator[None]:
        """Wait until a chunk may begin; inside the `with` it is under way.

        Parameters
        ----------
        size_bytes
            Of the chunk; 0 for a request without data, whose time is the latency of all.
        rank
            That of its transfer; None if it takes no part in their order.

        Raises
        ------
        Closed
            If the gate was closed.
        """
        with self._changed:
            self._wait(size_bytes, rank)
            self._in_flight += 1
            self.passed_bytes += size_bytes
        started_s = self._clock()
        try:
            yield
        finally:
            elapsed_s = self._clock() - started_s
            with self._changed:
                self._in_flight -= 1
                self._rate = next_rate(self._rate, size_bytes, elapsed_s, self._latency_s)
                # The shortest so far: a slow start is no latency.
                self._latency_s = min(self._latency_s, elapsed_s)
                self._changed.notify_all()

    @contextmanager
    def batch(self, size_bytes: int, rank: int) -> Iterator[None]:
        """Wait until some small files may be copied, one after the other; inside the `with` they are under way.

        Their number should be small enough to take no longer than `CHUNK_S`. What they take tells nothing of the rate
        of larger files, so it isn't learnt from.

        Parameters
        ----------
        size_bytes
            Of all of them.
        rank
            That of the first.

        Raises
        ------
        Closed
            If the gate was closed.
        """
        with self._changed:
            insort(self._ranks, rank)
            try:
                self._wait(size_bytes, rank)
            except BaseException:
                self._leave(rank)
                raise
            self._in_flight += 1
            self.passed_bytes += size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._in_flight -= 1
                self._leave(rank)

    def _leave(self, rank: int) -> None:
        self._ranks.remove(rank)
        self._changed.notify_all()

    def _wait(self, size_bytes: int, rank: int | None) -> None:
        while not self._closed:
            wait_s = self._wait_s(size_bytes, rank, self._clock())
            if wait_s == 0:
                pace = self._decision.bytes_per_s
                if pace is not None:
                    # Counted from when it begins: time that passed without chunks isn't made up for.
                    self._next_s = max(self._next_s, self._clock()) + size_bytes / pace
                return
            self.waiting += 1
            self._changed.wait(wait_s)
            self.waiting -= 1
        raise Closed

    def _wait_s(self, size_bytes: int, rank: int | None, now_s: float) -> float | None:
        """Return the seconds until a chunk may begin: 0 for now, None for after the next change."""
        decision = self._decision
        most = self.fetchers if decision.fetchers is None else decision.fetchers
        if decision.hold or self._in_flight >= most or (rank is not None and rank not in self._ranks[:most]):
            return None
        if decision.stop_s is not None and now_s + self.expected_s(size_bytes) > decision.stop_s:
            return None
        return 0 if decision.bytes_per_s is None else max(self._next_s - now_s, 0)

    def expected_s(self, size_bytes: int) -> float:
        """Return the seconds that a chunk will take, by the newest ones; `PAUSE_S` before there is any."""
        if self._rate == 0:
            return PAUSE_S
        return size_bytes / self._rate + (self._latency_s if math.isfinite(self._latency_s) else 0)


def next_chunk_bytes(rate_bytes_per_s: float, pace_bytes_per_s: float | None, chunk_s: float = CHUNK_S) -> int:
    """Return a chunk within 4 KiB and 8 MiB.

    Parameters
    ----------
    rate_bytes_per_s
        Of the newest chunks; 0 before there is any.
    pace_bytes_per_s
        What all fetchers together may take.
    chunk_s
        How long it is to take.
    """
    rate = min(rate_bytes_per_s, pace_bytes_per_s or math.inf)
    return int(min(max(rate * chunk_s, LEAST_CHUNK_BYTES), MOST_CHUNK_BYTES))


def next_rate(rate_bytes_per_s: float, size_bytes: int, elapsed_s: float, latency_s: float) -> float:
    """Follow the rate at which a chunk's bytes come, request latency left out; it at most doubles at once.

    Parameters
    ----------
    rate_bytes_per_s
        So far; 0 before there is any.
    size_bytes, elapsed_s
        Of the newest chunk.
    latency_s
        Of a request without data; infinite if it isn't known.
    """
    if elapsed_s <= 0 or size_bytes == 0:
        return rate_bytes_per_s
    latency_s = latency_s if math.isfinite(latency_s) else 0.0
    newest = size_bytes / max(elapsed_s - latency_s, elapsed_s / 10)
    old = rate_bytes_per_s or LEAST_CHUNK_BYTES / CHUNK_S
    return min(old + 0.3 * (newest - old), 2 * old)
