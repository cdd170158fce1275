"""Executors with a burst buffer: they start and close what stages, and tell it how many tasks run at once."""

import uuid
from concurrent.futures import Future
from typing import Any

from parsl.app.futures import DataFuture
from parsl.data_provider.data_manager import default_staging
from parsl.data_provider.files import File
from parsl.executors import HighThroughputExecutor
from parsl.executors.base import ParslExecutor

from bbflow.lending.exchange import RunningExchange
from bbflow.staging.retry import Retry
from bbflow.units import parse_bytes
from bbflow_parsl.node import NodeSettings, leave
from bbflow_parsl.nodetask import on_node
from bbflow_parsl.provider import BurstBufferProvider
from bbflow_parsl.settings import BurstBufferSettings
from bbflow_parsl.staging import BurstBufferStaging
from bbflow_parsl.workers import nodes_of, slots_of, with_more_workers, workers_per_slot


class BurstBufferMixin(ParslExecutor):
    """Adds a burst buffer to an executor: ``class Threads(BurstBufferMixin, ThreadPoolExecutor): pass``.

    Parameters
    ----------
    *arguments, **options
        As the executor takes them. The staging providers in `storage_access`, or Parsl's own, come after the burst
        buffer's.
    burst_buffer
        Which files go over it, and how.
    """

    storage_access: Any

    def __init__(self, *arguments: Any, burst_buffer: BurstBufferSettings | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.burst_buffer = burst_buffer or BurstBufferSettings()
        is_shared = self.burst_buffer.shared_directory is not None
        self.staging = (BurstBufferStaging if is_shared else BurstBufferProvider)(self.burst_buffer)
        others = default_staging if self.storage_access is None else self.storage_access
        # Parsl asks the first provider that can have a file, and its own can have all of `file:` and HTTP.
        self.storage_access = [self.staging, *others]
        self._node_settings: NodeSettings | None = None
        self._exchange: RunningExchange | None = None

    def start(self) -> None:
        """Start the planner, then the executor."""
        settings = self.burst_buffer
        try:
            if settings.peers is not None:
                self._exchange = RunningExchange(settings.peers)
            if settings.node_directory is not None:
                self._node_settings = self._new_node_settings(settings.node_directory)
            self.staging.start(self.label, settings.slots or slots_of(self, self._workers_per_slot))
            super().start()
        # Where an executor can't start, there is no kernel that would shut it down.
        except BaseException:
            self._close()
            raise

    def submit(self, func: Any, resource_specification: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Start a task whose files are there; it has ended when its results are in their own places."""
        results = self.staging.launch(kwargs.get("outputs", []), [kwargs.get("stdout"), kwargs.get("stderr")])
        if self._node_settings is not None:
            func = on_node(func, args, kwargs, self._node_settings, self.burst_buffer)
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

    @property
    def _workers_per_slot(self) -> int:
        return workers_per_slot(self.burst_buffer, vars(self)) if isinstance(self, HighThroughputExecutor) else 1

    def _new_node_settings(self, directory: str) -> NodeSettings:
        settings, options = self.burst_buffer, self.burst_buffer.options
        return NodeSettings(
            directory,
            uuid.uuid4().hex[:12],
            parse_bytes(settings.node_capacity),
            nodes_of(self),
            self._workers_per_slot,
            settings.fetchers,
            settings.delay_policy,
            settings.phase_source,
            options.get("oversize") == "direct",
            options.get("options"),
            options.get("retry") or Retry(),
            None if self._exchange is None else self._exchange.address,
        )

    def _close(self) -> None:
        if self._node_settings is not None:
            leave(self._node_settings)
        if self._exchange is not None:
            self._exchange.close()
        self.staging.close()


class BurstBufferExecutor(BurstBufferMixin, HighThroughputExecutor):
    """A HighThroughputExecutor whose tasks find their files on a burst buffer.

    Takes what `parsl.executors.HighThroughputExecutor` takes, and `burst_buffer`. Where each node has a burst buffer of
    its own, it starts more workers than `max_workers_per_node` and its like say, of which no more than those compute
    at once: the others fetch for the tasks that come next on their node.
    """

    def __init__(self, *arguments: Any, burst_buffer: BurstBufferSettings | None = None, **options: Any) -> None:
        burst_buffer = burst_buffer or BurstBufferSettings()
        super().__init__(burst_buffer=burst_buffer, **with_more_workers(burst_buffer, arguments, options))
