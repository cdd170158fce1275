"""Batches of tasks that are in flight, and what is done when their workers die."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from bbflow.errors import NodeError
from bbflow.transit.clusters.cluster import CallLostError, Cluster, SubmittedTask, Work, WorkerKilledError

WORKER_DEATHS = 5
"""A batch whose workers die this many times is at fault itself."""

B = TypeVar("B")


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
