"""Executors with a burst buffer: they own the planner's life, its slots, and the clean-up."""

import math
import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from parsl.app.futures import DataFuture
from parsl.data_provider.data_manager import default_staging
from parsl.data_provider.files import File
from parsl.executors import HighThroughputExecutor
from parsl.executors.base import ParslExecutor
from parsl.providers import LocalProvider

from bbflow.staging import Stager
from bbflow_parsl.outputs import Outputs
from bbflow_parsl.rundirs import RunDirectory
from bbflow_parsl.settings import BurstBuffer
from bbflow_parsl.staging import BurstBufferStaging


class BurstBufferMixin(ParslExecutor):
    """Gives an executor a burst buffer: ``class Threads(BurstBufferMixin, ThreadPoolExecutor): pass``.

    Parameters
    ----------
    *arguments, **options
        As the executor takes them. The staging providers in `storage_access`, or Parsl's own, come after the burst
        buffer's.
    burst_buffer
        Which files go over it, and how.
    """

    storage_access: Any

    def __init__(self, *arguments: Any, burst_buffer: BurstBuffer | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.burst_buffer = burst_buffer or BurstBuffer()
        self.staging = BurstBufferStaging(self.burst_buffer)
        others = default_staging if self.storage_access is None else self.storage_access
        self.storage_access = [self.staging, *others]
        self._run: RunDirectory | None = None
        self._stager: Stager | None = None
        self._outputs: Outputs | None = None

    def start(self) -> None:
        """Start the planner, then the executor."""
        self._run = RunDirectory(Path(self.burst_buffer.directory), self.label)
        try:
            self._start_staging(self._run.path)
            super().start()
        except BaseException:
            self._close()
            raise

    def submit(self, func: Any, resource_specification: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Let a task start whose files are there; it has ended when its results are in their own places."""
        results = self.staging.launch([*kwargs.get("outputs", []), kwargs.get("stdout"), kwargs.get("stderr")])
        ran = super().submit(func, resource_specification, *args, **kwargs)  # type: ignore[safe-super]
        return self.staging.after_delivery(ran, results)

    def shutdown(self, *arguments: Any, **options: Any) -> None:
        """End the executor, then the planner once all results are in their places; nothing is left."""
        try:
            super().shutdown(*arguments, **options)
        finally:
            self._close()

    def publish(self, file: File | DataFuture) -> Future[None]:
        """Stage out an output that stays on the burst buffer otherwise; done when it is in its own place."""
        return self.staging.publish(file)

    def _start_staging(self, directory: Path) -> None:
        settings = self.burst_buffer
        options = {"policy": settings.policy, "phases": settings.phases}
        self._stager = Stager(
            directory / "inputs",
            settings.inputs_bytes,
            settings.slots or slots_of(self),
            fetchers=settings.fetchers,
            lookahead=settings.lookahead,
            **{name: value for name, value in options.items() if value is not None},
            **settings.options,
        )
        self._outputs = Outputs(directory / "outputs", settings.outputs_bytes, self._stager.stage_out)
        self.staging.start(self._stager, self._outputs)

    def _close(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        try:
            if self._outputs is not None:
                self._outputs.wait()
            if self._stager is not None:
                self._stager.close()
        finally:
            run.remove()


class BurstBufferExecutor(BurstBufferMixin, HighThroughputExecutor):
    """A HighThroughputExecutor whose tasks find their files on a burst buffer.

    Takes what `parsl.executors.HighThroughputExecutor` takes, and `burst_buffer`.
    """


def slots_of(executor: ParslExecutor) -> int:
    """Give how many tasks an executor runs at once, at most, with all its pilot blocks.

    Parameters
    ----------
    executor
        One of Parsl's, or a subclass.
    """
    threads = getattr(executor, "max_threads", None)
    if threads:
        return int(threads)
    provider = getattr(executor, "provider", None)
    blocks = getattr(provider, "max_blocks", 1) * getattr(provider, "nodes_per_block", 1)
    workers = getattr(executor, "workers_per_node", 1)
    if isinstance(provider, LocalProvider) and workers == 1 and _is_guess(executor):
        workers = max(1, math.floor((os.cpu_count() or 1) / getattr(executor, "cores_per_worker", 1)))
    return max(1, int(workers) * int(blocks))


def _is_guess(executor: ParslExecutor) -> bool:
    """Whether Parsl knows no limit of the workers on a node: a pilot then starts one for each core."""
    return getattr(executor, "max_workers_per_node", None) == math.inf
