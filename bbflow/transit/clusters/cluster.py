"""Where tasks run: in threads of the analysis, or on Dask's workers; what the stages know of either."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from bbflow.errors import NodeError

T_co = TypeVar("T_co", covariant=True)

Work = tuple[tuple[Any, ...], str]
"""Arguments of a task, and the host that it must run on."""
ASIDE_THREADS = 1
"""Of each worker's threads this many don't fold, if it has more: what ends is published, and steps drain, beside it."""
YIELDING = 5
"""How much nicer those are than their process: one gets a quarter of a core that a fold wants too."""


def yield_to_folds() -> None:
    """Make this thread yield to those that fold, for as long as it lives."""
    thread = threading.get_native_id()  # Linux has priorities for each thread
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + YIELDING)


class TaskLostError(NodeError):
    """The workers that a task was given to have died, or are gone, and what it had written with them."""


class CallLostError(TaskLostError):
    """It isn't known whether a worker that was called has done, or will do, what it was called for."""


class WorkerKilledError(TaskLostError):
    """The workers that a task was given to have died one after the other, perhaps by what it does."""


class SubmittedTask(Protocol[T_co]):
    """What is to come of a function that was submitted."""

    def done(self) -> bool:
        """Whether it has ended, well or not."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait, and return what it has come to, or raise what it has raised.

        Raises
        ------
        TaskLostError
            If it can't be had any more.
        """

    @staticmethod
    def results(tasks: "Sequence[Any]") -> list[Any]:
        """Wait for tasks of this kind, and return what each has come to: sooner than one after the other."""

    def exception(self) -> BaseException | None:
        """Wait, and return what it has raised."""

    def release(self) -> None:
        """Keep it from being run again, whoever still has this; its result is gone."""


class Cluster(Protocol):
    """Runs tasks on the BB nodes' hosts."""

    @property
    def threads(self) -> int:
        """Threads of all workers that fold."""

    def processes(self, host: str) -> int:
        """Worker processes on a host; one if none has come yet."""

    def has(self, host: str) -> bool:
        """Whether a worker is known to run on a host."""

    def submit(
        self, function: Callable[..., Any], *arguments: Any, host: str, done: Callable[[], None], beside: bool = False
    ) -> SubmittedTask[Any]:
        """Run a function on a worker of a host; it may run more than once.

        Parameters
        ----------
        function, *arguments
            What to call; threads share the arguments, which are frozen (`Frozen`). Tasks come last: it gets what they
            have come to.
        host
            ``gethostname()`` of the host whose shared memory it needs.
        done
            Called, in another thread, when the result or its failure is there.
        beside
            Whether it runs beside the folds, in a thread of its own that yields to theirs; it may wait.

        Raises
        ------
        NodeError
            If no worker runs on the host.
        """

    def submit_all(
        self,
        function: Callable[..., Any],
        works: Sequence[Work],
        done: Callable[[], None],
        *,
        beside: bool = False,
        calls: bool = False,
    ) -> Sequence[SubmittedTask[Any]]:
        """Run a function with each of some arguments, as `submit` does; for many this takes less than one by one.

        Parameters
        ----------
        function, works
            What to call, with what and where.
        done
            Called once, when all have ended: to look at a thousand with each of them takes longer than they do.
        beside
            Whether they run beside the folds.
        calls
            Whether workers that have what tasks before have come to may be called themselves, which takes less. Then
            what they are called for comes to a `CallLostError` where a worker dies, and may be done much later.
        """
