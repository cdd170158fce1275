"""What the loop of a run waits for: news of the nodes, tasks that are done, and what other threads ask of it."""

import queue
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from bbflow.errors import BbflowError, StreamError

if TYPE_CHECKING:  # xarray takes a third of a second, which a run has no time for before its first fold
    import xarray as xr

LiveAnswer = queue.SimpleQueue["xr.Dataset | None"]
Told = tuple[str | None, Any]
"""Name of a node and its news; None and what is asked of the loop: to stop, or for statistics, or just to look."""
STOP = "stop"


class Inbox:
    """Takes news in from any thread, and gives it to one.

    Parameters
    ----------
    stream
        Name of the stream.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self.queue: queue.SimpleQueue[Told] = queue.SimpleQueue()
        """Gets the name of each node that has news, and these."""
        self.stopped = False
        """Whether the loop is to end."""
        self._asked: list[LiveAnswer] = []
        self._closed = False

    def wake(self) -> None:
        """Make the loop look at its tasks."""
        self.queue.put((None, None))

    def stop(self) -> None:
        """End the loop."""
        self.queue.put((None, STOP))

    def live(self, timeout_s: float) -> "xr.Dataset":
        """Wait for the statistics as they are now.

        Raises
        ------
        StreamError
            If nothing was folded within `timeout_s`.
        """
        answer: LiveAnswer = queue.SimpleQueue()
        self.queue.put((None, answer))
        try:
            dataset = None if self._closed else answer.get(timeout=timeout_s)
        except queue.Empty:
            dataset = None
        if dataset is None:
            raise StreamError(f"nothing of stream {self._stream!r} is being folded: try again later")
        return dataset

    def take(self, wait_s: float) -> list[tuple[str, Any]]:
        """Wait for news, and return all that nodes have told: to look at it for each of a thousand takes long.

        Raises
        ------
        BbflowError
            What a node's watcher has failed with.
        """
        try:
            found = [self.queue.get(timeout=wait_s)]
            found += [self.queue.get_nowait() for _ in range(self.queue.qsize())]
        except queue.Empty:
            return []
        self._heed(news for source, news in found if source is None)
        told = [(source, news) for source, news in found if source is not None]
        for _, news in told:
            if isinstance(news, BbflowError):
                raise news
        return told

    def _heed(self, asked: Iterable[Any]) -> None:
        for what in asked:
            if what == STOP:
                self.stopped = True
            elif what is not None:
                self._asked.append(what)

    def answer(self, live: "Callable[[], xr.Dataset | None]") -> None:
        """Answer those who wait for the statistics with what these are now."""
        asked = self._asked
        dataset = live() if asked else None
        self._asked = []
        for answer in asked:
            answer.put(dataset)

    def close(self) -> None:
        """End all waits."""
        self._closed = True  # first: who asks after that is found below, or sees it
        while not self.queue.empty():
            source, what = self.queue.get()
            self._heed([what] if source is None else [])
        self.answer(lambda: None)
