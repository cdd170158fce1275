"""Tasks in threads of the analysis: where no worker can die but with it, nothing needs to be told."""

import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from bbflow.errors import NodeError
from bbflow.host.closable import Closable
from bbflow.transit.clusters.cluster import ASIDE_THREADS, Work, yield_to_folds

CLOSING_S = 30.0
"""How long to wait at the end for tasks whose results aren't wanted any more."""


class ThreadTask(Future[Any]):
    """What is to come of a task."""

    @staticmethod
    def results(tasks: "Sequence[ThreadTask]") -> list[Any]:
        """Wait, and return what each has come to, as `SubmittedTask.results` does."""
        return [task.result() for task in tasks]

    def release(self) -> None:
        """Do nothing: a task whose result is lost with its worker isn't told of any more."""


ThreadWork = tuple[ThreadTask, Callable[..., Any], tuple[Any, ...], Callable[[], None]]
"""What is to come, function and arguments, tasks among them, and what is called in the end."""


class ThreadCluster(Closable):
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
        self._works: queue.SimpleQueue[ThreadWork | None] = queue.SimpleQueue()
        self._serving = [self._start(self._serve) for _ in range(threads + ASIDE_THREADS)]
        self._beside: queue.SimpleQueue[ThreadWork | None] = queue.SimpleQueue()
        self._beside_idle = threading.Semaphore(0)
        """Counts the threads that wait for work beside the folds; there are as many as had work at once."""
        self._beside_serving: list[threading.Thread] = []

    def processes(self, host: str) -> int:
        """Return one: this process."""
        return 1

    def has(self, host: str) -> bool:
        """Whether a host is this one."""
        return host == self._host

    def submit(
        self, function: Callable[..., Any], *arguments: Any, host: str, done: Callable[[], None], beside: bool = False
    ) -> ThreadTask:
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
        work = (task, function, arguments, done)
        if beside:
            self._beside.put(work)
            # One thread more if none is idle: what runs beside folds may wait for what comes after it.
            if not self._beside_idle.acquire(blocking=False):
                self._beside_serving.append(self._start(self._serve_beside))
        else:
            self._works.put(work)
        return task

    def submit_all(
        self,
        function: Callable[..., Any],
        works: Sequence[Work],
        done: Callable[[], None],
        *,
        beside: bool = False,
        calls: bool = False,
    ) -> list[ThreadTask]:
        """Run a function with each of some arguments, as `Cluster.submit_all` does; to call a thread is a task."""
        ended = _after(len(works), done)
        return [self.submit(function, *arguments, host=host, done=ended, beside=beside) for arguments, host in works]

    @staticmethod
    def _start(target: Callable[..., None], *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, name="bbflow-worker", daemon=True)
        thread.start()
        return thread

    def _serve(self) -> None:
        while (work := self._works.get()) is not None:
            _run(work)
            work[-1]()
            del work  # what came of it is others': when the next one comes is unknown

    def _serve_beside(self) -> None:
        yield_to_folds()
        while (work := self._beside.get()) is not None:
            _run(work)
            self._beside_idle.release()  # first: who hears that it is done may have more work for it
            work[-1]()
            del work

    def close(self) -> None:
        """Wait for what runs; what hasn't begun isn't run."""
        while not self._works.empty():
            if (work := self._works.get()) is not None:
                work[0].cancel()
        for _ in self._serving:
            self._works.put(None)
        for _ in self._beside_serving:
            self._beside.put(None)
        deadline_s = time.monotonic() + CLOSING_S
        for thread in (*self._serving, *self._beside_serving):
            thread.join(max(deadline_s - time.monotonic(), 0))


def _after(count: int, done: Callable[[], None]) -> Callable[[], None]:
    """Return what calls a function when it is called for so many times; now, if that is never."""
    # Tasks end in several threads; only one of them may see the last.
    counting, left = threading.Lock(), count

    def count_one() -> None:
        nonlocal left
        with counting:
            left -= 1
            is_last = left == 0
        if is_last:
            done()

    if not count:
        done()
    return count_one


def _run(work: ThreadWork) -> None:
    task, function, arguments, _ = work
    try:
        task.set_result(function(*(item.result() if isinstance(item, ThreadTask) else item for item in arguments)))
    except BaseException as error:  # whoever asks for the result gets it
        task.set_exception(error)
