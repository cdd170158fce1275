"""The futures that stand for files on their way to the burst buffer."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from parsl.app.futures import DataFuture
from parsl.data_provider.data_manager import DataManager
from parsl.data_provider.files import File

NO_TASK = -1
"""In place of a task's number: no Parsl task stages the file."""


class StagedFile(DataFuture):  # type: ignore[misc,unused-ignore]
    """An input that is on the burst buffer once this future is done, or stays where it is.

    Parsl asks a provider for the files of a task one by one and never says which was the last, nor whose they are. But
    it adds its own callback to each of the provider's futures after it has asked for all, and after the task is in its
    table: the first such call is the moment to plan the task.

    Parameters
    ----------
    dm
        Parsl's data manager; it knows the table of tasks.
    file
        Parsl's copy of the input; its ``local_path`` is set when it has arrived.
    parent
        The future of the task that makes the file, if one does.
    plan
        Called once, with this future.
    """

    def __init__(
        self, dm: DataManager, file: File, parent: Future[Any] | None, plan: Callable[["StagedFile"], None]
    ) -> None:
        self.dm = dm
        self.maker = parent
        self.arrival: Future[None] = Future()
        """Settled by whoever stages the file."""
        self._plan = plan
        self.is_planned = False
        """Whether the staging of its task has begun."""
        self._is_announced = False
        self._announcing = threading.Lock()
        super().__init__(self.arrival, file, tid=parent.tid if isinstance(parent, DataFuture) else NO_TASK)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Add a callback; the first one says that the task is known."""
        super().add_done_callback(fn)
        with self._announcing:
            first, self._is_announced = not self._is_announced, True
        if first:
            self._plan(self)


def when_all_done(futures: list[Future[Any]], then: Callable[[], None]) -> None:
    """Call `then` once when every future is done, at once if all are; in the thread that finished the last."""
    # One more than there are: none calls `then` while callbacks are still being added.
    left = len(futures) + 1
    lock = threading.Lock()

    def count(_: Future[Any] | None = None) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            then()

    for future in futures:
        future.add_done_callback(count)
    count()


def settle(future: Future[Any], done: Sequence[Future[Any]]) -> None:
    """Settle a future with the first error of others, or the last one's result."""
    errors = [error for each in done if (error := each.exception()) is not None]
    if errors:
        future.set_exception(errors[0])
    else:
        future.set_result(done[-1].result())
