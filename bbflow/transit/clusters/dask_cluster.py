"""Tasks on Dask's workers: a cluster of our own or one that is there, and each task pinned to a node's host."""

import concurrent.futures
import logging
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import dask
from dask.base import annotate
from dask.delayed import delayed
from distributed import Client, Future, KilledWorker, LocalCluster, secede
from distributed.client import ClosedClientError, FutureCancelledError, FuturesCancelledError
from distributed.comm.core import CommClosedError
from distributed.protocol import pickle

from bbflow.configuring.settings import WorkersConfig
from bbflow.errors import ConfigError, NodeError
from bbflow.host.atomic import PRIVATE, write_whole
from bbflow.host.closable import Closable
from bbflow.host.leftovers import scratch
from bbflow.transit.clusters.cluster import ASIDE_THREADS, TaskLostError, Work, WorkerKilledError, yield_to_folds
from bbflow.transit.clusters.dask_calls import CalledTask, WorkerCalls
from bbflow.transit.clusters.dask_settings import PATIENT, UNWARNED, dask_settings, quiet
from bbflow.transit.clusters.security import security_of

CONNECT_TIMEOUT_S = 30.0
LOCAL_TIMEOUT_S = 5.0
"""How long the result of a worker that has died is waited for, before Dask makes it again."""
WORKER_TIMEOUT_S = 60.0
"""How long a worker on a node's host is waited for: workers may start side by side with the analysis."""
SILENT_S = 60.0
"""How long a scheduler whose connections are open may give no answer: one that hangs, or was stopped."""
POLL_S = 0.2
COUNT_EVERY_S = 5.0
"""How often the scheduler is asked how many threads there are: each time costs a batch some milliseconds."""
LOSSES: tuple[type[Exception], ...] = (
    ClosedClientError, CommClosedError, FutureCancelledError, FuturesCancelledError, TimeoutError,
)  # fmt: skip
"""What Dask raises when a process of its own dies."""
GONE = "Dask's scheduler is gone: start one again ('bbflow dask scheduler'), with workers"


@contextmanager
def _failures(client: Client, *also: type[Exception]) -> Iterator[None]:
    """Make what Dask raises when a process of its own dies an error that may pass.

    Parameters
    ----------
    client
        Dask's, which closes when it can't reach its scheduler any more, and has none to ask then.
    also
        What else can only be Dask's here: where a task's result is asked for, an `OSError` may be the task's own.

    Raises
    ------
    NodeError
        In its place; of the kind that says what has become of a task, if it is about one.
    """
    if client.status == "closed":
        raise NodeError(GONE)
    try:
        yield
    except KilledWorker as error:
        raise WorkerKilledError(str(error)) from None
    except LOSSES + also as error:
        kind = TaskLostError if isinstance(error, FutureCancelledError) else NodeError
        if client.status != "running":
            raise kind(GONE) from None
        why = error.reason if isinstance(error, FutureCancelledError) else f"{type(error).__name__}: {error}"
        raise kind(f"Dask's scheduler or workers are gone ({why}): start the analysis again, it continues") from None


