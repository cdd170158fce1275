"""Asks sources for sizes: a few threads for each server, so that a slow one holds up no other."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bbflow.staging.crew import Crew
from bbflow.staging.gate import CHUNK_S
from bbflow.stores.urls import server_of

THREADS = 4
"""For each server."""
Answers = Mapping[str, int | Exception]
"""URL to its size in bytes, or why it can't be told."""


@dataclass(slots=True)
class _Server:
    """What is to be asked of a server."""

    crew: Crew
    together: list[str] = field(default_factory=list)
    """Not asked for yet."""
    waiting: deque[str] = field(default_factory=deque)
    """To be asked for one by one."""
    asked: set[str] = field(default_factory=set)
    """Not answered yet."""


class Probes:
    """Sizes of files, asked for in the background.

    Parameters
    ----------
    size
        Asks a source; gives bytes. It may take its time, and should raise something soon after `is_closed` is set.
    sizes
        Gives the sizes of those files of one server that can be had together for less; it may fail.
    answered
        Called with what sources have answered, or how they failed.
    """

    def __init__(
        self,
        size: Callable[[str], int],
        sizes: Callable[[list[str]], Mapping[str, int]],
        answered: Callable[[Answers], None],
    ) -> None:
        self._size, self._sizes, self._answered = size, sizes, answered
        self.is_closed = threading.Event()
        """Set by `close`."""
        self._lock = threading.Lock()
        self._servers: dict[str, _Server] = {}

    def ask(self, urls: Iterable[str]) -> None:
        """Ask for sizes, but for those that are being asked for already: one answer is for all."""
        with self._lock:
            for url in urls:
                name = server_of(url)
                if name not in self._servers:
                    self._servers[name] = _Server(Crew.of(url, THREADS, CHUNK_S))
                server = self._servers[name]
                if url not in server.asked:
                    server.asked.add(url)
                    server.together.append(url)
            for server in self._servers.values():
                self._start(server)

    def close(self) -> None:
        """Ask no more; a request that is under way isn't waited for."""
        self.is_closed.set()

    def _start(self, server: _Server) -> None:
        """Start a thread if there is something for it to do; the lock is held."""
        if (server.together or server.waiting) and server.crew.has_place and not self.is_closed.is_set():
            server.crew.begin()
            # A thread that waits for a server that never answers must not hold the program's end back.
            threading.Thread(target=self._run, args=(server,), name="bbflow-probe", daemon=True).start()

    def _run(self, server: _Server) -> None:
        while True:
            with self._lock:
                together, server.together = server.together, []
                count = 0 if together else min(server.crew.files, len(server.waiting))
                urls = [server.waiting.popleft() for _ in range(count)]
                if self.is_closed.is_set() or not (together or urls):
                    server.crew.end(0, 0.0, 0.0)
                    return
                self._start(server)
            if together:
                self._ask_together(server, together)
            else:
                self._ask_each(server, urls)

    def _ask_together(self, server: _Server, urls: list[str]) -> None:
        """Ask for all at once; what that doesn't answer is asked for one by one."""
        try:
            answers = dict(self._sizes(urls))
        except Exception:  # it is only quicker: each by itself tells what is wrong
            answers = {}
        self._tell(server, answers)
        with self._lock:
            server.waiting += [url for url in urls if url not in answers]

    def _ask_each(self, server: _Server, urls: Sequence[str]) -> None:
        started_s, started_cpu_s = time.perf_counter(), time.thread_time()
        answers = {url: self._answer(url) for url in urls}
        elapsed_s, cpu_s = time.perf_counter() - started_s, time.thread_time() - started_cpu_s
        self._tell(server, answers)
        with self._lock:
            server.crew.end(len(urls), elapsed_s, cpu_s)
            server.crew.begin()
            self._start(server)

    def _answer(self, url: str) -> int | Exception:
        try:
            return self._size(url)
        except Exception as error:
            return error

    def _tell(self, server: _Server, answers: Answers) -> None:
        with self._lock:
            server.asked -= answers.keys()
        if answers and not self.is_closed.is_set():
            # Without the lock: it plans tasks, which may ask for other sizes.
            self._answered(answers)
