"""What the loop of a run waits for: news of the nodes, tasks that are done, and what other threads ask of it."""

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bbflow.errors import BbflowError, StreamError

if TYPE_CHECKING:  # xarray takes a third of a second, which a run has no time for before its first fold
    import xarray as xr

LiveAnswer = queue.SimpleQueue["xr.Dataset | None"]
TASK, STOP, LIVE = "task", "stop", "live"
"""Who isn't a node."""


class Inbox:
    """Takes news in from any thread, and gives it to one.

    Parameters
    ----------
    stream
        Name of the stream.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self.queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        """Gets the name of each node that has news, and these."""
        self.stopped = False
        """Whether the loop is to end."""
        self._asked: list[LiveAnswer] = []

    def wake(self) -> None:
        """Let the loop look at its tasks."""
        self.queue.put((TASK, None))

    def stop(self) -> None:
        """Let the loop end."""
        self.queue.put((STOP, None))

    def live(self, timeout_s: float) -> "xr.Dataset":
        """Wait for the statistics as they are now.

        Raises
        ------
        StreamError
            If nothing was folded within `timeout_s`.
        """
        answer: LiveAnswer = queue.SimpleQueue()
        self.queue.put((LIVE, answer))
        try:
            dataset = answer.get(timeout=timeout_s)
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
        return [(source, news) for source, news in found if self._is_of_node(source, news)]

    def _is_of_node(self, source: str, news: Any) -> bool:
        if source == STOP:
            self.stopped = True
        elif source == LIVE:
            self._asked.append(news)
        elif isinstance(news, BbflowError):
            raise news
        return source not in (TASK, STOP, LIVE)

    def answer(self, live: "Callable[[], xr.Dataset | None]") -> None:
        """Tell those who wait for them the statistics as they are now."""
        asked, self._asked = self._asked, []
        dataset = live() if asked else None
        for answer in asked:
            answer.put(dataset)

    def close(self) -> None:
        """Let nobody wait any more."""
        while not self.queue.empty():
            source, news = self.queue.get()
            if source == LIVE:
                self._asked.append(news)
        self.answer(lambda: None)
