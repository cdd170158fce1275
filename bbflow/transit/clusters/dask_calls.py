"""Calls of Dask's workers past its scheduler, for what is done batch by batch where its plans lie.

A task costs scheduler and client 1.4 ms. A call goes down a tree of workers, and answers come up again together, so
the driver sends `FAN` messages, however many workers there are. Who isn't reached isn't called for a while: that is a
task then, with all that Dask does for it. A call whose answer is lost may have been done; tasks may run twice, too.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence, Set
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from distributed import Client, Worker, WorkerPlugin
from distributed.core import ConnectionPool, send_recv
from distributed.protocol import pickle

from bbflow.transit.clusters.cluster import ASIDE_THREADS, CallLostError, yield_to_folds

T = TypeVar("T")
FAN = 32
"""Who calls sends so many messages at most; each is for a part of the workers, the first of which sends it on."""

CONNECT_S = 3.0
"""A worker that doesn't take a connection for so long isn't called: Dask tries for 30 s, even if it is dead."""
TELL_S = 30.0
"""A worker that hasn't begun to listen after so long isn't called: it may import this from a busy file system."""
AGAIN_S, LONGEST_S = 60.0, 3600.0
"""Who couldn't be called isn't called for so long, twice as long each time: a batch waits `CONNECT_S` for who isn't let
through."""
PATIENCE_S = 60.0
"""How long a worker that the scheduler has no more may take: calls of one that has died end by themselves."""
BESIDE_THREADS = 4
"""A worker does so many calls beside the folds side by side at most."""
Call = tuple[str, bool, Sequence[Any], bytes]
"""Address of a worker, whether it is beside the folds, the keys of what the worker has and gives the function, and the
function with further arguments."""
Answer = tuple[bool, Any]
"""Whether it has returned, and with what, or what it has raised."""
BEHIND = b""
"""The answer to a call that got lost with another worker, or was given up."""


class CalledWorker(WorkerPlugin):
    """Makes a worker callable, by all analyses that use it."""

    name = "bbflow_call"
    """Of the operation, too."""

    def setup(self, worker: Worker) -> None:
        """Begin to listen."""
        self._worker = worker
        self._folding = asyncio.Semaphore(max(worker.state.nthreads - ASIDE_THREADS, 1))
        self._beside = ThreadPoolExecutor(BESIDE_THREADS, "beside", yield_to_folds)
        worker.handlers[self.name] = self._serve

    def teardown(self, worker: Worker) -> None:
        """Listen no more."""
        worker.handlers.pop(self.name, None)
        self._beside.shutdown(wait=False, cancel_futures=True)

    @classmethod
    async def listen(cls, dask_worker: Worker) -> None:
        """Make a worker callable, unless an analysis has done so: to add a plugin again ends what it does."""
        if cls.name not in dask_worker.plugins:
            await dask_worker.plugin_add(cls())

    async def _serve(self, calls: Sequence[Call]) -> list[bytes | None]:
        """Do what is for this worker, pass on the rest, and return what came of it all, as `spread` does."""
        here = calls[0][0]  # this worker, which may know itself by another address than its scheduler does
        own = [call for call in calls if call[0] == here]
        rest = [call for call in calls if call[0] != here]
        others = asyncio.ensure_future(spread(self._worker.rpc, rest))
        return [*(await asyncio.gather(*map(self._answer, own))), *(await others)]

    async def _answer(self, call: Call) -> bytes | None:
        _, beside, keys, packed = call
        executor = self._beside if beside else self._worker.executors["default"]
        async with nullcontext() if beside else self._folding:
            try:
                kept = [self._worker.data[tuple(key) if isinstance(key, list) else key] for key in keys]
            # The scheduler has moved or lost what it needs: a task fetches that by itself.
            except KeyError:
                return None
            return await asyncio.get_running_loop().run_in_executor(executor, partial(_called, packed, kept))


def _called(packed: bytes, kept: Sequence[Any]) -> bytes:
    answer: Answer
    try:
        function, given = pickle.loads(packed)
        answer = True, function(*given, *kept)
    except Exception as error:  # whoever asks for the result gets it
        answer = False, error
    return bytes(pickle.dumps(answer))


async def spread(pool: ConnectionPool, calls: Sequence[Call]) -> list[bytes | None]:
    """Call workers.

    Parameters
    ----------
    pool
        Has connections to them.
    calls
        What is called, sorted by addresses.

    Returns
    -------
    list
        A pickled `Answer` for each; None for one whose worker has given none, `BEHIND` if the one before it hasn't.
    """
    workers = [list(own) for _, own in groupby(calls, itemgetter(0))]
    count = min(FAN, len(workers))
    ends = [len(workers) * part // count for part in range(count + 1)] if count else []
    parts = [list(chain(*workers[first:end])) for first, end in pairwise(ends)]
    found = await asyncio.gather(*(_ask(pool, part) for part in parts))
    return [answer for own in found for answer in own]


async def _ask(pool: ConnectionPool, calls: Sequence[Call]) -> list[bytes | None]:
    try:
        comm = await pool.connect(calls[0][0], CONNECT_S)
        try:
            found: list[bytes | None] | None = await send_recv(comm, op=CalledWorker.name, calls=calls)
        finally:
            # Of a call that was given up `send_recv` has closed it, so no other call reads that answer.
            pool.reuse(calls[0][0], comm)
    except Exception:  # it has died, or can't be reached from here: what is wrong a task will tell
        found = None
    if found is None:  # which is what Dask says for a worker that doesn't listen
        return [None if address == calls[0][0] else BEHIND for address, *_ in calls]
    return found


class CalledTask:
    """What is to come of a call.

    Parameters
    ----------
    answers
        What is to come of all that belong together, which end together.
    at
        Which of them it is.
    """

    __slots__ = ("_answers", "_at")

    def __init__(self, answers: "Future[list[bytes | None]]", at: int) -> None:
        self._answers, self._at = answers, at

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._answers.done()

    def result(self, timeout: float | None = None) -> Any:
        """Wait, and return what it has come to, as `SubmittedTask.result` does."""
        try:
            packed = self._answers.result(timeout)[self._at]
        except CancelledError:
            packed = None
        if not packed:
            raise CallLostError("a Dask worker that was called is gone, or has not what it needs")
        # Here, not in the client's loop, which all calls share.
        is_well, found = pickle.loads(packed)
        if not is_well:
            raise found
        return found

    @staticmethod
    def results(tasks: "Sequence[CalledTask]") -> list[Any]:
        """Wait, and return what each has come to, as `SubmittedTask.results` does."""
        return [task.result() for task in tasks]

    def exception(self) -> BaseException | None:
        """Wait, and return what it has raised."""
        try:
            self.result()
        except Exception as error:
            return error
        return None

    def release(self) -> None:
        """Do nothing: a call isn't repeated."""


