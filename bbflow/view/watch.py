"""Watching the nodes: a thread for each waits for its news."""

import queue
import threading
from typing import Any

from bbflow.errors import BbflowError
from bbflow.landing.client import NodeClient
from bbflow.landing.requests import WatchRequest
from bbflow.landing.shown import Shown
from bbflow.net.connection import GRACE_S
from bbflow.net.contact import NodeAddress
from bbflow.stream.layouts import Layouts
from bbflow.view.stream import STEPS_PER_REPLY, News

POLL_S = 5.0


class Watcher(threading.Thread):
    """Waits for news of one node and puts them, or the error that ended it, into a queue.

    Parameters
    ----------
    node
        Whom to watch.
    stream
        Which stream.
    after
        Last step that is known already.
    news
        Gets ``(node name, News or error)``.
    extremes
        Whether the blocks' minima and maxima are wanted.
    rest_s
        So long it asks for no more after each step (seconds): those that come fast come together then.
    """

    def __init__(
        self,
        node: NodeAddress,
        stream: str,
        after: int,
        news: "queue.SimpleQueue[Any]",
        *,
        extremes: bool = False,
        rest_s: float = 0.0,
    ) -> None:
        super().__init__(name=f"watch-{node.name}", daemon=True)
        self._client = NodeClient(node)
        self._stream, self._after, self._news = stream, after, news
        self._stopped, self._extremes, self._rest_s = threading.Event(), extremes, rest_s

    def run(self) -> None:
        """Watch until `stop`."""
        change, after, layouts = -1, self._after, Layouts()
        try:
            while not self._stopped.is_set():
                shown = self._client.request(self._request(after, change), Shown, within_s=POLL_S + GRACE_S)
                news = News.of(shown, layouts)
                change = -1 if news.more else shown.change
                after = max([after, *(step.number for step in news.steps)])
                self._news.put((self._client.node.name, news))
                if news.steps and not news.more:
                    self._stopped.wait(self._rest_s)
        except BbflowError as error:
            if not self._stopped.is_set():
                self._news.put((self._client.node.name, error))
        finally:
            self._client.close()

    def _request(self, after: int, change: int) -> WatchRequest:
        return WatchRequest(
            stream=self._stream,
            after=after,
            change=change,
            limit=STEPS_PER_REPLY,
            timeout_s=POLL_S,
            extremes=self._extremes,
        )

    def stop(self) -> None:
        """End soon; the thread is a daemon and need not be joined."""
        self._stopped.set()
        self._client.interrupt()
