"""Tasks in threads of the analysis: where no worker can die but with it, nobody needs to be told of anything."""

import queue
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from bbflow.errors import NodeError
from bbflow.transit.clusters.cluster import ASIDE_THREADS, leave_by

CLOSING_S = 30.0
"""How long to wait at the end for tasks whose results nobody wants any more."""


class ThreadTask(Future[Any]):
    """What is to come of a task."""

    def release(self) -> None:
        """Do nothing: a task whose result is lost with its worker isn't told of any more."""


Work = tuple[ThreadTask, Callable[..., Any], tuple[Any, ...], Callable[[], None]]
"""What is to come, function and arguments, tasks among them, and what is called in the end."""


class ThreadCluster:
    """Runs tasks in threads of this process, in the order in which they came.

    Parameters
    ----------
    threads
        That fold; one more publishes and drains.
    """

    def __init__(self, threads: int) -> None:
        self._host = socket.gethostname()
        self.threads = threads
        """That fold."""
        self._works: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._changing = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        for _ in range(threads + ASIDE_THREADS):
            self._add()

    def processes(self, host: str) -> int:
        """Return one: this process."""
        return 1

    def has(self, host: str) -> bool:
        """Whether a host is this one."""
        return host == self._host

    def submit(self, function: Callable[..., Any], *arguments: Any, host: str, done: Callable[[], None]) -> ThreadTask:
        """Run a function, as `Cluster.submit` does.

        Raises
        ------
        NodeError
            If the host is another one.
        """
        if not self.has(host):
            raise NodeError(
                f"no worker runs on {host}, where a BB node is: start Dask's there, 'bbflow dask scheduler' and "
                "'bbflow dask worker', and name the scheduler with --scheduler"
            )
        task = ThreadTask()
        self._works.put((task, function, arguments, done))
        return task

    def _add(self) -> None:
        thread = threading.Thread(target=self._serve, name="bbflow-worker", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        """Run one task after another; one that leaves this thread is its last."""
        has_left = threading.Event()

        def leave() -> None:
            with self._changing:
                if not self._is_closed and not has_left.is_set():
                    has_left.set()
                    self._threads = [thread for thread in self._threads if thread.is_alive()]
                    self._add()

        leave_by(leave)
        while not has_left.is_set() and self._run_next():
            pass

    def _run_next(self) -> bool:
        """Run the next task; False if there is none any more."""
        work = self._works.get()
        if work is None:
            return False
        task, function, arguments, done = work
        try:
            task.set_result(function(*(item.result() if isinstance(item, ThreadTask) else item for item in arguments)))
        except BaseException as error:  # whoever asks for the result gets it
            task.set_exception(error)
        done()
        return True

    def close(self) -> None:
        """Wait for what runs; what hasn't begun isn't run."""
        with self._changing:
            self._is_closed, threads = True, self._threads
        while not self._works.empty():
            if (work := self._works.get()) is not None:
                work[0].cancel()
        for _ in threads:
            self._works.put(None)
        deadline_s = time.monotonic() + CLOSING_S
        for thread in threads:
            thread.join(max(deadline_s - time.monotonic(), 0))

    def __enter__(self) -> "ThreadCluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