class WorkerCalls:
    """Calls the workers of a client's scheduler.

    Parameters
    ----------
    client
        Whose.
    again_s
        For how long a worker isn't called that couldn't be once.
    tell_s
        How long a worker may take to begin to listen.
    patience_s
        For how long the scheduler must have a worker no more until its calls, and those with them, are given up.
    """

    def __init__(
        self, client: Client, *, again_s: float = AGAIN_S, tell_s: float = TELL_S, patience_s: float = PATIENCE_S
    ) -> None:
        self._client, self._again_s, self._tell_s, self._patience_s = client, again_s, tell_s, patience_s
        self._told, self._listening = set[str](), set[str]()
        self._rests: dict[str, tuple[int, float]] = {}
        """Worker to how often it couldn't be called, and until when it isn't now."""
        self._running: dict[Future[list[bytes | None]], frozenset[str]] = {}
        self._missed_s: WeakKeyDictionary[Future[list[bytes | None]], float] = WeakKeyDictionary()

    def ready(self, workers: Collection[str]) -> Set[str]:
        """Return which of some workers may be called now; those that are new are told to listen, and may be later.

        Only they are told, not the scheduler: it would tell all that come later, for good, and those that lack bbflow
        couldn't start then.
        """
        now_s, awake = time.monotonic(), set(workers)
        awake.difference_update([worker for worker, (_, until_s) in list(self._rests.items()) if until_s > now_s])
        if new := awake - self._told:
            self._told |= new
            self._in_loop(self._tell(sorted(new)))
        return awake & self._listening

    async def _tell(self, workers: list[str]) -> None:
        """Tell each by itself: one message to all would be answered by none before the slowest, or one that hangs."""
        turns = asyncio.Semaphore(FAN)  # each has a connection to the scheduler

        async def tell(worker: str) -> None:
            heard: Collection[str] = ()
            async with turns:
                with suppress(Exception):  # what is wrong with scheduler or client a task will tell
                    telling = self._client.run(CalledWorker.listen, workers=[worker], on_error="ignore")
                    heard = await asyncio.wait_for(telling, self._tell_s)
            self._listening.update(heard)
            self._rest({worker}.difference(heard))

        await asyncio.gather(*map(tell, workers))

    def _in_loop(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        loop: Any = self._client.loop
        return asyncio.run_coroutine_threadsafe(coroutine, loop.asyncio_loop)

    @property
    def are_running(self) -> bool:
        """Whether an answer is waited for."""
        return bool(self._running)

    def begin(self, calls: Sequence[Call], done: Callable[[Iterable[int]], None]) -> list[CalledTask]:
        """Call workers.

        Parameters
        ----------
        calls
            What is called.
        done
            Called, in another thread, when all have ended, with those that are lost.
        """
        order = sorted(range(len(calls)), key=lambda at: calls[at][0])
        calling = spread(self._client.rpc, [calls[at] for at in order])
        answers = self._in_loop(calling)
        self._running[answers] = frozenset(address for address, *_ in calls)

        def end(answers: "Future[list[bytes | None]]") -> None:
            del self._running[answers]
            if answers.cancelled():
                found: list[bytes | None] = [BEHIND] * len(calls)
            else:
                found = [None] * len(calls) if answers.exception() is not None else answers.result()
            self._judge({calls[at][0]: answer for at, answer in zip(order, found, strict=True) if answer != BEHIND})
            done([at for at, answer in zip(order, found, strict=True) if not answer])

        tasks = dict(zip(order, (CalledTask(answers, at) for at in range(len(calls))), strict=True))
        # Last: if all have answered already, it is called at once.
        answers.add_done_callback(end)
        return [tasks[at] for at in range(len(calls))]

    def _judge(self, answers: Mapping[str, bytes | None]) -> None:
        self._rest(worker for worker, answer in answers.items() if answer is None)
        for worker in (worker for worker, answer in answers.items() if answer):
            self._rests.pop(worker, None)  # not by looking at all: another thread may do the same

    def _rest(self, workers: Iterable[str]) -> None:
        """Call workers no more for a while; then they are told again."""
        for worker in workers:
            times, _ = self._rests.get(worker, (0, 0.0))
            self._rests[worker] = times + 1, time.monotonic() + min(self._again_s * 2.0**times, LONGEST_S)
            self._told.discard(worker)
            self._listening.discard(worker)

    def give_up_without(self, workers: Collection[str]) -> None:
        """Abandon calls of workers that the scheduler no longer has, as it does their tasks: they may just hang."""
        known, now_s = set(workers), time.monotonic()
        # A copy: calls end in the loop's thread meanwhile.
        for answers, addresses in list(self._running.items()):
            if addresses <= known:
                self._missed_s.pop(answers, None)
            elif now_s - self._missed_s.setdefault(answers, now_s) >= self._patience_s:
                answers.cancel()

    def give_up(self) -> None:
        """Abandon all calls."""
        for answers in list(self._running):
            answers.cancel()