class DaskTask:
    """What is to come of a task that Dask has.

    Parameters
    ----------
    future
        Dask's own.
    host
        Where it runs.
    fetched
        Has it while its result is fetched, since that may go with its worker.
    """

    __slots__ = ("_fetched", "_host", "future", "places")

    def __init__(self, future: "Future[Any]", host: str, fetched: "dict[Future[Any], str]") -> None:
        self.future = future
        """Dask's own."""
        self.places: frozenset[str] | None = None
        """Addresses of the workers that have its result, once they were asked for."""
        self._host, self._fetched = host, fetched

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return bool(self.future.done())

    def result(self, timeout: float | None = None) -> Any:
        """Wait, and return what it has come to, as `SubmittedTask.result` does."""
        with _failures(self.future.client), self._fetching([self]):
            return self.future.result(timeout)

    @staticmethod
    def results(tasks: "Sequence[DaskTask]") -> list[Any]:
        """Wait, and return what each has come to, as `SubmittedTask.results` does."""
        if not tasks:
            return []
        client = tasks[0].future.client
        with _failures(client), DaskTask._fetching(tasks):
            found: list[Any] = client.gather([task.future for task in tasks])
            return found

    @staticmethod
    @contextmanager
    def _fetching(tasks: "Sequence[DaskTask]") -> Iterator[None]:
        """Watch the hosts of tasks that have ended again."""
        for task in tasks:
            task._fetched[task.future] = task._host
        try:
            yield
        finally:
            for task in tasks:
                task._fetched.pop(task.future, None)

    def exception(self) -> BaseException | None:
        """Wait, and return what it has raised."""
        with _failures(self.future.client):
            found: BaseException | None = self.future.exception()
            return found

    def release(self) -> None:
        """Keep it from being run again, whoever still has this."""
        self.future.release()


def call_packed(packed: bytes, *results: Any) -> Any:
    """Call a function with what was pickled beside it, and other tasks' results: what each task does.

    Dask's scheduler unpickles arguments and pickles them again, but for bytes.
    """
    function, given = pickle.loads(packed)
    return function(*given, *results)


def call_beside(packed: bytes, *results: Any) -> Any:
    """Call a function as `call_packed` does, in a thread of its own: the worker has another one for its next task."""
    secede()
    yield_to_folds()
    return call_packed(packed, *results)


def _packed(function: Callable[..., Any], arguments: Sequence[Any]) -> "tuple[bytes, list[Future[Any]]]":
    given = [item for item in arguments if not isinstance(item, DaskTask)]  # tasks come after these (`Cluster.submit`)
    return pickle.dumps((function, given)), [item.future for item in arguments[len(given) :]]


