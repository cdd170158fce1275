"""Where tasks run: in threads of the analysis, or on Dask's workers; what the stages know of either.

Batches of tasks that are in flight, and what is done when their workers die, are the same on both.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from bbflow.errors import NodeError

B = TypeVar("B")
T_co = TypeVar("T_co", covariant=True)

Work = tuple[tuple[Any, ...], str]
"""Arguments of a task, and the host that it must run on."""
ASIDE_THREADS = 1
"""Of each worker's threads this many don't fold, if it has more: what ends is published, and steps drain, beside it."""
YIELDING = 5
"""How much nicer those are than their process: one gets a quarter of a core that a fold wants too."""
WORKER_DEATHS = 5
"""A batch whose workers die this many times is at fault itself."""


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


def take(tasks: Sequence[SubmittedTask[Any]]) -> list[Any]:
    """Wait for tasks, and return their results; they are let go of, so none is run again.

    Dask runs a task again whose result is lost with a worker, as long as anybody has its `SubmittedTask`: after
    what it read has been written over by others. What is let go of here is so before anything that is submitted later.
    """
    results = results_of(tasks)
    let_go(tasks)
    return results


def results_of(tasks: Sequence[SubmittedTask[Any]]) -> list[Any]:
    """Wait for tasks, and return their results."""
    found: dict[int, Any] = {}
    for kind in {type(task): task for task in tasks}.values():
        own = [at for at, task in enumerate(tasks) if type(task) is type(kind)]
        found.update(zip(own, kind.results([tasks[at] for at in own]), strict=True))
    return [found[at] for at in range(len(tasks))]


def let_go(tasks: Iterable[SubmittedTask[Any]]) -> None:
    """Keep tasks from being run again, whoever still has these; their results are gone."""
    for task in tasks:
        task.release()


class TaskBatch(Generic[B]):
    """Tasks that belong to one batch of steps.

    Parameters
    ----------
    cluster
        Where they run.
    batch
        What they do.
    function
        What each task calls; running it twice must do no harm.
    works
        Its arguments, and the host that it must run on, for each task.
    done
        Called, in another thread, when all tasks are done.
    guarded
        Gives the works again, made safer, for a batch whose workers have died; the same ones if None.
    beside
        Whether they run beside the folds, as `Cluster.submit` has it.
    again
        Returns one of the works again if its outcome isn't known; without that no worker is called.
    """

    def __init__(
        self,
        cluster: Cluster,
        batch: B,
        function: Callable[..., Any],
        works: Sequence[Work],
        done: Callable[[], None],
        guarded: Callable[[], Sequence[Work]] | None = None,
        *,
        beside: bool = False,
        again: Callable[[Work], Work] | None = None,
    ) -> None:
        self.batch = batch
        """What they do."""
        self.started_s = time.time()
        """When they were submitted (seconds since the epoch)."""
        self._cluster, self._function, self._works, self._done = cluster, function, [*works], done
        self._deaths, self._beside = 0, beside
        self._guarded, self._again = guarded, again
        self._has_ended = False
        self._found: dict[int, Any] = {}
        self._left = list(range(len(works)))
        self.tasks = self._submit(calls=again is not None)
        """The future of each of the works that hasn't ended yet."""

    def _submit(self, *, calls: bool = False) -> Sequence[SubmittedTask[Any]]:
        self._has_ended = False
        left = [self._works[at] for at in self._left]
        return self._cluster.submit_all(self._function, left, self._end, beside=self._beside, calls=calls)

    def _end(self) -> None:
        self._has_ended = True  # first: who is told of it looks
        self._done()

    def results(self) -> list[Any] | None:
        """Return the results; None while a task runs.

        Dask runs a task again whose worker died; when it has given up, the batch is submitted again.

        Raises
        ------
        NodeError
            If that happens again and again.
        """
        if not (self._has_ended and all(task.done() for task in self.tasks)):
            return None
        try:
            if lost := self._take():
                self._begin_again(lost)
                return None
            return [self._found[at] for at in range(len(self._works))]
        except WorkerKilledError as error:
            self._deaths += 1
            if self._deaths >= WORKER_DEATHS:
                raise NodeError(f"the Dask workers die again and again ({error}): give them more memory") from None
            self._works = self._works if self._guarded is None else [*self._guarded()]
            self._found, self._left = {}, list(range(len(self._works)))
            self.tasks = self._submit()
            return None

    def _take(self) -> list[int]:
        """Take what has come; gives those of the works that calls are lost for."""
        try:
            self._found.update(zip(self._left, results_of(self.tasks), strict=True))
            return []
        except CallLostError:
            lost = []
        for at, task in zip(self._left, self.tasks, strict=True):
            try:
                self._found[at] = task.result()
            except CallLostError:
                lost.append(at)
        return lost

    def _begin_again(self, lost: Sequence[int]) -> None:
        """Submit as tasks what calls are lost for; what the others have come to stays."""
        assert self._again is not None
        for at in lost:
            self._works[at] = self._again(self._works[at])
        self._left = [*lost]
        self.tasks = self._submit()
