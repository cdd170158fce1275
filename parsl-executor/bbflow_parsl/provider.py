"""What an executor with a burst buffer asks of the staging provider that it has."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from parsl.app.futures import DataFuture
from parsl.data_provider.files import File

from bbflow_parsl.places import Place


class BurstBufferProvider(Protocol):
    """A staging provider of Parsl's that an executor starts and closes, and tells of its tasks."""

    def can_stage_in(self, file: File) -> bool:
        """Whether an input is this provider's."""

    def can_stage_out(self, file: File) -> bool:
        """Whether an output lands on the burst buffer."""

    def start(self, label: str, slots: int) -> None:
        """Begin a run.

        Parameters
        ----------
        label
            The executor's.
        slots
            How many tasks run at once.
        """

    def close(self) -> None:
        """End the run once all results are in their own places; nothing is left. It may not have begun."""

    def launch(self, outputs: Iterable[Any], streams: Iterable[Any]) -> list[Place]:
        """Prepare what a task writes that starts now; return the results that it writes to the burst buffer.

        Parameters
        ----------
        outputs, streams
            Its outputs, and its standard output and error, as far as they are Files.
        """

    def after_delivery(self, ran: Future[Any], results: Sequence[Place]) -> Future[Any]:
        """Return a future that is done when a task has run and its results are in their own places.

        Parameters
        ----------
        ran
            The executor's.
        results
            What `launch` returned.
        """

    def publish(self, file: File | DataFuture) -> Future[None]:
        """Stage out an output that stays on the burst buffer otherwise.

        Returns
        -------
        Future
            Done when it is in its own place; the task's error if that failed.

        Raises
        ------
        LookupError
            If the file isn't among those that land on the burst buffer.
        """
