"""Dask with many workers: a real scheduler and real TCP; workers are many in a process, tasks do nothing.

Each worker has an address of its own (127.0.0.1, 127.0.0.2, …), as those of many hosts do.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from urllib.parse import urlparse

import dask
import psutil
from distributed import Client, Worker

from bbflow.errors import NodeError
from bbflow.host.waiting import until
from bbflow.transit.clusters.cluster import TaskBatch, Work
from bbflow.transit.clusters.dask_calls import CalledTask
from bbflow.transit.clusters.dask_cluster import DaskCluster
from bbflow.transit.clusters.dask_settings import dask_settings
from benchmarks.rows import Row

COUNTS = {True: (50,), False: (100, 1_000)}
IN_PROCESS = 250
BATCHES = 5
PATIENCE_S = 300.0


class ManyHosts(DaskCluster):
    """A cluster of hosts that are named by their addresses, since the workers' real host has one name."""

    def _find_hosts(self) -> dict[str, set[str]]:
        addresses = [urlparse(worker).hostname or "" for worker in self.client.nthreads()]
        return {address: {address} for address in addresses}


def measure(*, quick: bool) -> list[Row]:
    """Measure batches of one task for each worker, as the fold has one for each node."""
    return [row for count in COUNTS[quick] for row in _rows(count)]


def _rows(count: int) -> list[Row]:
    name = f"{count:,} workers"
    began_s = time.perf_counter()
    with scheduler_of(count) as (process, address), Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=PATIENCE_S)
        joined_s = time.perf_counter() - began_s
        with ManyHosts(client) as cluster:
            hosts = [_address(number) for number in range(count)]
            works = [((number,), host) for number, host in enumerate(hosts)]
            _run(TaskBatch(cluster, None, int, works, lambda: None))  # whoever is new is met
            began_s = time.perf_counter()
            task = _cost(process, lambda: _run(TaskBatch(cluster, None, int, works, lambda: None)), count)
            took_s = time.perf_counter() - began_s
            while not isinstance(_call(cluster, works), CalledTask):
                time.sleep(0.1)  # they aren't told yet that they are called
            call = _cost(process, lambda: _call(cluster, works), count)
            memory = process.memory_info().rss
            lost = TaskBatch(cluster, None, time.sleep, [((60.0,), host) for host in hosts[:2]], lambda: None)
            process.kill()
            began_s = time.perf_counter()
            ended = _end_of(lost)
            gone_s = time.perf_counter() - began_s
    return [
        Row(f"{name}: until all have joined", joined_s, "s"),
        Row(f"{name}: a batch of a task for each", took_s / BATCHES, "s"),
        Row(f"{name}: scheduler's CPU time, each task", task[1], "ms"),
        Row(f"{name}: client's CPU time, each task", task[0], "ms"),
        Row(f"{name}: scheduler's CPU time, each call", call[1], "ms"),
        Row(f"{name}: client's CPU time, each call", call[0], "ms"),
        Row(f"{name}: scheduler's memory", memory / 2**20, "MiB"),
        Row(f"{name}: scheduler killed: {ended}", gone_s, "s"),
    ]


def _cost(scheduler: psutil.Process, run: Callable[[], object], count: int) -> tuple[float, float]:
    """Return what one of so many tasks of a batch costs this process and the scheduler's (ms of CPU time)."""
    before, own_s = scheduler.cpu_times(), time.process_time()
    for _ in range(BATCHES):
        run()
    after, own_s = scheduler.cpu_times(), time.process_time() - own_s
    used_s = after.user + after.system - before.user - before.system
    return 1e3 * own_s / BATCHES / count, 1e3 * used_s / BATCHES / count


def _call(cluster: DaskCluster, works: Sequence[Work]) -> object:
    """Call all workers, as the fold does it; give what the first was: a call, or a task yet."""
    batch = TaskBatch(cluster, None, int, works, lambda: None, again=lambda work: work)
    _run(batch)
    return batch.tasks[0]


def _run(batch: TaskBatch[None]) -> None:
    if not until(lambda: batch.results() is not None, PATIENCE_S, 0.001):
        raise RuntimeError("the tasks don't end")
    for task in batch.tasks:
        task.release()


def _end_of(batch: TaskBatch[None]) -> str:
    """Return how a batch ends whose scheduler is gone."""
    try:
        _run(batch)
    except NodeError as error:
        return type(error).__name__
    return "the tasks have ended"


@contextmanager
def scheduler_of(count: int) -> Iterator[tuple[psutil.Process, str]]:
    """Run a scheduler and so many workers; give the scheduler's process and address."""
    with _process("scheduler") as process, ExitStack() as stack:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        for first in range(0, count, IN_PROCESS):
            stack.enter_context(_process("workers", address, str(first), str(min(IN_PROCESS, count - first))))
        yield psutil.Process(process.pid), address


@contextmanager
def _process(*words: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "benchmarks.many_workers", *words]
    quiet = os.environ | {"DASK_LOGGING__DISTRIBUTED": "critical"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet) as process:
        try:
            yield process
        finally:
            process.kill()


async def _serve_scheduler() -> None:
    from distributed import Scheduler

    async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0") as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()


def _address(number: int) -> str:
    """Return the address of a worker: loopback has 16 million."""
    return str(ip_address("127.0.0.1") + number)


async def _serve_workers(scheduler: str, first: int, count: int) -> None:
    hosts = map(_address, range(first, first + count))
    workers = [Worker(scheduler, host=host, nthreads=1, memory_limit=0, dashboard=False) for host in hosts]
    await asyncio.gather(*workers)
    await asyncio.gather(*(worker.finished() for worker in workers))


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    dask.config.set(dask_settings())  # as those of a run have them
    asyncio.run(_serve_scheduler() if what == "scheduler" else _serve_workers(given[0], *map(int, given[1:])))
