"""Parsl's configuration where the user gives none: worker processes on this host, and memory before shared storage."""

from pathlib import Path

from bbflow_parsl import BurstBufferExecutor, BurstBufferSettings
from bbflow_workflows.montage.places import below
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.executors.base import ParslExecutor
from parsl.providers import LocalProvider

from bbflow.events import EventLog

PERIOD_S = 0.2
"""Parsl starts its first workers only after one period, of five seconds by default."""


def local_config(workers: int, run_directory: Path) -> Config:
    """Return a plain Parsl configuration: worker processes on this host."""
    executor = HighThroughputExecutor(
        label="local",
        address="127.0.0.1",
        max_workers_per_node=workers,
        cores_per_worker=1e-3,
        provider=LocalProvider(init_blocks=1, max_blocks=1),
    )
    return _config(executor, run_directory)


def staged_config(workers: int, run_directory: Path, burst_buffer: BurstBufferSettings) -> Config:
    """Return the same with a burst buffer that inputs, intermediate files and results go over."""
    executor = BurstBufferExecutor(
        label="staged",
        address="127.0.0.1",
        max_workers_per_node=workers,
        cores_per_worker=1e-3,
        provider=LocalProvider(init_blocks=1, max_blocks=1),
        burst_buffer=burst_buffer,
    )
    return _config(executor, run_directory)


def staged_buffer(
    directory: str, capacity: str, survey: str, output: str, events: EventLog | None
) -> BurstBufferSettings:
    """Return what goes over the burst buffer: the tiles in, the mosaic out; what is between stays there.

    Parameters
    ----------
    directory, capacity
        Of the burst buffer.
    survey, output
        Paths or URLs.
    events
        Where transfers are noted; nowhere if None.
    """
    return BurstBufferSettings(
        directory=directory,
        capacity=capacity,
        sources=[survey],
        intermediate=[below(output, "work")],
        results=[output],
        options={} if events is None else {"events": events},
    )


def _config(executor: ParslExecutor, run_directory: Path) -> Config:
    return Config(
        executors=[executor],
        run_dir=str(run_directory),
        strategy="none",
        strategy_period=PERIOD_S,
        initialize_logging=False,
    )
