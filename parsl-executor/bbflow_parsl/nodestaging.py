"""The staging provider where each node has a burst buffer of its own: it leaves files to the workers."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from parsl.app.futures import DataFuture
from parsl.data_provider.files import File
from parsl.data_provider.staging import Staging
from parsl.utils import RepresentationMixin

from bbflow_parsl.futures import settle
from bbflow_parsl.memo import register
from bbflow_parsl.places import Place
from bbflow_parsl.settings import BurstBufferSettings


class NodeStaging(Staging, RepresentationMixin):
    """Leaves files to the workers, which stage them over the burst buffers of their own nodes: a `BurstBufferProvider`.

    Parameters
    ----------
    burst_buffer
        Which files.
    """

    def __init__(self, burst_buffer: BurstBufferSettings) -> None:
        self.burst_buffer = burst_buffer
        register()

    def start(self, label: str, slots: int) -> None:
        """Do nothing: each node has its own directory, and each worker its slot."""

    def close(self) -> None:
        """Do nothing: a node's directory goes with its last worker."""

    def can_stage_in(self, file: File) -> bool:
        """Whether an input is fetched by the worker."""
        return self.burst_buffer.stages_in(file.url) or self.can_stage_out(file)

    def can_stage_out(self, file: File) -> bool:
        """Whether an output lands on the node."""
        return self.burst_buffer.keeps(file.url) or self.burst_buffer.stages_out(file.url)

    def launch(self, outputs: Iterable[Any], streams: Iterable[Any]) -> list[Place]:
        """Leave all outputs to the worker."""
        return []

    def after_delivery(self, ran: Future[Any], results: Sequence[Place]) -> Future[Any]:
        """Return the executor's future: the worker has staged out when the task has run."""
        return ran

    def publish(self, file: File | DataFuture) -> Future[None]:
        """Return a future that is done: every output that the worker staged out is in its own place.

        Raises
        ------
        LookupError
            If the file isn't among the outputs that land on the burst buffer.
        """
        if not self.can_stage_out(file.file_obj if isinstance(file, DataFuture) else file):
            raise LookupError(f"{file} isn't staged out: is it among the intermediate files?")
        done: Future[None] = Future()
        if isinstance(file, DataFuture):
            file.add_done_callback(lambda made: settle(done, [made]))
        else:
            done.set_result(None)
        return done