class DaskCluster(Closable):
    """Runs tasks on the Dask workers of the BB nodes' hosts.

    Parameters
    ----------
    client
        Of their scheduler; it stays open.
    look_s
        How often its workers are looked at.
    """

    def __init__(self, client: Client, *, look_s: float = COUNT_EVERY_S) -> None:
        self.client, self._look_s = client, look_s
        self.worker_timeout_s = WORKER_TIMEOUT_S
        """How long a host may be without a worker."""
        self.silent_s = SILENT_S
        """How long the scheduler may give no answer."""
        self._hosts = self._find_hosts()
        self._waiting: dict[Future[Any], str] = {}
        self._fetched: dict[Future[Any], str] = {}
        self._closed = threading.Event()
        self._known: Mapping[str, int] = {}
        self._there: dict[str | None, set[str]] = {}
        """Workers by the host's part of their addresses: a thousand aren't looked through for each of a thousand."""
        self._counted_s = -look_s
        self._token, self._numbers = uuid.uuid4().hex, count()
        self._groups: dict[str, Future[Any]] = {}
        self._calls = WorkerCalls(client)
        self._watcher = threading.Thread(target=self._watch, name="watch-dask", daemon=True)
        self._watcher.start()

    def _find_hosts(self) -> dict[str, set[str]]:
        hosts: dict[str, set[str]] = {}
        with _failures(self.client, OSError):
            found = self.client.run(socket.gethostname, callback_timeout=self.silent_s)
        for address, host in found.items():
            hosts.setdefault(host, set()).add(urlparse(address).hostname or address)
        return hosts

    @property
    def threads(self) -> int:
        """Threads of all workers that fold."""
        return sum(max(count - ASIDE_THREADS, 1) for count in self._workers().values()) or 1

    def _workers(self) -> Mapping[str, int]:
        """Return the threads of each worker, by its address, as they were not long ago."""
        if time.monotonic() > self._counted_s + self._look_s:
            with _failures(self.client, OSError):
                self._known = self.client.nthreads(callback_timeout=self.silent_s)
            self._there = {}
            for worker in self._known:
                self._there.setdefault(urlparse(worker).hostname, set()).add(worker)
            self._counted_s = time.monotonic()
        return self._known

    def processes(self, host: str) -> int:
        """Worker processes on a host; one if none has come yet."""
        return len(self._workers_of(host)) or 1

    def _workers_of(self, host: str) -> frozenset[str]:
        self._workers()
        return frozenset().union(*(self._there.get(address, ()) for address in self._hosts.get(host, ())))

    def has(self, host: str) -> bool:
        """Whether a worker is known to run on a host."""
        return host in self._hosts

    def _watch(self) -> None:
        """Cancel tasks whose hosts are without workers: Dask starts one again that dies, but not one that dies then.

        All are cancelled if the scheduler is silent: what was asked of it would never come. A task that has ended is
        begun again there if its worker went before its result was fetched. So none waits forever: who asks for their
        results gets a `NodeError`.
        """
        missed_s: dict[str, float] = {}
        while not self._closed.wait(self._look_s):
            waiting = self._waiting | self._fetched  # in one operation: other threads submit and fetch meanwhile
            try:
                is_needed = waiting or self._calls.are_running
                known = self.client.nthreads(callback_timeout=self.silent_s) if is_needed else {}
            except TimeoutError:
                self._calls.give_up()
                self._cancel(waiting, f"the scheduler gives no answer for {self.silent_s:.0f} s")
                continue
            except (OSError, RuntimeError, AttributeError):  # scheduler or client are gone: whoever waits learns it
                self._calls.give_up()
                continue
            self._calls.give_up_without(known)
            there = {urlparse(worker).hostname for worker in known}
            for host in set(waiting.values()):
                if self._hosts.get(host, set()) & there:  # hosts are found again now and then
                    missed_s.pop(host, None)
                elif time.monotonic() - missed_s.setdefault(host, time.monotonic()) > self.worker_timeout_s:
                    on_it = [future for future, its_host in waiting.items() if its_host == host]
                    self._cancel(on_it, f"{host} is without workers for {self.worker_timeout_s:.0f} s")
                    on_it.clear()
            waiting.clear()  # or Dask would run again what has ended, as long as this waits

    def _cancel(self, futures: "Iterable[Future[Any]]", why: str) -> None:
        """Fail those that haven't ended; whoever waits for one learns why."""
        with suppress(ClosedClientError):  # they have failed
            self.client.cancel([future for future in futures if not future.done()], reason=why)

    def submit(
        self, function: Callable[..., Any], *arguments: Any, host: str, done: Callable[[], None], beside: bool = False
    ) -> DaskTask:
        """Run a function, as `Cluster.submit` does; Dask runs it again on another worker if its worker dies.

        Raises
        ------
        NodeError
            If no worker runs on the host, nor comes within `worker_timeout_s`.
        """
        self._check_worker(host)
        key = (self._group_of(function), next(self._numbers))
        packed, awaited = _packed(function, arguments)
        with dask.config.set(UNWARNED), _failures(self.client):
            call = call_beside if beside else call_packed
            # Nowhere else, not even if its workers are busy: only there is the memory that it reads.
            # By the host's address, without a port: that stands for each worker there, also for those that come later.
            future = self.client.submit(call, packed, *awaited, key=key, workers=sorted(self._hosts[host]))
        self._watch_until([future], [host], done)
        return DaskTask(future, host, self._fetched)

    def submit_all(
        self,
        function: Callable[..., Any],
        works: Sequence[Work],
        done: Callable[[], None],
        *,
        beside: bool = False,
        calls: bool = False,
    ) -> Sequence[DaskTask | CalledTask]:
        """Run a function with each of some arguments, as `Cluster.submit_all` does: the scheduler gets one graph."""
        if calls and any(addresses := self._called(works)):
            return self._call_some(function, works, addresses, done, beside=beside)
        if not works:
            done()
        if len(works) < 2:  # of one a graph takes longer
            return [self.submit(function, *arguments, host=host, done=done, beside=beside) for arguments, host in works]
        for host in {host for _, host in works}:
            self._check_worker(host)
        group, call = self._group_of(function), delayed(call_beside if beside else call_packed, pure=False)
        graph = []
        for arguments, host in works:
            packed, awaited = _packed(function, arguments)
            with annotate(workers=sorted(self._hosts[host])):
                graph.append(call(packed, *awaited, dask_key_name=(group, next(self._numbers))))
        with dask.config.set(UNWARNED), _failures(self.client):
            futures = self.client.compute(graph, optimize_graph=False)
        self._watch_until(futures, [host for _, host in works], done)
        return [DaskTask(own, host, self._fetched) for own, (_, host) in zip(futures, works, strict=True)]

    def _called(self, works: Sequence[Work]) -> list[str]:
        """Return the worker to call for each of some works: one of its host's that has the tasks' results it needs.

        Empty for those of a host of which it isn't known for one, or that has more workers than would be called.
        """
        with _failures(self.client):
            ready = self._calls.ready(self._workers())
        needed = [[item for item in arguments if isinstance(item, DaskTask)] for arguments, _ in works]
        self._find_places({task.future: task for tasks in needed for task in tasks if not task.places})
        of_host = {host: self._workers_of(host) & ready for host in {host for _, host in works}}
        taken, addresses = Counter[str](), list[str]()
        for tasks, (_, host) in zip(needed, works, strict=True):
            there = of_host[host].intersection(*(task.places or () for task in tasks))
            addresses.append(min(sorted(there), key=taken.__getitem__, default=""))
            taken[addresses[-1]] += 1
        shares = {host: -(-count // self.processes(host)) for host, count in Counter(host for _, host in works).items()}
        told = list(zip(addresses, (host for _, host in works), strict=True))
        # Else workers would stand idle while one does what several could: Dask moves results where tasks go.
        uneven = {host for address, host in told if not address or taken[address] > shares[host]}
        return ["" if host in uneven else address for address, host in told]

    def _find_places(self, unknown: "Mapping[Future[Any], DaskTask]") -> None:
        """Ask where the results of tasks are that have ended."""
        keys = [future.key for future in unknown if future.status == "finished"]
        scheduler: Any = self.client.scheduler
        with _failures(self.client, OSError):
            # Not `Client.who_has`: it hands what it is given to the scheduler, so it can't be told to wait no longer.
            found = self.client.sync(scheduler.who_has, keys=keys, callback_timeout=self.silent_s) if keys else {}
        for future, task in unknown.items():
            task.places = frozenset(found.get(future.key, ()))

    def _call_some(
        self,
        function: Callable[..., Any],
        works: Sequence[Work],
        addresses: Sequence[str],
        done: Callable[[], None],
        *,
        beside: bool,
    ) -> Sequence[DaskTask | CalledTask]:
        """Call workers where their address is known; the rest become tasks."""
        called = [at for at, address in enumerate(addresses) if address]
        others = [at for at, address in enumerate(addresses) if not address]
        left: list[Callable[[], None]] = [done, lambda: None] if others else [done]
        # Tasks and calls end in two threads: `list.pop` gives each of them another one.
        end: Callable[[], None] = lambda: left.pop()()  # noqa: E731 - what is popped last is called last
        tasks = self.submit_all(function, [works[at] for at in others], end, beside=beside) if others else ()
        own = [works[at] for at in called], [addresses[at] for at in called]
        calls = self._call_all(function, *own, end, beside=beside)
        found = dict(zip((*others, *called), (*tasks, *calls), strict=True))
        return [found[at] for at in range(len(works))]

    def _call_all(
        self,
        function: Callable[..., Any],
        works: Sequence[Work],
        addresses: Sequence[str],
        done: Callable[[], None],
        *,
        beside: bool,
    ) -> list[CalledTask]:
        calls = []
        for address, (arguments, _) in zip(addresses, works, strict=True):
            packed, needed = _packed(function, arguments)
            calls.append((address, beside, [future.key for future in needed], packed))

        def ended(lost: Iterable[int]) -> None:
            for at in lost:
                for item in works[at][0]:
                    if isinstance(item, DaskTask):
                        item.places = None  # they may have gone with a worker: the scheduler is asked again
            done()

        with _failures(self.client):
            return self._calls.begin(calls, ended)

    def _watch_until(self, futures: "Sequence[Future[Any]]", hosts: Sequence[str], done: Callable[[], None]) -> None:
        """Watch over the hosts of tasks until all have ended: Dask is asked about one at a time, the newest first.

        Being told of each, in another thread, takes it a tenth of a task.
        """
        self._waiting.update(zip(futures, hosts, strict=True))
        self._look_at(list(futures), done)

    def _look_at(self, left: "list[Future[Any]]", done: Callable[[], None], _: Any = None) -> None:
        while left and left[-1].done():
            self._waiting.pop(left.pop(), None)
        if left:  # no closure that has itself: it would keep the batch until garbage is collected
            left[-1].add_done_callback(partial(self._look_at, left, done))
        else:
            done()

    def _group_of(self, function: Callable[..., Any]) -> str:
        """Name the group of a function's tasks, which lives as long as one of them does.

        Dask never forgets a group that has ended (dask/distributed#7977): with one for each task, as it makes by
        itself, its scheduler would grow with each step.
        """
        name = getattr(function, "func", function).__name__
        if name not in self._groups:
            self._groups[name] = self.client.submit(int, key=(f"{name}-{self._token}", "group"))
        return f"{name}-{self._token}"

    def _check_worker(self, host: str) -> None:
        deadline_s = time.monotonic() + self.worker_timeout_s
        while host not in self._hosts:
            if time.monotonic() > deadline_s:
                known = ", ".join(self._hosts) or "none"
                raise NodeError(
                    f"no Dask worker runs on {host}, where a BB node is, and none came within "
                    f"{self.worker_timeout_s:.0f} s (workers run on: {known}): start one there with "
                    "'bbflow dask worker'"
                )
            self._hosts = self._find_hosts()
            if host not in self._hosts:
                time.sleep(POLL_S)

    def close(self) -> None:
        """Leave the scheduler."""
        self._closed.set()
        self._calls.give_up()
        self._watcher.join()


@contextmanager
def dask_here(workers: WorkersConfig) -> Iterator[DaskCluster]:
    """Start Dask on this host, until the context ends.

    Parameters
    ----------
    workers
        What it is made of.

    Raises
    ------
    NodeError
        If a worker doesn't start.
    """
    with (
        dask.config.set(PATIENT),
        scratch() as directory,
        _start(workers, directory) as local,
        # Results come straight from the workers: each way over the scheduler would hold up the next batch. Nothing but
        # our tasks goes there, whatever else this process computes with Dask.
        Client(local, direct_to_workers=True, timeout=LOCAL_TIMEOUT_S, set_as_default=False) as client,
        DaskCluster(client) as cluster,
    ):
        yield cluster


@contextmanager
def connected_cluster(
    scheduler: str,
    certificate: Path | None = None,
    *,
    look_s: float = COUNT_EVERY_S,
    connect_s: float = CONNECT_TIMEOUT_S,
) -> Iterator[DaskCluster]:
    """Use a cluster that is there, until the context ends.

    Parameters
    ----------
    scheduler
        Address of its scheduler, or path of the scheduler file.
    certificate
        What lets in at a scheduler with TLS; without one, or if it isn't there, what Dask's configuration has.
    look_s
        How often its workers are looked at.
    connect_s
        How long the scheduler is waited for.

    Raises
    ------
    NodeError
        If the scheduler doesn't answer.
    """
    with quiet(), _connect(scheduler, certificate, connect_s) as client, DaskCluster(client, look_s=look_s) as cluster:
        yield cluster


def users_cluster(client: Client) -> DaskCluster:
    """Use the workers of a client that its user has made, and continues to use.

    Parameters
    ----------
    client
        Such as that of dask-jobqueue, dask-mpi or a ``LocalCluster``.

    Raises
    ------
    ConfigError
        If it is asynchronous, or closed.
    NodeError
        If its workers can't import bbflow.
    """
    if not isinstance(client, Client):
        raise ConfigError(f"client: {client!r} isn't a dask.distributed.Client")
    if client.asynchronous or client.status != "running":
        state = "asynchronous" if client.asynchronous else client.status
        raise ConfigError(f"client: {client!r} is {state}: give one that is open and synchronous")
    try:
        return DaskCluster(client)
    except ModuleNotFoundError as error:
        raise NodeError(f"Dask's workers can't import {error.name}: install bbflow in their environment") from None


def _start(workers: WorkersConfig, directory: Path) -> LocalCluster:
    """Start a cluster on this host that other users of the host can't use: threads open no socket to the outside."""
    own = directory / "dask.pem"
    if workers.processes:
        from bbflow.net.certifying import new_certificate  # late: a tenth of a second, which threads needn't wait

        write_whole(own, new_certificate(), PRIVATE)
    with dask.config.set(dask_settings(dashboard=workers.dashboard is not None)):
        try:
            return LocalCluster(
                n_workers=workers.count,
                processes=workers.processes > 0,
                threads_per_worker=workers.threads + ASIDE_THREADS,
                host="127.0.0.1" if workers.processes else None,
                dashboard_address=workers.dashboard or "127.0.0.1:0",
                scheduler_kwargs={"dashboard": workers.dashboard is not None},
                # What is mapped of pools counts as a worker's memory: with a limit Dask would pause it, or kill it.
                memory_limit=0,
                local_directory=str(directory),
                security=security_of(own) if workers.processes else None,
                silence_logs=logging.CRITICAL,  # what fails comes back with the task, and is said once
            )
        except (RuntimeError, TimeoutError, CommClosedError) as error:
            raise NodeError(f"a Dask worker didn't start ({error})") from None


def reached(scheduler: str, certificate: Path | None) -> tuple[str, set[str]]:
    """Ask a scheduler who it is.

    Returns
    -------
    tuple
        Its address, and the hosts of its workers.

    Raises
    ------
    NodeError
        If it doesn't answer.
    """
    with _connect(scheduler, certificate, CONNECT_TIMEOUT_S) as client, _failures(client, OSError):
        hosts = client.run(socket.gethostname, callback_timeout=SILENT_S)
        return str(client.scheduler.address), set(hosts.values())


def _connect(scheduler: str, certificate: Path | None, connect_s: float) -> Client:
    security = security_of(certificate) if certificate is not None and certificate.exists() else None
    is_file = "://" not in scheduler
    where = {"scheduler_file" if is_file else "address": scheduler}
    found: concurrent.futures.Future[Client] = concurrent.futures.Future()

    def connect() -> None:
        try:
            client = Client(**where, timeout=connect_s, security=security, set_as_default=False)
        except BaseException as error:
            with suppress(concurrent.futures.InvalidStateError):
                found.set_exception(error)
            return
        try:
            found.set_result(client)
        except concurrent.futures.InvalidStateError:  # no one waits for it any more
            client.close()

    # Dask waits without limit for a scheduler that takes its connection and says nothing, and for a file.
    threading.Thread(target=connect, name="connect-dask", daemon=True).start()
    try:
        return found.result(connect_s + (WORKER_TIMEOUT_S if is_file else LOCAL_TIMEOUT_S))
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:  # the last: it has no TLS
        if not found.cancel() and found.exception() is None:
            found.result().close()  # it has come just now
        why = str(error) or "it says nothing"
        raise NodeError(
            f"no Dask scheduler answers at {scheduler} ({why}): start one with 'bbflow dask scheduler', or leave "
            "--scheduler out"
        ) from None
