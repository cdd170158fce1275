"""How Dask is set up in a run: closed to others, and quiet where it isn't watched."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask

from bbflow.transit.clusters.security import NO_HTTP

STEADY: dict[str, Any] = {
    # A worker that sees memory filling must not pause or kill: the pool is shared memory and counts as its own.
    **{f"distributed.worker.memory.{limit}": False for limit in ("target", "spill", "pause", "terminate")},
    # What Dask remembers for its developers are our tasks' arguments, with the steps that they were about.
    "distributed.admin.low-level-log-length": 10,
    "distributed.admin.log-length": 100,
}
"""Holds for all."""
QUIET: dict[str, Any] = {
    # It wakes up a hundred times a second to see what its threads do, fifty times to see how late it is.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
"""What only a dashboard shows, which takes a fiftieth of a core beside the simulation."""
PATIENT: dict[str, Any] = {"distributed.deploy.lost-worker-timeout": "1000 days"}
"""Else Dask gives up a worker for good that isn't there 15 s after an earlier one has died: on a busy host one that is
killed again is being started just then."""
UNWARNED: dict[str, Any] = {"distributed.admin.large-graph-warning-threshold": "1PiB"}
"""Dask warns of large tasks, and says how its users would avoid them: the plan of many blocks is sent once."""

LOGGERS = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
LEVELS: list[list[int]] = []
"""What the levels of these were when each of those began that keep them quiet now: the first has the user's."""
QUIETING = threading.Lock()


def dask_settings(*, dashboard: bool = False) -> dict[str, Any]:
    """Return the settings of Dask that schedulers and workers are started with.

    Parameters
    ----------
    dashboard
        Whether the scheduler's web page is wanted, which asks for no key; otherwise there is none.
    """
    settings = STEADY | ({} if dashboard else QUIET)
    for kind in ("worker",) if dashboard else ("worker", "scheduler"):
        # The server is there for a moment before it is closed: it has nothing to show then.
        settings[f"distributed.{kind}.http.routes"] = []
        settings[f"distributed.{kind}.preload"] = [*dask.config.get(f"distributed.{kind}.preload"), NO_HTTP]
    return settings


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Dask from logging what fails, which comes back with the task; its loggers are given back as they were."""
    with QUIETING:
        LEVELS.append([logger.level for logger in LOGGERS])
        for logger in LOGGERS:
            logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with QUIETING:
            for logger, level in zip(LOGGERS, LEVELS.pop(), strict=True):
                logger.setLevel(level)
