"""How many tasks an executor runs at once, and more workers than those, so that some fetch while others compute."""

import inspect
import math
import os
from typing import Any

from parsl.executors import HighThroughputExecutor
from parsl.executors.base import ParslExecutor
from parsl.providers import LocalProvider

from bbflow_parsl.settings import BurstBufferSettings


def slots_of(executor: ParslExecutor, workers_per_slot: int = 1) -> int:
    """Return how many tasks an executor computes at once, at most, with all its pilot blocks.

    Parameters
    ----------
    executor
        One of Parsl's, or a subclass.
    workers_per_slot
        How many of its workers belong to one task that computes.
    """
    threads = getattr(executor, "max_threads", None)
    if threads:
        return int(threads)
    workers = getattr(executor, "workers_per_node", 1)
    if isinstance(getattr(executor, "provider", None), LocalProvider) and workers == 1 and _is_guess(executor):
        workers = max(1, math.floor((os.cpu_count() or 1) / getattr(executor, "cores_per_worker", 1)))
    return max(1, int(workers) // workers_per_slot * nodes_of(executor))


def nodes_of(executor: ParslExecutor) -> int:
    """Return how many nodes an executor has at most, with all its pilot blocks."""
    provider = getattr(executor, "provider", None)
    return max(1, int(getattr(provider, "max_blocks", 1) * getattr(provider, "nodes_per_block", 1)))


def _is_guess(executor: ParslExecutor) -> bool:
    """Whether Parsl knows no limit of the workers on a node: a pilot then starts one for each core."""
    return getattr(executor, "max_workers_per_node", None) == math.inf


def workers_per_slot(burst_buffer: BurstBufferSettings, options: dict[str, Any]) -> int:
    """Return how many workers share a slot: those that don't compute fetch for the waves ahead.

    It is one where no node has a burst buffer of its own, and where each worker has cores, an accelerator or MPI ranks
    for itself.
    """
    bound = options.get("cpu_affinity", "none") != "none" or options.get("available_accelerators")
    if burst_buffer.node_directory is None or bound or options.get("enable_mpi_mode"):
        return 1
    return 1 + burst_buffer.lookahead


def with_more_workers(
    burst_buffer: BurstBufferSettings, arguments: tuple[Any, ...], options: dict[str, Any]
) -> dict[str, Any]:
    """Return a HighThroughputExecutor's options, all by name, with this many workers for each slot."""
    given = inspect.signature(HighThroughputExecutor.__init__).bind_partial(None, *arguments, **options).arguments
    given.pop("self")
    times = workers_per_slot(burst_buffer, given)
    if times > 1:
        # A pilot starts as many as all three limits allow, so each is to allow more.
        if given.get("max_workers_per_node"):
            given["max_workers_per_node"] *= times
        if given.get("mem_per_worker"):
            given["mem_per_worker"] /= times
        given["cores_per_worker"] = given.get("cores_per_worker", 1.0) / times
    return dict(given)
