"""The staging provider of an executor: what it is asked, and what it does where each node has a burst buffer."""

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


class BurstBufferProvider(Staging, RepresentationMixin):
    """Leaves files to the workers, which stage them over the burst buffers of their own nodes.

    Parameters
    ----------
    burst_buffer
        Which files, and how.
    """

    def __init__(self, burst_buffer: BurstBufferSettings) -> None:
        self.burst_buffer = burst_buffer
        register()

    def start(self, label: str, slots: int) -> None:
        """Begin a run; here nothing is to do, as each node has its own directory, and each worker its slot.

        Parameters
        ----------
        label
            The executor's.
        slots
            How many tasks run at once.
        """

    def close(self) -> None:
        """End the run, which may not have begun, once all results are in their own places; nothing is left.

        Here nothing is to do: a node's directory goes with its last worker.
        """

    def can_stage_in(self, file: File) -> bool:
        """Whether an input is this provider's."""
        return self.burst_buffer.stages_in(file.url) or self.can_stage_out(file)

    def can_stage_out(self, file: File) -> bool:
        """Whether an output lands on the burst buffer."""
        return self.burst_buffer.keeps(file.url) or self.burst_buffer.stages_out(file.url)

    def launch(self, outputs: Iterable[Any], streams: Iterable[Any]) -> list[Place]:
        """Prepare what a task writes that starts now; return the results that it writes to a shared burst buffer.

        Parameters
        ----------
        outputs, streams
            Its outputs, and its standard output and error, as far as they are Files.
        """
        return []

    def after_delivery(self, ran: Future[Any], results: Sequence[Place]) -> Future[Any]:
        """Return a future that is done when a task has run and its results are in their own places.

        Parameters
        ----------
        ran
            The executor's; a worker has staged out when its task has run.
        results
            What `launch` returned.
        """
        return ran

    def publish(self, file: File | DataFuture) -> Future[None]:
        """Stage out an output that stays on the burst buffer otherwise; what a worker staged out is in its place.

        Returns
        -------
        Future
            Done when it is in its own place; the task's error if that failed.

        Raises
        ------
        LookupError
            If the file isn't among those that land on the burst buffer.
        """
        if not self.can_stage_out(file.file_obj if isinstance(file, DataFuture) else file):
            raise LookupError(f"{file} isn't staged out: is it among the intermediate files?")
        done: Future[None] = Future()
        if isinstance(file, DataFuture):
            file.add_done_callback(lambda made: settle(done, [made]))
        else:
            done.set_result(None)
        return done
