"""Asks sources for sizes: a few threads for each server, so that a slow one holds nobody else back."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

THREADS = 4
"""For each server."""


class Probes:
    """Sizes of files, asked for in the background.

    Parameters
    ----------
    size
        Asks a source; gives bytes. It may take its time, and should raise something soon after `is_closed` is set.
    """

    def __init__(self, size: Callable[[str], int]) -> None:
        self._size = size
        self.is_closed = threading.Event()
        """Set by `close`."""
        self._lock = threading.Lock()
        self._servers: dict[str, queue.SimpleQueue[tuple[str, Future[int]]]] = {}
        self._threads: dict[str, int] = {}

    def ask(self, url: str) -> "Future[int]":
        """Give the future of a file's size in bytes; it fails as the source does."""
        future: Future[int] = Future()
        server = server_of(url)
        with self._lock:
            waiting = self._servers.setdefault(server, queue.SimpleQueue())
            waiting.put((url, future))
            if self._threads.get(server, 0) < THREADS:
                self._threads[server] = self._threads.get(server, 0) + 1
                # A thread that waits for a server that never answers must not hold the program's end back.
                threading.Thread(target=self._run, args=(server,), name="bbflow-probe", daemon=True).start()
        return future

    def close(self) -> None:
        """Ask no more; what was asked for is cancelled, and a request that is under way isn't waited for."""
        self.is_closed.set()
        with self._lock:
            unasked = []
            for waiting in self._servers.values():
                while not waiting.empty():
                    unasked.append(waiting.get()[1])
        for future in unasked:
            future.cancel()

    def _run(self, server: str) -> None:
        while True:
            with self._lock:
                if self.is_closed.is_set() or self._servers[server].empty():
                    self._threads[server] -= 1
                    return
                url, future = self._servers[server].get()
            self._answer(url, future)

    def _answer(self, url: str, future: "Future[int]") -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            size_bytes = self._size(url)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(size_bytes)


def server_of(url: str) -> str:
    """Give what a URL names up to its path: protocol and host, or bucket; for all local files the same."""
    protocol, mark, rest = url.partition("://")
    return protocol + mark + rest.partition("/")[0] if mark else ""
